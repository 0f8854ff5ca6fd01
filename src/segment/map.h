/*
 * map.h - segment: one segment, mapped into this process.
 *
 * A process maps a segment once, whole, however many attachments it has: robust
 * lists need constant addresses, and each thread must have one reference in a
 * segment. The mapping ends with its last user: an attachment, or a thread
 * whose liveness mutex lies in it.
 *
 * Every ref that is read from the segment passes through an at_*() function,
 * which answers NULL when it points outside of what it may point to. NULL is
 * damage (ENQ_ECORRUPT), or a hint to pass over. at_session() and at_thread()
 * cannot fail: they mask the number to the size of their arrays.
 *
 * What does not change is copied here from the header when it is checked, so
 * that no other process can change it between check and use.
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
#include "base/visit.h"
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
    uint32_t *owners; /* hint: who waits (store/owners.h) */
    struct listing *listings;
    struct bucket *buckets; /* the first segments */
    struct page_info *pages;
    page_mark_t *marks; /* one for each page */
    const struct mode_table *modes;
    uint64_t hash_seed;
    bool strict;                   /* no waiter is ever overtaken */
    int64_t buckets_barren_ns;     /* until then there is no room for more */
    uint64_t arena_at, arena_unit; /* in bytes, and in units */
    uint32_t pages_max;
    uint32_t entries_max; /* no walk over links is longer */
    size_t bytes;
    bool readonly;

    /* this process's, under process_enter() */
    struct cds_list_head node;
    unsigned users; /* attachments, and threads with a slot */
    unsigned attachments;
    uint32_t keeper;     /* the helper thread's slot, while it has one */
    struct process self; /* as its slots say it */
    dev_t proc;          /* /proc, if that is of our PID namespace; else 0 */
    session_ref_t *over; /* read-only maps: the sessions whose end is proved,
                            as process.over cannot be written; else NULL */
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
 * no slot yet and so cannot hold a latch: a POSIX lock on the file's first
 * byte, which the kernel drops when its process dies, inside the process's own
 * mutex (process_enter). Blocks while another process registers.
 * Faults, explained: -EBADF, -ENOLCK, -ENOMEM.
 */
int map_registry_lock(struct map *map);
void map_registry_unlock(struct map *map);

/* Before a walk: touching what was cut off would be a SIGBUS, against which
   there is no remedy while it happens. Costs an fstat (0.2 us). 0, or
   ENQ_ECORRUPT, explained. */
int map_check_whole(const struct map *map);

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

/* The directory's word for a page: read and written in one piece, so that owner
   and kind are of one moment. */
static inline uint64_t page_word(uint32_t owner, enum page_kind kind)
{
    struct page_info info = {owner, kind};
    uint64_t word;

    memcpy(&word, &info, sizeof(word));
    return word;
}

static inline struct page_info map_page_info(const struct map *map,
    uint32_t page)
{
    uint64_t word = shm_load((const uint64_t *)&map->pages[page]);
    struct page_info info;

    memcpy(&info, &word, sizeof(info));
    return info;
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

/* Units 1, 4, 7 ... of a page, where an entry of either size may begin: see
   layout.h. One mask for both, as the kind of the page may change. */
#define ENTRY_UNITS UINT64_C(0x2492492492492492)

/* Counted from the arena's start; too many: it is not of the arena. */
static inline uint64_t map_unit_of(const struct map *map, ref_t ref)
{
    return ref - map->arena_unit;
}

/* The entry at `ref`; NULL: nothing may begin there. It says nothing of what is
   there: entry_read() asks the directory. Pages below `pages_ready` have
   memory, which was taken before the number was stored (make_ready, release).
   */
static inline struct entry *at_entry(const struct map *map, ref_t ref)
{
    uint64_t unit = map_unit_of(map, ref);

    visit(VISIT_ENTRY);
    if (unlikely(unit >= (uint64_t)map_pages_ready(map) * UNITS_PER_PAGE ||
            !(ENTRY_UNITS >> (unit % UNITS_PER_PAGE) & 1)))
        return NULL;
    return map_at(map, ref * (uint64_t)UNIT_BYTES);
}

/* How many buckets a shard has. Acquire: their segments are there (partner:
   page_add_segment(), split() in store/grow.c). */
static inline uint32_t shard_buckets(const struct shard *shard)
{
    return shm_load_acquire(&shard->n_buckets) & ~SHARD_EMPTY;
}

/* How many buckets so many segments have room for. */
static inline uint32_t buckets_in(uint32_t segments)
{
    if (unlikely(segments == 0 || segments > SEGMENTS_MAX))
        segments = segments == 0 ? 1 : SEGMENTS_MAX;
    return BUCKETS_FIRST + (segments - 1) * BUCKETS_PER_SEGMENT;
}

/* Bucket `i` of a shard; NULL when there is no such bucket. Up to 20,000
   objects in all there are first segments only, which nobody has to look up. */
static inline struct bucket *at_bucket(const struct map *map, uint32_t shard,
    uint32_t i)
{
    uint32_t segment;
    uint64_t at;

    visit(VISIT_BUCKET);
    if (likely(i < BUCKETS_FIRST))
        return &map->buckets[shard * BUCKETS_FIRST + i];
    i -= BUCKETS_FIRST;
    segment = 1 + i / BUCKETS_PER_SEGMENT;
    if (unlikely(segment >= SEGMENTS_MAX))
        return NULL;
    at = map->dirs[shard].segment[segment] * (uint64_t)UNIT_BYTES;
    if (unlikely(at < map->arena_at || at % PAGE_BYTES != 0 ||
            at >= map->arena_at + (uint64_t)map_pages_ready(map) * PAGE_BYTES))
        return NULL;
    return (struct bucket *)map_at(map, at) + i % BUCKETS_PER_SEGMENT;
}

/* So many buckets stand side by side, of a shard that has n, from the i-th on. */
static inline uint32_t map_buckets_in_row(uint32_t i, uint32_t n)
{
    uint32_t end = BUCKETS_FIRST;

    if (i >= BUCKETS_FIRST)
        end =
            i + BUCKETS_PER_SEGMENT - (i - BUCKETS_FIRST) % BUCKETS_PER_SEGMENT;
    return (end < n ? end : n) - i;
}

/* Which shard a key is of. Bucket and tag use other bits of the same hash: see
   store/index.h. */
static inline uint32_t shard_of_hash(uint64_t hash)
{
    return (uint32_t)hash % SHARDS;
}

/* Linear hashing: of n buckets, 2^k <= n < 2^(k+1), the first n - 2^k have been
   split and are told apart by one bit more of the hash. A number that does not
   exist yet is that of the bucket which has not been split. */
HOT uint32_t bucket_number(uint64_t hash, uint32_t n_buckets)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz((n_buckets - 1) | 1);
    uint32_t h = (uint32_t)(hash >> 8), i = h & mask;

    return i < n_buckets ? i : h & (mask >> 1);
}

/* Which of the first n buckets the next one splits: n - 2^k. */
static inline uint32_t bucket_to_split(uint32_t n_buckets)
{
    return n_buckets - (0x80000000u >> __builtin_clz(n_buckets | 1));
}

HOT struct bucket *bucket_of_hash(const struct map *map, uint32_t shard,
    uint64_t hash)
{
    uint32_t n = shard_buckets(&map->shards[shard]);

    return n == 0 ? NULL : at_bucket(map, shard, bucket_number(hash, n));
}

/* Each bucket that the shard's segments hold, not those in use only: a thread
   that died in split() (store/grow.c) may have filled one beyond. `see` false:
   stop. Returns: false if it was stopped. */
typedef bool bucket_see_fn(void *context, uint32_t shard,
    struct bucket *bucket);
bool map_each_bucket(const struct map *map, uint32_t shard, bucket_see_fn *see,
    void *context);

/* What a thread has noted of a split that it was in (thread_slot.inside). */
struct split {
    uint32_t shard;
    struct bucket *from, *to; /* NULL: there is no such bucket */
    bool begun; /* `to` is not in use yet: of both, all is of `from` */
};

/* Returns: false, it was in none. */
bool map_split_of(const struct map *map, const struct thread_slot *slot,
    struct split *out);

static inline struct session_slot *at_session(const struct map *map,
    session_ref_t ref)
{
    visit(VISIT_SESSION);
    return &map->sessions[ref & SESSION_MASK];
}

static inline struct thread_slot *at_thread(const struct map *map,
    thread_ref_t ref)
{
    visit(VISIT_THREAD);
    return &map->threads[ref & THREAD_MASK];
}

#endif
