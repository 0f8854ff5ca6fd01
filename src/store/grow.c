/*
 * grow.c - store: more buckets for a shard (see grow.h).
 */
#include "store/grow.h"

#include <string.h>

#include "store/page.h"
#include "sync/life.h"

/* A split costs what it moves: a table that has few objects, and grows for its
   threads, is done with in a few steps. */
#define SPLITS_AT_ONCE 64u
#define MOVES_AT_ONCE 40u
#define CALM_MOST 4u
#define SAMPLE 16u

static bool is_of_ids(uint32_t shard)
{
    return shard >= SHARDS;
}

/* An object goes where it belongs now that there is one bucket more. */
static void move(struct map *map, uint32_t shard, uint32_t n,
    struct entry *first)
{
    struct bucket *to;
    struct spot spot;

    if (!index_respot(map, shard, first, &spot))
        return;
    to = at_bucket(map, shard, bucket_number(spot.hash, n));
    if (to != NULL)
        bucket_put(to, map, &spot, first);
}

/* Puts each object of `from` back, or into the new bucket, the last of `n`. The
   copy is private; between the clearing and the last object the index says too
   little, which nobody sees: the latch is held, and a death in here leaves the
   bucket to recovery. Returns: how many there were. */
static unsigned distribute(struct map *map, uint32_t shard, uint32_t n,
    struct bucket *from)
{
    struct bucket old = {.more = from->more};
    uint32_t left = map->entries_max;
    unsigned moved = 0;

    memcpy(old.ref, from->ref, sizeof(old.ref)); /* not the latch: others try */
    bucket_clear(from);
    for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
        struct entry *e = at_entry(map, old.ref[i]);

        if (e == NULL)
            continue;
        move(map, shard, n, e);
        moved++;
    }
    while (old.more != 0 && left-- > 0) {
        struct entry *e = at_entry(map, old.more);

        if (e == NULL)
            break;
        old.more = *spill_of(shard, e);
        move(map, shard, n, e);
        moved++;
    }
    return moved;
}

/*
 * The new bucket splits n - 2^k: the next one that has not been split in this
 * round. Nobody can reach it before `n_buckets` says that it is there, which is
 * stored last, while the old one is still latched (release; partner:
 * spot_latch_try()): so a thread that waits for that latch, for a key that has
 * moved, finds another number of buckets then. A death before that store leaves
 * all objects to the old bucket, and in the new one what the next split clears.
 * False: there is no room for one more, or the bucket cannot be repaired.
 */
static bool split(struct map *map, struct thread *t, uint32_t number,
    unsigned *moved)
{
    struct shard *shard = &map->shards[number];
    uint32_t n = shard_buckets(shard);
    struct bucket *from, *to;

    enq_assert(holds_latch(t, &shard->latch));
    if (n == 0 || n >= buckets_in(shard->n_segments))
        return false;
    from = at_bucket(map, number, n - (1u << (31 - __builtin_clz(n))));
    to = at_bucket(map, number, n);
    if (from == NULL || to == NULL ||
        (!is_of_ids(number) &&
            latch_acquire(t, &from->latch, RANK_BUCKET) != 0))
        return false;
    bucket_clear(to);
    shm_store(&to->token, shm_load(&from->token));
    *moved += distribute(map, number, n + 1, from);
    shm_store_release(&shard->n_buckets, n + 1);
    ENQ_POINT("index.split");
    if (!is_of_ids(number))
        latch_release(t, &from->latch);
    return true;
}

/* As some buckets have been split in this round and others not, those that are
   looked at lie at even distances. Without their latches: a guess. A spill
   chain counts for two objects. */
static uint32_t objects_of(const struct map *map, uint32_t number, uint32_t n)
{
    uint32_t objects = 0;

    for (uint32_t i = 0; i < SAMPLE; i++) {
        const struct bucket *bucket =
            at_bucket(map, number, (uint32_t)((uint64_t)i * n / SAMPLE));

        if (bucket == NULL)
            continue;
        for (unsigned j = 0; j < BUCKET_SLOTS; j++)
            objects += shm_load(&bucket->tag[j]) != 0;
        objects += shm_load(&bucket->more) != 0 ? 2 : 0;
    }
    return (uint32_t)((uint64_t)objects * n / SAMPLE);
}

static bool is_short_for_threads(const struct map *map, uint32_t number)
{
    return !is_of_ids(number) &&
        shard_buckets(&map->shards[number]) < buckets_for_threads(map);
}

static uint32_t buckets_wanted(const struct map *map, uint32_t number)
{
    uint32_t n = shard_buckets(&map->shards[number]);
    uint32_t wanted = objects_of(map, number, n) / BUCKET_LOAD;

    if (is_short_for_threads(map, number) && wanted < buckets_for_threads(map))
        wanted = buckets_for_threads(map);
    return wanted < n + SPLITS_AT_ONCE ? wanted : n + SPLITS_AT_ONCE;
}

/* Of a shard of keys that is left to the thread that is at it: it may be
   switched off, and nobody needs more buckets so much as to sleep for them. Seen
   before a page is claimed, as one that nobody installs is searched for. A scope
   of the whole shard has the same latch: the hint stays. */
static bool is_being_grown(const struct map *map, uint32_t number)
{
    uint32_t value = shm_load(&map->shards[number].latch);

    return !is_of_ids(number) && value != 0 &&
        !thread_is_dead(map, latch_owner(value));
}

/* The hint is taken back before the look: one thread looks for all that have
   found it. It stays where threads call for more than is done at once, and
   there is room: the next one goes on. */
void index_grow(struct map *map, struct thread *t, uint32_t number)
{
    struct shard *shard = &map->shards[number];
    unsigned moved = 0;
    uint32_t wanted, calm, was;

    enq_assert(t->n_held == 0);
    if (is_being_grown(map, number) || shm_swap(&shard->cramped, 0) == 0)
        return;
    wanted = buckets_wanted(map, number);
    if (wanted > buckets_in(shm_load(&shard->n_segments)))
        page_add_segment(map, t, number);
    thread_note_inside(t, INSIDE_MANY); /* what a split moves is nowhere */
    if (latch_acquire(t, &shard->latch,
            is_of_ids(number) ? RANK_ID : RANK_SHARD) != 0)
        return;
    was = shard_buckets(shard);
    calm = wanted > shard_buckets(shard) ? 0 : shm_load(&shard->calm) + 1;
    shm_store(&shard->calm, calm < CALM_MOST ? calm : CALM_MOST);
    while (shard_buckets(shard) < wanted && moved < MOVES_AT_ONCE &&
        split(map, t, number, &moved))
        continue;
    if (shard_buckets(shard) > was && is_short_for_threads(map, number))
        shm_store(&shard->cramped, 1);
    latch_release(t, &shard->latch);
    thread_note_inside(t, INSIDE_NONE);
}
