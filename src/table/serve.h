/*
 * serve.h - floor 4: what has gone makes way for those who wait (R8).
 *
 * After every release, expiry, cancel, demotion or death, in the same pass:
 * entries that have run out are dropped, then the waiters that overlap are
 * gone through in order of arrival, and each is granted that conflicts neither
 * with what is held nor with an earlier waiter that stays.
 *
 * A waiter younger than the bypass window is not granted but POKED: told to
 * try for itself, while the lock lies free for whoever is quicker. That keeps
 * the throughput of barging where holds are short; once it has waited for
 * 200 us it is handed the lock directly, so that waits stay bounded as with a
 * strict queue (research/mech.md, 3). In a strict space the window is 0. In a
 * wide scope there is no poking.
 */
#ifndef TABLE_SERVE_H
#define TABLE_SERVE_H

#include "table/change.h"
#include "table/judge.h"

/*
 * Something that overlapped `key` has gone, or may have run out. `self`: the
 * waiter on whose behalf this is done, who is granted whatever its age; or
 * NULL. Returns: 0. Faults: ENQ_ECORRUPT.
 */
int serve(struct scope *s, const struct key *key, struct entry *self);

/*
 * Generic locks have been lost to a promotion of `winner`, in a wide scope:
 * serves all who wait for that name but those who overlap the winner (R9).
 */
int serve_beside(struct scope *s, const struct key *winner);

#endif
