/*
 * hold_end.h - lock: what the end of a session leaves behind.
 *
 * Of a session that was closed, or whose process is over: what was held for it
 * ends, or stays. Nothing depends on when this is done. For every reader a
 * RELEASE lock or a waiting request has ended with the session itself
 * (entry_ended()): by SESSION_ENDING, or by the proof that its process is over.
 * So it may be left half done by a death, and be done by several processes at
 * once: each entry is pinned, and looked at again inside.
 *
 * A lock that has run out is in nobody's way either, and the next request for
 * its key drops it. If none comes, its entry is lost: a living holder gives it
 * back some day, a dead one does not. So the helpers sweep, and only when a
 * lock that a session left behind is due: `leases_due_ns` is a hint of the
 * table, which is lowered as such a lock is left.
 */
#ifndef LOCK_HOLD_END_H
#define LOCK_HOLD_END_H

#include "store/slab.h"

/* Everything of a session: RELEASE locks and waiting requests go. */
int hold_release_all(struct session *s, struct thread *t, session_ref_t ref,
    enum gone gone);

/* Drops the locks that outlived their sessions and have run out since: nobody
   else may ever ask for their keys. Walks the table, but only when one is due.
 */
void hold_sweep(struct session *s, struct thread *t);

/* In need of room: the locks of the living as well. When the next one runs out,
   of those that it has seen; 0: none does. */
int64_t hold_sweep_all(struct session *s, struct thread *t);

/*
 * What becomes of a pinned lock that outlives its session. The pin stays: the
 * caller leaves its scope. From now a KEEP lock is ended by an operator only:
 * fail closed. But one that has run out, and is delayed, is not revived. A lock
 * delay counts from now, or from the end of the ttl.
 */
struct pin;
int hold_leave_behind(struct pin *g);

#endif
