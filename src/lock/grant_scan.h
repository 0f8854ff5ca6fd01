/*
 * grant_scan.h - lock: the waiters that can go are granted (R8).
 *
 * Runs after every release, expiry, cancel, demotion or death, in the same
 * pass. Entries that have run out are dropped; then the waiters that overlap
 * are visited in order of arrival, and each is granted that conflicts neither
 * with what is held nor with an earlier waiter that stays. A grant may itself
 * make way, for earlier requests of its owner: from then on they may pass the
 * waiters that wait for this owner (R7). The scan that grants it scans again
 * (`again`); a request that is granted at once does so itself
 * (tell_of_grant(), set_grant_behind()).
 *
 * A waiter within its bypass window (see due_at() in transition.c) is not
 * granted but told to RETRY: woken to try for itself, while the lock lies free
 * for whichever thread is quicker. That keeps the throughput of barging where
 * holds are short. Past its window it is handed the lock directly, so that
 * waits stay bounded as with a strict queue. A waiter is told once. If it finds
 * the lock taken again, somebody takes it all the time, and each further try
 * would cost the two of them a wake-up; it looks again in any case when its
 * window ends. While another waits before it, it leaves time to that one
 * (blockers_leave_to_ahead()); if it was told there, it is told once more when
 * it has become the first, to look and set its own time. And where the way is
 * free because another waiter was granted what it can share, or may pass others
 * for (R7), or has left, nobody is quicker, and it is told each time. In a
 * strict space nobody has a window. In a wide scope nobody is told to retry.
 */
#ifndef LOCK_GRANT_SCAN_H
#define LOCK_GRANT_SCAN_H

#include "lock/conflict.h"
#include "lock/transition.h"

/* A scan in a wide scope notes so many waiters at once. */
#define NOTED_MOST 512

/*
 * Something that overlapped `key` has gone, or may have run out. `self`: the
 * waiter on whose behalf this is done, which is granted whatever its age; or
 * NULL. Under the scope. In a narrow one nobody else sees the queue between two
 * grants; in a wide one the gate's latch keeps all requests of the name out.
 * Returns: 0. Faults: ENQ_ECORRUPT.
 */
int grant_scan(struct scope *s, const struct key *key, struct entry *self);

/*
 * The same for a waiter that looks at the table. It has made way for nobody,
 * unless something is dropped or granted on the way, so no lock set is told to
 * retry: the thread that made way has told it. Otherwise each of many sets
 * would wake the first at each of its looks.
 */
int grant_scan_looking(struct scope *s, const struct key *key,
    struct entry *self);

/*
 * Generic locks have been lost to a promotion of `winner`, in a wide scope:
 * grants all that wait for that name but those that overlap the winner (R9).
 */
int grant_scan_beside(struct scope *s, const struct key *winner);

#endif
