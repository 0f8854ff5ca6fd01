/*
 * pin.h - lock: an entry found by its handle, with the latches held that
 * guard it.
 *
 * Which latches these are says the entry, which may be used anew by another
 * request before we have them. So it is read three times: its state, to see
 * whether the handle's generation is there; hash and gate, to know what to
 * enter; and the state again, inside (pin_check()). A live entry leaves the
 * table under the latches of its key only, and its generation has grown before
 * it is live again: live in the same generation, inside, means that hash and
 * gate were its own, and that it stays what it is until scope_leave().
 */
#ifndef LOCK_PIN_H
#define LOCK_PIN_H

#include "lock/transition.h"

struct pin {
    struct scope scope;
    struct entry *e;
    uint64_t state;
};

/* Why an entry in this state is not, or no longer, what its handle meant. */
int pin_gone(uint64_t state);

static inline enq_handle pin_handle(const struct map *map, struct entry *e,
    uint64_t state)
{
    return (uint64_t)STATE_GENERATION(state) << HANDLE_REF_BITS |
        map_ref(map, e);
}

/* Reads the state again, inside: whatever happened before, it stays so now,
   but for the notes (STATE_NOTES), which others set without a latch. The
   acquire is the partner of the release in set_state(): the fields that are
   read from here on are of this use. */
HOT int pin_check(struct pin *g, uint32_t generation, uint64_t token)
{
    enq_assert(scope_is_entered(&g->scope));
    g->state = shm_load_acquire(&g->e->state);
    if (STATE_GENERATION(g->state) != generation)
        return ENQ_NOTHELD;
    if (!state_is_live(g->state))
        return pin_gone(g->state);
    if (token != 0 && token != shm_load(&g->e->token))
        return ENQ_NOTHELD;
    return ENQ_OK;
}

/* A live entry. After this, on ENQ_OK only, scope_leave() is due. Inlined into
   the hot unlock; all others call pin_take(). */
HOT int pin_take_at_once(struct pin *g, struct session *s, struct thread *t,
    enq_handle handle, uint64_t token)
{
    uint32_t generation = (uint32_t)(handle >> HANDLE_REF_BITS);
    int rc;

    enq_assert(t->n_held == 0);
    scope_begin(&g->scope, s, t);
    g->e = entry_of_handle(s->map, handle, &g->state);
    if (unlikely(g->e == NULL))
        return ENQ_NOTHELD;
    if (unlikely(!state_is_live(g->state)))
        return pin_gone(g->state);
    rc = scope_enter_entry(&g->scope, g->e);
    if (unlikely(rc != 0))
        return rc;
    rc = pin_check(g, generation, token);
    if (unlikely(rc != ENQ_OK))
        scope_leave(&g->scope);
    return rc;
}

int pin_take(struct pin *g, struct session *s, struct thread *t,
    enq_handle handle, uint64_t token);

/* Is it over? Our own session lives, so that nothing but the deadline counts.
   Not by watch.h: a process that was stopped must not renew, nor claim to have
   given back, what ran out. One with a lock delay is not dropped when it runs
   out, but its owner may have been granted another since then, by the exact
   clock: so that counts.
   @now  by the coarse clock, which is never ahead, where what has run out a
         moment ago, and nobody has taken, may pass for held: to give it back */
HOT int pin_over(const struct pin *g, mono_t now)
{
    enq_assert(scope_is_entered(&g->scope));
    if (entry_delays(g->e))
        now = sys.now();
    if (likely(g->e->session == g->scope.session->ref) &&
        (STATE_PHASE(g->state) != PHASE_HELD ||
            !mono_reached((mono_t){g->e->deadline_ns}, now)))
        return ENQ_OK;
    return entry_ended(g->scope.map, g->e, now);
}

/* The waiters for the key of an entry that goes. The key is copied, as the
   entry's own bytes may be another's by then. */
struct waiters {
    bool any;
    struct key key;
    char bytes[KEY_BYTES_MAX];
};

static inline bool may_have_waiters(struct pin *g)
{
    return !nobody_waits(&g->scope, g->e);
}

int waiters_note(struct pin *g, struct waiters *h);
int waiters_grant(struct pin *g, const struct waiters *h);

/* Drops the pinned entry and grants what waited for it; leaves the
   scope. */
int pin_drop_granting(struct pin *g, enum gone gone);
HOT int pin_drop(struct pin *g, enum gone gone)
{
    int rc;

    enq_assert(scope_is_entered(&g->scope));
    if (unlikely(may_have_waiters(g)))
        return pin_drop_granting(g, gone);
    rc = transition_drop(&g->scope, g->e, gone);
    scope_leave(&g->scope);
    return rc;
}

/* Drops what has ended, whichever caller asked, unless it is delayed; leaves
   the scope.
   Returns what it has ended for. */
int pin_end(struct pin *g, int over);

/* One that is held, and has not run out: else why. After this, on ENQ_OK only,
   scope_leave() is due. */
int pin_held(struct pin *g, struct session *s, struct thread *t,
    enq_handle handle, uint64_t token);

#endif
