/*
 * check_latch.c - the latch: one at a time, also when its owner dies.
 */
#include "sync/latch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/attachment.h"
#include "sync/hooks.h"
#include "sync/life.h"
#include "unit.h"

/* The word of a shard that nothing here uses otherwise. */
#define OF(map) (&(map)->shards[3].latch)

#define NOBODY 1u /* no thread has generation 0: a dead one's */

struct shared {
    uint32_t inside, has, wants, go, sleeps;
    uint64_t count; /* not atomic: the word guards it */
};

static struct shared *shared;

static void work(struct thread *t, uint32_t *word, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        ck_assert_int_eq(latch_acquire(t, word, RANK_SHARD), 0);
        ck_assert_uint_eq(shm_add(&shared->inside, 1), 1);
        shared->count++;
        shm_add(&shared->inside, -1);
        latch_release(t, word);
    }
}

static int work_in_process(void *rounds)
{
    struct enq *e = unit_open();

    work(thread_enter(e->map), OF(e->map), *(int *)rounds);
    enq_close(e);
    return 0;
}

TEST(one_process_at_a_time_has_the_latch)
{
    int rounds = 20000;

    shared = unit_shared(sizeof(*shared));
    enq_close(unit_open());
    for (int i = 0; i < 4; i++)
        unit_fork(work_in_process, &rounds);
    unit_join_all(4);
    ck_assert_uint_eq(shared->count, 4 * (uint64_t)rounds);
}

static void *work_in_thread(void *e)
{
    struct map *map = ((struct enq *)e)->map;

    work(thread_enter(map), OF(map), 20000);
    return NULL;
}

TEST(one_thread_at_a_time_has_the_latch)
{
    struct enq *e = unit_open();
    pthread_t threads[4];

    shared = unit_shared(sizeof(*shared));
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_create(&threads[i], NULL, work_in_thread, e);
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(shared->count, 80000);
    enq_close(e);
}

TEST(a_free_latch_is_zero_again)
{
    struct enq *e = unit_open();
    struct thread *t = thread_enter(e->map);

    ck_assert_int_eq(latch_acquire(t, OF(e->map), RANK_SHARD), 0);
    ck_assert_uint_eq(*OF(e->map), t->ref);
    latch_release(t, OF(e->map));
    ck_assert_uint_eq(*OF(e->map), 0);
    enq_close(e);
}

static int hold_and_stay(void *nothing)
{
    struct enq *e = unit_open();

    (void)nothing;
    latch_acquire(thread_enter(e->map), OF(e->map), RANK_SHARD);
    shm_add(&shared->has, 1);
    for (;;)
        pause();
    return 0;
}

TEST(the_latch_of_a_killed_holder_is_taken_over)
{
    struct enq *e = unit_open();
    pid_t pid;

    shared = unit_shared(sizeof(*shared));
    for (uint32_t i = 1; i <= 10; i++) {
        pid = unit_fork(hold_and_stay, NULL);
        eventually(shm_load(&shared->has) == i);
        unit_kill(pid);
        work(thread_enter(e->map), OF(e->map), 1);
    }
    ck_assert_uint_eq(*OF(e->map), 0);
    unit_healthy(e);
    enq_close(e);
}

/* No kernel writes that: the segment is damaged. */
TEST(a_holder_whose_liveness_word_says_both_is_waited_for_no_longer)
{
    struct enq *e = unit_open();
    struct thread_slot *slot;
    pid_t pid;

    shared = unit_shared(sizeof(*shared));
    pid = unit_fork(hold_and_stay, NULL);
    eventually(shm_load(&shared->has) == 1);
    slot = at_thread(e->map, latch_owner(shm_load(OF(e->map))));
    shm_or((uint32_t *)&slot->life, FUTEX_OWNER_DIED);
    work(thread_enter(e->map), OF(e->map), 1);
    unit_kill(pid);
    enq_close(e);
}

static int writes_our_name(struct map *map, struct thread *me)
{
    shm_store(OF(map), me->ref);
    return 0;
}

/* While we wait for it, as in a segment that somebody writes over. */
TEST(a_latch_that_names_us_though_we_have_not_taken_it_is_damaged)
{
    struct enq *e = unit_open();
    struct thread *t = thread_enter(e->map);
    struct hooks before = hooks;

    shared = unit_shared(sizeof(*shared));
    *OF(e->map) = t->ref;
    want(ENQ_ECORRUPT, latch_acquire(t, OF(e->map), RANK_SHARD));
    hooks.recover = writes_our_name;
    *OF(e->map) = NOBODY;
    want(ENQ_ECORRUPT, latch_acquire(t, OF(e->map), RANK_SHARD));
    ck_assert_uint_eq(t->n_held, 0);
    hooks = before;
    *OF(e->map) = 0;
    work(t, OF(e->map), 1);
    enq_close(e);
}

static int want_it(void *nothing)
{
    struct enq *e = unit_open();

    (void)nothing;
    shm_add(&shared->wants, 1);
    work(thread_enter(e->map), OF(e->map), 1);
    enq_close(e);
    return 0;
}

/* They sleep when the holder dies: all of them get the word in turn. */
TEST(sleepers_get_the_latch_of_a_killed_holder)
{
    pid_t holder;

    shared = unit_shared(sizeof(*shared));
    enq_close(unit_open());
    holder = unit_fork(hold_and_stay, NULL);
    eventually(shm_load(&shared->has) == 1);
    for (int i = 0; i < 4; i++)
        unit_fork(want_it, NULL);
    eventually(shm_load(&shared->wants) == 4);
    usleep(20000);
    kill(holder, SIGKILL);
    for (int i = 0; i < 4; i++)
        eventually(shm_load(&shared->count) == 4);
    unit_killed(holder);
    unit_join_all(4);
}

static int hold_for_a_while(void *nothing)
{
    struct enq *e = unit_open();
    struct thread *t = thread_enter(e->map);

    (void)nothing;
    latch_acquire(t, OF(e->map), RANK_SHARD);
    shm_add(&shared->has, 1);
    eventually(shm_load(&shared->go));
    latch_release(t, OF(e->map));
    enq_close(e);
    return 0;
}

TEST(a_sleeper_is_woken_when_the_latch_is_free)
{
    struct enq *e = unit_open();

    shared = unit_shared(sizeof(*shared));
    unit_fork(hold_for_a_while, NULL);
    eventually(shm_load(&shared->has));
    unit_fork(want_it, NULL);
    eventually(shm_load(OF(e->map)) & LATCH_WAITERS);
    shm_store(&shared->go, 1);
    unit_join_all(2);
    ck_assert_uint_eq(shared->count, 1);
    enq_close(e);
}

static void *want_it_in_thread(void *e)
{
    struct map *map = ((struct enq *)e)->map;
    struct thread *t = thread_enter(map);
    struct rusage use;

    shm_add(&shared->wants, 1);
    work(t, OF(map), 1);
    getrusage(RUSAGE_THREAD, &use);
    shm_add(&shared->sleeps, (uint32_t)use.ru_nvcsw);
    return NULL;
}

/* A holder that is stopped, or thousands of others before it: each sleep is
   twice as long as the one before, ten in a second, and a few for the threads'
   coming and going. At 40 ms there would be 50 more for each. */
TEST(who_sleeps_long_on_a_latch_wakes_up_more_and_more_seldom)
{
    struct enq *e = unit_open();
    struct thread *t = thread_enter(e->map);
    pthread_t threads[20];

    shared = unit_shared(sizeof(*shared));
    latch_acquire(t, OF(e->map), RANK_SHARD);
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_create(&threads[i], NULL, want_it_in_thread, e);
    eventually(shm_load(&shared->wants) == LENGTH(threads));
    usleep(2000000);
    latch_release(t, OF(e->map));
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_le(shared->sleeps, 30 * LENGTH(threads));
    enq_close(e);
}

/* --- by a clock that a sleep moves --- */

static struct {
    int64_t now_ns, free_ns, first_ns; /* the holder lets go; the first tick */
    uint32_t *latch;
    unsigned sleeps;
} nap;

static mono_t nap_now(void)
{
    return (mono_t){nap.now_ns};
}

static void nap_sleep(const struct sys_watch *watches, unsigned n, mono_t until)
{
    (void)watches, (void)n;
    if (nap.sleeps++ == 0)
        nap.first_ns = until.ns - nap.now_ns;
    nap.now_ns = until.ns < nap.free_ns ? until.ns : nap.free_ns;
    if (nap.now_ns == nap.free_ns)
        shm_store(nap.latch, 0);
}

/* Another thread's, which lives, for so many ms. */
static void take_after(struct thread *t, thread_ref_t holder, int64_t ms)
{
    nap.free_ns = nap.now_ns + ms * NS_PER_MS;
    nap.sleeps = 0;
    shm_store(nap.latch, holder);
    work(t, nap.latch, 1);
}

static void *stay_attached(void *e)
{
    shm_store(&shared->has, thread_enter(((struct enq *)e)->map)->ref);
    eventually(shm_load(&shared->go));
    return NULL;
}

/* Where each latch takes as long as the last one, nobody looks in between. A
   lost wake-up costs as much: so after a short sleep the ticks are short again,
   and after an endless one not as long. */
TEST(the_first_tick_is_as_long_as_the_last_sleep_for_a_latch_was)
{
    struct enq *e = unit_open();
    struct thread *t = thread_enter(e->map);
    thread_ref_t holder;
    pthread_t thread;
    struct sys_ops before = sys;

    shared = unit_shared(sizeof(*shared));
    pthread_create(&thread, NULL, stay_attached, e);
    eventually(shm_load(&shared->has) != 0);
    holder = shared->has;
    nap.latch = OF(e->map);
    nap.now_ns = sys.now().ns;
    sys.now = nap_now;
    sys.sleep = nap_sleep;
    take_after(t, holder, 100);
    ck_assert_int_eq(nap.first_ns, NS_PER_MS);
    ck_assert_uint_eq(nap.sleeps, 7); /* 1, 2, 4 ... 64 ms */
    take_after(t, holder, 100);
    ck_assert_int_eq(nap.first_ns, 100 * NS_PER_MS);
    ck_assert_uint_eq(nap.sleeps, 1);
    take_after(t, holder, 5);
    take_after(t, holder, 5000);
    ck_assert_int_eq(nap.first_ns, 5 * NS_PER_MS);
    take_after(t, holder, 5);
    ck_assert_int_eq(nap.first_ns, 256 * NS_PER_MS);
    sys = before;
    shm_store(&shared->go, 1);
    pthread_join(thread, NULL);
    enq_close(e);
}

#ifdef ENQ_DEBUG
static struct enq *ranks_open(struct thread **t)
{
    struct enq *e = unit_open();

    *t = thread_enter(e->map);
    return e;
}

TEST(latches_taken_against_their_rank_abort)
{
    struct thread *t;
    struct enq *e = ranks_open(&t);

    latch_acquire(t, &e->map->shards[5].latch, RANK_SHARD);
    latch_acquire(t, &e->map->gates[5].latch, RANK_GATE);
}

TEST(latches_of_one_rank_taken_downwards_abort)
{
    struct thread *t;
    struct enq *e = ranks_open(&t);

    latch_acquire(t, &e->map->shards[5].latch, RANK_SHARD);
    latch_acquire(t, &e->map->shards[4].latch, RANK_SHARD);
}

TEST(a_latch_released_that_was_not_held_aborts)
{
    struct thread *t;
    struct enq *e = ranks_open(&t);

    latch_release(t, &e->map->shards[5].latch);
}
#endif

TEST(latches_may_be_released_in_any_order)
{
    struct enq *e = unit_open();
    struct thread *t = thread_enter(e->map);

    for (int i = 0; i < 3; i++)
        latch_acquire(t, &e->map->shards[i].latch, RANK_SHARD);
    latch_release(t, &e->map->shards[1].latch);
    latch_release(t, &e->map->shards[0].latch);
    latch_release(t, &e->map->shards[2].latch);
    ck_assert_uint_eq(t->n_held, 0);
    enq_close(e);
}

int main(void)
{
    unit_begin("latch");
    ADD(one_process_at_a_time_has_the_latch);
    ADD(one_thread_at_a_time_has_the_latch);
    ADD(a_free_latch_is_zero_again);
    ADD(the_latch_of_a_killed_holder_is_taken_over);
    ADD(a_holder_whose_liveness_word_says_both_is_waited_for_no_longer);
    ADD(a_latch_that_names_us_though_we_have_not_taken_it_is_damaged);
    ADD(sleepers_get_the_latch_of_a_killed_holder);
    ADD(a_sleeper_is_woken_when_the_latch_is_free);
    ADD(who_sleeps_long_on_a_latch_wakes_up_more_and_more_seldom);
    ADD(the_first_tick_is_as_long_as_the_last_sleep_for_a_latch_was);
#ifdef ENQ_DEBUG
    ADD_ENDED_BY(SIGABRT, latches_taken_against_their_rank_abort);
    ADD_ENDED_BY(SIGABRT, latches_of_one_rank_taken_downwards_abort);
    ADD_ENDED_BY(SIGABRT, a_latch_released_that_was_not_held_aborts);
#endif
    ADD(latches_may_be_released_in_any_order);
    return unit_end();
}
