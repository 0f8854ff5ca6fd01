/*
 * check_index.c - from a hash to an object: buckets that split, segments of
 * buckets that are added, spilled objects; and rings.
 */
#include "store/index.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/attachment.h"
#include "base/point.h"
#include "lib/latches.h"
#include "unit.h"

/* --- many keys, all in one shard --- */

#define KEYS (UNIT_SANITIZED ? 1500 : 3000)

struct many {
    struct enq *e;
    unsigned n;
    char field[KEYS][12];
    struct enq_grant g[KEYS];
};

static struct key pack(const struct enq *e, const char *field,
    char bytes[KEY_BYTES_MAX])
{
    struct enq_req req = {
        .size = sizeof(req), .name = "product", .key = {field}};
    struct key key;

    want(0, key_pack(&key, bytes, KEY_BYTES_MAX, &req, e->map->hash_seed));
    return key;
}

static struct many *many_of_shard(struct enq *e, uint32_t shard)
{
    struct many *m = calloc(1, sizeof(*m));
    char bytes[KEY_BYTES_MAX];

    m->e = e;
    for (unsigned i = 0; m->n < KEYS; i++) {
        struct key key;

        snprintf(m->field[m->n], sizeof(m->field[0]), "%u", i);
        key = pack(e, m->field[m->n], bytes);
        m->n += shard_of_hash(key.hash) == shard;
    }
    return m;
}

static void lock_all(struct many *m)
{
    for (unsigned i = 0; i < m->n; i++)
        want(ENQ_OK,
            unit_lock(m->e, "product", m->field[i], ENQ_MODE_X, &m->g[i]));
}

static struct entry *look_up(const struct many *m, unsigned i)
{
    char bytes[KEY_BYTES_MAX];
    struct key key = pack(m->e, m->field[i], bytes);
    struct spot spot = spot_of(key.name_hash, key.hash);

    return index_find(m->e->map, &spot, &key);
}

static void find_all(const struct many *m)
{
    for (unsigned i = 0; i < m->n; i++) {
        struct entry *e = look_up(m, i);

        ck_assert_ptr_nonnull(e);
        ck_assert_uint_eq(entry_handle(m->e->map, e), m->g[i].handle);
    }
}

static bool is_empty(void *context, uint32_t shard, struct bucket *bucket)
{
    (void)context, (void)shard;
    ck_assert(bucket_is_empty(bucket));
    return true;
}

static void unlock_at(struct many *m, unsigned i)
{
    want(ENQ_OK, enq_unlock(m->e, m->g[i].handle, m->g[i].token));
    ck_assert_ptr_null(look_up(m, i));
    m->g[i] = m->g[m->n - 1];
    memcpy(m->field[i], m->field[m->n - 1], sizeof(m->field[i]));
    m->n--;
}

TEST(thousands_of_keys_in_one_shard_are_all_found)
{
    struct enq *e = unit_open();
    struct many *m = many_of_shard(e, 9);

    lock_all(m);
    ck_assert_uint_gt(e->map->shards[9].n_segments, 4);
    /* one for BUCKET_LOAD of what is guessed from some buckets */
    ck_assert_uint_gt(e->map->shards[9].n_buckets, KEYS / (2 * BUCKET_LOAD));
    find_all(m);
    unit_healthy(e);
    free(m);
    enq_close(e);
}

TEST(keys_removed_in_any_order_leave_the_others_found)
{
    struct enq *e = unit_open();
    struct many *m = many_of_shard(e, 200);
    uint64_t dice = unit_seed();

    lock_all(m);
    while (m->n > 0) {
        unlock_at(m, (unsigned)(unit_random(&dice) % m->n));
        if (m->n % 500 == 0) {
            find_all(m);
            unit_healthy(e);
        }
    }
    map_each_bucket(e->map, 200, is_empty, NULL);
    m->n = KEYS;
    free(m);
    enq_close(e);
}

TEST(keys_that_come_and_go_leave_no_trace)
{
    struct enq *e = unit_open();
    struct many *m = many_of_shard(e, 0);
    uint64_t dice = unit_seed();

    lock_all(m);
    for (int round = 0; round < 20000; round++) {
        unsigned i = (unsigned)(unit_random(&dice) % m->n);

        want(ENQ_OK, enq_unlock(e, m->g[i].handle, m->g[i].token));
        want(ENQ_OK,
            unit_lock(e, "product", m->field[i], ENQ_MODE_E, &m->g[i]));
    }
    /* How many objects there are is guessed from some buckets, and in 20,000
       rounds the highest guess counts: not one bucket more for each round. */
    ck_assert_uint_lt(shard_buckets(&e->map->shards[0]),
        3 * KEYS / (2 * BUCKET_LOAD));
    find_all(m);
    unit_healthy(e);
    free(m);
    enq_close(e);
}

TEST(ids_in_thousands_are_all_found)
{
    struct enq *e = unit_open();
    enq_handle *handle = calloc(8000, sizeof(*handle)), found;
    struct enq_grant g;
    char id[32];

    for (int i = 0; i < 8000; i++) {
        snprintf(id, sizeof(id), "order-%d", i);
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "n", .key = {id}, .mode = ENQ_MODE_X, .id = id),
                &g));
        handle[i] = g.handle;
    }
    unit_healthy(e);
    for (int i = 0; i < 8000; i++) {
        snprintf(id, sizeof(id), "order-%d", i);
        want(ENQ_OK, enq_find(e, id, &found));
        ck_assert_uint_eq(found, handle[i]);
        want(ENQ_OK, enq_unlock(e, found, 0));
        want(ENQ_NOTHELD, enq_find(e, id, &found));
    }
    unit_healthy(e);
    free(handle);
    enq_close(e);
}

/* --- rings --- */

/* Five entries that exist; the ring is made here. */
struct five {
    struct enq *e;
    struct entry *of[5];
};

static struct five five_entries(void)
{
    struct five f = {.e = unit_open()};
    struct enq_grant g;
    uint64_t state;

    for (int i = 0; i < 5; i++) {
        char field[2] = {(char)('a' + i), '\0'};

        want(ENQ_OK, unit_lock(f.e, "n", field, ENQ_MODE_X, &g));
        f.of[i] = entry_of_handle(f.e->map, g.handle, &state);
        ring_append(f.e->map, i == 0 ? NULL : f.of[0], f.of[i]);
    }
    return f;
}

static unsigned length(const struct five *f, struct entry *first)
{
    struct ring ring = ring_from(f->e->map, first);
    unsigned n = 0;

    while (ring_next(&ring) != NULL)
        n++;
    ck_assert(!ring.damaged);
    return n;
}

TEST(a_ring_is_in_order_of_arrival)
{
    struct five f = five_entries();
    struct ring ring = ring_from(f.e->map, f.of[0]);

    for (int i = 0; i < 5; i++)
        ck_assert_ptr_eq(ring_next(&ring), f.of[i]);
    ck_assert_ptr_null(ring_next(&ring));
    ring = ring_from(f.e->map, NULL);
    ck_assert_ptr_null(ring_next(&ring));
    enq_close(f.e);
}

static struct entry *leave(const struct map *map, struct entry *e)
{
    return ring_remove(map, e, map_ref(map, e));
}

TEST(any_entry_can_be_taken_out_of_a_ring)
{
    struct five f = five_entries();

    ck_assert_ptr_eq(leave(f.e->map, f.of[_i]), f.of[(_i + 1) % 5]);
    ck_assert_uint_eq(length(&f, f.of[(_i + 2) % 5]), 4);
    for (int i = 1; i < 4; i++)
        ck_assert_ptr_nonnull(leave(f.e->map, f.of[(_i + i) % 5]));
    ck_assert_ptr_null(leave(f.e->map, f.of[(_i + 4) % 5]));
    enq_close(f.e);
}

static int grow_and_die(void *many)
{
    struct many *m = many;

    m->e = unit_open();
    point_arm("buckets.claimed");
    lock_all(m);
    return 1;
}

TEST(buckets_claimed_by_the_dead_are_used_by_the_next)
{
    struct enq *e = unit_open();
    struct many *m = many_of_shard(e, 7);
    unsigned pages = 0;

    for (int i = 0; i < 3; i++)
        unit_killed(unit_fork(grow_and_die, m));
    lock_all(m);
    for (uint32_t i = 0; i < e->map->h->pages_used; i++)
        pages += e->map->pages[i].kind == PAGE_BUCKETS &&
            e->map->pages[i].owner == 7;
    ck_assert_uint_eq(buckets_in(e->map->shards[7].n_segments),
        buckets_in(1 + pages));
    ck_assert_uint_gt(pages, 0);
    free(m);
    enq_close(e);
}

TEST(a_search_of_spilled_objects_that_lead_in_a_circle_ends)
{
    struct enq *e = unit_open();
    struct enq_grant g;
    char bytes[KEY_BYTES_MAX];
    struct key key = pack(e, "none", bytes);
    struct spot spot = spot_of(key.name_hash, key.hash);
    struct entry *other;

    want(ENQ_OK, unit_lock(e, "product", "other", ENQ_MODE_X, &g));
    other = entry_of_handle(e->map, g.handle, &(uint64_t){0});
    other->spill = map_ref(e->map, other);
    for (uint32_t i = 0; i < e->map->shards[spot.shard].n_buckets; i++)
        at_bucket(e->map, spot.shard, i)->more = other->spill;
    ck_assert_ptr_null(index_find(e->map, &spot, &key));
    enq_close(e);
}

TEST(a_damaged_chain_brings_nothing_into_a_slot)
{
    struct enq *e = unit_open();
    struct many *m = many_of_shard(e, 7);
    struct bucket *bucket;

    m->n = 1;
    lock_all(m);
    bucket = bucket_of_entry(e->map, look_up(m, 0));
    bucket->more = UINT32_MAX; /* no entry */
    unlock_at(m, 0);
    ck_assert_uint_eq(bucket->more, UINT32_MAX);
    bucket->more = 0;
    ck_assert(bucket_is_empty(bucket));
    unit_healthy(e);
    free(m);
    enq_close(e);
}

TEST(a_ring_that_does_not_close_is_damaged)
{
    struct five f = five_entries();
    struct ring ring;

    f.of[3]->next = map_ref(f.e->map, f.of[2]);
    ring = ring_from(f.e->map, f.of[0]);
    while (ring_next(&ring) != NULL)
        continue;
    ck_assert(ring.damaged);
    f.of[3]->next = 12345;
    ring = ring_from(f.e->map, f.of[0]);
    while (ring_next(&ring) != NULL)
        continue;
    ck_assert(ring.damaged);
    enq_close(f.e);
}

/* Shards of ids, too, and those of a name that always has an '@' lock: no
   bucket has more than a few objects that found no slot. */
static void no_long_chains(struct map *map)
{
    for (uint32_t shard = 0; shard < SHARDS_ALL; shard++) {
        for (uint32_t i = 0; i < map->shards[shard].n_buckets; i++) {
            ref_t ref = at_bucket(map, shard, i)->more;
            unsigned n = 0;

            for (; ref != 0; n++)
                ref = shard < SHARDS ? at_entry(map, ref)->spill
                                     : at_entry(map, ref)->id_spill;
            ck_assert_uint_le(n, 20);
        }
    }
}

#define GROWN (UNIT_SANITIZED ? 10000 : 20000)

TEST(buckets_are_added_for_ids_and_beside_a_generic_lock)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 2 * GROWN};
    struct enq *e = unit_open_with(&opts);
    struct enq_grant g;
    char field[16], id[16];

    want(ENQ_OK, unit_lock(e, "n", "@", ENQ_MODE_S, &g));
    for (int i = 0; i < GROWN; i++) {
        snprintf(field, sizeof(field), "%d", i);
        snprintf(id, sizeof(id), "id-%d", i);
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = i < GROWN / 4 ? "n" : "m", .key = {field},
                    .mode = ENQ_MODE_S, .id = id),
                &g));
    }
    no_long_chains(e->map);
    unit_healthy(e);
    enq_close(e);
}

int main(void)
{
    unit_begin("index");
    ADD(thousands_of_keys_in_one_shard_are_all_found);
    ADD(keys_removed_in_any_order_leave_the_others_found);
    ADD(keys_that_come_and_go_leave_no_trace);
    ADD(ids_in_thousands_are_all_found);
    ADD_IF(!UNIT_TSAN, "the thread sanitizer cannot fork",
        buckets_claimed_by_the_dead_are_used_by_the_next);
    ADD(a_ring_is_in_order_of_arrival);
    ADD_LOOP(any_entry_can_be_taken_out_of_a_ring, 5);
    ADD(a_search_of_spilled_objects_that_lead_in_a_circle_ends);
    ADD(a_damaged_chain_brings_nothing_into_a_slot);
    ADD(a_ring_that_does_not_close_is_damaged);
    ADD(buckets_are_added_for_ids_and_beside_a_generic_lock);
    return unit_end();
}
