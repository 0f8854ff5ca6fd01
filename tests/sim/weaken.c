/*
 * weaken.c - what a machine may do where the order of an access is taken away
 * (--weaken): others see late what was stored before it, or its process has
 * loaded early what comes after it.
 *
 * A load that comes early: from the access on, others run, and what they
 * overwrite is kept. Then the process has the access, as it is now, and sees
 * what was kept instead of what is there: as if it had looked before. (Loads
 * that acquire may be as early, with all behind them.) Until its next full
 * barrier, or it leaves the processor.
 */
#include <string.h>

#include "sim/sim.h"

bool weaken_is_at(uintptr_t called_from)
{
    extern const char __executable_start[];
    uintptr_t place = called_from - (uintptr_t)__executable_start;

    for (unsigned i = 0; i < sim.n_weakened; i++)
        if (sim.weakened[i] == place)
            return true;
    return false;
}

/* Others get the processor, for a while. */
static void let_others(struct proc *p)
{
    p->stalled_until = sim.steps + log_below(4096);
    sim.left = 1;
}

/* That is when it shows, more often than not. A process that is about to die
   may do so right here, and what came before it was never stored: the compiler
   had put that behind it. */
void weaken_linger(void)
{
    struct proc *p = sim.me;

    if (p == NULL)
        return;
    p->linger = sim.steps + log_below(65536);
    if (p->die_in > 0 && chance(2)) {
        p->loses = true;
        p->die_in = 1;
        sim.left = 1;
    } else if (!chance(3) && sim.left > 1) {
        let_others(p);
    }
}

/* --- early loads --- */

static bool meet(const struct early *e, const void *at, unsigned bytes)
{
    return e->at < (char *)at + bytes && (const char *)at < e->at + e->bytes;
}

/* The access is about to be made. */
void weaken_early(const void *at, unsigned bytes)
{
    struct proc *p = sim.me;

    if (p == NULL || !sim.weak || !chance(3))
        return;
    weaken_no_more();
    p->early_at = at;
    p->early_bytes = bytes;
    p->keeps = true;
    let_others(p);
    sched_leave();
}

/* Between what was stored and what is loaded: others run before the one is
   seen, and after the other was looked at. */
void weaken_barrier(const void *at, unsigned bytes)
{
    if (sim.me == NULL)
        return;
    sim.me->linger = sim.steps + log_below(65536);
    weaken_early(at, bytes);
}

/* In memory, by somebody, now. Too much: then nothing was early. */
void weaken_written(void *at, uint64_t before, unsigned bytes)
{
    for (unsigned i = 0; i < sim.n_procs; i++) {
        struct proc *p = &sim.procs[i];

        if (!p->keeps || p == sim.by)
            continue;
        if (p->n_early == EARLY_MAX) {
            p->n_early = 0;
            p->keeps = false;
            continue;
        }
        p->early[p->n_early++] = (struct early){at, before, bytes};
    }
}

static void swap(const struct proc *p, struct early *e)
{
    uint64_t there = 0;

    if (meet(e, p->early_at, p->early_bytes))
        return;
    memcpy(&there, e->at, e->bytes);
    memcpy(e->at, &e->value, e->bytes);
    e->value = there;
}

/* The oldest last: it is what was there at first. */
void weaken_enter(struct proc *p)
{
    p->keeps = false;
    for (unsigned i = p->n_early; i-- > 0;)
        swap(p, &p->early[i]);
}

void weaken_leave(struct proc *p)
{
    if (p->keeps)
        return;
    for (unsigned i = 0; i < p->n_early; i++)
        swap(p, &p->early[i]);
    p->n_early = 0;
}

void weaken_no_more(void)
{
    if (sim.me == NULL || sim.me->n_early == 0)
        return;
    memory_leave(sim.me);
    memory_enter(sim.me);
}
