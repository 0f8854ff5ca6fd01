/*
 * graph.c - who waits for whom, as it is in truth: cycles of owners.
 *
 * The library looks for cycles one request after the other, while others go
 * on; here nobody goes on. Each time the table changes, every request that
 * waits is asked whether it is part of a cycle: a request that the library
 * refuses must have been part of one at some such moment. And whenever all
 * sleep, no thread that looks for cycles may have slept in one for long.
 */
#include <string.h>

#include "sim/rules.h"
#include "sim/sim.h"

/* A waiter looks once a second; an older one gives the youngest 20 ms; and each
   may come a tick later. */
#define CYCLE_MOST_NS (1200 * NS_PER_MS)
#define NODES_MAX 256
#define KNOWN_MAX 1024 /* handles of requests that were in a cycle */

static bool wanted;
static enq_handle known[KNOWN_MAX];
static unsigned n_known;

void graph_begin(bool cycles)
{
    wanted = cycles;
    n_known = 0;
}

/* --- the graph --- */

static bool waits(const struct entry *e)
{
    return rules_is(e, PHASE_WAITING) && !rules_over(e);
}

static bool wants_of(const struct entry *waiter, const struct entry *of)
{
    for (unsigned i = 0; i < oracle_live(); i++) {
        const struct entry *h = oracle_entry(i);

        if (rules_same_owner(h, of) && rules_in_the_way(h, waiter))
            return true;
    }
    return false;
}

/* One that waits behind another may pass it if that waits for its own owner
   (R7). */
static bool excused(const struct entry *waiter, const struct entry *of)
{
    if (wants_of(waiter, of))
        return true;
    for (unsigned i = 0; i < oracle_live(); i++) {
        const struct entry *h = oracle_entry(i);

        if (rules_of_set(h) && h != waiter && rules_same_set(h, waiter) &&
            wants_of(h, of))
            return true;
    }
    return false;
}

/* Is `x` in the way of the request `q`? */
static bool blocks(const struct entry *x, const struct entry *q)
{
    if (x == q || rules_over(x) || rules_same_owner(x, q) ||
        !rules_overlap(x, q) || !rules_exclude_others(x, q))
        return false;
    if (rules_is(x, PHASE_WAITING))
        return x->ticket < q->ticket;
    return rules_is(x, PHASE_HELD);
}

struct walk {
    const struct entry *from;
    const struct entry *queue[NODES_MAX];
    unsigned n;
    bool strict; /* every edge counts that is there now, and no other */
};

static void go_to(struct walk *w, const struct entry *q)
{
    for (unsigned i = 0; i < w->n; i++)
        if (w->queue[i] == q)
            return;
    if (w->n < NODES_MAX)
        w->queue[w->n++] = q;
}

/* To all that it waits for, as one of a lock set. */
static void go_to_set(struct walk *w, const struct entry *q)
{
    go_to(w, q);
    for (unsigned i = 0; i < oracle_live(); i++)
        if (waits(oracle_entry(i)) && rules_same_set(oracle_entry(i), q))
            go_to(w, oracle_entry(i));
}

/* To all that its owner waits for, before that will let go of it. */
static void go_to_owner_of(struct walk *w, const struct entry *held)
{
    for (unsigned i = 0; i < oracle_live(); i++) {
        const struct entry *q = oracle_entry(i);

        if (waits(q) && rules_same_owner(q, held))
            go_to(w, q);
    }
}

/* True: this leads back to where we came from. A lock that has ended, and is
   in the way for its delay only, is nobody's. */
static bool follow(struct walk *w, const struct entry *q, const struct entry *x)
{
    if (!blocks(x, q))
        return false;
    if (rules_is(x, PHASE_WAITING)) {
        if (w->strict && excused(x, q))
            return false;
        go_to_set(w, x);
        return x == w->from || rules_same_set(x, w->from);
    }
    if (rules_ended(x))
        return false;
    go_to_owner_of(w, x);
    return rules_same_owner(x, w->from);
}

static bool in_cycle(const struct entry *e, bool strict)
{
    struct walk w = {.from = e, .strict = strict};

    if (!waits(e) || rules_owner(e)[0] == '\0')
        return false;
    go_to_set(&w, e);
    for (unsigned i = 0; i < w.n; i++)
        for (unsigned k = 0; k < oracle_live(); k++)
            if (follow(&w, w.queue[i], oracle_entry(k)))
                return true;
    return false;
}

/* --- what was, and what stays --- */

bool graph_had_cycle(enq_handle request)
{
    for (unsigned i = 0; i < n_known && i < KNOWN_MAX; i++)
        if (known[i] == request)
            return true;
    return !wanted; /* then nobody has looked */
}

static void note_queued(const struct entry *e, enq_handle handle)
{
    for (unsigned i = 0; i < sim.n_procs; i++) {
        struct proc *p = &sim.procs[i];

        if (p->process == p && p->state != PROC_DEAD && p->session &&
            p->enq.session.ref == e->session)
            p->queued = handle;
    }
}

void graph_changed(struct entry *e, uint64_t before)
{
    if (!wanted)
        return;
    if (rules_is(e, PHASE_WAITING) && STATE_PHASE(before) != PHASE_WAITING)
        note_queued(e, entry_handle(sim.map, e));
    for (unsigned i = 0; i < oracle_live(); i++) {
        struct entry *q = oracle_entry(i);

        if (!rules_is(q, PHASE_WAITING) ||
            graph_had_cycle(entry_handle(sim.map, q)) || !in_cycle(q, false))
            continue;
        sim_say("entry %#zx is in a cycle", sim_offset(q));
        known[n_known++ % KNOWN_MAX] = entry_handle(sim.map, q);
    }
}

static const struct entry *slept_on(const struct proc *p)
{
    for (unsigned i = 0; i < oracle_live(); i++)
        if ((const uint32_t *)&oracle_entry(i)->state == p->watch[0].word)
            return oracle_entry(i);
    return NULL;
}

void graph_idle(int64_t by_ns)
{
    if (!wanted)
        return;
    for (unsigned i = 0; i < sim.n_procs; i++) {
        struct proc *p = &sim.procs[i];
        const struct entry *e = NULL;

        if (p->state == PROC_ASLEEP && p->n_watches > 0 && p->looks)
            e = slept_on(p);
        if (e == NULL || oracle_any_stopped() || !in_cycle(e, true))
            p->cycle_ns = 0;
        else
            p->cycle_ns += by_ns;
        if (p->cycle_ns > CYCLE_MOST_NS)
            sim_fail("%c, which looks for cycles, has slept in one for %lld ns",
                'a' + (int)p->number, (long long)p->cycle_ns);
    }
}
