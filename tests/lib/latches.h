/*
 * latches.h - tests: the bucket, and so the latch, that guards a lock.
 */
#ifndef LIB_LATCHES_H
#define LIB_LATCHES_H

#include "store/index.h"

static inline struct bucket *bucket_of_entry(const struct map *map,
    const struct entry *e)
{
    return bucket_of_hash(map, shard_of_hash(e->hash), e->hash);
}

static inline uint32_t *latch_of_handle(const struct map *map, uint64_t handle)
{
    uint64_t state;

    return &bucket_of_entry(map, entry_of_handle(map, handle, &state))->latch;
}

static inline bool store_latch(void *word, uint32_t shard,
    struct bucket *bucket)
{
    (void)shard;
    shm_store(&bucket->latch, *(const uint32_t *)word);
    return true;
}

/* As if each were a dead thread's, or nobody's. */
static inline void latch_all_buckets(const struct map *map, uint32_t word)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        map_each_bucket(map, i, store_latch, &word);
}

#endif
