/*
 * suspicion.h - wait: when to look for cycles (cycle.h), and which request
 * leaves the queue for one.
 *
 * Two acts can close a cycle. A request that is queued: it looks at once, before
 * it sleeps. A grant to an owner that waits for something else, while others
 * wait for what it was granted: who was granted looks as soon as it knows of it,
 * for its owner's other requests, and tells those that are in a cycle.
 *
 * The youngest request of a cycle is refused; each thread gives up its own
 * request only. An older one that finds the cycle looks again SUSPECT_NS later,
 * and is refused if that cycle is still there. For so long the youngest has the
 * time to find it itself: its thread may not be running just between queueing and
 * looking. Cycles are told apart by the ticket of their youngest request: where
 * another cycle was found in between, its youngest is refused as it should be,
 * and the older one has to wait anew.
 *
 * And each waiter looks again now and then, in case that a grant's look was not
 * made: its thread was killed, or stopped, before it could; or a lock changed
 * its mode or its owner. These looks, and those after grants, share 1 % of a CPU
 * (seg_header.searched_ns): a search costs what it comes to, and may come to
 * all that wait.
 */
#ifndef WAIT_SUSPICION_H
#define WAIT_SUSPICION_H

#include "lock/request.h"
#include "wait/cycle.h"
#include "wait/places.h"

struct suspicion {
    bool wanted;      /* cycles are looked for at all */
    bool looked;      /* has looked once, or was told to */
    unsigned put_off; /* for so many looks in turn there was no time */
    bool old;         /* one was found, whose youngest request is another's: */
    uint64_t latest;  /* the ticket of that */
    mono_t next;
};

/*
 * Is there a cycle that this request of ours shall leave the queue for? To be
 * asked before it sleeps; it looks at once, and then when it was told to, and
 * each second, or, in a long queue, the more seldom the more are ahead.
 *
 * @ahead  how many wait before it at its key
 * @until  not to be slept beyond; brought forward
 *
 * Returns: ENQ_DEADLOCK, explained; ENQ_PENDING: it waits on.
 * Faults:  ENQ_ECORRUPT.
 */
int suspicion_look(struct suspicion *x, struct session *s, struct thread *t,
    enq_handle waiter, unsigned ahead, mono_t *until);

/* Was this request of ours told that it is in a cycle? Of a lock set, any of
   its members? Then it looks at once. */
bool suspicion_told(struct suspicion *x, struct places places);

/* This request of ours waited, and was granted: has that closed a cycle? Nearly
   always its owner waits for nothing else, which takes no latch. The members of
   a lock set are one owner's: one search is enough. With no latch held. */
void suspicion_granted(struct session *s, struct thread *t,
    struct places places);

#endif
