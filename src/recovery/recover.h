/*
 * recover.h - recovery: what the dead have left.
 *
 * lmgr has no such thing: after a crash its postmaster throws all of shared
 * memory away. Here a death is one of many processes', and the others go on.
 *
 * Two different things. A thread that died INSIDE a latch may have left
 * links half made: recover() makes anew what is derived in the parts that it
 * held, from what is true, and frees its latches. A session that died HOLDING
 * LOCKS leaves nothing half made: see reap.h.
 */
#ifndef RECOVERY_RECOVER_H
#define RECOVERY_RECOVER_H

#include "store/slab.h"

/*
 * Repairs every part whose latch is held by a dead thread, frees those
 * latches, and the dead threads' slots. `me` may hold latches of its own. Takes
 * the recovery latch, also from a dead recovering thread. Idempotent: it may be
 * killed anywhere and done again. Blocks: some 0.1 ms, for what the dead have
 * noted; else 10 ns for each entry of the table. With the latch that `me` is
 * after (me->wanted) the notes are believed; without, each bucket is looked at.
 * Returns: 0. Faults: ENQ_ECORRUPT.
 */
int recover(struct map *map, struct thread *me);

/* The same of what the dead have noted themselves. What else they may have left
   is recovered by whoever wants its latch: it is not looked for. */
int recover_noted(struct map *map, struct thread *me);

/* Makes all that is derived anew, whatever threads hold: lockctl doctor
   --fix. */
int recover_all(struct map *map, struct thread *me);

enum recover_turn {
    RECOVER_BEGIN,
    RECOVER_AGAIN,    /* who had it died: all is done again from the start */
    RECOVER_NEEDLESS, /* it was not acquired */
};

/* The recovery latch, which keeps two recovering threads, and two that reap,
   apart. Any other latches may be held. Acquired also from a dead thread, as it
   is. Needless if @wanted, where that is not NULL, is no dead thread's any more
   when others have recovered. */
enum recover_turn recover_lock(struct map *map, struct thread *me,
    const uint32_t *wanted);
void recover_unlock(struct map *map);

#endif
