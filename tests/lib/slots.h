/*
 * slots.h - a space in which hardly a thread has room any more. As many threads
 * as its limit are more than many a machine may have: the slots are written
 * full instead, as if this thread had them.
 */
#ifndef LIB_SLOTS_H
#define LIB_SLOTS_H

#include <unistd.h>

#include "base/atomic.h"
#include "segment/map.h"
#include "sync/thread.h"

/* No other has this generation. */
static inline uint32_t slot_filled(uint32_t i)
{
    return (THREAD_GENERATIONS - 1) << THREAD_BITS | i;
}

/* All but the last so many, and those that somebody has. */
static inline void slots_fill_all_but(struct map *map, uint32_t n)
{
    for (uint32_t i = 0; i < THREADS_MAX - n; i++) {
        struct thread_slot *slot = &map->threads[i];

        if (shm_load(&slot->ref) != 0)
            continue;
        shm_store((uint32_t *)&slot->life, (uint32_t)gettid());
        shm_store(&slot->ref, slot_filled(i));
    }
    shm_store(&map->h->threads_high, THREADS_MAX);
}

#endif
