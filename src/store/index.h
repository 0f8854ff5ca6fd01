/*
 * index.h - store: from a hash to an object, and rings of entries.
 *
 * An OBJECT is a concrete key that somebody holds or waits for. Its entries,
 * held and waiting, form a ring in order of arrival; the index leads to its
 * first. There is no record of an object apart from that (PostgreSQL has a
 * LOCK beside the PROCLOCKs): the first entry has the key, and the object ends
 * with its last entry.
 *
 * One bucket is one cache line: ten tags and refs. A lookup reads the bucket,
 * and only the entry whose tag fits; so that among a million locks a request
 * costs two cache misses, not a walk of a chain. Objects that find no slot in
 * their bucket are chained by entry.spill, from bucket.more.
 *
 * Buckets are added one at a time (linear hashing): no request ever pays for a
 * rehash of everything. They are never taken away again.
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
 * their entries; there every "object" has one entry, and no ring.
 *
 * All of it is read and written under the shard's latch (shm_store shows the
 * crash tests each store; no order among them is needed). A thread that dies in
 * the middle leaves the latch in its name, and recovery clears index and rings
 * of that shard and makes them anew from the entries: they are DERIVED.
 */
#ifndef STORE_INDEX_H
#define STORE_INDEX_H

#include "store/bucket.h"
#include "store/entry.h"

/* What the index needs to know of an object: found once a request, and used for
   all that it does under the latch. */
struct spot {
    uint32_t shard;
    uint16_t tag;
    uint64_t hash;
    struct bucket *bucket; /* NULL: not yet looked up, under the latch */
};

/* A tag is never 0, which is an empty slot's: the key's half gives its lowest
   bit for that. The name's half is whole, as a generic request looks for all
   keys of a name by it (scope.c: see_line). */
HOT uint16_t spot_tag(uint32_t name_hash, uint64_t hash)
{
    return (uint16_t)((name_hash & 0xff) << 8 | (hash >> 48 & 0xfe) | 1);
}

/* The spot of a concrete key, or of an entry that has one. */
HOT struct spot spot_of(uint32_t name_hash, uint64_t hash)
{
    return (struct spot){
        shard_of_hash(hash), spot_tag(name_hash, hash), hash, NULL};
}

struct spot spot_of_id(const struct map *map, const char *id, size_t bytes);
bool spot_of_entry_id(const struct map *map, const struct entry *e,
    struct spot *spot);

/* Linear hashing: of n buckets, 2^k <= n < 2^(k+1), the first n - 2^k have been
   split and are told apart by one bit more of the hash. A number that does not
   exist yet is that of the bucket which has not been split. */
HOT uint32_t bucket_number(uint64_t hash, uint32_t n_buckets)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz((n_buckets - 1) | 1);
    uint32_t h = (uint32_t)(hash >> 8), i = h & mask;

    return i < n_buckets ? i : h & (mask >> 1);
}

HOT struct bucket *bucket_of_hash(const struct map *map, uint32_t shard,
    uint64_t hash)
{
    uint32_t n = shm_load(&map->shards[shard].n_buckets);

    return n == 0 ? NULL : at_bucket(map, shard, bucket_number(hash, n));
}

/* Under the shard's latch, which is held from now on until the last use: a
   growing index moves objects between buckets. */
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

/* The same as the two below, which leave to them what is rare: a full or
   crowded bucket, a spill chain, an object that goes on with another entry. */
int index_add_slow(struct map *map, struct spot *spot, struct entry *e);
bool index_replace_slow(struct map *map, struct spot *spot, struct entry *was,
    struct entry *now);

/* Has the shard more objects than its buckets are meant for? At six of ten
   slots on average hardly any bucket spills. */
static inline bool shard_is_crowded(const struct shard *shard)
{
    return shard->n_objects > shard->n_buckets * BUCKET_LOAD;
}

/* A new object, whose only entry is `e`. Returns: 0. Faults: ENQ_ECORRUPT. */
HOT int index_add(struct map *map, struct spot *spot, struct entry *e)
{
    struct shard *shard = &map->shards[spot->shard];
    struct bucket *bucket = bucket_of(map, spot);
    unsigned free = bucket == NULL ? 0 : bucket_slots(bucket, 0), i;

    if (unlikely(free == 0 || shard_is_crowded(shard)))
        return index_add_slow(map, spot, e);
    i = (unsigned)__builtin_ctz(free);
    shm_store(&bucket->tag[i], spot->tag);
    shm_store(&bucket->ref[i], map_ref(map, e));
    shm_store(&shard->n_objects, shard->n_objects + 1);
    return 0;
}

/* The object's first entry is `now` instead of `was`; or the object is no more
   (`now` NULL), the usual case of an unlock, which is done here. False: `was`
   was not found; the segment is damaged. */
HOT bool index_replace(struct map *map, struct spot *spot, struct entry *was,
    struct entry *now)
{
    struct shard *shard = &map->shards[spot->shard];
    struct bucket *bucket = bucket_of(map, spot);
    unsigned set = bucket == NULL ? 0 : bucket_slots(bucket, spot->tag), i;

    i = (unsigned)__builtin_ctz(set | 1u << BUCKET_SLOTS);
    if (unlikely(now != NULL || i == BUCKET_SLOTS || bucket->more != 0 ||
            bucket->ref[i] != map_ref(map, was)))
        return index_replace_slow(map, spot, was, now);
    shm_store(&bucket->tag[i], 0);
    shm_store(&bucket->ref[i], 0);
    shm_store(&shard->n_objects, shard->n_objects - 1);
    return true;
}

/* Forgets all objects of a shard, and keeps its buckets. For recovery, under
   the latch, which is a dead thread's: may be done twice. */
void index_clear(struct map *map, uint32_t shard);

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

HOT struct entry *ring_remove(const struct map *map, struct entry *e)
{
    return likely(e->next == map_ref(map, e)) ? NULL : ring_remove_slow(map, e);
}

#endif
