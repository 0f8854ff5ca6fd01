/*
 * check_moment.c - what others may do in one moment: a thread stands at a
 * point, as if it were preempted there, until they have done it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/attachment.h"
#include "lib/latches.h"
#include "recovery/recover.h"
#include "sync/latch.h"
#include "sync/life.h"
#include "unit.h"

/* --- moments --- */

static struct {
    const char *point;
    unsigned skip; /* so many passes of it before */
    pthread_t thread;
    void (*act)(void);
} moment;

static unsigned remade; /* how often something was made anew */

static void stand_still(const struct point *p)
{
    void (*act)(void) = moment.act;

    remade += strcmp(p->name, "recover.index_cleared") == 0;
    if (act == NULL || strcmp(p->name, moment.point) != 0 ||
        !pthread_equal(pthread_self(), moment.thread) || moment.skip-- > 0)
        return;
    moment.act = NULL;
    act();
}

/* When this thread passes that point. */
static void arm(const char *point, unsigned skip, void (*act)(void))
{
    moment.point = point;
    moment.skip = skip;
    moment.thread = pthread_self();
    moment.act = act;
    point_hook = stand_still;
}

static void acted(void)
{
    ck_assert_ptr_null(moment.act);
    point_hook = NULL;
}

/* --- two workers, one after the other --- */

static struct {
    struct enq *e;
    uint32_t *word; /* what both hold for a while; or NULL */
    struct {
        pthread_t id;
        struct thread *t;
        uint32_t is_in, may_go;
    } worker[2];
} shop;

static void *work(void *number)
{
    unsigned i = *(unsigned *)number;
    struct thread *t = thread_enter(shop.e->map);

    shop.worker[i].t = t;
    if (shop.word != NULL)
        ck_assert_int_eq(latch_acquire(t, shop.word, RANK_SHARD), 0);
    shm_store_release(&shop.worker[i].is_in, 1);
    while (!shm_load_acquire(&shop.worker[i].may_go))
        unit_nap();
    if (shop.word != NULL)
        latch_release(t, shop.word);
    return NULL;
}

static void worker_comes(unsigned i)
{
    static unsigned numbers[] = {0, 1};

    pthread_create(&shop.worker[i].id, NULL, work, &numbers[i]);
    eventually(shm_load_acquire(&shop.worker[i].is_in));
}

static void worker_goes(unsigned i)
{
    shm_store_release(&shop.worker[i].may_go, 1);
    pthread_join(shop.worker[i].id, NULL);
}

static void one_goes_and_one_comes(void)
{
    worker_goes(0);
    worker_comes(1);
}

/* --- recovery --- */

/* Slots that are looked at before this one. */
static unsigned slots_before(const struct thread_slot *slot)
{
    unsigned n = 0;

    for (const struct thread_slot *s = shop.e->map->threads; s < slot; s++)
        n += s->ref != 0;
    return n;
}

TEST(a_thread_that_takes_over_the_slot_of_one_that_ended_is_not_taken_for_dead)
{
    struct thread *me;

    shop.e = unit_open();
    me = thread_enter(shop.e->map);
    worker_comes(0);
    arm("recover.slot_read", slots_before(shop.worker[0].t->slot),
        one_goes_and_one_comes);
    ck_assert_int_eq(recover(shop.e->map, me), 0);
    acted();
    ck_assert_ptr_eq(shop.worker[1].t->slot,
        &shop.e->map->threads[shop.worker[1].t->ref & THREAD_MASK]);
    ck_assert(!thread_is_dead(shop.e->map, shop.worker[1].t->ref));
    worker_goes(1);
    enq_close(shop.e);
}

#define SHARD 5u

static unsigned slots_used(const struct bucket *bucket)
{
    return BUCKET_SLOTS - (unsigned)__builtin_popcount(bucket_slots(bucket, 0));
}

/* The first that has an object. */
static struct bucket *bucket(void)
{
    uint32_t i = 0;

    while (i + 1 < BUCKETS_FIRST &&
        slots_used(at_bucket(shop.e->map, SHARD, i)) == 0)
        i++;
    return at_bucket(shop.e->map, SHARD, i);
}

TEST(
    a_bucket_is_not_remade_whose_latch_a_living_thread_took_from_one_that_ended)
{
    struct enq_grant g;
    struct thread *me;
    char field[16];
    uint32_t objects;

    shop.e = unit_open();
    me = thread_enter(shop.e->map);
    for (int i = 0; i < 2000; i++) {
        snprintf(field, sizeof(field), "%d", i);
        want(ENQ_OK, unit_lock(shop.e, "n", field, ENQ_MODE_X, &g));
    }
    objects = slots_used(bucket());
    ck_assert_uint_gt(objects, 0);
    shop.word = &bucket()->latch;
    worker_comes(0);
    arm("recover.liveness_read", 1 + GATES + SHARDS_ALL,
        one_goes_and_one_comes);
    ck_assert_int_eq(recover(shop.e->map, me), 0);
    acted();
    ck_assert_uint_eq(remade, 0);
    ck_assert_uint_eq(latch_owner(shm_load(shop.word)), shop.worker[1].t->ref);
    ck_assert_uint_eq(slots_used(bucket()), objects);
    worker_goes(1);
    unit_healthy(shop.e);
    enq_close(shop.e);
}

/* --- an end while another closes --- */

static struct enq *other;
static struct enq_grant grants[100];

static void *work_with_a_lock(void *nothing)
{
    struct enq_grant g;

    want(ENQ_OK, unit_lock(shop.e, "n", "worker", ENQ_MODE_X, &g));
    want(ENQ_OK, enq_unlock(shop.e, g.handle, g.token));
    shm_store_release(&shop.worker[0].is_in, 1);
    while (!shm_load_acquire(&shop.worker[0].may_go))
        unit_nap();
    return nothing;
}

/* The worker cannot leave its entries in the depot: the session's mutex is not
   free, as if the helper were at work on its magazines. */
static void another_locks_and_the_worker_ends(void)
{
    char field[16];

    for (unsigned i = 0; i < LENGTH(grants); i++) {
        snprintf(field, sizeof(field), "%u", i);
        want(ENQ_OK, unit_lock(other, "n", field, ENQ_MODE_X, &grants[i]));
    }
    pthread_mutex_lock(&shop.e->session.mutex);
    worker_goes(0);
    pthread_mutex_unlock(&shop.e->session.mutex);
}

TEST(a_thread_that_ends_while_another_closes_takes_nobodys_locks)
{
    struct enq_open_opts small = {.size = sizeof(small), .slots = 210};

    shop.e = unit_open_with(&small);
    other = unit_open();
    pthread_create(&shop.worker[0].id, NULL, work_with_a_lock, NULL);
    eventually(shm_load_acquire(&shop.worker[0].is_in));
    arm("session.reaped", 0, another_locks_and_the_worker_ends);
    enq_close(shop.e);
    acted();
    for (unsigned i = 0; i < LENGTH(grants); i++)
        want(ENQ_OK, enq_valid(other, grants[i].handle));
    unit_healthy(other);
    enq_close(other);
}

/* --- a ttl that is shortened before its waiter sleeps --- */

static struct enq_grant held;
static unsigned shortened;
static int64_t slept_ns; /* the next time, when it was shortened twice */
static void (*real_wait)(const struct sys_watch *watches, unsigned n,
    mono_t until);

static void *shortens(void *nothing)
{
    int64_t ttl_ms = shortened == 1 ? 30000 : 20;

    want(ENQ_OK, enq_renew(shop.e, held.handle, held.token, ttl_ms));
    return nothing;
}

/* Each time the waiter has looked, and is about to sleep. */
static void the_ttl_is_shortened(void)
{
    pthread_t holder;

    shortened++;
    pthread_create(&holder, NULL, shortens, NULL);
    pthread_join(holder, NULL);
    if (shortened == 1)
        arm(moment.point, 0, the_ttl_is_shortened);
}

static void note_and_wait(const struct sys_watch *watches, unsigned n,
    mono_t until)
{
    if (shortened == 2 && slept_ns == 0 &&
        pthread_equal(pthread_self(), moment.thread))
        slept_ns = until.ns - sys.now().ns;
    real_wait(watches, n, until);
}

/* What it waits for, and with what else if it is a lock set; and which owner
   has begun to wait before, and will have it for a moment. */
static const struct {
    const char *key, *other, *before;
} who_waits[] = {
    {"k", NULL, NULL},
    {"@", NULL, NULL},
    {"@", NULL, "@"},
    {"k", "other", NULL},
    {"k", "other", "k"},
    {"@", "other", NULL},
};

#define WAITERS(of, field)                                                     \
    ENQ_REQ(.name = of, .key = {field}, .mode = ENQ_MODE_X, .owner = "waiter", \
        .wait_ms = 2000)

TEST(a_ttl_that_is_shortened_just_before_a_waiter_sleeps_is_not_slept_through)
{
    const struct enq_req *both[] = {
        WAITERS("n", who_waits[_i].key), WAITERS("o", who_waits[_i].other)};
    struct enq_open_opts strict = {.size = sizeof(strict), .strict = 1};
    struct enq_grant g[2];
    uint64_t ticket;

    setenv("ENQ_TICK_MS", "600000", 1);
    shop.e = unit_open_with(&strict);
    want(ENQ_OK,
        enq_lock(shop.e,
            ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_X,
                .owner = "holder", .ttl_ms = 60000),
            &held));
    if (who_waits[_i].before != NULL)
        want(ENQ_PENDING,
            enq_start(shop.e,
                ENQ_REQ(.name = "n", .key = {who_waits[_i].before},
                    .mode = ENQ_MODE_X, .owner = "before", .ttl_ms = 20,
                    .wait_ms = ENQ_FOREVER),
                &g[0], &ticket));
    real_wait = sys.wait;
    arm("wait.looked", 0, the_ttl_is_shortened);
    sys.wait = note_and_wait;
    if (who_waits[_i].other == NULL)
        want(ENQ_OK, enq_lock(shop.e, both[0], g));
    else
        want(ENQ_OK, enq_lock_set(shop.e, both, 2, g));
    sys.wait = real_wait;
    acted();
    ck_assert_int_le(slept_ns, 40 * NS_PER_MS);
    ck_assert_uint_eq(shortened, 2);
    enq_close(shop.e);
}

/* --- recovery before a waiter sleeps --- */

static bool is_recovered, slept_through;

static void looks_again(void)
{
    is_recovered = false;
}

/* Of nobody, and so of a dead one: what it guards is made anew. */
static void another_recovers(void)
{
    shm_store(&bucket()->latch, 1);
    ck_assert_int_eq(recover(shop.e->map, thread_enter(shop.e->map)), 0);
    is_recovered = true;
    arm(moment.point, 0, looks_again);
}

static void sleep_if_looked(const struct sys_watch *watches, unsigned n,
    mono_t until)
{
    bool may_sleep = true;

    for (unsigned i = 0; i < n; i++)
        may_sleep = may_sleep && shm_load(watches[i].word) == watches[i].value;
    slept_through = slept_through || (is_recovered && may_sleep);
    real_wait(watches, n, until);
}

TEST(who_does_not_sleep_yet_is_roused_by_who_recovers_as_who_sleeps_is)
{
    struct enq_grant g[2];
    const struct enq_req *both[] = {
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_X,
            .owner = "waiter", .wait_ms = 100),
        ENQ_REQ(.name = "o", .key = {"k"}, .mode = ENQ_MODE_X,
            .owner = "waiter", .wait_ms = 100)};

    shop.e = unit_open();
    want(ENQ_OK, unit_lock(shop.e, "n", "k", ENQ_MODE_X, &held));
    real_wait = sys.wait;
    arm("wait.looked", 0, another_recovers);
    sys.wait = sleep_if_looked;
    if (_i == 0)
        want(ENQ_TIMEDOUT, enq_lock(shop.e, both[0], g));
    else
        want(ENQ_TIMEDOUT, enq_lock_set(shop.e, both, 2, g));
    sys.wait = real_wait;
    acted();
    ck_assert(!slept_through);
    unit_healthy(shop.e);
    enq_close(shop.e);
}

/* --- recovery, and who comes right behind it --- */

static struct enq_grant all_of_n;

static void *lock_all_of_n(void *unused)
{
    want(ENQ_OK, unit_lock(shop.e, "n", "@", ENQ_MODE_X, &all_of_n));
    return unused;
}

static void another_locks_all_of_n(void)
{
    pthread_t another;

    pthread_create(&another, NULL, lock_all_of_n, NULL);
    pthread_join(another, NULL);
}

/* It raises the gate that has just been made anew. */
TEST(a_wide_lock_that_is_taken_as_soon_as_a_gate_is_whole_is_in_the_way)
{
    struct enq_grant g;
    struct enq *second = unit_open();

    shop.e = unit_open();
    for (unsigned i = 0; i < GATES; i++) /* of nobody, and so of a dead one */
        shm_store(&shop.e->map->gates[i].latch, 1);
    arm("recover.latches_freed", 0, another_locks_all_of_n);
    ck_assert_int_eq(recover(shop.e->map, thread_enter(shop.e->map)), 0);
    acted();
    want(ENQ_BUSY, unit_lock(second, "n", "k", ENQ_MODE_X, &g));
    unit_healthy(shop.e);
    want(ENQ_OK, enq_unlock(shop.e, all_of_n.handle, all_of_n.token));
    enq_close(shop.e);
    enq_close(second);
}

/* --- a name that goes --- */

static struct enq *looker; /* whose helper thread looks each second */

static void until_the_flag_is_taken_back(void)
{
    eventually(!shm_load(&looker->map->h->unlinked));
}

TEST(a_space_gives_no_locks_once_its_name_is_gone_however_long_that_took)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    looker = e;
    arm("unlink.told", 0, until_the_flag_is_taken_back);
    want(ENQ_OK, enq_unlink(unit_space()));
    acted();
    want(ENQ_EGONE, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    enq_close(e);
}

/* --- children --- */

static void *open_and_lock(void *nothing)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .wait_ms = ENQ_FOREVER),
            &g));
    enq_close(e);
    return nothing;
}

static pthread_t second;

static void the_second_opens_first(void)
{
    pthread_create(&second, NULL, open_and_lock, NULL);
    pthread_join(second, NULL);
}

static int open_twice_at_once(void *nothing)
{
    alarm(20);
    arm("process.renewed", 0, the_second_opens_first);
    open_and_lock(nothing);
    return moment.act != NULL;
}

TEST(two_threads_of_a_child_that_open_at_once_both_get_in)
{
    struct enq *e = unit_open();

    unit_join(unit_fork(open_twice_at_once, NULL));
    unit_healthy(e);
    enq_close(e);
}

static uint32_t making_a_key, may_make_it = 1;

/* As the library calls it; slow for the first thread. */
int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    int (*real)(pthread_key_t *, void (*)(void *)) = (int (*)(pthread_key_t *,
        void (*)(void *)))dlsym(RTLD_NEXT, "pthread_key_create");

    shm_store_release(&making_a_key, 1);
    while (!shm_load_acquire(&may_make_it))
        unit_nap();
    return real(key, destructor);
}

static int open_in_child(void *nothing)
{
    alarm(20);
    shm_store_release(&may_make_it, 1);
    open_and_lock(nothing);
    return 0;
}

TEST(a_child_forked_during_the_very_first_call_opens_its_own)
{
    pthread_t first;

    shm_store(&may_make_it, 0);
    pthread_create(&first, NULL, open_and_lock, NULL);
    eventually(shm_load_acquire(&making_a_key));
    unit_join(unit_fork(open_in_child, NULL));
    shm_store_release(&may_make_it, 1);
    pthread_join(first, NULL);
}

/* --- a magazine, and the thread that empties it for another --- */

static struct {
    struct enq *e;
    struct enq_grant g;
    uint32_t order, done; /* 1: has a magazine; 2: holds one out of it */
} sleeper;

static void *fill_and_take(void *nothing)
{
    for (uint32_t i = 1; i <= 2; i++) {
        while (shm_load_acquire(&sleeper.order) < i)
            unit_nap();
        want(ENQ_OK, unit_lock(sleeper.e, "n", "m", ENQ_MODE_X, &sleeper.g));
        if (i == 1)
            want(ENQ_OK, enq_unlock(sleeper.e, sleeper.g.handle, 0));
        shm_store_release(&sleeper.done, i);
    }
    return nothing;
}

static void let_sleeper_do(uint32_t what)
{
    shm_store_release(&sleeper.order, what);
    eventually(shm_load_acquire(&sleeper.done) == what);
}

static void sleeper_takes_one(void)
{
    let_sleeper_do(2);
}

TEST(what_its_thread_took_just_now_is_not_taken_from_the_magazine)
{
    pthread_t thread;

    sleeper.e = unit_open();
    pthread_create(&thread, NULL, fill_and_take, NULL);
    let_sleeper_do(1);
    arm("shed.counted", 0, sleeper_takes_one);
    slab_shed(&sleeper.e->session);
    acted();
    pthread_join(thread, NULL);
    want(ENQ_OK, enq_valid(sleeper.e, sleeper.g.handle));
    unit_healthy(sleeper.e);
    want(ENQ_OK, enq_unlock(sleeper.e, sleeper.g.handle, sleeper.g.token));
    slab_shed(&sleeper.e->session);
    unit_healthy(sleeper.e);
    enq_close(sleeper.e);
}

int main(void)
{
    unit_begin("moment");
    /* The address sanitizer's allocator has no fork handler: see check_fork. */
    if (!UNIT_SANITIZED)
        ADD(a_child_forked_during_the_very_first_call_opens_its_own);
    ADD(a_thread_that_takes_over_the_slot_of_one_that_ended_is_not_taken_for_dead);
    ADD(a_bucket_is_not_remade_whose_latch_a_living_thread_took_from_one_that_ended);
    ADD(a_thread_that_ends_while_another_closes_takes_nobodys_locks);
    ADD_LOOP(
        a_ttl_that_is_shortened_just_before_a_waiter_sleeps_is_not_slept_through,
        LENGTH(who_waits));
    ADD_LOOP(who_does_not_sleep_yet_is_roused_by_who_recovers_as_who_sleeps_is,
        2);
    ADD(a_wide_lock_that_is_taken_as_soon_as_a_gate_is_whole_is_in_the_way);
    ADD(a_space_gives_no_locks_once_its_name_is_gone_however_long_that_took);
    ADD(two_threads_of_a_child_that_open_at_once_both_get_in);
    ADD(what_its_thread_took_just_now_is_not_taken_from_the_magazine);
    return unit_end();
}
