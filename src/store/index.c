/*
 * index.c - store: from a hash to an object (see index.h).
 *
 * Everything here runs under the latch of the bucket, or id shard, that it is
 * about; recovery runs it under the latches of the dead. A walk of a spill
 * chain is bounded by the number of entries, as a damaged one may be a cycle.
 */
#include "store/index.h"

#include <string.h>

#include "base/hash.h"

/* An id has one hash only: its top bits stand for the name's. */
struct spot spot_of_id(const struct map *map, const char *id, size_t bytes)
{
    uint64_t hash = hash_bytes(id, bytes, map->hash_seed);

    return (struct spot){(uint16_t)(SHARDS + (uint32_t)hash % ID_SHARDS),
        spot_tag((uint32_t)(hash >> 56), hash), 0, hash, NULL};
}

void spot_fetch_id(const struct map *map, const char *id, size_t bytes)
{
    struct spot spot = spot_of_id(map, id, bytes);

    if (spot_look_up(map, &spot))
        __builtin_prefetch(spot.bucket);
}

bool spot_of_entry_id(const struct map *map, const struct entry *e,
    struct spot *spot)
{
    size_t n;
    const char *id = entry_id(map, e, &n);

    if (id == NULL)
        return false;
    *spot = spot_of_id(map, id, n);
    return true;
}

/* Is this the object looked for? `what` is a key, or an id. Asked of entries
   whose tag fits, and of all in a spill chain. */
typedef bool match_fn(const struct map *map, const struct entry *e,
    const void *what);

static inline bool match_key(const struct map *map, const struct entry *e,
    const void *what)
{
    const struct key *key = what;

    (void)map;
    return e->hash == key->hash && e->name_bytes == key->name_bytes &&
        e->field_bytes == key->field_bytes && e->fields == key->fields &&
        memcmp(e->payload, key->bytes, key_bytes(key)) == 0;
}

static bool match_id(const struct map *map, const struct entry *e,
    const void *what)
{
    size_t n;
    const char *id = entry_id(map, e, &n);

    return id != NULL && strcmp(id, what) == 0;
}

/* --- the latch --- */

/* Whoever finds the latch taken has met another thread in a table of thousands
   of buckets: there are too few of them for so many threads, or the two want
   one key. A hint for grow.h, and for all shards: if each had to wait until two
   meet in it, hundreds of processes would take ten seconds, and a switch at
   each meeting. */
static void note_contention(struct map *map, const struct spot *spot)
{
    uint32_t wanted = buckets_for_threads(map);

    if (shard_buckets(&map->shards[spot->shard]) >= wanted)
        return;
    for (uint32_t i = 0; i < SHARDS; i++)
        if (shard_buckets(&map->shards[i]) < wanted &&
            shm_load(&map->shards[i].cramped) == 0)
            shm_store(&map->shards[i].cramped, 1);
}

/* Another thread may have taken the mark back since we met it. */
int spot_mend(struct map *map, const struct spot *spot)
{
    uint32_t *n_buckets = &map->shards[spot->shard].n_buckets;
    uint32_t n = shm_load(n_buckets);

    if (n & SHARD_EMPTY)
        shm_and(n_buckets, ~SHARD_EMPTY);
    else if (n == 0 ||
        at_bucket(map, spot->shard, bucket_number(spot->hash, n)) == NULL)
        return ENQ_ECORRUPT;
    return 0;
}

/* Each round that is repeated another thread has split a bucket of the shard, or
   has found the shard empty. */
int spot_latch(struct map *map, struct thread *t, struct spot *spot)
{
    int rc;

    for (;;) {
        if (unlikely(!spot_look_up(map, spot))) {
            rc = spot_mend(map, spot);
            if (rc != 0)
                return rc;
            continue;
        }
        thread_note_inside(t, spot->hash);
        if (!latch_try(t, &spot->bucket->latch, RANK_BUCKET)) {
            note_contention(map, spot);
            rc = latch_acquire(t, &spot->bucket->latch, RANK_BUCKET);
            if (unlikely(rc != 0))
                return rc;
        }
        if (likely(spot_is_current(map, spot)))
            return 0;
        latch_release(t, &spot->bucket->latch);
    }
}

/* --- buckets --- */

/* Objects that found no slot. Newest first: bucket_put() puts one in front. */
static struct entry *find_spilled(const struct map *map,
    const struct bucket *bucket, uint32_t shard, match_fn *match,
    const void *what)
{
    uint32_t left = map->entries_max;
    ref_t ref = bucket->more;

    while (ref != 0 && left-- > 0) {
        struct entry *e = at_entry(map, ref);

        if (e == NULL)
            return NULL;
        if (match(map, e, what))
            return e;
        ref = *spill_of(shard, e);
    }
    return NULL;
}

unsigned bucket_slots_of_name_portable(const struct bucket *bucket,
    unsigned name)
{
    unsigned set = 0;

    for (unsigned i = 0; i < BUCKET_SLOTS; i++)
        set |= (unsigned)((shm_load(&bucket->tag[i]) & TAG_OF_NAME) ==
                   (name << 8 | 1))
            << i;
    return set;
}

unsigned bucket_slots_portable(const struct bucket *bucket, uint16_t tag)
{
    unsigned set = 0;

    for (unsigned i = 0; i < BUCKET_SLOTS; i++)
        set |= (unsigned)(shm_load(&bucket->tag[i]) == tag) << i;
    return set;
}

/* Candidates in the bucket first: their entries are the only other lines that
   an ordinary lookup touches. */
static inline struct entry *find_in(const struct map *map, struct spot *spot,
    match_fn *match, const void *what)
{
    const struct bucket *bucket = bucket_of(map, spot);
    unsigned set;

    if (unlikely(bucket == NULL))
        return NULL;
    for (set = bucket_slots(bucket, spot->tag); set != 0; set &= set - 1) {
        struct entry *e = at_entry(map, bucket->ref[__builtin_ctz(set)]);
        if (e != NULL && match(map, e, what))
            return e;
    }
    if (likely(bucket->more == 0))
        return NULL;
    return find_spilled(map, bucket, spot->shard, match, what);
}

struct entry *index_find(const struct map *map, struct spot *spot,
    const struct key *key)
{
    return find_in(map, spot, match_key, key);
}

struct entry *index_find_id(const struct map *map, struct spot *spot,
    const char *id)
{
    return find_in(map, spot, match_id, id);
}

/* Into a free slot, or in front of the spill chain. */
void bucket_put(struct bucket *bucket, const struct map *map,
    const struct spot *spot, struct entry *e)
{
    unsigned free = bucket_slots(bucket, 0);

    if (likely(free != 0)) {
        unsigned i = (unsigned)__builtin_ctz(free);

        shm_store(&bucket->ref[i], map_ref(map, e));
        shm_store(&bucket->tag[i], spot->tag);
        return;
    }
    shm_store(spill_of(spot->shard, e), bucket->more);
    shm_store(&bucket->more, map_ref(map, e));
}

bool index_respot(const struct map *map, uint32_t shard, const struct entry *e,
    struct spot *spot)
{
    if (shard >= SHARDS)
        return spot_of_entry_id(map, e, spot);
    *spot = spot_of(e->name_hash, e->hash);
    return true;
}

void bucket_clear(struct bucket *bucket)
{
    memset(bucket->tag, 0, sizeof(bucket->tag));
    memset(bucket->ref, 0, sizeof(bucket->ref));
    shm_store(&bucket->more, 0);
    ENQ_POINT("index.bucket_cleared");
}

#ifdef ENQ_POINTS
#define LOOK_EVERY 1u /* all that tests do, they do with it */
#else
#define LOOK_EVERY 2u
#endif

/* Of the objects that find a full bucket one in so many has the shard looked at;
   fewer, the more such looks have found in a row that it has room (grow.c). */
static bool is_worth_a_look(const struct shard *shard, const struct entry *e)
{
    return e->token % (LOOK_EVERY << (shm_load(&shard->calm) % 8)) == 0;
}

/* A chain of entries needs no memory of its own, so that a full bucket takes
   what comes. */
int index_add_slow(struct map *map, struct spot *spot, struct entry *e)
{
    struct shard *shard = &map->shards[spot->shard];

    if (unlikely(bucket_of(map, spot) == NULL))
        return ENQ_ECORRUPT;
    shm_store(spill_of(spot->shard, e), 0);
    bucket_put(spot->bucket, map, spot, e);
    if (is_worth_a_look(shard, e) && shm_load(&shard->cramped) == 0)
        shm_store(&shard->cramped, 1);
    return 0;
}

/* Slot `i` held `was`: it holds `now` instead; or, for none, the first object
   of the spill chain, so that a chain goes as soon as its bucket has room. */
static void replace_in_slot(struct map *map, const struct spot *spot,
    struct bucket *bucket, unsigned i, struct entry *now)
{
    struct entry *spilled;
    struct spot other;

    if (now != NULL) {
        shm_store(&bucket->ref[i], map_ref(map, now));
        return;
    }
    shm_store(&bucket->tag[i], 0);
    shm_store(&bucket->ref[i], 0);
    if (likely(bucket->more == 0))
        return;
    spilled = at_entry(map, bucket->more);
    if (spilled == NULL || !index_respot(map, spot->shard, spilled, &other))
        return;
    shm_store(&bucket->ref[i], bucket->more);
    shm_store(&bucket->tag[i], other.tag);
    /* it is in its slot before it is out of the chain: release; partner:
       may_skip() in scope.c, which looks for it in this order, reversed */
    shm_store_release(&bucket->more, *spill_of(spot->shard, spilled));
    shm_store(spill_of(spot->shard, spilled), 0);
}

/* The same in the spill chain; false: it is not there either. */
static bool replace_spilled(struct map *map, const struct spot *spot,
    struct bucket *bucket, struct entry *was, struct entry *now)
{
    ref_t *link = &bucket->more, ref = map_ref(map, was);
    uint32_t left = map->entries_max;

    while (*link != ref) {
        struct entry *e = at_entry(map, *link);
        if (e == NULL || left-- == 0)
            return false;
        link = spill_of(spot->shard, e);
    }
    if (now == NULL) {
        shm_store(link, *spill_of(spot->shard, was));
        return true;
    }
    /* in this order the object is in the chain all the time (recovery/mend.h) */
    shm_store(spill_of(spot->shard, now), *spill_of(spot->shard, was));
    shm_store(link, map_ref(map, now));
    return true;
}

/* The slot is found by tag and ref, not by key: `was` may be out of its ring
   already, and its texts need not be read. */
bool index_replace_slow(struct map *map, struct spot *spot, struct entry *was,
    struct entry *now)
{
    struct bucket *bucket = bucket_of(map, spot);
    ref_t ref = map_ref(map, was);
    bool found = false;

    if (bucket == NULL)
        return false;
    for (unsigned set = bucket_slots(bucket, spot->tag); set != 0 && !found;
         set &= set - 1) {
        unsigned i = (unsigned)__builtin_ctz(set);

        found = bucket->ref[i] == ref;
        if (found)
            replace_in_slot(map, spot, bucket, i, now);
    }
    return found || replace_spilled(map, spot, bucket, was, now);
}

/* --- rings --- */

struct ring ring_from(const struct map *map, struct entry *first)
{
    ref_t ref = first == NULL ? 0 : map_ref(map, first);

    return (struct ring){map, ref, ref, map->entries_max, false};
}

struct entry *ring_next(struct ring *ring)
{
    struct entry *e;

    if (ring->at == 0)
        return NULL;
    e = at_entry(ring->map, ring->at);
    if (e == NULL || ring->left-- == 0) {
        ring->damaged = true;
        return NULL;
    }
    ring->at = e->next == ring->first ? 0 : e->next;
    return e;
}

/* Before the first is behind the last. recover.c uses that to insert in the
   middle as well. */
void ring_append(const struct map *map, struct entry *first, struct entry *e)
{
    ref_t ref = map_ref(map, e);
    struct entry *last;

    if (first == NULL) {
        ring_begin(map, e);
        return;
    }
    last = at_entry(map, first->prev);
    shm_store(&e->next, map_ref(map, first));
    shm_store(&e->prev, first->prev);
    if (last != NULL)
        shm_store(&last->next, ref);
    shm_store(&first->prev, ref);
}

struct entry *ring_remove_slow(const struct map *map, struct entry *e)
{
    struct entry *next = at_entry(map, e->next);
    struct entry *prev = at_entry(map, e->prev);

    if (next == NULL || prev == NULL)
        return NULL;
    shm_store(&next->prev, e->prev);
    shm_store(&prev->next, e->next);
    if (e->ring_modes != 0) { /* it was the first */
        shm_store(&next->ring_modes, e->ring_modes);
        shm_store(&e->ring_modes, 0);
    }
    if (next == prev && next->ring_modes != 0)
        shm_store(&next->ring_modes, 0); /* alone: its own mode says it */
    return next;
}
