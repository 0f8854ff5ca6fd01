/*
 * index.h - store: from a hash to an object, and rings of entries.
 *
 * An OBJECT is a concrete key that somebody holds or waits for. Its entries,
 * held and waiting, form a ring in order of arrival; the index leads to its
 * first. There is no record of an object apart from that (PostgreSQL has a
 * LOCK beside the PROCLOCKs): the first entry has the key, and the object ends
 * with its last entry.
 *
 * One bucket is one cache line: a latch, eight tags and refs. A lookup reads the
 * bucket, and only the entry whose tag fits; so that among a million locks a
 * request costs two cache misses, not a walk of a chain. Objects that find no
 * slot in their bucket are chained by entry.spill, from bucket.more.
 *
 * The latch is the bucket's, so that a process that is switched off under one
 * stands in the way of next to nobody: with more processes than cores a latch
 * is held by one that does not run for most of the time that it is held at all,
 * and whoever wants it waits for a turn of the scheduler.
 *
 * Buckets are added a few at a time (linear hashing; grow.h): no request ever
 * pays for a rehash of everything. They are never taken away again. A shard is
 * the unit that grows. Its latch is held over a change of `n_buckets`, and so
 * is that of the bucket which is split: thus the number of buckets may be read
 * without any latch, and is read again under the bucket's (spot_latch()).
 *
 * Different bits of the two hashes decide different things, so that the
 * objects of one shard still spread over its buckets, and those of one bucket
 * over the tags:
 *
 *	key's hash	bits 0-7: shard; 8-39: bucket; 49-55: tag's low half
 *	name's hash	bits 0-7: tag's high half; 8-17: gate
 *
 * (A key without fields has one hash for both: in its shard the tag's high half
 * tells nothing, and the low half alone tells objects apart.)
 *
 * The shards SHARDS.. of the same kind lead from ids that callers brought to
 * their entries; there every "object" has one entry, and no ring; and the
 * shard's latch guards the buckets, too, as recovery takes all of these.
 *
 * All of it is read and written under that latch (shm_store shows the crash
 * tests each store; no order among them is needed). A thread that dies in the
 * middle leaves the latch in its name, and recovery clears the bucket and makes
 * it and its rings anew from the entries: they are DERIVED.
 */
#ifndef STORE_INDEX_H
#define STORE_INDEX_H

#include "store/bucket.h"
#include "store/entry.h"
#include "sync/latch.h"

/* What the index needs to know of an object: found once a request, and used for
   all that it does under the latch. */
struct spot {
    uint16_t shard;
    uint16_t tag;
    uint32_t n_buckets; /* of its shard, when the bucket was looked up */
    uint64_t hash;
    struct bucket *bucket; /* NULL: not looked up */
};

/* A tag is never 0, which is an empty slot's: the key's half gives its lowest
   bit for that. The name's half is whole, as a generic request looks for all
   keys of a name by it (scope.c: see_objects). */
HOT uint16_t spot_tag(uint32_t name_hash, uint64_t hash)
{
    return (uint16_t)((name_hash & 0xff) << 8 | (hash >> 48 & 0xfe) | 1);
}

/* The tag's half of a name: its bits 8 to 15. */
static inline unsigned spot_name_tag(uint32_t name_hash)
{
    return name_hash & 0xff;
}

/* The spot of a concrete key, or of an entry that has one. */
HOT struct spot spot_of(uint32_t name_hash, uint64_t hash)
{
    return (struct spot){(uint16_t)shard_of_hash(hash),
        spot_tag(name_hash, hash), 0, hash, NULL};
}

struct spot spot_of_id(const struct map *map, const char *id, size_t bytes);
bool spot_of_entry_id(const struct map *map, const struct entry *e,
    struct spot *spot);

/* Its bucket will be wanted soon: a hint, which waits for nothing. */
void spot_fetch_id(const struct map *map, const char *id, size_t bytes);

/* How many buckets a shard is to have for the threads that are attached, so
   that hardly any two meet in one. */
#define BUCKETS_A_THREAD 128u
static inline uint32_t buckets_for_threads(const struct map *map)
{
    return map_threads(map) * BUCKETS_A_THREAD / SHARDS;
}

/* The bucket of a key, as things are now. False: its shard is SHARD_EMPTY
   (spot_mend()), or damaged. */
HOT bool spot_look_up(const struct map *map, struct spot *spot)
{
    uint32_t n = shm_load_acquire(&map->shards[spot->shard].n_buckets);

    if (unlikely((int32_t)n <= 0))
        return false;
    spot->n_buckets = n;
    spot->bucket = at_bucket(map, spot->shard, bucket_number(spot->hash, n));
    return likely(spot->bucket != NULL);
}

/* Under its latch: is it still the key's bucket, and the shard not said to be
   empty? A full barrier behind the swap of the latch; partner: see_shard() in
   lock/scope.c. */
HOT bool spot_is_current(const struct map *map, const struct spot *spot)
{
    return likely(shm_load_fence(&map->shards[spot->shard].n_buckets) ==
        spot->n_buckets);
}

/* After spot_look_up() has failed. Returns: 0, try again. Faults:
   ENQ_ECORRUPT. */
int spot_mend(struct map *map, const struct spot *spot);

/*
 * The latch of a key's bucket. False: it is not free, or the bucket may have
 * been split meanwhile: spot_latch() goes on. The number of buckets changes only
 * while the bucket that is split is latched (partner: split() in grow.c): so if
 * it is what it was, under the latch, the bucket is the key's for as long as
 * the latch is held.
 */
HOT bool spot_latch_try(struct map *map, struct thread *t, struct spot *spot)
{
    if (unlikely(!spot_look_up(map, spot)))
        return false;
    thread_note_inside(t, spot->hash);
    if (unlikely(!latch_try(t, &spot->bucket->latch, RANK_BUCKET)))
        return false;
    if (likely(spot_is_current(map, spot)))
        return true;
    latch_release(t, &spot->bucket->latch);
    return false;
}

/* Blocks until the bucket's latch is ours. Returns: 0. Faults: ENQ_ECORRUPT. */
int spot_latch(struct map *map, struct thread *t, struct spot *spot);

static inline void spot_unlatch(struct thread *t, const struct spot *spot)
{
    latch_release(t, &spot->bucket->latch);
}

/* Under its latch, or the id shard's, which is held from now on until the last
   use: a growing index moves objects between buckets. */
HOT struct bucket *bucket_of(const struct map *map, struct spot *spot)
{
    if (spot->bucket == NULL)
        spot->bucket = bucket_of_hash(map, spot->shard, spot->hash);
    return spot->bucket;
}

/* May there be such an object? The bucket alone can say no, without a look at
   any entry: so an uncontended lock touches one line of the index. */
HOT bool index_may_have(const struct map *map, struct spot *spot)
{
    const struct bucket *bucket = bucket_of(map, spot);

    return bucket == NULL || bucket_slots(bucket, spot->tag) != 0 ||
        bucket->more != 0;
}

/* The first entry of the object, or the entry with this id; NULL: none. A ref
   that leads nowhere (a damaged segment) is passed over. */
struct entry *index_find(const struct map *map, struct spot *spot,
    const struct key *key);
struct entry *index_find_id(const struct map *map, struct spot *spot,
    const char *id);

/* The same as the two below, which leave to them what is rare: a full bucket, a
   spill chain, an object that goes on with another entry. */
int index_add_slow(struct map *map, struct spot *spot, struct entry *e);
bool index_replace_slow(struct map *map, struct spot *spot, struct entry *was,
    struct entry *now);

/* A new object, whose only entry is `e`. Returns: 0. Faults: ENQ_ECORRUPT. */
HOT int index_add(struct map *map, struct spot *spot, struct entry *e)
{
    struct bucket *bucket = bucket_of(map, spot);
    unsigned free = bucket == NULL ? 0 : bucket_slots(bucket, 0), i;

    if (unlikely(free == 0))
        return index_add_slow(map, spot, e);
    i = (unsigned)__builtin_ctz(free);
    shm_store(&bucket->ref[i], map_ref(map, e));
    shm_store(&bucket->tag[i], spot->tag);
    return 0;
}

/* The object's first entry is `now` instead of `was`; or the object is no more
   (`now` NULL), the usual case of an unlock, which is done here. False: `was`
   was not found; the segment is damaged. `ref`: that of `was`. */
HOT bool index_replace_at(struct map *map, struct spot *spot, struct entry *was,
    ref_t ref, struct entry *now)
{
    struct bucket *bucket = bucket_of(map, spot);
    unsigned set = bucket == NULL ? 0 : bucket_slots(bucket, spot->tag), i;

    i = (unsigned)__builtin_ctz(set | 1u << BUCKET_SLOTS);
    if (unlikely(now != NULL || i == BUCKET_SLOTS || bucket->more != 0 ||
            bucket->ref[i] != ref))
        return index_replace_slow(map, spot, was, now);
    shm_store(&bucket->tag[i], 0);
    shm_store(&bucket->ref[i], 0);
    return true;
}

HOT bool index_replace(struct map *map, struct spot *spot, struct entry *was,
    struct entry *now)
{
    return index_replace_at(map, spot, was, map_ref(map, was), now);
}

/* For grow.c: the object whose first entry is `e` into its bucket, a slot or
   the spill chain. */
void bucket_put(struct bucket *bucket, const struct map *map,
    const struct spot *spot, struct entry *e);
/* Forgets the objects of a bucket; latch and token are none of them. */
void bucket_clear(struct bucket *bucket);
/* The spot of an object that is in the index, from its first entry: the tag
   alone would not do, as a bucket's number needs the whole hash. */
bool index_respot(const struct map *map, uint32_t shard, const struct entry *e,
    struct spot *spot);
/* The link to the next in a spill chain: an entry may be in two, of its key's
   bucket and of its id's. */
static inline ref_t *spill_of(uint32_t shard, struct entry *e)
{
    return shard >= SHARDS ? &e->id_spill : &e->spill;
}

/* Walks the entries of a ring, each once, from `first`. A ring that does not
   close within the table's size, or leads elsewhere, is damaged. The entry just
   returned may be removed from the ring: the next one is known by then. */
struct ring {
    const struct map *map;
    ref_t first, at;
    uint32_t left;
    bool damaged;
};

struct ring ring_from(const struct map *map, struct entry *first);
struct entry *ring_next(struct ring *ring); /* NULL: the end, or damaged */

/* A ring of one. The first entry's `prev` is the last entry. */
HOT void ring_begin(const struct map *map, struct entry *e)
{
    shm_store(&e->prev, map_ref(map, e));
    shm_store(&e->next, map_ref(map, e));
}

/* Appends `e` to the ring that begins with `first`; NULL: begins one. */
void ring_append(const struct map *map, struct entry *first, struct entry *e);

/* Takes `e` out of its ring; returns what comes next, NULL if it was alone. The
   caller mends what led to it (index_replace, gate.head). */
struct entry *ring_remove_slow(const struct map *map, struct entry *e);

/* `ref`: that of `e`, which its callers know. */
HOT struct entry *ring_remove(const struct map *map, struct entry *e, ref_t ref)
{
    return likely(e->next == ref) ? NULL : ring_remove_slow(map, e);
}

#endif
