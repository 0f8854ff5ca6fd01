/*
 * queue.c - a waiter is neither overtaken nor forgotten (see check.h).
 */
#include <stdlib.h>

#include "check.h"
#include "remote.h"

/* --- overtaken (P6) --- */

static bool may_cancel(const struct op *op)
{
    return op->kind == OP_CANCEL ||
        (op->foreign && (op->kind == OP_UNLOCK || op->kind == OP_BREAK));
}

/* From when on a waiter may have been cancelled. */
static uint64_t cancel_seq(const struct story *s, const struct op *w)
{
    for (size_t i = 0; i < s->n_ops; i++)
        if (may_cancel(s->ops[i]) && op_has_ident(w, s->ops[i]->ident))
            return s->ops[i]->begin_seq;
    return SEQ_NEVER;
}

/* Without an end it may have been granted, and have lost it before r was. */
static bool may_have_lost(const struct op *r, const struct op *w)
{
    return w->mode == ENQ_MODE_O ||
        (w->ttl_ms > 0 && r->end_ns >= w->begin_ns + w->ttl_ms * NS_MS);
}

/* It was killed before it read the result, or in the call: it may have been
   refused for a cycle, if it was started since it last looked; or before, as it
   leaves its queue first, and its helper makes an event of that when it runs. */
static bool may_have_left(const struct story *s, const struct op *r,
    const struct op *w)
{
    if (w->no_cycles)
        return false;
    if (w->ticket == 0)
        return check_may_be_in_a_cycle(s, w);
    return r->end_ns >=
        w->empty_ns - ASLEEP_NS - s->b->lives[w->life].starved_ns;
}

/*
 * The order of two grants whose keys overlap is that of their tokens. So a
 * request that was granted with the smaller token, asked after the other was
 * due, and is kept out by what the other waits for, has overtaken it.
 */
static bool was_before(const struct story *s, const struct op *r,
    const struct op *w)
{
    if (op_done(w))
        return r->token < w->token;
    if (w->wait_ms > 0 && r->end_ns >= w->begin_ns + w->wait_ms * NS_MS)
        return false;
    if (r->end_seq >= life_end_seq(s, w->life) ||
        r->end_seq >= cancel_seq(s, w))
        return false;
    if (op_ended(w))
        return w->result != ENQ_DEADLOCK; /* else it left some time before */
    return !may_have_lost(r, w) && !may_have_left(s, r, w);
}

/* A set waits for all that have something at one of its keys. */
static bool wants(const struct op *w, const struct op *held)
{
    for (unsigned i = 0; i < op_members(w); i++)
        if (op_member(w, i) != NULL && ops_overlap(held, op_member(w, i)))
            return true;
    return false;
}

/* SEMANTICS R6, and R7's exception: an owner that holds something there
   already does not wait behind those that wait for it. */
static bool has_excuse(const struct story *s, const struct op *r,
    const struct op *w)
{
    for (size_t i = 0; i < s->maybe.n; i++) {
        const struct span *m = &s->maybe.at[i];

        if (!op_same_set(m->op, r) && !op_same_set(m->op, w) &&
            m->from_ns <= r->end_ns && m->to_ns >= r->begin_ns &&
            rule_same_owner(m->op->owner, r->owner) &&
            (wants(w, m->op) || ops_overlap(m->op, r)))
            return true;
    }
    return false;
}

static bool overtakes(const struct story *s, const struct op *r,
    const struct op *w)
{
    return r->kind == OP_LOCK && op_done(r) && !op_same_set(r, w) &&
        r->begin_ns >= w->due_ns && op_excludes(s, w, w->mode, r) &&
        was_before(s, r, w) && !has_excuse(s, r, w);
}

static void check_window(struct story *s, const struct op *w)
{
    int64_t most = s->b->strict ? 0 : WINDOW_MOST_NS;

    if (w->due_ns > w->queued_ns + most)
        story_fault(s, FAULT_WINDOW, "%s", op_text(w));
}

/* From `at` on in the order of begin: as long as w may have waited. */
static void check_waiter(struct story *s, size_t at)
{
    const struct op *w = s->ops[at];
    int64_t over = op_over_ns(s, w);

    check_window(s, w);
    for (size_t i = at + 1; i < s->n_ops && s->ops[i]->begin_ns < over; i++)
        if (s->ops[i]->begin_seq > w->queued_seq &&
            overtakes(s, s->ops[i], w) &&
            story_fault(s, FAULT_OVERTAKEN, "%s;\n    by %s", op_text(w),
                op_text(s->ops[i])))
            story_around(s, s->ops[i]);
}

void check_overtaken(struct story *s)
{
    for (size_t i = 0; i < s->n_ops; i++)
        if (s->ops[i]->kind == OP_LOCK && s->ops[i]->queued_seq != 0)
            check_waiter(s, i);
}

/* --- asleep (P3, P4) --- */

/*
 * When was there something in the way of a waiter? Whatever may have been held
 * that keeps it out; and other waiters that it conflicts with, as long as they
 * were kept waiting themselves. Where nothing of that is, and nobody whom it
 * may have stood behind has left just then, it should have been granted.
 */
struct stretch {
    int64_t from_ns, to_ns;
    bool by_death;
};

struct stretches {
    struct stretch *at;
    size_t n, room;
};

static void stretch_add(struct stretches *list, struct stretch x)
{
    if (x.from_ns >= x.to_ns)
        return;
    if (list->n == list->room) {
        list->room = list->room == 0 ? 64 : 2 * list->room;
        list->at = realloc(list->at, list->room * sizeof(x));
        if (list->at == NULL)
            abort();
    }
    list->at[list->n++] = x;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool is_waiting(const struct op *op)
{
    return op->kind == OP_LOCK && op->wait_ms != 0;
}

/* `within`: only what is of interest. `w`: one lock, or one of a set. */
static void add_held(const struct story *s, const struct op *w,
    struct stretch within, struct stretches *list)
{
    for (size_t i = 0; i < s->maybe.n; i++) {
        const struct span *m = &s->maybe.at[i];

        if (m->op != w && m->to_ns > within.from_ns &&
            m->woken_ns < within.to_ns && op_excludes(s, m->op, m->mode, w))
            stretch_add(list,
                (struct stretch){later(m->woken_ns, within.from_ns),
                    sooner(m->to_ns, within.to_ns),
                    m->by_death && m->to_ns <= within.to_ns});
    }
}

static void add_queued(const struct story *s, const struct op *w,
    struct stretch within, struct stretches *list, int depth);

/* A set waits as long as one of its members has to. */
static void add_blockers(const struct story *s, const struct op *w,
    struct stretch within, struct stretches *list, int depth)
{
    for (unsigned i = 0; i < op_members(w); i++) {
        const struct op *member = op_member(w, i);

        if (member == NULL)
            continue;
        add_held(s, member, within, list);
        if (depth > 0)
            add_queued(s, member, within, list, depth - 1);
    }
}

#define LEAVE_NS 1000 /* what leaves the queue from now on counts */

static void add_queued(const struct story *s, const struct op *w,
    struct stretch within, struct stretches *list, int depth)
{
    for (size_t i = 0; i < s->n_ops; i++) {
        const struct op *a = s->ops[i];
        int64_t over = op_over_ns(s, a);

        if (a->begin_ns >= within.to_ns)
            break;
        if (op_same_set(a, w) || !is_waiting(a) || over <= within.from_ns ||
            !op_excludes(s, a, a->mode, w))
            continue;
        add_blockers(s, a,
            (struct stretch){later(a->begin_ns, within.from_ns),
                sooner(over, within.to_ns), false},
            list, depth);
        if (over < within.to_ns)
            stretch_add(list,
                (struct stretch){over - LEAVE_NS, over, !op_ended(a)});
    }
}

static int by_from(const void *a, const void *b)
{
    const struct stretch *p = a, *q = b;

    return p->from_ns < q->from_ns ? -1 : p->from_ns > q->from_ns;
}

/* The longest time that the list leaves free. */
static struct stretch longest_gap(const struct stretches *list,
    struct stretch within)
{
    struct stretch gap = {within.from_ns, within.from_ns, false};
    int64_t at = within.from_ns;
    bool by_death = false;

    for (size_t i = 0; i <= list->n; i++) {
        bool last = i == list->n;
        int64_t from = last ? within.to_ns : list->at[i].from_ns;

        if (from - at > gap.to_ns - gap.from_ns)
            gap = (struct stretch){at, from, by_death};
        if (!last && list->at[i].to_ns >= at) {
            at = list->at[i].to_ns;
            by_death = list->at[i].by_death;
        }
    }
    return gap;
}

/* --- what the machine is to blame for --- */

static void add_pauses(struct stretches *list, const struct pause *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        stretch_add(list,
            (struct stretch){
                p[i].from_ns, p[i].to_ns == 0 ? NS_NEVER : p[i].to_ns, false});
}

/* Calls that do not wait, and took this long, lost the CPU: perhaps with a
   latch in hand. */
#define SLOW_NS (2 * NS_MS)

static void add_slow_calls(const struct story *s, const struct op *w,
    struct stretches *list)
{
    for (size_t i = 0; i < s->n_ops; i++) {
        const struct op *op = s->ops[i];
        int64_t over = op_over_ns(s, op);

        if (!op_same_set(op, w) && !is_waiting(op) && over != NS_NEVER &&
            over - op->begin_ns > SLOW_NS)
            stretch_add(list, (struct stretch){op->begin_ns, over, false});
    }
}

/* How much of the gap they cover. */
static int64_t covered(const struct stretches *list, struct stretch gap)
{
    int64_t at = gap.from_ns, sum = 0;

    for (size_t i = 0; i < list->n; i++) {
        int64_t from = later(list->at[i].from_ns, at);
        int64_t to = sooner(list->at[i].to_ns, gap.to_ns);

        if (from >= to)
            continue;
        sum += to - from;
        at = to;
    }
    return sum;
}

int64_t check_stalled_ns(const struct story *s, const struct op *w,
    int64_t from_ns, int64_t to_ns)
{
    const struct stretch gap = {from_ns, to_ns, false};
    struct stretches list = {0};
    int64_t sum;

    add_pauses(&list, s->b->stops, s->b->n_stops);
    add_pauses(&list, s->b->heartbeats, s->b->n_heartbeats);
    add_slow_calls(s, w, &list);
    if (list.n > 0)
        qsort(list.at, list.n, sizeof(list.at[0]), by_from);
    sum = covered(&list, gap);
    free(list.at);
    return sum;
}

/* --- all together --- */

#define DEPTH 2

/* What its process is to blame for: it slept beyond its timeouts; or it did
   not look for its result, or the library's thread had no CPU. */
int64_t check_unseen_ns(const struct story *s, const struct op *w, int64_t to)
{
    if (remote_is(s, w->life))
        return REMOTE_LATE_NS + (w->ticket == 0 ? 0 : to - w->empty_ns);
    if (w->ticket == 0)
        return w->delayed_ns;
    return to - w->empty_ns + s->b->lives[w->life].starved_ns;
}

static void check_sleeper(struct story *s, const struct op *w)
{
    int64_t from = w->queued_seq != 0 ? w->queued_ns : w->begin_ns;
    int64_t to = op_ended(w) ? w->end_ns : life_end_ns(s, w->life), most;
    struct stretch within = {from, to, false}, gap;
    struct stretches list = {0};

    if (within.to_ns - within.from_ns <= ASLEEP_NS ||
        remote_was_cut(s, w->life, from, to))
        return;
    add_blockers(s, w, within, &list, DEPTH);
    if (list.n > 0)
        qsort(list.at, list.n, sizeof(list.at[0]), by_from);
    gap = longest_gap(&list, within);
    free(list.at);
    most = gap.by_death ? DEATH_NS : ASLEEP_NS;
    if (gap.to_ns - gap.from_ns <= most)
        return;
    most += check_stalled_ns(s, w, gap.from_ns, gap.to_ns) +
        check_unseen_ns(s, w, to);
    if (gap.to_ns - gap.from_ns > most)
        story_fault(s, gap.by_death ? FAULT_DEATH : FAULT_ASLEEP,
            "for %.1f ms (%.1f allowed) from %.3f ms: %s",
            (double)(gap.to_ns - gap.from_ns) / 1e6, (double)most / 1e6,
            (double)gap.from_ns / 1e6, op_text(w));
}

void check_asleep(struct story *s)
{
    for (size_t i = 0; i < s->n_ops; i++)
        if (is_waiting(s->ops[i]) && op_leads(s->ops[i]))
            check_sleeper(s, s->ops[i]);
}
