/*
 * reap.h - recovery: the end of sessions.
 *
 * A session that died holding locks leaves nothing half made. reap() releases
 * what shall be released, as its owner would have, and gives its slabs to
 * sessions that need some.
 *
 * Nobody waits for that. What ends with a session is over for all as soon as it
 * is known that the session is over (entry_over()): by one store, however many
 * locks that are. The first request that meets such a lock takes it away. To
 * reap is to do so for those that nobody asks for (P4), to take the ttl from
 * KEEP locks, to begin lock delays, and to make room.
 */
#ifndef RECOVERY_REAP_H
#define RECOVERY_REAP_H

#include "store/slab.h"

/*
 * Sees a session off that is over (sync/life.h): its RELEASE locks and waits
 * are gone after this, and its slot is free. `s` is the session on whose
 * behalf. Any number of processes may do this for the same one at once.
 * Returns: 0. Faults: ENQ_ECORRUPT.
 */
int reap(struct session *s, struct thread *t, session_ref_t ref);

/* The same for a living one that ends, but for its slot: the thread that holds
   its life mutex gives that back (session_end). */
int retire(struct session *s, struct thread *t);

/* Reaps every session that is over; the number. map->dying: there are some
   that are dead, and of which that is not known. */
unsigned reap_dead(struct session *s, struct thread *t);

#endif
