/*
 * transition.h - lock: the transitions of an entry, from state to state.
 *
 *	        hold                drop
 *	new  ---------->  HELD  ---------->  free, or GONE with a reason
 *	     queue           ^               ^
 *	     --->  WAITING --' grant         |
 *	              `----------------------' drop
 *
 * Each is one step under the latch of the entry's bucket (a generic one's: its
 * gate), acquired here in a wide scope (guard_enter()) and held already in a
 * narrow one. Links first, `state` last: a thread that is killed in the middle
 * leaves that latch to be recovered, and the state says what is true: the step
 * has happened wholly or not at all.
 *
 * The store of `state` is a release. Partners: every load of it without the
 * latches is an acquire (entry_read(), entry_is(), has_grant(), still_mine(),
 * pin_check()), and finds the fields that belong to that state. Bits of it that
 * do not change what the entry is (STATE_NOTES) are set by others at any moment
 * with an atomic `or`, by helper threads without a latch: so a held entry's
 * mode changes by compare-and-swap (set_mode()). A waiting entry's notes are
 * lost on purpose when it is granted.
 *
 * Fields other than state and links are stored under the latches, and read by
 * some without them: shm_store() and shm_load() make that whole words, and the
 * reader compares the generation before and after.
 *
 * Until when a new waiter may be overtaken (R7, window_ns()): for 200 us; in a
 * queue until 50 us after the waiter before it. Hand-overs to sleepers take 10
 * to 20 us each: were all of a queue due at once, no request would ever barge
 * again, as the next round of it would be due when this one is through (16
 * processes on 2 CPUs: 50,000 grants a second). Like this each waiter gets its
 * turn 50 us after the other, and whichever thread runs meanwhile has the lock
 * as often as it likes: 1.5 million grants a second, and all fare alike (bench:
 * one, 16 processes).
 *
 * When a ttl begins (start_clock()): where the time is the coarse clock's, what
 * that may lag behind is added, so that nothing ends early (R14). Grants of one
 * thread within a tick are told apart by a nanosecond each; those of two
 * threads are not (R12).
 */
#ifndef LOCK_TRANSITION_H
#define LOCK_TRANSITION_H

#include "lock/scope.h"
#include "lock/transition_note.h"
#include "store/owners.h"

/* The longest bypass window, from a waiter's arrival (window_ns in transition.c). */
#define WINDOW_MOST_NS INT64_C(5000000)

/* Of a waiter (I8): one that transition_queue() may have stored, or recovery
   (relink_waiter()). */
static inline bool transition_window_is_sound(const struct map *map,
    const struct entry *e)
{
    return shm_load(&e->window_ns) <= (map->strict ? 0 : WINDOW_MOST_NS);
}

/* New entries, filled, PHASE_CACHED. Returns: 0; ENQ_EXISTS: its id is taken.
   Faults: ENQ_ECORRUPT. */
int transition_hold(struct scope *s, const struct ask *ask, struct entry *e);
int transition_queue(struct scope *s, const struct ask *ask, struct entry *e);

/* WAITING to HELD; its waiter is woken when the scope is left. The caller notes
   who waits for it: transition_note_waiters(), or for several at once
   transition_note_all(). */
int transition_grant(struct scope *s, struct entry *e);

/* One that waits more, or one less: of its owner, of the names of the gate
   (nobody_waits()), and of those for many objects. None is ever too low. */
static inline void transition_count_queued(struct scope *s, uint64_t owner,
    bool generic, int by)
{
    if (generic)
        shm_add(&s->map->h->generic_waiters, by);
    if (by > 0)
        owners_count_in(s->map, owner);
    else
        owners_count_out(s->map, owner);
    shm_add(&s->gate->n_queued, by);
}

/* This was granted: may it let requests of its owner pass that came before it?
   They may be for something else. */
static inline bool transition_may_let_pass(struct scope *s,
    const struct entry *e)
{
    unsigned mode = STATE_MODE(shm_load(&e->state)) % MODES;

    enq_assert(scope_is_entered(s));
    return !mode_conflicts(s->map->modes, mode, mode, true) &&
        owners_wait(s->map, entry_owner_hash(s->map, e), 0);
}

/* A waiter shall try for itself; `first`: none waits before it
   (grant_scan.h). */
void transition_retry(struct scope *s, struct entry *e, bool first);

/* Out of the table. GONE_NOT: its holder, or a thread in its name, gave it
   back: the entry is free at once. Any other reason leaves it GONE, to tell
   the holder why (R16). GONE_DIED for a waiter, too: nobody is left to be
   told. */
int transition_drop(struct scope *s, struct entry *e, enum gone gone);

/* The same, noting the owner that took it, as far as there is room. */
int transition_take_away(struct scope *s, struct entry *e, enum gone gone,
    const struct ask *taker);

/* HELD in another mode; a new token if asked for. */
int transition_mode(struct scope *s, struct entry *e, unsigned mode,
    bool token);

/* HELD, counting from now: ttl_ms < 0 none. */
int transition_deadline(struct scope *s, struct entry *e, int64_t ttl_ms);

/* HELD by the scope's session from now; a new token if asked for. */
int transition_session(struct scope *s, struct entry *e, bool token);

#endif
