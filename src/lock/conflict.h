/*
 * conflict.h - lock: may this request be granted? (SEMANTICS R2, R5-R7, R12)
 */
#ifndef LOCK_CONFLICT_H
#define LOCK_CONFLICT_H

#include "lock/links.h"

/* What stands in a request's way. */
struct verdict {
    struct entry *holder;  /* the earliest granted lock that conflicts */
    struct entry *waiter;  /* else the earliest waiter in the way */
    struct entry *witness; /* one of the locks that conflict, by lot */
    uint32_t queue;        /* waiting for what overlaps */
    mono_t last_due;       /* the latest time that one of these is due */
    bool over; /* something that overlaps has run out: see grant_scan() */
};

/* Was `a` granted before `b`, or is there no `b`? */
bool granted_earlier(const struct entry *a, const struct entry *b);

static inline struct entry *verdict_blocker(const struct verdict *v)
{
    return v->holder != NULL ? v->holder : v->waiter;
}

/* The lock set whose waiting is all that is in the way; 0: none. */
static inline enq_handle verdict_set(const struct map *map,
    const struct verdict *v)
{
    return v->holder != NULL || v->waiter == NULL || !entry_is_of_set(v->waiter)
        ? 0
        : entry_handle(map, v->waiter);
}

/*
 * Checks a new request, or (`self`) one that waits. Changes nothing. Under the
 * scope, which makes the verdict true until it is left, but for time and death:
 * a lock that it names may run out, or its process end, a moment later. That
 * errs to the safe side, as what was in the way then is not any more.
 * Returns: 0. Faults: ENQ_ECORRUPT.
 */
int conflict_check(struct scope *s, const struct ask *ask,
    const struct entry *self, struct verdict *v);

/*
 * One waiter for "@" would have each release of the name look at all that is
 * held there, to find that it cannot go yet. But one lock that is in its way
 * does for that, and mostly it is the same as last time: so each check notes one
 * in the waiter, its witness, and the next looks at that first. (SAT solvers
 * watch one literal of a clause so: Moskewicz et al., Chaff, 2001.)
 *
 * It is drawn by lot among those in the way. In whatever order N of them go, all
 * are looked at some ln N times and not N times.
 *
 * A hint in the waiter's entry, under the gate's latch: it is believed of nothing
 * that the lock itself does not say. Never of a lock set's waiters, whose links
 * are at that place.
 *
 * conflict_is_known: true, it stays where it is; false, check it. What has just
 * been found for another waiter is tried as well (`usual`, or 0): of ten thousand
 * who wait for one key each has lost its witness at a hand-over.
 */
bool conflict_is_known(struct scope *s, const struct ask *ask,
    struct entry *waiter, enq_handle usual);
/* Returns: it, or 0. */
enq_handle conflict_note(struct scope *s, const struct verdict *v,
    struct entry *waiter);

/* The same for a new request where the ring of its object says what it holds: it
   may be granted. False: look (conflict_check). What has run out is left where
   it is: it is in nobody's way, and whose it is finds out by itself. */
static inline bool conflict_is_none(struct scope *s, const struct ask *ask)
{
    const struct entry *first = s->wide ? NULL : scope_object(s, &ask->key);

    return first != NULL && unlikely(shm_load(&first->ring_modes) != 0) &&
        links_has_room(s, first, ask);
}

/* Does `waiter` wait, and for this held lock? */
bool conflict_wants(const struct map *map, const struct entry *waiter,
    const struct entry *held);

/* R7's exception: does this waiter wait for a lock of the asking owner? Then to
   wait behind it would be to wait for oneself. Says so for what this scope
   shows; of a lock set's other keys bypass.h knows. */
int conflict_excuses(struct scope *s, const struct ask *asker,
    struct entry *waiter, bool *yes);

/*
 * Many locks as one: for each mode how many there are, and whether all are of
 * one owner. Enough to tell whether any of them conflicts with a request, as
 * in every mode table what conflicts for the same owner does for others.
 * (lmgr's grantMask and waitMask, with owners.) Private to a pass over the
 * table, and never stored in it: `first` is read for its owner, so that it has
 * to stay linked as long as the summary is asked.
 */
struct summary {
    struct {
        uint32_t n;
        const struct entry *first;
        bool mixed; /* of more than one owner */
    } of[MODES];
};

void summary_add(struct summary *c, const struct map *map,
    const struct entry *e);
bool summary_blocks(const struct summary *c, const struct map *map,
    const struct ask *ask);
/* The same for locks that are lost but delayed: not in their owner's way. */
bool summary_delays(const struct summary *c, const struct map *map,
    const struct ask *ask);
/* Of waiters: does one of them wait for this held lock? */
bool summary_wants(const struct summary *c, const struct map *map,
    const struct entry *held);
/* Is one of them the asking owner's, or may be? */
bool summary_may_own(const struct summary *c, const struct map *map,
    const struct ask *ask);
/* All of the summary are the asking owner's, and of a mode that cumulates. */
bool summary_cumulates(const struct summary *c, const struct map *map,
    const struct ask *ask);

#endif
