/*
 * check_listing.c - a list of one name is of one moment, and keeps requests for
 * that name waiting for next to nothing: they go on while it walks, and tell it.
 */
#include "lock/listing.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/hash.h"
#include "base/point.h"
#include "unit.h"

#define KEYS 60

static struct {
    struct enq *e;
    const char *point;
    unsigned skip;
    pthread_t lister;
    void (*act)(void);
    struct enq_grant g[2 * KEYS];
} list;

static void stand_still(const struct point *p)
{
    void (*act)(void) = list.act;

    if (act == NULL || strcmp(p->name, list.point) != 0 ||
        !pthread_equal(pthread_self(), list.lister) || list.skip-- > 0)
        return;
    list.act = NULL;
    act();
}

static void arm(const char *point, unsigned skip, void (*act)(void))
{
    list.point = point;
    list.skip = skip;
    list.lister = pthread_self();
    list.act = act;
    point_hook = stand_still;
}

/* Of one owner, whose locks cumulate. */
static int lock_one(const char *field, struct enq_grant *g)
{
    return enq_lock(list.e,
        ENQ_REQ(.name = "n", .key = {field}, .owner = "me", .mode = ENQ_MODE_E),
        g);
}

static int lock(unsigned i)
{
    char field[8];

    snprintf(field, sizeof(field), "%u", i);
    return lock_one(field, &list.g[i]);
}

static void hold_half(void)
{
    for (unsigned i = 0; i < KEYS; i++)
        want(ENQ_OK, lock(i));
}

/* All others instead, one after the other: at no moment fewer than KEYS. */
static void *hold_the_other_half(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < KEYS; i++) {
        want(ENQ_OK, lock(KEYS + i));
        want(ENQ_OK, enq_unlock(list.e, list.g[i].handle, 0));
    }
    return NULL;
}

static void others_go_on(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, hold_the_other_half, NULL);
    pthread_join(thread, NULL);
}

static bool is_of_all(const struct enq_info *info)
{
    return strcmp(info->key, "@") == 0;
}

/* Whoever is listed, it is the second half. */
static void want_the_other_half(void)
{
    struct enq_info info[2 * KEYS + 1];
    size_t total;

    want(ENQ_OK, enq_list(list.e, "n", NULL, info, 2 * KEYS + 1, &total));
    ck_assert_ptr_null(list.act);
    ck_assert_uint_eq(total, KEYS + is_of_all(&info[0]));
    for (size_t i = total - KEYS; i < total; i++)
        ck_assert_int_ge(atoi(info[i].key), KEYS);
}

/* In a walk through the shards, and when all has been copied. */
static const struct {
    const char *point;
    unsigned skip;
} when[] = {
    {"list.told", 0},
    {"list.shard", 0},
    {"list.shard", 100},
    {"list.shard", 200},
    {"list.shard", 255},
    {"list.walked", 0},
};

TEST(what_has_changed_since_the_walk_came_by_is_listed)
{
    list.e = unit_open();
    hold_half();
    arm(when[_i].point, when[_i].skip, others_go_on);
    want_the_other_half();
    unit_healthy(list.e);
    enq_close(list.e);
}

/* As it overlaps all of them they go the wide way. */
TEST(what_has_changed_beside_a_generic_lock_is_listed)
{
    struct enq_grant g;

    list.e = unit_open();
    want(ENQ_OK, lock_one("@", &g));
    hold_half();
    arm(when[_i].point, when[_i].skip, others_go_on);
    want_the_other_half();
    unit_healthy(list.e);
    enq_close(list.e);
}

/* --- what changes of a lock that stays --- */

static void *renew(void *unused)
{
    (void)unused;
    want(ENQ_OK, enq_renew(list.e, list.g[0].handle, list.g[0].token, 1000000));
    return NULL;
}

static void *inherit(void *unused)
{
    struct enq_info info;
    size_t got;

    (void)unused;
    want(ENQ_OK, enq_inherit(list.e, &info, 1, &got));
    ck_assert_uint_eq(got, 1);
    return NULL;
}

static void *adopt(void *unused)
{
    struct enq_grant g;

    (void)unused;
    want(ENQ_OK, enq_adopt_for(list.e, "i", 77, &g));
    return NULL;
}

static void *abandon(void *unused)
{
    (void)unused;
    want(ENQ_OK, enq_abandon(list.e, list.g[0].handle, list.g[0].token));
    return NULL;
}

/* By a session that is over, or by the list's own. */
static const struct {
    void *(*does)(void *unused);
    bool left;
} changes[] = {
    {renew, false},
    {inherit, true},
    {adopt, true},
    {abandon, false},
};
static unsigned change;

static void it_changes(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, changes[change].does, NULL);
    pthread_join(thread, NULL);
}

/* Its ttl is the default's at first, which is shorter. */
static void hold_one(struct enq *e)
{
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"k"}, .id = "i", .peer = "p",
                .owner = "me", .mode = ENQ_MODE_E, .ttl_ms = 500000,
                .on_death = ENQ_DEATH_LEASE),
            &list.g[0]));
}

static void want_the_change(const struct enq_info *info)
{
    void *(*does)(void *) = changes[change].does;

    ck_assert_str_eq(info->key, "k");
    ck_assert_int_eq(info->ttl_left_ms > 500000, does == renew);
    ck_assert_uint_eq(info->orphaned, does == abandon);
    ck_assert_uint_eq(info->heir, does == adopt ? 77 : 0);
    ck_assert_uint_eq(info->pid == 0, does == abandon);
}

/* Beside a generic lock that overlaps it, it goes the wide way. */
static void list_a_change(unsigned i, bool wide)
{
    struct enq_info info[2];
    struct enq_grant g;
    struct enq *left;
    size_t total;

    list.e = unit_open();
    left = unit_open();
    change = i % LENGTH(changes);
    i /= LENGTH(changes);
    if (wide)
        want(ENQ_OK, lock_one("@", &g));
    hold_one(changes[change].left ? left : list.e);
    enq_close(left);
    arm(when[i].point, when[i].skip, it_changes);
    want(ENQ_OK, enq_list(list.e, "n", NULL, info, 2, &total));
    ck_assert_ptr_null(list.act);
    ck_assert_uint_eq(total, 1 + wide);
    want_the_change(&info[is_of_all(&info[0])]);
    unit_healthy(list.e);
    enq_close(list.e);
}

TEST(a_change_of_a_lock_that_stays_is_listed)
{
    list_a_change((unsigned)_i, false);
}

TEST(a_change_beside_a_generic_lock_of_one_that_stays_is_listed)
{
    list_a_change((unsigned)_i, true);
}

static struct gate *gate_of(const char *name)
{
    uint64_t hash = hash_bytes(name, strlen(name) + 1, list.e->map->hash_seed);

    return &list.e->map->gates[gate_of_hash((uint32_t)hash)];
}

static struct gate *gate_of_n(void)
{
    return gate_of("n");
}

/* As set_gates() does. */
static void forget_and_go_on(void)
{
    shm_and(&gate_of_n()->raised, GATE_COUNT);
    others_go_on();
}

TEST(a_list_whose_mark_on_the_gate_is_lost_looks_at_all_of_it)
{
    list.e = unit_open();
    hold_half();
    arm("list.shard", 200, forget_and_go_on);
    want_the_other_half();
    enq_close(list.e);
}

TEST(a_list_that_finds_no_listing_is_of_one_moment_all_the_same)
{
    list.e = unit_open();
    hold_half();
    for (unsigned i = 0; i < LISTINGS; i++)
        list.e->map->listings[i].by = thread_enter(list.e->map)->ref;
    arm("list.shard", 200, others_go_on);
    want_the_other_half();
    enq_close(list.e);
}

/* Nobody is told, once the list is made. */
TEST(requests_are_told_of_a_list_only_while_it_is_made)
{
    list.e = unit_open();
    hold_half();
    arm("list.shard", 10, others_go_on);
    want_the_other_half();
    ck_assert_uint_eq(gate_of_n()->raised, 0);
    for (unsigned i = 0; i < LISTINGS; i++)
        ck_assert_uint_eq(list.e->map->listings[i].by, 0);
    enq_close(list.e);
}

/* --- damage --- */

#define NOWHERE 0xfffffff0u

static bool leads_nowhere(void *unused, uint32_t shard, struct bucket *bucket)
{
    (void)unused, (void)shard;
    for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
        if (bucket->tag[i] == 0)
            continue;
        bucket->ref[i] = NOWHERE;
        return false;
    }
    return true;
}

/* It is not left out of the list. */
TEST(what_cannot_be_found_by_a_list_is_said)
{
    bool all = true;

    list.e = unit_open();
    hold_half();
    if (_i)
        gate_of_n()->head = NOWHERE;
    for (unsigned i = 0; i < SHARDS && all && !_i; i++)
        all = map_each_bucket(list.e->map, i, leads_nowhere, NULL);
    ck_assert(!all || _i);
    want(ENQ_ECORRUPT, enq_list(list.e, "n", NULL, NULL, 0, NULL));
    ck_assert_uint_eq(gate_of_n()->raised, 0);
    ck_assert_uint_eq(gate_of_n()->latch, 0);
    ck_assert_uint_eq(list.e->map->listings[0].by, 0);
    enq_close(list.e);
}

/* --- deaths --- */

static void die(void)
{
    _exit(7);
}

TEST(the_listing_of_a_list_that_died_is_the_next_ones)
{
    int status;
    pid_t child;

    list.e = unit_open();
    child = fork();
    if (child == 0) {
        struct enq *e = unit_open();

        arm("list.shard", 10, die);
        (void)enq_list(e, "n", NULL, NULL, 0, NULL);
        _exit(1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(WEXITSTATUS(status), 7);
    ck_assert_uint_ne(gate_of_n()->raised, 0);
    want(ENQ_OK, enq_list(list.e, "another", NULL, NULL, 0, NULL));
    ck_assert_uint_eq(gate_of_n()->raised, 0);
    hold_half();
    arm("list.shard", 200, others_go_on);
    want_the_other_half();
    ck_assert_uint_eq(gate_of_n()->raised, 0);
    ck_assert_uint_eq(list.e->map->listings[0].by, 0);
    unit_healthy(list.e);
    enq_close(list.e);
}

/* The gate's latch is free, and its bucket's. */
static void lock_and_unlock(void)
{
    struct enq_grant g;

    ck_assert_uint_eq(gate_of_n()->latch, 0);
    ck_assert_uint_eq(gate_of_n()->raised & GATE_COUNT, 0);
    want(ENQ_OK, unit_lock(list.e, "n", "new", ENQ_MODE_X, &g));
    want(ENQ_OK, enq_unlock(list.e, g.handle, 0));
}

static void *lock_and_unlock_once(void *unused)
{
    (void)unused;
    lock_and_unlock();
    return NULL;
}

static void another_goes_on(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, lock_and_unlock_once, NULL);
    pthread_join(thread, NULL);
}

TEST(requests_for_the_name_do_not_wait_for_the_walk)
{
    size_t total;

    list.e = unit_open();
    hold_half();
    arm("list.shard", 150, another_goes_on);
    want(ENQ_OK, enq_list(list.e, "n", NULL, NULL, 0, &total));
    ck_assert_ptr_null(list.act);
    ck_assert_uint_eq(total, KEYS);
    enq_close(list.e);
}

/* Thousands: the walk is one of the slabs. */
TEST(what_has_changed_since_a_walk_through_the_slabs_is_listed)
{
    enum { N = 3000 };
    struct enq_info *info = calloc(N + 2 * KEYS, sizeof(*info));
    struct enq_grant g;
    char field[8];
    size_t total;

    list.e = unit_open();
    for (unsigned i = 2 * KEYS; i < N; i++) {
        snprintf(field, sizeof(field), "%u", i);
        want(ENQ_OK, unit_lock(list.e, "n", field, ENQ_MODE_X, &g));
    }
    hold_half();
    arm("list.slabs", 0, others_go_on);
    want(ENQ_OK, enq_list(list.e, "n", NULL, info, N, &total));
    ck_assert_ptr_null(list.act);
    ck_assert_uint_eq(total, N - KEYS);
    for (size_t i = 0; i < total; i++)
        ck_assert_int_ge(atoi(info[i].key), KEYS);
    free(info);
    enq_close(list.e);
}

/* --- room for the rows --- */

/* A list that wants more and more of it ends, with no harm to the machine. */
static void bound_memory(void)
{
    if (!UNIT_SANITIZED)
        setrlimit(RLIMIT_AS, &(struct rlimit){1u << 30, 1u << 30});
}

static void want_listed(struct enq_info *info, size_t n)
{
    size_t total;

    want(ENQ_OK, enq_list(list.e, "n", NULL, info, n, &total));
    ck_assert_uint_eq(total, n);
}

/* Too few for a walk of the slabs, which asks for room once. */
TEST(a_list_has_room_for_however_many_hundred_there_are)
{
    enum { N = 900 };
    static const unsigned some[] = {255, 256, 257, 400, 511, 513, 700, N};
    struct enq_info *info = calloc(N, sizeof(*info));
    struct enq_grant g;
    char field[8];
    unsigned n = 0;

    list.e = unit_open();
    bound_memory();
    for (unsigned i = 0; i < LENGTH(some); i++) {
        for (; n < some[i]; n++) {
            snprintf(field, sizeof(field), "%u", n);
            want(ENQ_OK, unit_lock(list.e, "n", field, ENQ_MODE_X, &g));
        }
        want_listed(info, n);
    }
    free(info);
    enq_close(list.e);
}

#define SHARING 300

static void *share_one_key(void *unused)
{
    struct enq_grant g;

    (void)unused;
    for (unsigned i = 0; i < SHARING; i++)
        want(ENQ_OK, unit_lock(list.e, "n", "shared", ENQ_MODE_S, &g));
    return NULL;
}

static void many_share_one_key(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, share_one_key, NULL);
    pthread_join(thread, NULL);
}

/* It is all of one cell, so that the list thinks that little is left to see: that
   there is no room for it shows while others are kept waiting. */
TEST(what_comes_at_one_key_after_the_walk_has_room_however_much_it_is)
{
    struct enq_info *info = calloc(KEYS + SHARING, sizeof(*info));

    list.e = unit_open();
    bound_memory();
    hold_half();
    arm("list.walked", 0, many_share_one_key);
    want_listed(info, KEYS + SHARING);
    ck_assert_ptr_null(list.act);
    free(info);
    enq_close(list.e);
}

int main(void)
{
    unit_begin("listing");
    ADD_LOOP(what_has_changed_since_the_walk_came_by_is_listed, LENGTH(when));
    ADD_LOOP(what_has_changed_beside_a_generic_lock_is_listed, LENGTH(when));
    ADD_LOOP(a_change_of_a_lock_that_stays_is_listed,
        LENGTH(when) * LENGTH(changes));
    ADD_LOOP(a_change_beside_a_generic_lock_of_one_that_stays_is_listed,
        LENGTH(when) * LENGTH(changes));
    ADD(what_has_changed_since_a_walk_through_the_slabs_is_listed);
    ADD(a_list_whose_mark_on_the_gate_is_lost_looks_at_all_of_it);
    ADD(a_list_that_finds_no_listing_is_of_one_moment_all_the_same);
    ADD_LOOP(what_cannot_be_found_by_a_list_is_said, 2);
    ADD(requests_are_told_of_a_list_only_while_it_is_made);
    ADD(the_listing_of_a_list_that_died_is_the_next_ones);
    ADD(requests_for_the_name_do_not_wait_for_the_walk);
    ADD(a_list_has_room_for_however_many_hundred_there_are);
    ADD(what_comes_at_one_key_after_the_walk_has_room_however_much_it_is);
    return unit_end();
}
