/*
 * check.c - exclusion, tokens, one grant per request (see check.h).
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "result.h"
#include "whole.h"

/* --- exclusion --- */

static int by_from(const void *a, const void *b)
{
    const struct span *p = a, *q = b;

    return p->from_seq < q->from_seq ? -1 : p->from_seq > q->from_seq;
}

/* Both were there for sure when the later of them had been granted. */
static bool met(const struct span *earlier, const struct span *later)
{
    return earlier->op->ident != later->op->ident &&
        later->from_seq < earlier->to_seq && later->from_ns < earlier->to_ns;
}

/* Of the same owner's locks any may stand beside any: one of two cumulated E
   may have been demoted. */
static bool was_demoted(const struct span *a)
{
    return a->mode == ENQ_MODE_S &&
        (a->op->mode != ENQ_MODE_S || a->op->kind == OP_ADOPT);
}

static bool is_excused(const struct span *a, const struct span *b)
{
    return rule_same_owner(a->op->owner, b->op->owner) &&
        (was_demoted(a) || was_demoted(b));
}

static void tell_pair(struct story *s, const struct span *a,
    const struct span *b)
{
    if (!story_fault(s, FAULT_EXCLUSION, "%c [%llu, %llu): %s;\n    %c: %s",
            rule_letter(a->mode), (unsigned long long)a->from_seq,
            (unsigned long long)a->to_seq, op_text(a->op), rule_letter(b->mode),
            op_text(b->op)))
        return;
    story_deeds(s, a->op->ident);
    story_deeds(s, b->op->ident);
}

/* Locks that died before `seq` are left out: the list stays short. */
static size_t still_there(const struct span **list, size_t n, uint64_t seq)
{
    size_t left = 0;

    for (size_t i = 0; i < n; i++)
        if (list[i]->to_seq > seq)
            list[left++] = list[i];
    return left;
}

void check_exclusion(struct story *s)
{
    const struct span **held =
        calloc(s->sure.n + 1, sizeof(const struct span *));
    size_t n = 0;

    if (held == NULL)
        abort();
    if (s->sure.n > 0)
        qsort(s->sure.at, s->sure.n, sizeof(s->sure.at[0]), by_from);
    for (size_t i = 0; i < s->sure.n; i++) {
        const struct span *span = &s->sure.at[i];

        n = still_there(held, n, span->from_seq);
        for (size_t j = 0; j < n; j++) {
            struct op asked = *span->op;

            asked.mode = span->mode;
            if (met(held[j], span) && !is_excused(held[j], span) &&
                op_excludes(s, held[j]->op, held[j]->mode, &asked))
                tell_pair(s, held[j], span);
        }
        held[n++] = span;
    }
    free(held);
}

/* --- lock delays --- */

/* It had run out, or its process had died, and nobody had done away with it:
   and another owner got it before its delay was over. */
static bool comes_too_soon(const struct story *s, const struct span *lost,
    const struct span *next)
{
    struct op asked = *next->op;

    asked.mode = next->mode;
    return next->op->ident != lost->op->ident && !met(lost, next) &&
        next->from_ns < lost->delay_to_ns &&
        !rule_same_owner(lost->op->owner, next->op->owner) &&
        op_excludes(s, lost->op, lost->mode, &asked);
}

static void check_delays(struct story *s)
{
    for (size_t i = 0; i < s->sure.n; i++) {
        const struct span *lost = &s->sure.at[i];

        if (lost->delay_to_ns == 0)
            continue;
        for (size_t j = i + 1; j < s->sure.n; j++) {
            const struct span *next = &s->sure.at[j];

            if (next->from_seq >= lost->delay_to_seq)
                break;
            if (comes_too_soon(s, lost, next))
                story_fault(s, FAULT_DELAY, "%s;\n    %s", op_text(lost->op),
                    op_text(next->op));
        }
    }
}

/* --- tokens --- */

static bool gives_token(const struct op *op)
{
    return op->token != 0 &&
        (op->kind == OP_LOCK || op->kind == OP_PROMOTE || op->kind == OP_ADOPT);
}

struct moment {
    uint64_t seq;
    const struct op *op;
    const struct op **floor; /* what it must exceed: found at its begin */
    bool end;
};

static int by_seq(const void *a, const void *b)
{
    const struct moment *p = a, *q = b;

    return p->seq < q->seq ? -1 : p->seq > q->seq;
}

/* For each key the newest token of a call that has ended; at its begin each
   call notes what it must exceed. */
struct newest {
    const struct op *of[KEYS];
};

static const struct op *newest_over(const struct newest *newest,
    const struct op *op)
{
    const struct op *best = NULL;

    for (unsigned k = 0; k < KEYS; k++)
        if (newest->of[k] != NULL && rule_overlap(k, op->key) &&
            (best == NULL || newest->of[k]->token > best->token))
            best = newest->of[k];
    return best;
}

static void see_moment(struct story *s, struct newest *newest,
    const struct moment *m)
{
    const struct op **of = &newest->of[m->op->key];

    if (!m->end) {
        *m->floor = newest_over(newest, m->op);
        return;
    }
    if (*m->floor != NULL && m->op->token <= (*m->floor)->token)
        story_fault(s, FAULT_TOKEN, "%s;\n    after %s", op_text(m->op),
            op_text(*m->floor));
    if (*of == NULL || m->op->token > (*of)->token)
        *of = m->op;
}

static int by_token(const void *a, const void *b)
{
    const struct op *p = ((const struct moment *)a)->op;
    const struct op *q = ((const struct moment *)b)->op;

    return p->token < q->token ? -1 : p->token > q->token;
}

/* Equal ones are neighbours, and a token is given for few keys. */
static void check_same_token(struct story *s, const struct moment *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n && m[j].op->token == m[i].op->token; j++)
            if (m[i].op != m[j].op && ops_overlap(m[i].op, m[j].op))
                story_fault(s, FAULT_TOKEN, "%s;\n    the same as %s",
                    op_text(m[j].op), op_text(m[i].op));
}

void check_tokens(struct story *s)
{
    struct moment *m = calloc(2 * s->n_ops + 1, sizeof(*m));
    const struct op **floors = calloc(s->n_ops + 1, sizeof(*floors));
    struct newest newest = {0};
    size_t n = 0;

    if (m == NULL || floors == NULL)
        abort();
    for (size_t i = 0; i < s->n_ops; i++) {
        const struct op *op = s->ops[i];

        if (!op_done(op) || !gives_token(op))
            continue;
        m[n++] = (struct moment){op->begin_seq, op, &floors[i], false};
        m[n++] = (struct moment){op->end_seq, op, &floors[i], true};
    }
    qsort(m, n, sizeof(*m), by_seq);
    for (size_t i = 0; i < n; i++)
        see_moment(s, &newest, &m[i]);
    qsort(m, n, sizeof(*m), by_token);
    check_same_token(s, m, n);
    free(floors);
    free(m);
}

/* --- one grant for one request --- */

static void check_twice(struct story *s)
{
    const struct op *last = NULL;

    for (size_t i = 0; i < s->n_ops; i++) {
        const struct op *op = s->about[i];

        if (op->kind != OP_LOCK || op->ident == 0)
            continue;
        if (last != NULL && last->ident == op->ident)
            story_fault(s, FAULT_TWICE, "%s;\n    and %s", op_text(last),
                op_text(op));
        last = op;
    }
}

static void check_stuck(struct story *s)
{
    if (!s->b->stuck)
        return;
    for (size_t i = 0; i < s->n_ops; i++)
        if (op_over_ns(s, s->ops[i]) == NS_NEVER)
            story_fault(s, FAULT_STUCK, "%s", op_text(s->ops[i]));
}

size_t check_begun_before(const struct story *s, uint64_t seq)
{
    size_t low = 0, high = s->n_ops;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (s->ops[middle]->begin_seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t check_book(struct story *s, const struct book *b, unsigned quiet)
{
    uint32_t faults = 0;

    story_begin(s, b);
    s->quiet = quiet;
    story_tell(s);
    check_exclusion(s);
    check_delays(s);
    check_tokens(s);
    check_twice(s);
    check_overtaken(s);
    check_asleep(s);
    check_cycles(s);
    event_check_tickets(s);
    whole_check(s);
    check_stuck(s);
    result_check_asking(s);
    result_check_rest(s);
    for (unsigned f = 0; f < FAULTS; f++)
        faults += s->faults[f];
    return faults;
}
