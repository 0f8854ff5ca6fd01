/*
 * index.h - floor 4: from a hash to an object, and rings of entries.
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
#ifndef TABLE_INDEX_H
#define TABLE_INDEX_H

#include "table/entry.h"

/* What the index needs to know of an object. */
struct spot {
    uint32_t shard;
    uint64_t hash;
    uint16_t tag;
};

struct spot spot_of_key(const struct key *key);
struct spot spot_of_entry(const struct entry *e); /* concrete */
struct spot spot_of_id(const struct map *map, const char *id, size_t bytes);
bool spot_of_entry_id(const struct map *map, const struct entry *e,
    struct spot *spot);

/* The first entry of the object, or the entry with this id; NULL: none. */
struct entry *index_find(const struct map *map, const struct spot *spot,
    const struct key *key);
struct entry *index_find_id(const struct map *map, const struct spot *spot,
    const char *id);

/* A new object, whose only entry is `e`. */
int index_add(struct map *map, const struct spot *spot, struct entry *e);

/* The object's first entry is another one now; or the object is no more
   (`now` NULL). False: it was not found; the segment is damaged. */
bool index_replace(struct map *map, const struct spot *spot, struct entry *was,
    struct entry *now);

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

/* Appends to a ring (of one, if first is NULL). */
void ring_append(const struct map *map, struct entry *first, struct entry *e);
/* Takes out of its ring; returns what comes next, NULL if it was alone. */
struct entry *ring_remove(const struct map *map, struct entry *e);

#endif
