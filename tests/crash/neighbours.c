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

static bool is_among(const struct box *box, const char *key)
{
    for (unsigned i = 0; i < box->n_keys; i++)
        if (strcmp(box->keys[i], key) == 0)
            return true;
    return false;
}

/* More keys, up to so many in all, that fall into this shard, or bucket. */
static void find_keys(struct scene *s, unsigned n, uint32_t place, bool bucket)
{
    struct box *box = s->box;

    for (unsigned i = n * 10000; box->n_keys < n; i++) {
        char *key = box->keys[box->n_keys];

        snprintf(key, sizeof(box->keys[0]), "k%06u", i % 1000000);
        box->n_keys += place_of(s->teller.e->map, key, bucket) == place &&
            !is_among(box, key);
    }
}

/* What a look at the shard of "a" takes its keys for (objects_of() in grow.c). */
static unsigned estimate(const struct scene *s)
{
    unsigned n[BUCKETS_FIRST] = {0}, sum = 0;

    for (unsigned i = 0; i < s->box->n_keys; i++)
        n[place_of(s->teller.e->map, s->box->keys[i], true) / SHARDS]++;
    for (unsigned i = 0; i < BUCKETS_FIRST; i++)
        sum += n[i] <= BUCKET_SLOTS ? n[i] : BUCKET_SLOTS + 2;
    return sum;
}

/* Keys of the same bucket as "a"; or so many of its shard that one more makes it
   grow, and more in its first bucket, which is the first to be split, than that
   has room for; the last, which "x" is, finds no slot there. */
static void search(struct scene *s)
{
    const struct map *map = s->teller.e->map;

    if (s->stage == STAGE_BUCKETS) {
        uint32_t shard = place_of(map, "a", false);

        find_keys(s, BUCKET_SLOTS + 3, shard, true);
        while (estimate(s) < BUCKETS_FIRST * BUCKET_LOAD + BUCKET_LOAD - 1)
            find_keys(s, s->box->n_keys + 1, shard, false);
        find_keys(s, s->box->n_keys + 1, shard, true);
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

/* Many have been found to have room enough: the next that finds none looks all
   the same. */
void neighbours_are_looked_at(struct scene *s)
{
    struct map *map = s->teller.e->map;

    if (s->stage == STAGE_BUCKETS)
        map->shards[place_of(map, "a", false)].calm = 0;
}
