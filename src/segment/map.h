/*
 * map.h - segment: one segment, mapped into this process.
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
#include <string.h>
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
    uint32_t *owners; /* hint: at least so many wait, by hash of their owner */
    struct line *lines; /* the first segments */
    struct page_info *pages;
    const struct mode_table *modes;
    uint64_t hash_seed;
    bool strict;             /* no waiter is ever overtaken */
    int64_t lines_barren_ns; /* until then there is no room for more lines */
    uint64_t arena_at, arena_unit; /* in bytes, and in units */
    uint32_t pages_max;
    uint32_t entries_max; /* no walk over links is longer */
    size_t bytes;
    bool readonly;

    /* Floor 4's answer to a lock word whose owner is dead. */
    int (*heal)(struct map *map, struct thread *me);

    /* this process's, under process_enter() */
    struct cds_list_head node;
    unsigned users; /* attachments, and threads with a slot */
    unsigned attachments;
    uint32_t keeper;     /* the helper thread's slot, while it has one */
    struct process self; /* as its slots say it */
    dev_t proc;          /* /proc, if that is of our PID namespace; else 0 */
    session_ref_t *over; /* who cannot write notes here whose end is proved */
    bool dying;          /* some are dead whose end is not proved yet */
    struct cds_list_head kept; /* this process's threads with a slot */
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

/* Before a walk: touching what was cut off would be a SIGBUS, against which
   there is no remedy while it happens. Costs an fstat (0.2 us). 0, or
   ENQ_ECORRUPT, explained. */
int map_judge_whole(const struct map *map);

/* Has nobody locked this byte of the file, and so nobody's memory has been tied
   to it (segment/tie.h)? False as well where that cannot be asked. */
bool map_lock_is_free(const struct map *map, uint64_t at);

/* How many names has the segment? 0: it was removed; -1: unknown. Costs an
   fstat. */
int map_links(const struct map *map);

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

/* The same of an entry's address: a shift less, where each counts. */
static inline uint32_t map_page_at(const struct map *map, const void *p)
{
    return (uint32_t)((uint64_t)((const char *)p - (const char *)map->h -
                          (ptrdiff_t)map->arena_at) /
        PAGE_BYTES);
}

/* The directory's word for a page: read and written in one piece. */
static inline uint64_t page_word(uint32_t owner, enum page_kind kind)
{
    struct page_info info = {owner, kind};
    uint64_t word;

    memcpy(&word, &info, sizeof(word));
    return word;
}

/* What the header says of its own sizes may be wrong: nobody walks beyond what
   there is room for. */
static inline uint32_t map_at_most(const uint32_t *word, uint32_t most)
{
    uint32_t n = shm_load_acquire(word);

    return likely(n <= most) ? n : most;
}

static inline uint32_t map_pages_used(const struct map *map)
{
    return map_at_most(&map->h->pages_used, map->pages_max);
}

static inline uint32_t map_pages_ready(const struct map *map)
{
    return map_at_most(&map->h->pages_ready, map->pages_max);
}

static inline uint32_t map_threads(const struct map *map)
{
    return map_at_most(&map->h->threads_high, THREADS_MAX);
}

static inline uint32_t map_sessions(const struct map *map)
{
    return map_at_most(&map->h->sessions_high, SESSIONS_MAX);
}

/* Units 1, 4, 7 ... of a page, see layout.h. */
#define ENTRY_UNITS UINT64_C(0x2492492492492492)

/* Counted from the arena's start; too many: it is not of the arena. */
static inline uint64_t map_unit_of(const struct map *map, ref_t ref)
{
    return ref - map->arena_unit;
}

static inline struct entry *at_entry(const struct map *map, ref_t ref)
{
    uint64_t unit = map_unit_of(map, ref);

    if (unlikely(unit >= (uint64_t)map_pages_ready(map) * UNITS_PER_PAGE ||
            !(ENTRY_UNITS >> (unit % UNITS_PER_PAGE) & 1)))
        return NULL;
    return map_at(map, ref * (uint64_t)UNIT_BYTES);
}

/* How many lines so many segments have room for. */
static inline uint32_t lines_in(uint32_t segments)
{
    if (unlikely(segments == 0 || segments > SEGMENTS_MAX))
        segments = segments == 0 ? 1 : SEGMENTS_MAX;
    return segments * LINES_PER_SEGMENT - LINES_FIRST;
}

/* Line `i` of a shard; NULL when there is no such line. Up to 49,000 objects
   in all there are first segments only, which nobody has to look up. */
static inline struct line *at_line(const struct map *map, uint32_t shard,
    uint32_t i)
{
    uint32_t segment;
    uint64_t at;

    if (likely(i < LINES_FIRST))
        return &map->lines[shard * LINES_FIRST + i];
    i -= LINES_FIRST;
    segment = 1 + i / LINES_PER_SEGMENT;
    if (unlikely(segment >= SEGMENTS_MAX))
        return NULL;
    at = map->dirs[shard].segment[segment] * (uint64_t)UNIT_BYTES;
    if (unlikely(at < map->arena_at || at % PAGE_BYTES != 0 ||
            at >= map->arena_at + (uint64_t)map_pages_ready(map) * PAGE_BYTES))
        return NULL;
    return (struct line *)map_at(map, at) + i % LINES_PER_SEGMENT;
}

static inline struct session_slot *at_session(const struct map *map,
    session_ref_t ref)
{
    return &map->sessions[ref & SESSION_MASK];
}

static inline struct thread_slot *at_thread(const struct map *map,
    thread_ref_t ref)
{
    return &map->threads[ref & THREAD_MASK];
}

#endif
