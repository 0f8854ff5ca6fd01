/*
 * map.h - floor 2: one segment, mapped into this process.
 *
 * A process maps a segment once, whole, however many attachments it has:
 * robust lists need constant addresses, and lock words need one truth about
 * who this thread is. The mapping ends with the last that uses it: an
 * attachment, or a thread whose life mutex lies in it.
 *
 * Every reference read from the segment passes through an at_*() function,
 * which answers NULL when it points outside of what it may point to.
 */
#ifndef SEGMENT_MAP_H
#define SEGMENT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <urcu/list.h>

#include "base/atomic.h"
#include "rules/mode.h"
#include "segment/layout.h"

struct thread;

struct map {
    struct seg_header *h;
    struct thread_slot *threads;
    struct session_slot *sessions;
    struct gate *gates;
    struct shard *shards;
    struct shard_dir *dirs;
    struct page_info *pages;
    const struct mode_table *modes;
    uint64_t hash_seed;
    uint64_t window_ns; /* how long a waiter may be overtaken (R7) */
    uint64_t arena_at;
    uint32_t pages_max;
    size_t bytes;
    bool readonly;

    /* Floor 4's answer to a lock word whose owner is dead. */
    int (*heal)(struct map *map, struct thread *me);

    /* this process's, under process_enter() */
    struct cds_list_head node;
    unsigned users; /* attachments, and threads with a slot */
    unsigned attachments;
    int fd;
    dev_t dev;
    ino_t ino;
    char path[ENQ_NAME_BYTES + 128];
};

/* Claims memory for bytes of the segment before their first use. Blocks for
   the kernel to clear it (0.25 ms per MiB). 0, or -ENOSPC and the like. */
int map_reserve(const struct map *map, uint64_t offset, uint64_t bytes);

/*
 * Thread and session slots are claimed under this lock, by threads that have
 * no slot yet and so cannot hold a lock word: a POSIX lock on the file's first
 * byte, which the kernel drops when its process dies, inside the process's own
 * mutex (process_enter). Blocks while another process registers.
 * Faults, explained: -EBADF, -ENOLCK, -ENOMEM.
 */
int map_registry_lock(struct map *map);
void map_registry_unlock(struct map *map);

/* Has the segment lost its name? Costs an fstat. */
bool map_unlinked(const struct map *map);

static inline void *map_at(const struct map *map, uint64_t offset)
{
    return (char *)map->h + offset;
}

static inline ref_t map_ref(const struct map *map, const void *p)
{
    return (ref_t)((uint64_t)((const char *)p - (const char *)map->h) /
        UNIT_BYTES);
}

/* The page, counted from the arena's start, in which `ref` lies. */
static inline uint32_t map_page_of(const struct map *map, ref_t ref)
{
    return (uint32_t)((ref * (uint64_t)UNIT_BYTES - map->arena_at) /
        PAGE_BYTES);
}

/* Units 1, 4, 7 ... of a page, see layout.h. */
#define ENTRY_UNITS UINT64_C(0x2492492492492492)

static inline struct entry *at_entry(const struct map *map, ref_t ref)
{
    uint64_t unit = ref - map->arena_at / UNIT_BYTES;

    if (unlikely(unit >=
                (uint64_t)shm_load(&map->h->pages_ready) * UNITS_PER_PAGE ||
            !(ENTRY_UNITS >> (unit % UNITS_PER_PAGE) & 1)))
        return NULL;
    return map_at(map, ref * (uint64_t)UNIT_BYTES);
}

/* Line `i` of a shard; NULL when there is no such line. */
static inline struct line *at_line(const struct map *map, uint32_t shard,
    uint32_t i)
{
    uint32_t segment = i / LINES_PER_SEGMENT;
    uint64_t at;

    if (unlikely(segment >= SEGMENTS_MAX))
        return NULL;
    at = map->dirs[shard].segment[segment] * (uint64_t)UNIT_BYTES;
    if (unlikely(at < SEG_LINES || at % PAGE_BYTES != 0 ||
            at >= map->arena_at + (uint64_t)map->pages_max * PAGE_BYTES))
        return NULL;
    return (struct line *)map_at(map, at) + i % LINES_PER_SEGMENT;
}

static inline struct session_slot *at_session(const struct map *map,
    session_ref_t ref)
{
    return &map->sessions[ref & SLOT_MASK];
}

static inline struct thread_slot *at_thread(const struct map *map,
    thread_ref_t ref)
{
    return &map->threads[ref & SLOT_MASK];
}

#endif
