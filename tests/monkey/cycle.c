/*
 * cycle.c - was there a cycle, where one was refused for it? (see check.h)
 *
 * Owners wait for owners. All that may have been held, and all that may have
 * waited, while the refused call was under way, may have been part of it: if
 * they do not lead back to its owner, nothing did.
 */
#include <stdlib.h>

#include "check.h"

/* What is of the time of one call. */
struct scene {
    const struct story *s;
    const struct span **held;
    const struct op **waiting;
    size_t n_held, n_waiting;
};

static bool is_named(unsigned owner)
{
    return rule_owners[owner][0] != '\0';
}

/* May the search have gone on from w to the waiting request at `to`? To the
   one that is ahead of it; and to all of an owner that has what it wants. */
static bool leads_to(const struct scene *x, const struct op *w, size_t to)
{
    const struct op *next = x->waiting[to];

    if (!op_same_set(next, w) && op_excludes(x->s, next, next->mode, w))
        return true;
    for (size_t i = 0; is_named(next->owner) && i < x->n_held; i++)
        if (x->held[i]->op != w && x->held[i]->op->owner == next->owner &&
            op_excludes(x->s, x->held[i]->op, x->held[i]->mode, w))
            return true;
    return false;
}

/* Something that the owner of `home` has, or that request itself. */
static bool leads_home(const struct scene *x, const struct op *w,
    const struct op *home)
{
    for (unsigned i = 0; i < op_members(home) && !op_same_set(w, home); i++)
        if (op_member(home, i) != NULL &&
            op_excludes(x->s, op_member(home, i), op_member(home, i)->mode, w))
            return true;
    for (size_t i = 0; w->owner != home->owner && i < x->n_held; i++)
        if (x->held[i]->op->owner == home->owner &&
            op_excludes(x->s, x->held[i]->op, x->held[i]->mode, w))
            return true;
    return false;
}

/* Of a set that waits, all members do. */
static void reach(const struct scene *x, bool *seen, size_t *queue, size_t *n,
    const struct op *set)
{
    for (size_t i = 0; i < x->n_waiting; i++)
        if (!seen[i] && op_same_set(x->waiting[i], set)) {
            seen[i] = true;
            queue[(*n)++] = i;
        }
}

static bool is_cycle(const struct scene *x, const struct op *home)
{
    bool *seen = calloc(x->n_waiting + 1, sizeof(*seen)), found = false;
    size_t *queue = calloc(x->n_waiting + 1, sizeof(*queue)), n = 0;

    if (seen == NULL || queue == NULL)
        abort();
    reach(x, seen, queue, &n, home);
    for (size_t at = 0; at < n && !found; at++) {
        const struct op *w = x->waiting[queue[at]];

        found = leads_home(x, w, home);
        for (size_t i = 0; i < x->n_waiting; i++)
            if (!seen[i] && leads_to(x, w, i))
                reach(x, seen, queue, &n, x->waiting[i]);
    }
    free(seen);
    free(queue);
    return found;
}

static void begin_scenes(struct scene *x, const struct story *s)
{
    x->s = s;
    x->held = calloc(s->maybe.n + 1, sizeof(*x->held));
    x->waiting = calloc(s->n_ops + 1, sizeof(*x->waiting));
    if (x->held == NULL || x->waiting == NULL)
        abort();
}

static void end_scenes(struct scene *x)
{
    free(x->held);
    free(x->waiting);
}

/* From its begin until then. */
static void set_scene(struct scene *x, const struct op *op, int64_t end_ns,
    uint64_t end_seq)
{
    const struct story *s = x->s;

    x->n_held = x->n_waiting = 0;
    for (size_t i = 0; i < s->maybe.n; i++) {
        const struct span *m = &s->maybe.at[i];

        if (m->from_ns <= end_ns && m->to_ns >= op->begin_ns)
            x->held[x->n_held++] = m;
    }
    for (size_t i = 0; i < s->n_ops; i++) {
        const struct op *w = s->ops[i];

        if (w->begin_seq > end_seq)
            break;
        if (w->kind == OP_LOCK && w->wait_ms != 0 &&
            op_over_ns(s, w) >= op->begin_ns)
            x->waiting[x->n_waiting++] = w;
    }
}

static bool was_in_one(struct scene *x, const struct op *op, int64_t end_ns,
    uint64_t end_seq)
{
    set_scene(x, op, end_ns, end_seq);
    return is_named(op->owner) && is_cycle(x, op);
}

bool check_may_be_in_a_cycle(const struct story *s, const struct op *op)
{
    struct scene x;
    bool yes;

    begin_scenes(&x, s);
    yes =
        was_in_one(&x, op, life_end_ns(s, op->life), life_end_seq(s, op->life));
    end_scenes(&x);
    return yes;
}

void check_cycles(struct story *s)
{
    struct scene x;

    begin_scenes(&x, s);
    for (size_t i = 0; i < s->n_ops; i++) {
        const struct op *op = s->ops[i];

        if (op->kind == OP_LOCK && op_ended(op) && op->result == ENQ_DEADLOCK &&
            op_leads(op) && !was_in_one(&x, op, op->end_ns, op->end_seq))
            story_fault(s, FAULT_DEADLOCK, "%s", op_text(op));
    }
    end_scenes(&x);
}
