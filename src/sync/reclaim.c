/*
 * reclaim.c - sync: thread slots of the dead (see reclaim.h).
 */
#include "sync/reclaim.h"

#include "base/point.h"
#include "sync/latch.h"
#include "sync/life.h"

/* A bit for each slot that is to be freed. */
struct dead {
    struct map *map;
    uint64_t slots[THREADS_MAX / 64];
};

static bool is_noted(const struct dead *d, uint32_t i)
{
    return d->slots[i / 64] >> (i % 64) & 1;
}

static bool is_dead(const struct map *map, thread_ref_t ref)
{
    ENQ_POINT("recover.slot_read");
    return thread_is_dead(map, ref);
}

/* A lock set that is to be undone, and whom it has yet to tell: recovery does
   that first. Loaded after the death was seen (acquire, in look()): a dead
   thread stores no more. */
static bool has_left_work(const struct thread_slot *slot)
{
    return shm_load(&slot->set) != 0 || shm_load(&slot->telling[0]) != 0;
}

static unsigned note_dead(struct dead *d)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < map_threads(d->map); i++) {
        const struct thread_slot *slot = &d->map->threads[i];
        thread_ref_t ref = shm_load_acquire(&slot->ref);

        if (ref == 0 || !is_dead(d->map, ref) || has_left_work(slot))
            continue;
        d->slots[i / 64] |= UINT64_C(1) << (i % 64);
        n++;
    }
    return n;
}

static void keep(struct dead *d, thread_ref_t ref)
{
    uint32_t i = ref & THREAD_MASK;

    if (ref != 0 && shm_load(&d->map->threads[i].ref) == ref)
        d->slots[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

static bool keep_bucket(void *context, uint32_t shard, struct bucket *bucket)
{
    (void)shard;
    keep(context, latch_owner(shm_load_acquire(&bucket->latch)));
    return true;
}

static void keep_shards(struct dead *d, const struct thread_slot *slot)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        if (shm_load(&slot->shards[i / 64]) >> i % 64 & 1)
            map_each_bucket(d->map, i, keep_bucket, d);
}

/* The only buckets that a dead thread can have left latched; unless it has not
   said which. A note that is out of date keeps nothing. */
static bool keep_inside(struct dead *d)
{
    for (uint32_t i = 0; i < map_threads(d->map); i++) {
        uint64_t inside = shm_load(&d->map->threads[i].inside);
        struct bucket *bucket;
        struct split split;

        if (!is_noted(d, i))
            continue;
        if (inside == INSIDE_MANY)
            return false;
        if (inside == INSIDE_SEVERAL) {
            keep_shards(d, &d->map->threads[i]);
            continue;
        }
        bucket = map_split_of(d->map, &d->map->threads[i], &split)
            ? split.from
            : bucket_of_hash(d->map, shard_of_hash(inside), inside);
        if (bucket != NULL)
            keep_bucket(d, 0, bucket);
    }
    return true;
}

/* Loaded after the threads were seen to be dead: they have taken no latch since
   then. A latch that is freed meanwhile only keeps one slot too many. */
static void keep_named(struct dead *d)
{
    const struct map *map = d->map;

    for (uint32_t i = 0; i < GATES; i++)
        keep(d, latch_owner(shm_load_acquire(&map->gates[i].latch)));
    for (uint32_t i = 0; i < SHARDS_ALL; i++)
        keep(d, latch_owner(shm_load_acquire(&map->shards[i].latch)));
    if (!keep_inside(d))
        for (uint32_t i = 0; i < SHARDS; i++)
            map_each_bucket(map, i, keep_bucket, d);
    keep(d, latch_owner(shm_load_acquire(&map->h->grow_latch)));
    keep(d, latch_owner(shm_load_acquire(&map->h->recovery_latch)));
}

/* Keeps the keepers of all threads that keep their slots, living and dead: a
   keeper's mark tells of the others' death, now or later. */
static void keep_keepers(struct dead *d)
{
    for (uint32_t i = 0; i < map_threads(d->map); i++) {
        const struct thread_slot *slot = &d->map->threads[i];

        if (shm_load_acquire(&slot->ref) != 0 && !is_noted(d, i))
            keep(d, shm_load(&slot->keeper));
    }
}

/* By a swap of `ref`: another thread may have given the slot up since we read
   it, and the slot be claimed again by now. What the dead thread had counted is
   added up when the slot is claimed; the liveness word goes on saying dead
   until then. */
static bool give_up(struct dead *d, uint32_t i)
{
    struct thread_slot *slot = &d->map->threads[i];
    thread_ref_t ref = shm_load_acquire(&slot->ref);

    if (ref == 0 || !is_dead(d->map, ref) || has_left_work(slot))
        return false;
    return shm_cas(&slot->ref, &ref, 0);
}

unsigned reclaim_threads(struct map *map)
{
    struct dead d = {.map = map};
    unsigned n = 0;

    if (note_dead(&d) == 0)
        return 0;
    keep_named(&d);
    keep_keepers(&d);
    /* keepers last: if we die in between, no dead thread is without its own */
    for (int keepers = 0; keepers <= 1; keepers++)
        for (uint32_t i = 0; i < map_threads(map); i++)
            if (is_noted(&d, i) &&
                (shm_load(&map->threads[i].keeper) == 0) == keepers)
                n += give_up(&d, i);
    return n;
}
