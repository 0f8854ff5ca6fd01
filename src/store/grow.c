/*
 * grow.c - store: more buckets for a shard (see grow.h).
 */
#include "store/grow.h"

#include "store/page.h"
#include "sync/life.h"

/* A split costs what it looks at: a table that has few objects, and grows for its
   threads, is done with in a few steps. */
#define SPLITS_AT_ONCE 64u
#define OBJECTS_AT_ONCE 40u
#define CALM_MOST 4u
#define SAMPLE 16u

static bool is_of_ids(uint32_t shard)
{
    return shard >= SHARDS;
}

/* Where an object of the old bucket belongs, now that there is one more. NULL:
   what it says of itself is damaged. */
static struct bucket *half_of(const struct map *map, const struct split *split,
    uint32_t n, const struct entry *first, struct spot *spot)
{
    if (!index_respot(map, split->shard, first, spot))
        return NULL;
    return bucket_number(spot->hash, n + 1) == n ? split->to : split->from;
}

/* What has a slot, and goes, is in both for a moment. */
static unsigned move_slots(struct map *map, const struct split *split,
    uint32_t n)
{
    struct bucket *from = split->from;
    unsigned seen = 0;

    for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
        struct entry *e =
            from->tag[i] == 0 ? NULL : at_entry(map, from->ref[i]);
        struct spot spot;

        seen += e != NULL;
        if (e == NULL || half_of(map, split, n, e, &spot) != split->to)
            continue;
        bucket_put(split->to, map, &spot, e);
        ENQ_POINT("index.in_both");
        shm_store(&from->tag[i], 0);
        shm_store(&from->ref[i], 0);
        ENQ_POINT("index.moved");
    }
    return seen;
}

/* What is chained goes to the new bucket, or into a slot that has got free. It
   is in hand meanwhile, with all of its ring, as it cannot be in two chains. */
static unsigned move_chain(struct map *map, struct thread *t,
    const struct split *split, uint32_t n)
{
    ref_t *link = &split->from->more;
    uint32_t left = map->entries_max;
    unsigned seen = 0;

    for (; *link != 0 && left > 0; left--, seen++) {
        struct entry *e = at_entry(map, *link);
        struct bucket *half;
        struct spot spot;

        if (e == NULL)
            break;
        half = half_of(map, split, n, e, &spot);
        if (half == NULL ||
            (half == split->from && bucket_slots(half, 0) == 0)) {
            link = spill_of(split->shard, e);
            continue;
        }
        thread_note_in_hand(t, *link);
        shm_store(link, *spill_of(split->shard, e));
        ENQ_POINT("index.unchained");
        bucket_put(half, map, &spot, e);
        ENQ_POINT("index.moved");
    }
    return seen;
}

/*
 * The new bucket splits n - 2^k: the next one that has not been split in this
 * round. Nobody can reach it before `n_buckets` says that it is there, which is
 * stored last, while the old one is still latched (release; partner:
 * spot_latch_try()): so a thread that waits for that latch, for a key that has
 * moved, finds another number of buckets then. Before that store all objects are
 * the old bucket's, in which of the two they may be; and a death leaves them to
 * recovery there (recovery/mend.h). False: there is no room for one more, or the
 * bucket cannot be repaired.
 */
static bool split(struct map *map, struct thread *t, uint32_t number,
    unsigned *seen)
{
    struct shard *shard = &map->shards[number];
    uint32_t n = shard_buckets(shard);
    struct split split = {.shard = number};

    enq_assert(holds_latch(t, &shard->latch));
    if (n == 0 || n >= buckets_in(shard->n_segments))
        return false;
    split.from = at_bucket(map, number, bucket_to_split(n));
    split.to = at_bucket(map, number, n);
    if (split.from == NULL || split.to == NULL)
        return false;
    bucket_clear(split.to); /* of what a death has left there */
    thread_note_split(t, number, n);
    if (!is_of_ids(number) &&
        latch_acquire(t, &split.from->latch, RANK_BUCKET) != 0)
        return false;
    shm_store(&split.to->token, shm_load(&split.from->token));
    *seen += move_slots(map, &split, n);
    *seen += move_chain(map, t, &split, n);
    shm_store_release(&shard->n_buckets, n + 1);
    ENQ_POINT("index.split");
    if (!is_of_ids(number))
        latch_release(t, &split.from->latch);
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
    unsigned seen = 0;
    uint32_t wanted, calm, was;

    enq_assert(t->n_held == 0);
    if (is_being_grown(map, number) || shm_swap(&shard->cramped, 0) == 0)
        return;
    wanted = buckets_wanted(map, number);
    if (wanted > buckets_in(shm_load(&shard->n_segments)))
        page_add_segment(map, t, number);
    if (latch_acquire(t, &shard->latch,
            is_of_ids(number) ? RANK_ID : RANK_SHARD) != 0)
        return;
    was = shard_buckets(shard);
    calm = wanted > shard_buckets(shard) ? 0 : shm_load(&shard->calm) + 1;
    shm_store(&shard->calm, calm < CALM_MOST ? calm : CALM_MOST);
    while (shard_buckets(shard) < wanted && seen < OBJECTS_AT_ONCE &&
        split(map, t, number, &seen))
        continue;
    if (shard_buckets(shard) > was && is_short_for_threads(map, number))
        shm_store(&shard->cramped, 1);
    latch_release(t, &shard->latch);
    thread_note_inside(t, INSIDE_NONE);
}
