/*
 * reclaim.h - sync: thread slots of the dead.
 */
#ifndef SYNC_RECLAIM_H
#define SYNC_RECLAIM_H

#include "segment/map.h"

/*
 * Frees the slots of dead threads that nothing needs any more; returns how
 * many. It keeps
 *
 *   - slots that a latch names, or whose journal is not undone: recover() needs
 *     them to tell what a dead thread left from what a living one holds;
 *   - a keeper, as long as it is the only sign of another thread's death.
 *
 * Any number of threads may do this at once, also one that has no slot and so
 * cannot take a latch: what a reference stands for never changes, and each is
 * given up by one swap. All latches together name 1,300 slots at most: however
 * many threads die at once, the next to come finds a slot, and recovers the
 * rest from there.
 */
unsigned reclaim_threads(struct map *map);

#endif
