/*
 * gate.c - lock: the generic entries of a gate (see gate.h).
 */
#include "lock/gate.h"

int gate_visit(const struct map *map, const struct gate *gate,
    const struct key *key, entry_see_fn *see, void *context, bool *more)
{
    struct ring ring = ring_from(map, at_entry(map, gate->head));
    uint64_t digest = key->generic != 0 || ring.at == 0
        ? key->hash
        : key_digest(key, map->hash_seed);
    struct entry *e;
    struct key other;

    while (*more && (e = ring_next(&ring)) != NULL)
        if (e->name_hash == key->name_hash && e->fields == key->fields &&
            key_may_overlap(e->hash, digest, key->fields) &&
            entry_key(map, e, &other) && key_overlaps(key, &other))
            *more = see(context, e);
    return ring.damaged ? ENQ_ECORRUPT : 0;
}

static bool see_any(void *found, struct entry *e)
{
    (void)e;
    *(bool *)found = true;
    return false;
}

bool gate_overlaps(const struct map *map, const struct gate *gate,
    const struct key *key)
{
    bool found = false, more = true;

    return gate_visit(map, gate, key, see_any, &found, &more) != 0 || found;
}
