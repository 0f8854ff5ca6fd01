/*
 * neighbours.c - keys that share a bucket, or a shard, with "a".
 */
#include <stdio.h>
#include <string.h>

#include "crash.h"
#include "rules/key.h"
#include "store/index.h"

static uint32_t place_of(const struct map *map, const char *field, bool bucket)
{
    const struct enq_req req = {.name = "crash", .key = {field}};
    char bytes[KEY_BYTES_MAX];
    struct key key;

    if (key_pack(&key, bytes, sizeof(bytes), &req, map->hash_seed) != 0)
        return UINT32_MAX;
    return shard_of_hash(key.hash) +
        (bucket ? bucket_number(key.hash, BUCKETS_FIRST) * SHARDS : 0);
}

/* More keys, up to so many in all, that fall into this shard, or bucket. */
static void find_keys(struct scene *s, unsigned n, uint32_t place, bool bucket)
{
    struct box *box = s->box;

    for (unsigned i = n * 10000; box->n_keys < n; i++) {
        char *key = box->keys[box->n_keys];

        snprintf(key, sizeof(box->keys[0]), "k%06u", i % 1000000);
        box->n_keys += place_of(s->teller.e->map, key, bucket) == place;
    }
}

/* Keys of the same bucket as "a"; or so many of its shard that it needs another
   line, and more in its first line, which is the first to be split, than that
   has room for. */
static void search(struct scene *s)
{
    const struct map *map = s->teller.e->map;

    if (s->stage == STAGE_BUCKETS) {
        find_keys(s, BUCKET_SLOTS + 3, place_of(map, "a", false), true);
        find_keys(s, 193, place_of(map, "a", false), false);
    } else {
        find_keys(s, 25, place_of(map, "a", true), true);
    }
}

static bool are_named(const struct plan *plan)
{
    const struct op *op = plan->op;
    const struct state *state = plan->state;
    const char *const texts[] = {op->prepare, op->run, op->behind, state->holds,
        state->waits, state->dead, state->listens, plan->rescue};

    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i] != NULL && strpbrk(texts[i], "$x") != NULL)
            return true;
    return false;
}

/* Of some 200,000 keys 25 are among them: they are searched for when a plan needs
   them, and there for the next plan of the scene. */
void find_neighbours(struct scene *s, const struct plan *plan)
{
    if (s->box->n_keys == 0 && are_named(plan))
        search(s);
}
