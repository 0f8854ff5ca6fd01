/*
 * index.c - floor 4: from a hash to an object (see index.h).
 */
#include "table/index.h"

#include <string.h>

#include "base/hash.h"

static uint16_t make_tag(uint32_t name_hash, uint64_t hash)
{
    return (uint16_t)((name_hash & 0xff) << 8 | (hash >> 48 & 0xff));
}

struct spot spot_of_key(const struct key *key)
{
    return (struct spot){shard_of_hash(key->hash), key->hash,
        make_tag(key->name_hash, key->hash)};
}

struct spot spot_of_entry(const struct entry *e)
{
    return (struct spot){
        shard_of_hash(e->hash), e->hash, make_tag(e->name_hash, e->hash)};
}

struct spot spot_of_id(const struct map *map, const char *id, size_t bytes)
{
    uint64_t hash = hash_bytes(id, bytes, map->hash_seed);

    return (struct spot){SHARDS + (uint32_t)hash % ID_SHARDS, hash,
        make_tag((uint32_t)(hash >> 56), hash)};
}

bool spot_of_entry_id(const struct map *map, const struct entry *e,
    struct spot *spot)
{
    struct ask ask;

    if (!entry_ask(map, e, &ask) || ask.id_bytes == 0)
        return false;
    *spot = spot_of_id(map, ask.id, ask.id_bytes);
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
    struct ask ask;

    return entry_ask(map, e, &ask) && ask.id_bytes > 0 &&
        strcmp(ask.id, what) == 0;
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

/* Linear hashing: with n lines, n not a power of two, the lines below
   n - 2^k have been split already. */
static uint32_t line_number(uint64_t hash, uint32_t n_lines)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz((n_lines - 1) | 1);
    uint32_t h = (uint32_t)(hash >> 8), i = h & mask;

    return i < n_lines ? i : h & (mask >> 1);
}

static struct line *line_for(const struct map *map, uint32_t shard,
    uint64_t hash)
{
    uint32_t n = shm_load(&map->shards[shard].n_lines);

    return n == 0 ? NULL : at_line(map, shard, line_number(hash, n));
}

static struct entry *find_spilled(const struct map *map,
    const struct line *line, uint32_t shard, match_fn *match, const void *what)
{
    uint32_t left = map->h->slots_max;
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

#define LANES UINT64_C(0x0001000100010001)

/*
 * Which of four tags may be the one: a bit for each, in the top bit of its 16.
 * The lowest is right; those above may be wrong by the borrow, so that the
 * caller compares. Ten compares and branches become three: 6 ns less a pair.
 */
static inline uint64_t four_tags(const uint16_t *tags, uint16_t tag)
{
    uint64_t x;

    memcpy(&x, tags, sizeof(x));
    x ^= tag * LANES;
    return (x - LANES) & ~x & (LANES << 15);
}

/* A bit for each slot that may have the tag. */
static inline unsigned slots_with(const struct line *line, uint16_t tag)
{
    uint64_t low = four_tags(line->tag, tag);
    uint64_t high = four_tags(line->tag + 4, tag);
    unsigned set = (line->tag[8] == tag) << 8 | (line->tag[9] == tag) << 9;

    if (low != 0)
        set |= (low >> 15 & 1) | (low >> 30 & 2) | (low >> 45 & 4) |
            (low >> 60 & 8);
    if (high != 0)
        set |= (high >> 11 & 16) | (high >> 26 & 32) | (high >> 41 & 64) |
            (high >> 56 & 128);
    return set;
}

static inline struct entry *find_in(const struct map *map,
    const struct spot *spot, match_fn *match, const void *what)
{
    const struct line *line = line_for(map, spot->shard, spot->hash);
    unsigned set;

    if (unlikely(line == NULL))
        return NULL;
    for (set = slots_with(line, spot->tag); set != 0; set &= set - 1) {
        struct entry *e = at_entry(map, line->ref[__builtin_ctz(set)]);
        if (e != NULL && match(map, e, what))
            return e;
    }
    if (likely(line->more == 0))
        return NULL;
    return find_spilled(map, line, spot->shard, match, what);
}

struct entry *index_find(const struct map *map, const struct spot *spot,
    const struct key *key)
{
    return find_in(map, spot, match_key, key);
}

struct entry *index_find_id(const struct map *map, const struct spot *spot,
    const char *id)
{
    return find_in(map, spot, match_id, id);
}

static void line_put(const struct map *map, struct line *line,
    const struct spot *spot, struct entry *e)
{
    for (unsigned i = 0; i < LINE_SLOTS; i++) {
        if (line->ref[i] != 0)
            continue;
        line->tag[i] = spot->tag;
        line->ref[i] = map_ref(map, e);
        return;
    }
    *spill_of(spot->shard, e) = line->more;
    line->more = map_ref(map, e);
}

/* The spot of an object already in the index, from one of its entries. */
static bool respot(const struct map *map, uint32_t shard, const struct entry *e,
    struct spot *spot)
{
    if (is_id_shard(shard))
        return spot_of_entry_id(map, e, spot);
    *spot = spot_of_entry(e);
    return true;
}

/* Puts each object of `from` where it belongs now that there is one line
   more. */
static void line_split(struct map *map, uint32_t shard, struct line *from)
{
    struct line old = *from;
    uint32_t left = map->h->slots_max;
    struct spot spot;

    memset(from, 0, sizeof(*from));
    for (unsigned i = 0; i < LINE_SLOTS; i++) {
        struct entry *e = at_entry(map, old.ref[i]);
        if (e != NULL && respot(map, shard, e, &spot))
            line_put(map, line_for(map, shard, spot.hash), &spot, e);
    }
    while (old.more != 0 && left-- > 0) {
        struct entry *e = at_entry(map, old.more);
        if (e == NULL)
            return;
        old.more = *spill_of(shard, e);
        *spill_of(shard, e) = 0;
        if (respot(map, shard, e, &spot))
            line_put(map, line_for(map, shard, spot.hash), &spot, e);
    }
}

/* One line more, if the objects have become many and a segment has room. */
static void grow(struct map *map, uint32_t number)
{
    struct shard *shard = &map->shards[number];
    uint32_t n = shard->n_lines, half;
    struct line *from;

    if (likely(shard->n_objects <= n * LINE_LOAD))
        return;
    if (n >= shard->n_segments * LINES_PER_SEGMENT) {
        shard->cramped = 1; /* slab_tidy() adds a segment, outside of this */
        return;
    }
    half = 1u << (31 - __builtin_clz(n));
    from = at_line(map, number, n - half);
    if (from == NULL || at_line(map, number, n) == NULL)
        return;
    shm_store(&shard->n_lines, n + 1);
    line_split(map, number, from);
}

int index_add(struct map *map, const struct spot *spot, struct entry *e)
{
    struct line *line;

    grow(map, spot->shard);
    line = line_for(map, spot->shard, spot->hash);
    if (unlikely(line == NULL))
        return ENQ_ECORRUPT;
    *spill_of(spot->shard, e) = 0;
    line_put(map, line, spot, e);
    shm_store(&map->shards[spot->shard].n_objects,
        map->shards[spot->shard].n_objects + 1);
    return 0;
}

/* `slot` held `was`: let it hold `now`, or for none the first that spilled. */
static void replace_in_slot(struct map *map, const struct spot *spot,
    struct line *line, unsigned i, struct entry *now)
{
    struct entry *spilled;
    struct spot other;

    if (now != NULL || line->more == 0) {
        line->ref[i] = now != NULL ? map_ref(map, now) : 0;
        return;
    }
    line->ref[i] = 0;
    spilled = at_entry(map, line->more);
    if (spilled == NULL || !respot(map, spot->shard, spilled, &other))
        return;
    line->tag[i] = other.tag;
    line->ref[i] = line->more;
    line->more = *spill_of(spot->shard, spilled);
    *spill_of(spot->shard, spilled) = 0;
}

static bool replace_spilled(struct map *map, const struct spot *spot,
    struct line *line, struct entry *was, struct entry *now)
{
    ref_t *link = &line->more, ref = map_ref(map, was);
    uint32_t left = map->h->slots_max;

    while (*link != ref) {
        struct entry *e = at_entry(map, *link);
        if (e == NULL || left-- == 0)
            return false;
        link = spill_of(spot->shard, e);
    }
    *link = *spill_of(spot->shard, was);
    if (now != NULL) {
        *spill_of(spot->shard, now) = *link;
        *link = map_ref(map, now);
    }
    return true;
}

bool index_replace(struct map *map, const struct spot *spot, struct entry *was,
    struct entry *now)
{
    struct line *line = line_for(map, spot->shard, spot->hash);
    ref_t ref = map_ref(map, was);
    bool found = false;

    if (line == NULL)
        return false;
    for (unsigned set = slots_with(line, spot->tag); set != 0 && !found;
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

    for (uint32_t i = 0; i < shard->n_segments * LINES_PER_SEGMENT; i++) {
        struct line *line = at_line(map, number, i);
        if (line != NULL)
            memset(line, 0, sizeof(*line));
    }
    shm_store(&shard->n_objects, 0);
    shm_store(&shard->n_waiting, 0);
}

/* --- rings --- */

struct ring ring_from(const struct map *map, struct entry *first)
{
    ref_t ref = first == NULL ? 0 : map_ref(map, first);

    return (struct ring){map, ref, ref, map->h->slots_max, false};
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
        e->next = e->prev = ref;
        return;
    }
    last = at_entry(map, first->prev);
    e->next = map_ref(map, first);
    e->prev = first->prev;
    if (last != NULL)
        last->next = ref;
    first->prev = ref;
}

struct entry *ring_remove(const struct map *map, struct entry *e)
{
    struct entry *next = at_entry(map, e->next);
    struct entry *prev = at_entry(map, e->prev);

    if (next == e || next == NULL || prev == NULL)
        return NULL;
    next->prev = e->prev;
    prev->next = e->next;
    return next;
}
