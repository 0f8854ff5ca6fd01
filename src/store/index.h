/*
 * index.h - store: from a hash to an object, and rings of entries.
 *
 * An OBJECT is a concrete key that somebody holds or waits for. Its entries,
 * held and waiting, form a ring in order of arrival; the index leads to its
 * first. Index and rings are DERIVED: recovery makes them anew.
 *
 * One index line is one cache line: ten tags and refs. A line is looked at,
 * and only the entry whose tag fits; so that among a million locks a request
 * costs two cache misses, not a walk of a chain. Objects that find no slot in
 * their line are chained by entry.spill.
 *
 * Lines grow one at a time (linear hashing): no request ever pays for a
 * rehash of everything.
 *
 * The shards SHARDS.. of the same kind lead from ids that callers brought to
 * their entries; there every "object" has one entry, and no ring.
 *
 * All under the shard's lock word.
 */
#ifndef STORE_INDEX_H
#define STORE_INDEX_H

#include "store/entry.h"
#include "store/line.h"

/* What the index needs to know of an object. */
struct spot {
    uint32_t shard;
    uint16_t tag;
    uint64_t hash;
    struct line *line; /* NULL: not looked up yet; under the shard's word */
};

/* A tag is never 0, which is an empty slot's: a bit of the key's half is given
   for that. */
HOT uint16_t spot_tag(uint32_t name_hash, uint64_t hash)
{
    return (uint16_t)((name_hash & 0xff) << 8 | (hash >> 48 & 0xfe) | 1);
}

/* Of a concrete key, or an entry with one. */
HOT struct spot spot_of(uint32_t name_hash, uint64_t hash)
{
    return (struct spot){
        shard_of_hash(hash), spot_tag(name_hash, hash), hash, NULL};
}

struct spot spot_of_id(const struct map *map, const char *id, size_t bytes);
bool spot_of_entry_id(const struct map *map, const struct entry *e,
    struct spot *spot);

/* Linear hashing: with n lines, n not a power of two, the lines below
   n - 2^k have been split already. */
HOT uint32_t line_number(uint64_t hash, uint32_t n_lines)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz((n_lines - 1) | 1);
    uint32_t h = (uint32_t)(hash >> 8), i = h & mask;

    return i < n_lines ? i : h & (mask >> 1);
}

HOT struct line *line_of_hash(const struct map *map, uint32_t shard,
    uint64_t hash)
{
    uint32_t n = shm_load(&map->shards[shard].n_lines);

    return n == 0 ? NULL : at_line(map, shard, line_number(hash, n));
}

/* Under the shard's word, which is held from now on until the last use. */
HOT struct line *line_of(const struct map *map, struct spot *spot)
{
    if (spot->line == NULL)
        spot->line = line_of_hash(map, spot->shard, spot->hash);
    return spot->line;
}

/* May there be such an object? Its line alone says no. */
HOT bool index_may_have(const struct map *map, struct spot *spot)
{
    const struct line *line = line_of(map, spot);

    return line == NULL || line_slots(line, spot->tag) != 0 || line->more != 0;
}

/* The first entry of the object, or the entry with this id; NULL: none. */
struct entry *index_find(const struct map *map, struct spot *spot,
    const struct key *key);
struct entry *index_find_id(const struct map *map, struct spot *spot,
    const char *id);

int index_add_slow(struct map *map, struct spot *spot, struct entry *e);
bool index_replace_slow(struct map *map, struct spot *spot, struct entry *was,
    struct entry *now);

/* Objects for which one more line is worth it. */
static inline bool shard_is_crowded(const struct shard *shard)
{
    return shard->n_objects > shard->n_lines * LINE_LOAD;
}

/* A new object, whose only entry is `e`. */
HOT int index_add(struct map *map, struct spot *spot, struct entry *e)
{
    struct shard *shard = &map->shards[spot->shard];
    struct line *line = line_of(map, spot);
    unsigned free = line == NULL ? 0 : line_slots(line, 0), i;

    if (unlikely(free == 0 || shard_is_crowded(shard)))
        return index_add_slow(map, spot, e);
    i = (unsigned)__builtin_ctz(free);
    shm_store(&line->tag[i], spot->tag);
    shm_store(&line->ref[i], map_ref(map, e));
    shm_store(&shard->n_objects, shard->n_objects + 1);
    return 0;
}

/* The object's first entry is another one now; or the object is no more
   (`now` NULL). False: it was not found; the segment is damaged. */
HOT bool index_replace(struct map *map, struct spot *spot, struct entry *was,
    struct entry *now)
{
    struct shard *shard = &map->shards[spot->shard];
    struct line *line = line_of(map, spot);
    unsigned set = line == NULL ? 0 : line_slots(line, spot->tag), i;

    i = (unsigned)__builtin_ctz(set | 1u << LINE_SLOTS);
    if (unlikely(now != NULL || i == LINE_SLOTS || line->more != 0 ||
            line->ref[i] != map_ref(map, was)))
        return index_replace_slow(map, spot, was, now);
    shm_store(&line->tag[i], 0);
    shm_store(&line->ref[i], 0);
    shm_store(&shard->n_objects, shard->n_objects - 1);
    return true;
}

/* Forgets all objects of a shard, keeping its lines. */
void index_clear(struct map *map, uint32_t shard);

/* Entries of a ring, each once, from `first`. Bounded: a ring that does not
   close within the table's size is damaged. */
struct ring {
    const struct map *map;
    ref_t first, at;
    uint32_t left;
    bool damaged;
};

struct ring ring_from(const struct map *map, struct entry *first);
struct entry *ring_next(struct ring *ring); /* NULL: the end, or damaged */

/* A ring of one. */
HOT void ring_begin(const struct map *map, struct entry *e)
{
    shm_store(&e->prev, map_ref(map, e));
    shm_store(&e->next, map_ref(map, e));
}

/* Appends to a ring (of one, if first is NULL). */
void ring_append(const struct map *map, struct entry *first, struct entry *e);

/* Takes out of its ring; returns what comes next, NULL if it was alone. */
struct entry *ring_remove_slow(const struct map *map, struct entry *e);

HOT struct entry *ring_remove(const struct map *map, struct entry *e)
{
    return likely(e->next == map_ref(map, e)) ? NULL : ring_remove_slow(map, e);
}

#endif
