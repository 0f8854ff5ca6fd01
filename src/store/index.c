/*
 * index.c - store: from a hash to an object (see index.h).
 */
#include "store/index.h"

#include <string.h>

#include "base/hash.h"

struct spot spot_of_id(const struct map *map, const char *id, size_t bytes)
{
    uint64_t hash = hash_bytes(id, bytes, map->hash_seed);

    return (struct spot){SHARDS + (uint32_t)hash % ID_SHARDS,
        spot_tag((uint32_t)(hash >> 56), hash), hash, NULL};
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

/* True for the object looked for. `what` is a key, or an id. */
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

/* --- lines --- */

static bool is_id_shard(uint32_t shard)
{
    return shard >= SHARDS;
}

static ref_t *spill_of(uint32_t shard, struct entry *e)
{
    return is_id_shard(shard) ? &e->id_spill : &e->spill;
}

static struct entry *find_spilled(const struct map *map,
    const struct line *line, uint32_t shard, match_fn *match, const void *what)
{
    uint32_t left = map->entries_max;
    ref_t ref = line->more;

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

unsigned line_slots_portable(const struct line *line, uint16_t tag)
{
    unsigned set = 0;

    for (unsigned i = 0; i < LINE_SLOTS; i++)
        set |= (unsigned)(line->tag[i] == tag) << i;
    return set;
}

static inline struct entry *find_in(const struct map *map, struct spot *spot,
    match_fn *match, const void *what)
{
    const struct line *line = line_of(map, spot);
    unsigned set;

    if (unlikely(line == NULL))
        return NULL;
    for (set = line_slots(line, spot->tag); set != 0; set &= set - 1) {
        struct entry *e = at_entry(map, line->ref[__builtin_ctz(set)]);
        if (e != NULL && match(map, e, what))
            return e;
    }
    if (likely(line->more == 0))
        return NULL;
    return find_spilled(map, line, spot->shard, match, what);
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

static void line_put(const struct map *map, struct line *line,
    const struct spot *spot, struct entry *e)
{
    unsigned free = line_slots(line, 0);

    if (likely(free != 0)) {
        unsigned i = (unsigned)__builtin_ctz(free);

        shm_store(&line->tag[i], spot->tag);
        shm_store(&line->ref[i], map_ref(map, e));
        return;
    }
    shm_store(spill_of(spot->shard, e), line->more);
    shm_store(&line->more, map_ref(map, e));
}

/* The spot of an object already in the index, from one of its entries. */
static bool respot(const struct map *map, uint32_t shard, const struct entry *e,
    struct spot *spot)
{
    if (is_id_shard(shard))
        return spot_of_entry_id(map, e, spot);
    *spot = spot_of(e->name_hash, e->hash);
    return true;
}

static void line_clear(struct line *line)
{
    memset(line, 0, sizeof(*line));
    ENQ_POINT("index.line_cleared");
}

/* Puts each object of `from` where it belongs now that there is one line
   more. */
static void line_split(struct map *map, uint32_t shard, struct line *from)
{
    struct line old = *from;
    uint32_t left = map->entries_max;
    struct spot spot;

    line_clear(from);
    for (unsigned i = 0; i < LINE_SLOTS; i++) {
        struct entry *e = at_entry(map, old.ref[i]);
        if (e != NULL && respot(map, shard, e, &spot))
            line_put(map, line_of_hash(map, shard, spot.hash), &spot, e);
    }
    while (old.more != 0 && left-- > 0) {
        struct entry *e = at_entry(map, old.more);
        if (e == NULL)
            return;
        old.more = *spill_of(shard, e);
        shm_store(spill_of(shard, e), 0);
        if (respot(map, shard, e, &spot))
            line_put(map, line_of_hash(map, shard, spot.hash), &spot, e);
    }
}

/* One line more, if a segment has room. */
static void grow(struct map *map, uint32_t number)
{
    struct shard *shard = &map->shards[number];
    uint32_t n = shard->n_lines, half;
    struct line *from;

    if (n == 0 || n >= lines_in(shard->n_segments)) {
        shm_store(&shard->cramped, 1); /* page_add_segment(), outside of this */
        return;
    }
    half = 1u << (31 - __builtin_clz(n));
    from = at_line(map, number, n - half);
    if (from == NULL || at_line(map, number, n) == NULL)
        return;
    shm_store(&shard->n_lines, n + 1);
    line_split(map, number, from);
}

int index_add_slow(struct map *map, struct spot *spot, struct entry *e)
{
    struct shard *shard = &map->shards[spot->shard];

    if (unlikely(shard_is_crowded(shard))) {
        grow(map, spot->shard);
        spot->line = NULL; /* it may have been split */
    }
    if (unlikely(line_of(map, spot) == NULL))
        return ENQ_ECORRUPT;
    shm_store(spill_of(spot->shard, e), 0);
    line_put(map, spot->line, spot, e);
    shm_store(&shard->n_objects, shard->n_objects + 1);
    return 0;
}

/* `slot` held `was`: let it hold `now`, or for none the first that spilled. */
static void replace_in_slot(struct map *map, const struct spot *spot,
    struct line *line, unsigned i, struct entry *now)
{
    struct entry *spilled;
    struct spot other;

    if (now != NULL) {
        shm_store(&line->ref[i], map_ref(map, now));
        return;
    }
    shm_store(&line->tag[i], 0);
    shm_store(&line->ref[i], 0);
    if (likely(line->more == 0))
        return;
    spilled = at_entry(map, line->more);
    if (spilled == NULL || !respot(map, spot->shard, spilled, &other))
        return;
    shm_store(&line->tag[i], other.tag);
    shm_store(&line->ref[i], line->more);
    shm_store(&line->more, *spill_of(spot->shard, spilled));
    shm_store(spill_of(spot->shard, spilled), 0);
}

static bool replace_spilled(struct map *map, const struct spot *spot,
    struct line *line, struct entry *was, struct entry *now)
{
    ref_t *link = &line->more, ref = map_ref(map, was);
    uint32_t left = map->entries_max;

    while (*link != ref) {
        struct entry *e = at_entry(map, *link);
        if (e == NULL || left-- == 0)
            return false;
        link = spill_of(spot->shard, e);
    }
    shm_store(link, *spill_of(spot->shard, was));
    if (now != NULL) {
        shm_store(spill_of(spot->shard, now), *link);
        shm_store(link, map_ref(map, now));
    }
    return true;
}

bool index_replace_slow(struct map *map, struct spot *spot, struct entry *was,
    struct entry *now)
{
    struct line *line = line_of(map, spot);
    ref_t ref = map_ref(map, was);
    bool found = false;

    if (line == NULL)
        return false;
    for (unsigned set = line_slots(line, spot->tag); set != 0 && !found;
         set &= set - 1) {
        unsigned i = (unsigned)__builtin_ctz(set);

        found = line->ref[i] == ref;
        if (found)
            replace_in_slot(map, spot, line, i, now);
    }
    if (!found)
        found = replace_spilled(map, spot, line, was, now);
    if (found && now == NULL)
        shm_store(&map->shards[spot->shard].n_objects,
            map->shards[spot->shard].n_objects - 1);
    return found;
}

void index_clear(struct map *map, uint32_t number)
{
    struct shard *shard = &map->shards[number];

    for (uint32_t i = 0; i < lines_in(shard->n_segments); i++) {
        struct line *line = at_line(map, number, i);
        if (line != NULL)
            line_clear(line);
    }
    shm_store(&shard->n_objects, 0);
    shm_store(&shard->n_waiting, 0);
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
    return next;
}
