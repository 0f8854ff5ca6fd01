/*
 * hold_end.c - lock: what the end of a session leaves behind (see hold_end.h).
 */
#include "lock/hold_end.h"

#include "lock/hold.h"
#include "lock/pin.h"
#include "store/walk.h"
#include "sync/life.h"

/* --- the end of a session --- */

struct end {
    struct session *s;
    struct thread *t;
    session_ref_t ref;
    enum gone gone;
    int rc;
    bool left; /* something that was held for others */
};

/* Does it outlive its session, be it for a delay? LEASE and KEEP, until they
   run out; and a RELEASE lock with a lock delay, which keeps others out for a
   while after its holder's death (not after a closing: there entry_over() says
   that it has ended). */
static bool outlives(const struct map *map, const struct entry *e)
{
    mono_t now = sys.now();

    return entry_is(e, PHASE_HELD) && entry_over(map, e, now) == ENQ_OK &&
        (ENTRY_DEATH(e->on_death) != ENQ_DEATH_RELEASE ||
            entry_is_delayed(map, e, now));
}

/* What becomes of one that does not. A thread that waits while another closes
   the session is told (R13). Of a dead session nobody is left to be told of a
   request; of a lock the reason is kept for others that know its handle (R16).
   LEASE and KEEP locks that come here have run out. */
static enum gone fate(const struct end *end, const struct entry *e)
{
    enq_assert(end->gone == GONE_NOT || end->gone == GONE_DIED);
    if (entry_is(e, PHASE_WAITING) && end->gone == GONE_NOT)
        return GONE_CANCELLED;
    if (entry_is(e, PHASE_WAITING) ||
        ENTRY_DEATH(e->on_death) == ENQ_DEATH_RELEASE)
        return end->gone;
    return GONE_EXPIRED;
}

/*
 * The deadline is all that changes.
 *
 *	KEEP	none any more: from the moment that the death is noticed an
 *		operator ends it, and not the time (fail closed)
 *	LEASE	as it was
 *	RELEASE	with a delay: now. The delay counts from the end of the ttl, so
 *		that it begins when the death is noticed. The waiters see the
 *		end sooner than they knew
 *
 * A deadline that has passed stays: what has run out is not revived. Done again
 * it comes to the same: so a reaper that is killed in here leaves it to the
 * next.
 */
int hold_leave_behind(struct pin *g)
{
    unsigned on_death = ENTRY_DEATH(g->e->on_death);
    mono_t now = scope_clock(&g->scope);
    int rc = 0;

    enq_assert(scope_is_entered(&g->scope));
    if (on_death == ENQ_DEATH_KEEP && g->e->deadline_ns > now.ns)
        return transition_deadline(&g->scope, g->e, ENQ_FOREVER);
    if (on_death == ENQ_DEATH_RELEASE && g->e->deadline_ns > now.ns) {
        rc = transition_deadline(&g->scope, g->e, 0);
        if (rc == 0)
            rc = hold_tell_shortened(g);
    }
    hold_note_lease(g->scope.map, entry_until(g->scope.map, g->e).ns);
    return rc;
}

/* Under its latches: the session again, as an adopter may have been quicker.
   What it leaves to peers is noted for `left`, also by a reaper that finds it
   done: the one before may have been killed before it raised the number. */
static int end_pinned(struct end *end, struct pin *g)
{
    int rc;

    if (g->e->session != end->ref) {
        scope_leave(&g->scope); /* adopted meanwhile */
        return 0;
    }
    if (!outlives(end->s->map, g->e))
        return pin_drop(g, fate(end, g->e));
    end->left |= (g->e->on_death & ENTRY_FOR_OTHERS) != 0;
    rc = hold_leave_behind(g);
    scope_leave(&g->scope);
    return rc;
}

/* Read without a latch, as a hint, then pinned: an entry that was given back
   meanwhile is of another generation, and pin_take() says so. */
static bool end_one(void *context, struct entry *e, uint64_t state)
{
    struct end *end = context;
    struct pin g;

    if (!state_is_live(state) || shm_load(&e->session) != end->ref)
        return true;
    if (pin_take(&g, end->s, end->t, pin_handle(end->s->map, e, state), 0) !=
        ENQ_OK)
        return true;
    end->rc = end_pinned(end, &g);
    return end->rc == 0;
}

/*
 * Its own slabs hold all of its entries, unless it has adopted some, which stay
 * in the slabs of the dead: then the whole table is gone through. (`adopted` is
 * stored before the session of an adopted lock: transition_session().)
 *
 * `left` is raised when all is done, and before the session is erased. Partner:
 * orphans(), which compares the number before it walks. Raised after the
 * session is forgotten, a death in between would leave orphans of which nobody
 * is told.
 */
int hold_release_all(struct session *s, struct thread *t, session_ref_t ref,
    enum gone gone)
{
    struct end end = {s, t, ref, gone, 0, false};

    enq_assert(t->n_held == 0);
    if (shm_load(&at_session(s->map, ref)->adopted))
        slab_each(s->map, end_one, &end);
    else
        slab_each_of(s->map, ref, end_one, &end);
    /* before the session is forgotten: done again, it is told again */
    if (end.left)
        shm_add(&s->map->h->left, 1);
    return end.rc;
}

/* --- what has run out and nobody asks for --- */

struct sweep {
    struct session *s;
    struct thread *t;
    mono_t now;
    bool dead_only;
    int64_t next_ns; /* of those that have not run out; 0 = none */
};

/* pin_held() does the work: it drops what has ended, and grants what waited for
   it. All before is a hint, read without a latch. */
static bool sweep_one(void *context, struct entry *e, uint64_t state)
{
    struct sweep *w = context;
    mono_t deadline = entry_until(w->s->map, e);
    struct pin g;

    enq_assert(w->t->n_held == 0);
    if (STATE_PHASE(state) != PHASE_HELD || deadline.ns == MONO_NEVER.ns ||
        (w->dead_only && !session_is_dead(w->s->map, shm_load(&e->session))))
        return true;
    if (!mono_reached(deadline, w->now)) {
        if (w->next_ns == 0 || deadline.ns < w->next_ns)
            w->next_ns = deadline.ns;
    } else if (pin_held(&g, w->s, w->t, pin_handle(w->s->map, e, state), 0) ==
        ENQ_OK) {
        scope_leave(&g.scope); /* adopted or renewed meanwhile */
    }
    return true;
}

/* One process at a time takes the turn, by the swap from `due` to ten seconds
   later. If it dies in the walk, the hint says `later` still, and another comes
   then. At the end the hint becomes what was found to be next, unless
   hold_note_lease() has changed it meanwhile: then it stays, and the sweep after
   this one goes through all again. */
void hold_sweep(struct session *s, struct thread *t)
{
    struct sweep w = {s, t, sys.now(), true, 0};
    int64_t *hint = &s->map->h->leases_due_ns, due = shm_load(hint);
    int64_t later = mono_add_ns(w.now, 10 * NS_PER_S).ns;

    enq_assert(t->n_held == 0);
    if (due == 0 || due > w.now.ns || !shm_cas(hint, &due, later))
        return;
    slab_each(s->map, sweep_one, &w);
    shm_cas(hint, &later, w.next_ns);
}

/* Where room is short, and by the doctor: also of living holders, and whatever
   the hint says. */
int64_t hold_sweep_all(struct session *s, struct thread *t)
{
    struct sweep w = {s, t, sys.now(), false, 0};

    slab_each(s->map, sweep_one, &w);
    return w.next_ns;
}
