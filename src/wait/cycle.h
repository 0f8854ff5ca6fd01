/*
 * cycle.h - wait: owners that wait for each other in a circle.
 *
 * A request waits for locks that are in its way, and behind requests (R7). An
 * owner lets go of no lock before he has got all that he waits for: so from a
 * lock the search goes on to all requests of its owner, and from a request to
 * what that one waits for. Whoever is about to sleep follows these edges; if
 * they lead to a lock of his own, he need not sleep: nobody in the circle will
 * ever wake. (That he waits for a lock of his own is no circle: owners may be
 * many threads.) Now and then he looks again: a grant may close one, too.
 *
 * The table is not stopped for it. Each request is looked at under the words
 * of its own key, and a circle that was found is looked at again, edge by
 * edge: one that was there twice, in the same use of both entries, was there
 * all the time in between, so that all edges existed in one moment. There is
 * no false alarm.
 *
 * And no miss: a request is published (thread_slot.waiting) before it looks,
 * with a fence. Of several that close a circle in the same moment at least one
 * sees it whole. If all do, the youngest is refused; an older one looks again
 * a little later, and is refused if the circle is still there.
 *
 * Nearly always nobody is in the way who waits himself: owners that wait are
 * counted by their hashes, and where those counts are 0 the search ends before
 * it begins. It costs a look at the own key, as a waiter's looks do.
 */
#ifndef WAIT_CYCLE_H
#define WAIT_CYCLE_H

#include "lock/judge.h"

/* The thread is about to wait, or done with it (0). Partner: collect(). */
static inline void cycle_publish(struct thread *t, enq_handle handle)
{
    shm_store_fence(&t->slot->waiting, handle);
}

static inline void cycle_withdraw(struct thread *t)
{
    shm_store(&t->slot->waiting, 0);
}

/*
 * Is there a circle that this request of ours shall leave the queue for? To be
 * asked before it sleeps; it looks at once, and then each second.
 *
 * @until  not to be slept beyond; brought forward
 *
 * Returns: ENQ_DEADLOCK, explained; ENQ_PENDING: it waits on.
 * Faults:  ENQ_ECORRUPT.
 */
struct suspicion {
    bool wanted;     /* circles are looked for at all */
    bool old;        /* one was found, whose youngest request is another's: */
    uint64_t latest; /* the ticket of that */
    mono_t next;
};
int cycle_suspect(struct suspicion *x, struct session *s, struct thread *t,
    enq_handle waiter, mono_t *until);

/*
 * Does this waiting request of ours close a circle?
 *
 * @youngest  no other request of the circle came later
 *
 * Returns: ENQ_OK; ENQ_DEADLOCK, explained with the whole circle.
 * Faults:  ENQ_ECORRUPT. Where memory is short: ENQ_OK.
 */
int cycle_find(struct session *s, struct thread *t, enq_handle waiter,
    bool *youngest);

/* Shows who waits for whom in the whole table: a request that waits, and one
   entry in its way. Not of one moment. `see` must not lock.
   Returns: 0. Faults: ENQ_ECORRUPT, -ENOMEM. */
typedef void cycle_see_fn(void *context, enq_handle waiter, enq_handle blocker);
int cycle_each_edge(struct session *s, struct thread *t, cycle_see_fn *see,
    void *context);

#endif
