/*
 * reclaim.h - sync: thread slots of the dead.
 */
#ifndef SYNC_RECLAIM_H
#define SYNC_RECLAIM_H

#include "segment/map.h"

/*
 * Frees the slots of dead threads that nothing needs any more; the number. Kept
 * are those that a lock word names, or whose journal nobody has undone: both
 * are for heal(); and keepers, as long as they are the only sign of another's
 * death.
 *
 * Any number may do this at once, also who has no slot and so cannot take a
 * lock word: what a reference stands for never changes, and each is given up by
 * one swap. All words together name 1,300 slots at most: however many die at
 * once, the next to come finds a slot, and heals the rest from there.
 */
unsigned reclaim_threads(struct map *map);

#endif
