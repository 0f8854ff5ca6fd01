/*
 * heal.h - recovery: what the dead have left.
 *
 * Two different things. A thread that died INSIDE a lock word may have left
 * links half made: heal() makes anew what is derived in the parts that it
 * held, from what is true, and frees its words. A session that died HOLDING
 * LOCKS leaves nothing half made: bury() releases what shall be released, as
 * its owner would have, and gives its slabs to whoever needs some.
 */
#ifndef RECOVERY_HEAL_H
#define RECOVERY_HEAL_H

#include "store/slab.h"

/*
 * Repairs every part whose lock word is held by a dead thread, frees those
 * words, and the dead threads' slots. `me` may hold words of its own. Takes
 * the recovery word, also from a dead healer. Idempotent: it may be killed
 * anywhere and done again. Blocks: 10 ns an entry of the table.
 * Returns: 0. Faults: ENQ_ECORRUPT.
 */
int heal(struct map *map, struct thread *me);

/* Makes all that is derived anew, whoever holds what: lockctl doctor --fix. */
int heal_all(struct map *map, struct thread *me);

/*
 * Sees a session off that is over (sync/life.h): its RELEASE locks and waits
 * are gone after this, and its slot is free. `s` is the session on whose
 * behalf. Any number of processes may do this for the same one at once.
 * Returns: 0. Faults: ENQ_ECORRUPT.
 */
int bury(struct session *s, struct thread *t, session_ref_t ref);

/* The same for a living one that ends, but for its slot: whoever holds its
   life mutex gives that back (session_end). */
int retire(struct session *s, struct thread *t);

/* Buries every session that is over; the number. map->dying: there are some
   that are dead, and of which that is not known. */
unsigned bury_dead(struct session *s, struct thread *t);

#endif
