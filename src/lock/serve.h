/*
 * serve.h - lock: what has gone makes way for those who wait (R8).
 *
 * After every release, expiry, cancel, demotion or death, in the same pass:
 * entries that have run out are dropped, then the waiters that overlap are
 * gone through in order of arrival, and each is granted that conflicts neither
 * with what is held nor with an earlier waiter that stays. A grant may make way
 * as well: for its owner's earlier requests, which may pass those who wait for
 * him (R7) from then on. Whoever grants it looks (`again`); who is granted at
 * once does so himself (tell_of_grant(), set_serve_behind()).
 *
 * A waiter who is not due yet (see due_at() in change.c) is not granted but
 * POKED: told to try for itself, while the lock lies free for whoever is
 * quicker. That keeps the throughput of barging where holds are short; once it
 * is due it is handed the lock directly, so that waits stay bounded as with a
 * strict queue. It is poked once: who found the lock taken again is up against
 * somebody who takes it all the time, and each try would cost the two of them
 * a wake-up; when it is due it looks again in any case. But while another waits
 * before it, it leaves time to him (blockers_leave_to_ahead()): if it was poked
 * there, it is poked once more when it has become the first, to look and set
 * its own. In a strict space everyone is due at once. In a wide scope there is
 * no poking.
 */
#ifndef LOCK_SERVE_H
#define LOCK_SERVE_H

#include "lock/change.h"
#include "lock/judge.h"

/*
 * Something that overlapped `key` has gone, or may have run out. `self`: the
 * waiter on whose behalf this is done, who is granted whatever its age; or
 * NULL. Returns: 0. Faults: ENQ_ECORRUPT.
 */
int serve(struct scope *s, const struct key *key, struct entry *self);

/*
 * The same in the name of one who waits, and looks: he has made way for nobody,
 * unless something is dropped or granted on the way, so that a lock set needs
 * no poke. Whoever made way has poked it; else, of many sets, each would wake
 * the first at each of its looks.
 */
int serve_looking(struct scope *s, const struct key *key, struct entry *self);

/*
 * Generic locks have been lost to a promotion of `winner`, in a wide scope:
 * serves all who wait for that name but those who overlap the winner (R9).
 */
int serve_beside(struct scope *s, const struct key *winner);

#endif
