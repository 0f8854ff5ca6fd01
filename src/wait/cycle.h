/*
 * cycle.h - wait: owners that wait for each other in a cycle.
 *
 * A request waits for locks that are in its way, and behind requests (R7). An
 * owner lets go of no lock before it has got all that it waits for: so from a
 * lock the search goes on to all requests of its owner, and from a request to
 * what that one waits for (follow()). A thread that is about to sleep follows
 * these edges; if they lead to a lock of its own owner, it need not sleep:
 * nobody in the cycle will ever wake. (That an owner waits for its own lock is
 * no cycle: an owner may be many threads.) A grant may close a cycle, too: when
 * to look says suspicion.h. (PostgreSQL looks once, after its deadlock_timeout,
 * with all partitions locked. Here the look comes first, and no latch is held
 * from one node to the next.)
 *
 * The table is not stopped for it. Each key that the search comes to is read
 * under its own latches, and a cycle that was found is looked at again, edge by
 * edge: one that was there twice, in the same use of both entries, was there
 * all the time in between, so that all edges existed in one moment. There is
 * no false alarm.
 *
 * And no miss: a request is published (thread_slot.waiting) before it is queued,
 * with a fence. So the last of a cycle to be queued finds all others, those too
 * whose threads have not come to look. Where a grant closes a cycle, the one
 * who was granted looks, for the requests of its owner (suspicion.h).
 *
 * Nearly always no owner that is in the way waits itself (owners_wait()): then
 * the search ends before it begins. It costs a look at the own key, as a
 * waiter's looks do. Nor does it begin for a request that has just been queued,
 * and for whose owner nobody waits (owner_awaited()): those ahead of it and those
 * that hold what it wants do not lead back to it.
 *
 * The nodes are a private copy: handles, states, tickets and hashes. None of
 * them is believed later: is_confirmed() compares the states with those in the
 * table, their generations included.
 */
#ifndef WAIT_CYCLE_H
#define WAIT_CYCLE_H

#include "lock/conflict.h"

/* The thread waits no longer for what transition_queue() has published. Without
   order: a handle that is read too late is stale, and pins nothing. */
static inline void cycle_withdraw(struct thread *t)
{
    shm_store(&t->slot->waiting, 0);
}

/* What a search found, and how many requests and locks it read for that, also
   where there is no cycle. */
struct cycle {
    bool youngest;   /* none of it came later than the request that asks */
    uint64_t latest; /* the ticket of its youngest request */
    uint64_t cost;
};

/*
 * Does this waiting request of ours close a cycle?
 *
 * @newcomer  nobody is behind it but those that came later, and look themselves:
 *            only a lock of its owner can lead back to it
 *
 * Returns: ENQ_OK; ENQ_DEADLOCK, explained with the whole cycle.
 * Faults:  ENQ_ECORRUPT. Where memory is short: ENQ_OK.
 */
int cycle_find(struct session *s, struct thread *t, enq_handle waiter,
    bool newcomer, struct cycle *found);

/*
 * Is there a cycle through a request and a lock of this owner (hash)? Its
 * requests are told to look for themselves (STATE_CYCLE), the youngest in any
 * case. `latest` is 0 where there is none.
 */
void cycle_tell(struct session *s, struct thread *t, uint64_t owner,
    struct cycle *found);

/* Shows all edges of the wait-for graph: a request that waits, and one entry
   in its way. Not of one moment. `see` must not lock.
   Returns: 0. Faults: ENQ_ECORRUPT, -ENOMEM. */
typedef void cycle_see_fn(void *context, enq_handle waiter, enq_handle blocker);
int cycle_each_edge(struct session *s, struct thread *t, cycle_see_fn *see,
    void *context);

#endif
