/*
 * grow.h - store: more buckets for a shard (linear hashing).
 *
 * A shard is to have one bucket for BUCKET_LOAD of its objects, and so many for
 * the threads that are attached that hardly any two meet in one bucket. Nobody
 * counts objects: that would be a line that all requests write. Who finds a
 * bucket full notes that the shard is `cramped`; who finds a latch taken notes it
 * of all shards that have fewer buckets than threads call for. The next thread
 * that leaves a scope of the shard looks at a few buckets and adds what seems to
 * be missing. Where nothing is, the next look comes after twice as many full
 * buckets (`calm`).
 */
#ifndef STORE_GROW_H
#define STORE_GROW_H

#include "store/index.h"

/* For a shard that is `cramped`. Where there is no room it goes on with what it
   has: its spill chains grow, and lookups become slower. With no latch held:
   takes grow, then the shard's, and under that one bucket's at a time. Blocks
   for the splits of SPLITS_AT_ONCE buckets at most, some 5 us. */
void index_grow(struct map *map, struct thread *t, uint32_t shard);

#endif
