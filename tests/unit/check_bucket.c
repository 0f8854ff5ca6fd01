/*
 * check_bucket.c - a latch in each bucket: who is inside is waited for, who comes
 * from a bucket that was split goes on to the new one, and a split, a death or a
 * scan of a whole name leaves the buckets beside it alone.
 *
 * There are no ticks: a wait ends by what ends it.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/point.h"
#include "lib/latches.h"
#include "recovery/recover.h"
#include "store/grow.h"
#include "store/page.h"
#include "unit.h"

/* --- one thread that stands still --- */

static struct {
    const char *point;
    uint32_t there, go;
} halt;

static __thread bool halts;

static void stand_still(const struct point *point)
{
    if (!halts || halt.point == NULL || strcmp(point->name, halt.point) != 0)
        return;
    halts = false;
    shm_store_release(&halt.there, 1);
    while (shm_load_acquire(&halt.go) == 0)
        usleep(100);
}

struct asker {
    struct enq *e;
    pthread_t thread;
    struct enq_req req;
    struct enq_grant g;
    bool halts, set;
    int rc;
    uint32_t done;
};

static void *ask(void *asker)
{
    struct asker *a = asker;
    const struct enq_req other = {.size = sizeof(other),
        .name = "other",
        .mode = ENQ_MODE_S,
        .owner = a->req.owner};
    struct enq_grant g[2];

    halts = a->halts;
    if (a->set)
        a->rc = enq_lock_set(a->e, (const struct enq_req *[]){&a->req, &other},
            2, g);
    else
        a->rc = enq_lock(a->e, &a->req, &a->g);
    shm_store_release(&a->done, 1);
    return NULL;
}

static void begin(struct asker *a, struct enq *e, const char *owner,
    const char *field, bool set)
{
    *a = (struct asker){.e = e,
        .set = set,
        .halts = halt.point != NULL && halt.there == 0,
        .req = {.size = sizeof(a->req),
            .name = "n",
            .key = {field},
            .mode = ENQ_MODE_X,
            .owner = owner}};
    ck_assert_int_eq(pthread_create(&a->thread, NULL, ask, a), 0);
}

static int end(struct asker *a)
{
    pthread_join(a->thread, NULL);
    return a->rc;
}

static struct enq *open_without_ticks(void)
{
    setenv("ENQ_TICK_MS", "600000", 1);
    return unit_open();
}

static struct spot spot_of_field(const struct enq *e, const char *name,
    const char *field)
{
    struct enq_req req = {.size = sizeof(req), .name = name, .key = {field}};
    char bytes[KEY_BYTES_MAX];
    struct key key;

    want(0, key_pack(&key, bytes, sizeof(bytes), &req, e->map->hash_seed));
    return spot_of(key.name_hash, key.hash);
}

/* The next field from `i` on of which the name's key is in the shard of n/like,
   in the same bucket or in another. */
static unsigned find_field(const struct enq *e, const char *like, bool same,
    const char *name, unsigned i, char field[16])
{
    struct spot a = spot_of_field(e, "n", like), b;
    const struct bucket *bucket = bucket_of(e->map, &a);

    do {
        snprintf(field, 16, "f%u", i++);
        b = spot_of_field(e, name, field);
    } while (b.shard != a.shard || (bucket_of(e->map, &b) == bucket) != same);
    return i;
}

/* It has not got what it waits for meanwhile. */
static void sleeps_on_latch(const struct asker *a, const uint32_t *latch)
{
    while ((shm_load(latch) & LATCH_WAITERS) == 0)
        ck_assert_uint_eq(shm_load_acquire(&a->done), 0);
}

/* By another owner: what is held is in its way. */
static int ask_for_all(struct enq *e)
{
    struct enq_grant g;

    return enq_lock(e,
        ENQ_REQ(.name = "n", .key = {"@"}, .mode = ENQ_MODE_X,
            .owner = "other"),
        &g);
}

/* It has seen that the gate is down, and has not placed its lock yet. */
TEST(a_scan_of_the_name_waits_for_a_request_that_is_inside)
{
    struct enq *e = open_without_ticks();
    struct spot spot = spot_of_field(e, "n", "a");
    struct asker narrow, wide;

    halt.point = "lock.latched";
    point_hook = stand_still;
    begin(&narrow, e, "A", "a", false);
    eventually(shm_load_acquire(&halt.there));
    begin(&wide, e, "B", "@", false);
    sleeps_on_latch(&wide, &bucket_of(e->map, &spot)->latch);
    shm_store_release(&halt.go, 1);
    want(ENQ_OK, end(&narrow));
    want(ENQ_BUSY, end(&wide));
    point_hook = NULL;
    unit_healthy(e);
    enq_close(e);
}

TEST(a_scan_stands_in_the_way_of_nobody_in_other_buckets)
{
    struct enq *e = open_without_ticks();
    struct asker wide;
    struct enq_grant g;
    char other[16];

    find_field(e, "a", false, "m", 0, other);
    halt.point = "gate.raised";
    point_hook = stand_still;
    begin(&wide, e, "B", "@", false);
    eventually(shm_load_acquire(&halt.there));
    want(ENQ_OK, unit_lock(e, "m", other, ENQ_MODE_X, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    shm_store_release(&halt.go, 1);
    want(ENQ_OK, end(&wide));
    point_hook = NULL;
    enq_close(e);
}

/* After a scan that found nothing the shards are passed over by the next. */
TEST(what_comes_into_a_table_that_was_found_empty_is_found)
{
    struct enq *e = open_without_ticks();
    struct enq_grant all, g;

    for (int round = 0; round < 3; round++) {
        want(ENQ_OK, unit_lock(e, "n", "@", ENQ_MODE_X, &all));
        for (uint32_t i = 0; i < SHARDS; i++)
            ck_assert_uint_ne(e->map->shards[i].n_buckets & SHARD_EMPTY, 0);
        want(ENQ_OK, enq_unlock(e, all.handle, all.token));
        want(ENQ_OK, unit_lock(e, "n", "a", ENQ_MODE_X, &g));
        want(ENQ_BUSY, ask_for_all(e));
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    unit_healthy(e);
    enq_close(e);
}

/* Placed beside a lock for all of the name, not by a request that is narrow. */
TEST(what_comes_beside_a_lock_for_all_into_an_empty_table_is_found)
{
    struct enq *e = open_without_ticks();
    struct enq_grant all, g;

    want(ENQ_OK, unit_lock(e, "n", "@", ENQ_MODE_S, &all));
    want(ENQ_OK, unit_lock(e, "n", "a", ENQ_MODE_S, &g));
    want(ENQ_OK, enq_unlock(e, all.handle, all.token));
    want(ENQ_BUSY, ask_for_all(e));
    enq_close(e);
}

/* Its bucket has no slot for it, and nothing of its name in one. */
TEST(what_found_no_slot_is_found)
{
    struct enq *e = open_without_ticks();
    struct enq_grant g;
    char field[16];
    unsigned at = 0;

    for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
        at = find_field(e, "a", true, "m", at, field);
        want(ENQ_OK, unit_lock(e, "m", field, ENQ_MODE_X, &g));
    }
    want(ENQ_OK, unit_lock(e, "n", "a", ENQ_MODE_X, &g));
    ck_assert_uint_ne(bucket_of_entry(e->map,
                          entry_of_handle(e->map, g.handle, &(uint64_t){0}))
                          ->more,
        0);
    want(ENQ_BUSY, ask_for_all(e));
    unit_healthy(e);
    enq_close(e);
}

/* What an empty slot has where others have their name. */
TEST(a_name_whose_half_of_a_tag_is_zero_is_found)
{
    struct enq *e = open_without_ticks();
    struct enq_grant other, g, all;
    char name[16];

    for (unsigned i = 0, tag = 1; tag != 0; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        tag = spot_of_field(e, name, "a").tag >> 8;
    }
    want(ENQ_OK, unit_lock(e, "m", "a", ENQ_MODE_X, &other));
    want(ENQ_OK, unit_lock(e, name, "a", ENQ_MODE_X, &g));
    want(ENQ_BUSY, unit_lock(e, name, "@", ENQ_MODE_X, &all));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, unit_lock(e, name, "@", ENQ_MODE_X, &all));
    enq_close(e);
}

/* --- splits --- */

/* A field whose key goes to the bucket that comes next, from the one that is
   split for it. */
static void find_field_that_moves(const struct enq *e, char field[16])
{
    for (unsigned i = 0;; i++) {
        struct spot spot;
        uint32_t n;

        snprintf(field, 16, "f%u", i);
        spot = spot_of_field(e, "n", field);
        n = shard_buckets(&e->map->shards[spot.shard]);
        if (bucket_number(spot.hash, n) != bucket_number(spot.hash, n + 1))
            return;
    }
}

/* A request, and a lock set. */
TEST(who_waits_for_a_bucket_that_is_split_goes_on_to_the_new_one)
{
    struct enq *e = open_without_ticks();
    struct thread *t = thread_enter(e->map);
    struct enq_grant all;
    struct asker a;
    struct spot spot;
    char field[16];

    find_field_that_moves(e, field);
    spot = spot_of_field(e, "n", field);
    page_add_segment(e->map, t, spot.shard);
    want(0, spot_latch(e->map, t, &spot));
    begin(&a, e, "A", field, _i == 1);
    sleeps_on_latch(&a, &spot.bucket->latch);
    /* an empty bucket is split by the number alone */
    shm_store_release(&e->map->shards[spot.shard].n_buckets,
        spot.n_buckets + 1);
    spot_unlatch(t, &spot);
    want(ENQ_OK, end(&a));
    unit_healthy(e);
    want(ENQ_BUSY, unit_lock(e, "n", "@", ENQ_MODE_X, &all));
    enq_close(e);
}

/* As if the wall clock had been set back since: a bucket that begins anew begins
   lower. */
static bool raise_token(void *context, uint32_t shard, struct bucket *bucket)
{
    struct map *map = context;

    bucket->token = UINT64_C(1) << 62;
    map->shards[shard].ceiling = bucket->token;
    return true;
}

/* As if so many threads were attached. */
static void grow_all(struct map *map, struct thread *t, uint32_t threads)
{
    uint32_t high = map->h->threads_high, was;

    map->h->threads_high = threads;
    for (uint32_t i = 0; i < SHARDS; i++) {
        was = shard_buckets(&map->shards[i]);
        map->shards[i].cramped = 1;
        index_grow(map, t, i);
        ck_assert_uint_gt(shard_buckets(&map->shards[i]), was);
    }
    map->h->threads_high = high;
}

TEST(tokens_go_on_growing_in_both_halves_of_a_bucket_that_is_split)
{
    static uint64_t token[2000];
    struct enq *e = open_without_ticks();
    struct thread *t = thread_enter(e->map);
    struct enq_grant g;
    char field[16];

    for (uint32_t i = 0; i < SHARDS; i++)
        map_each_bucket(e->map, i, raise_token, e->map);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2000; i++) {
            snprintf(field, sizeof(field), "%d", i);
            want(ENQ_OK, unit_lock(e, "n", field, ENQ_MODE_X, &g));
            ck_assert_uint_gt(g.token, token[i]);
            token[i] = g.token;
            want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        }
        grow_all(e->map, t, 40 + 20 * (uint32_t)round);
    }
    unit_healthy(e);
    enq_close(e);
}

TEST(
    a_small_table_has_room_for_all_its_locks_beside_the_buckets_of_many_threads)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 4200};
    struct enq *e = unit_open_with(&opts);
    struct thread *t = thread_enter(e->map);
    struct enq_grant g;
    uint32_t high = e->map->h->threads_high;
    char field[16];

    e->map->h->threads_high = 4000;
    for (uint32_t round = 0; round < 10 * SHARDS; round++) {
        e->map->buckets_barren_ns = 0;
        e->map->shards[round % SHARDS].cramped = 1;
        index_grow(e->map, t, round % SHARDS);
    }
    e->map->h->threads_high = high;
    for (int i = 0; i < 4200; i++) {
        snprintf(field, sizeof(field), "%d", i);
        want(ENQ_OK, unit_lock(e, "n", field, ENQ_MODE_X, &g));
    }
    unit_healthy(e);
    enq_close(e);
}

static void ask_for_buckets(struct enq *e, uint32_t shard)
{
    uint32_t high = e->map->h->threads_high;

    e->map->h->threads_high = 4000;
    e->map->buckets_barren_ns = 0;
    e->map->shards[shard].cramped = 1;
    index_grow(e->map, thread_enter(e->map), shard);
    e->map->h->threads_high = high;
}

static unsigned short_of(const struct map *map, uint32_t wanted)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < SHARDS; i++)
        n += shard_buckets(&map->shards[i]) < wanted;
    return n;
}

static bool lock_once(struct enq *e, unsigned i)
{
    struct enq_grant g;
    char field[16];

    snprintf(field, sizeof(field), "%u", i);
    want(ENQ_OK, unit_lock(e, "n", field, ENQ_MODE_X, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    return true;
}

/* Hundreds of threads are attached, and two meet once. What a call adds is as
   much as 5 us allow; the calls that follow add the rest. */
TEST(two_threads_that_meet_have_buckets_added_to_all_shards)
{
    struct enq_open_opts large = {.size = sizeof(large), .slots = 200000};
    struct enq *e = unit_open_with(&large);
    struct thread *t = thread_enter(e->map);
    struct spot spot = spot_of_field(e, "n", "a");
    uint32_t wanted = 2 * 200 * BUCKETS_A_THREAD / SHARDS;
    struct asker a;

    e->map->h->threads_high = 2 * 200;
    for (unsigned i = 0; i < 1000; i++)
        lock_once(e, i);
    ck_assert_uint_eq(short_of(e->map, wanted), SHARDS);
    want(0, spot_latch(e->map, t, &spot));
    begin(&a, e, "A", "a", false);
    sleeps_on_latch(&a, &spot.bucket->latch);
    spot_unlatch(t, &spot);
    want(ENQ_OK, end(&a));
    for (unsigned i = 0; short_of(e->map, wanted) > 0; i++)
        ck_assert(i < 20 * SHARDS && lock_once(e, i));
    unit_healthy(e);
    enq_close(e);
}

/* That thread may be switched off: nobody sleeps for more buckets, nor claims a
   page, which all who want one would search for. But it may be no thread that
   adds any: the shard is grown by the next one that finds it free. */
TEST(who_finds_a_shard_being_grown_goes_on)
{
    struct enq *e = open_without_ticks();
    struct thread *t = thread_enter(e->map);
    struct spot spot = spot_of_field(e, "n", "a");
    uint32_t *latch = &e->map->shards[spot.shard].latch;
    struct enq_grant g;
    struct asker a;

    e->map->h->threads_high = 400;
    e->map->shards[spot.shard].cramped = 1;
    want(0, latch_acquire(t, latch, RANK_SHARD));
    begin(&a, e, "A", "a", false);
    want(ENQ_OK, end(&a));
    ck_assert_uint_eq(e->map->h->pages_used, e->map->h->slab_pages);
    latch_release(t, latch);
    want(ENQ_BUSY, unit_lock(e, "n", "a", ENQ_MODE_X, &g));
    ck_assert_uint_eq(e->map->shards[spot.shard].n_segments, 2);
    unit_healthy(e);
    enq_close(e);
}

/* Takes so many locks in this shard, from field `i` on. */
static unsigned lock_in_shard(struct enq *e, uint32_t shard, unsigned i,
    unsigned n)
{
    struct enq_grant g;
    char field[16];

    for (; n > 0; i++) {
        snprintf(field, sizeof(field), "%u", i);
        if (spot_of_field(e, "n", field).shard != shard)
            continue;
        want(ENQ_OK, unit_lock(e, "n", field, ENQ_MODE_X, &g));
        n--;
    }
    return i;
}

/* Whoever grows it holds the shard's latch: what that takes is the objects that
   are moved, more than the buckets that are new. */
TEST(a_shard_is_grown_by_the_more_the_fewer_objects_are_moved_for_it)
{
    struct enq *e = open_without_ticks();
    struct shard *shard = &e->map->shards[9];
    uint32_t before = shard->n_buckets;
    unsigned i = lock_in_shard(e, 9, 0, 10);

    ask_for_buckets(e, 9);
    ck_assert_uint_eq(shard->n_buckets, before + 64);
    lock_in_shard(e, 9, i, 400);
    before = shard->n_buckets;
    ask_for_buckets(e, 9);
    ck_assert_uint_gt(shard->n_buckets, before);
    ck_assert_uint_lt(shard->n_buckets, before + 64);
    unit_healthy(e);
    enq_close(e);
}

/* Pages have memory 512 at a time; the directory is a hole in the file. */
TEST(a_shard_whose_directory_gets_no_memory_gets_no_buckets)
{
    struct enq *e = open_without_ticks();
    struct enq_grant g;
    int fd = e->map->fd;

    want(ENQ_OK, unit_lock(e, "n", "a", ENQ_MODE_X, &g));
    e->map->fd = -1;
    ask_for_buckets(e, 7);
    ck_assert_uint_eq(e->map->shards[7].n_segments, 1);
    e->map->fd = fd;
    ask_for_buckets(e, 7);
    ck_assert_uint_eq(e->map->shards[7].n_segments, 2);
    unit_healthy(e);
    enq_close(e);
}

/* --- deaths --- */

static int die_inside(void *bucket_of_a)
{
    struct enq *e = unit_open();
    struct thread *t = thread_enter(e->map);
    struct spot spot = spot_of_field(e, "n", "a");

    want(0, spot_latch(e->map, t, &spot));
    thread_note_inside(t, INSIDE_MANY); /* all entries are looked at */
    *(uint32_t *)bucket_of_a = 1;
    kill(getpid(), SIGKILL);
    return 1;
}

/* Somebody works in it, at this very moment. */
TEST(a_bucket_beside_that_of_the_dead_goes_on)
{
    struct enq *e = open_without_ticks();
    struct thread *t = thread_enter(e->map);
    struct enq_grant a, b;
    struct spot spot;
    char other[16];

    find_field(e, "a", false, "n", 0, other);
    want(ENQ_OK, unit_lock(e, "n", "a", ENQ_MODE_X, &a));
    want(ENQ_OK, unit_lock(e, "n", other, ENQ_MODE_X, &b));
    unit_killed(unit_fork(die_inside, unit_shared(4)));
    spot = spot_of_field(e, "n", other);
    want(0, spot_latch(e->map, t, &spot));
    ck_assert_int_eq(recover(e->map, t), 0);
    ck_assert_uint_eq(latch_owner(shm_load(&spot.bucket->latch)), t->ref);
    spot_unlatch(t, &spot);
    ck_assert_uint_eq(*latch_of_handle(e->map, a.handle), 0);
    unit_healthy(e);
    want(ENQ_OK, enq_unlock(e, a.handle, a.token));
    want(ENQ_OK, enq_unlock(e, b.handle, b.token));
    enq_close(e);
}

int main(void)
{
    unit_begin("bucket");
    ADD(a_scan_of_the_name_waits_for_a_request_that_is_inside);
    ADD(a_scan_stands_in_the_way_of_nobody_in_other_buckets);
    ADD(what_comes_into_a_table_that_was_found_empty_is_found);
    ADD(what_comes_beside_a_lock_for_all_into_an_empty_table_is_found);
    ADD(what_found_no_slot_is_found);
    ADD(a_name_whose_half_of_a_tag_is_zero_is_found);
    ADD_LOOP(who_waits_for_a_bucket_that_is_split_goes_on_to_the_new_one, 2);
    ADD(tokens_go_on_growing_in_both_halves_of_a_bucket_that_is_split);
    ADD(two_threads_that_meet_have_buckets_added_to_all_shards);
    ADD(who_finds_a_shard_being_grown_goes_on);
    ADD(a_shard_is_grown_by_the_more_the_fewer_objects_are_moved_for_it);
    ADD(a_shard_whose_directory_gets_no_memory_gets_no_buckets);
    ADD(a_small_table_has_room_for_all_its_locks_beside_the_buckets_of_many_threads);
    ADD_IF(!UNIT_TSAN, "the thread sanitizer cannot fork",
        a_bucket_beside_that_of_the_dead_goes_on);
    return unit_end();
}
