/*
 * waiter.h - wait: how anybody waits: one request or a lock set, with a thread
 * that sleeps for it or without.
 *
 * It looks at the table, and where it may not have what it wants it notes what
 * can end that, all under the same latches. Then its thread sleeps, or, as it
 * was started, its session's helper keeps a plan when to look again.
 */
#ifndef WAIT_WAITER_H
#define WAIT_WAITER_H

#include "wait/blockers.h"
#include "wait/suspicion.h"

struct waiter;

/* What is another matter for one request than for a lock set. */
struct waiter_kind {
    /* One look, under all its latches. ENQ_PENDING: it waits on, and its
       blockers say for what. Else what its wait comes to, or a fault. */
    int (*look)(struct waiter *w);
    /* It leaves the queue: ENQ_DEADLOCK. ENQ_PENDING: it was granted, or taken
       out, since the cycle was found, and its next look tells. */
    int (*leave_cycle)(struct waiter *w);
};

/* Private to the thread that looks. */
struct waiter {
    const struct waiter_kind *kind;
    struct session *s;
    struct thread *t;
    struct places places;  /* of one owner and session, with one ticket */
    struct bypass *bypass; /* which lock sets it may pass */
    struct blockers b;
    bool kin;        /* the waiter ahead is of the same session, and narrow */
    unsigned futile; /* looks behind a lock set: see blockers_pause() */
};

/*
 * When to look again for a request on which no thread sleeps. Its session is
 * notified (notify.h) when its entry changes; for the rest:
 *
 * @again  when to look again
 * @ahead, @holder  the waiter that it stands behind, and one of the locks in
 *         the way, or NULL: look as well when their states are others than
 *         these, which a glance each tick tells
 * @life   the liveness word of a session whose death makes way, or NULL. There
 *         may be more: all in the way must go, and until this one has gone the
 *         others need not be watched
 * @ticks  a glance each so many is enough
 */
struct wait_plan {
    mono_t again;
    const struct entry *ahead, *holder;
    uint64_t ahead_state, holder_state;
    const uint32_t *life;
    unsigned ticks;
};

/* Looks until there is nothing more to learn; never blocks. On ENQ_PENDING
   *plan says when to look again. With no latch held. */
int waiter_look(struct waiter *w, struct wait_plan *plan);

/*
 * Sleeps and looks until its wait has come to something.
 *
 * @cycles  look for deadlocks
 *
 * Returns: what the kind's looks say, but for ENQ_PENDING; ENQ_DEADLOCK.
 */
int waiter_wait(struct waiter *w, bool cycles);

#endif
