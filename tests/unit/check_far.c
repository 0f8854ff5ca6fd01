/*
 * check_far.c - a long queue: who stands far behind sleeps until it is told.
 *
 * But for the last of these there are no ticks: who is not told sleeps for
 * ever. How a waiter sleeps stands in its entry.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/atomic.h"
#include "store/entry.h"
#include "unit.h"

#define MOST 40

struct waiter {
    struct enq *e;
    enum enq_mode mode;
    int64_t wait_ms;
    pthread_t thread;
    struct entry *entry;
    uint32_t granted, unlock;
    long naps; /* how often it went to sleep until it was granted */
    int rc;
    char owner[16];
};

static struct waiter all[MOST];

static void *waits(void *waiter)
{
    struct waiter *w = waiter;
    struct rusage used;
    struct enq_grant g;

    w->rc = enq_lock(w->e,
        ENQ_REQ(.name = "n", .key = {"hot"}, .mode = w->mode, .owner = w->owner,
            .wait_ms = w->wait_ms, .flags = ENQ_NO_DEADLOCK),
        &g);
    getrusage(RUSAGE_THREAD, &used);
    w->naps = used.ru_nvcsw;
    shm_store_release(&w->granted, 1);
    while (w->rc == ENQ_OK && !shm_load(&w->unlock))
        unit_nap();
    if (w->rc == ENQ_OK)
        enq_unlock(w->e, g.handle, g.token);
    return NULL;
}

/* As its owner's request stands in the list; NULL: not yet. */
static struct entry *entry_of(struct waiter *w)
{
    struct enq_info info;
    size_t total;
    uint64_t state;

    want(ENQ_OK, enq_list(w->e, "n", w->owner, &info, 1, &total));
    return total == 1 ? entry_of_handle(w->e->map, info.handle, &state) : NULL;
}

static void join_queue(struct enq *e, unsigned i, enum enq_mode mode,
    int64_t wait_ms)
{
    struct waiter *w = &all[i];

    *w = (struct waiter){.e = e, .mode = mode, .wait_ms = wait_ms};
    snprintf(w->owner, sizeof(w->owner), "w%u", i);
    ck_assert_int_eq(pthread_create(&w->thread, NULL, waits, w), 0);
    eventually((w->entry = entry_of(w)) != NULL);
}

static void queue_up(struct enq *e, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        join_queue(e, i, ENQ_MODE_X, ENQ_FOREVER);
}

static void serve(unsigned i)
{
    eventually(shm_load_acquire(&all[i].granted));
    want(ENQ_OK, all[i].rc);
    shm_store(&all[i].unlock, 1);
    pthread_join(all[i].thread, NULL);
}

static bool sleeps(unsigned i, uint32_t how)
{
    return entry_sleeps(all[i].entry) == how;
}

static struct enq *begin_without_ticks(struct enq_grant *g)
{
    struct enq *e;

    setenv("ENQ_TICK_MS", "600000", 1);
    e = unit_open();
    want(ENQ_OK, unit_lock(e, "n", "hot", ENQ_MODE_X, g));
    return e;
}

TEST(the_first_two_of_a_queue_look_at_each_tick_the_others_are_told)
{
    struct enq_grant g;
    struct enq *e = begin_without_ticks(&g);

    queue_up(e, 5);
    for (unsigned i = 0; i < 5; i++)
        eventually(sleeps(i, i < 2 ? ASLEEP_THREAD : ASLEEP_BEHIND));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    for (unsigned i = 0; i < 5; i++)
        serve(i);
    enq_close(e);
}

TEST(who_becomes_the_first_is_told)
{
    struct enq_grant g;
    struct enq *e = begin_without_ticks(&g);

    queue_up(e, 5);
    eventually(sleeps(4, ASLEEP_BEHIND));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    serve(0); /* then the second has it, and the third is the first */
    eventually(sleeps(2, ASLEEP_THREAD));
    ck_assert(sleeps(3, ASLEEP_BEHIND) && sleeps(4, ASLEEP_BEHIND));
    serve(1);
    eventually(sleeps(3, ASLEEP_THREAD));
    for (unsigned i = 2; i < 5; i++)
        serve(i);
    enq_close(e);
}

/* Else it would watch for the end of one that has left long ago. */
TEST(who_stands_behind_one_that_gives_up_is_told)
{
    struct enq_grant g;
    struct enq *e = begin_without_ticks(&g);

    join_queue(e, 0, ENQ_MODE_X, ENQ_FOREVER);
    join_queue(e, 1, ENQ_MODE_X, 300);
    join_queue(e, 2, ENQ_MODE_X, ENQ_FOREVER);
    eventually(sleeps(2, ASLEEP_BEHIND));
    eventually(shm_load_acquire(&all[1].granted));
    want(ENQ_TIMEDOUT, all[1].rc);
    eventually(sleeps(2, ASLEEP_THREAD));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    serve(0);
    serve(2);
    pthread_join(all[1].thread, NULL);
    enq_close(e);
}

/* Each of them by its grant, and the one that stays by their leaving. */
TEST(of_those_that_are_granted_together_each_has_it_and_the_next_is_told)
{
    struct enq_grant g;
    struct enq *e = begin_without_ticks(&g);

    for (unsigned i = 0; i < 6; i++)
        join_queue(e, i, ENQ_MODE_S, ENQ_FOREVER);
    join_queue(e, 6, ENQ_MODE_X, ENQ_FOREVER);
    eventually(sleeps(6, ASLEEP_BEHIND));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    for (unsigned i = 0; i < 6; i++)
        eventually(shm_load_acquire(&all[i].granted));
    eventually(sleeps(6, ASLEEP_THREAD));
    for (unsigned i = 0; i < 7; i++)
        serve(i);
    enq_close(e);
}

/* Where a generic request waits, too, locks are granted by another way. */
TEST(who_becomes_the_first_before_a_generic_request_is_told)
{
    struct enq_grant g, none;
    struct enq *e = begin_without_ticks(&g);
    uint64_t ticket;

    queue_up(e, 4);
    eventually(sleeps(2, ASLEEP_BEHIND) && sleeps(3, ASLEEP_BEHIND));
    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"@"}, .mode = ENQ_MODE_X,
                .owner = "all", .wait_ms = ENQ_FOREVER),
            &none, &ticket));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    serve(0);
    eventually(shm_load_acquire(&all[1].granted));
    eventually(sleeps(2, ASLEEP_THREAD));
    ck_assert(sleeps(3, ASLEEP_BEHIND));
    for (unsigned i = 1; i < 4; i++)
        serve(i);
    enq_close(e);
}

/* With ticks: forty would go to sleep a thousand times in a second. */
TEST(an_idle_queue_does_not_wake_up)
{
    struct enq_grant g;
    struct enq *e;
    long naps = 0;

    unit_with_ticks();
    e = unit_open();
    want(ENQ_OK, unit_lock(e, "n", "hot", ENQ_MODE_X, &g));
    queue_up(e, MOST);
    sleep(2);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    for (unsigned i = 0; i < MOST; i++) {
        serve(i);
        naps += all[i].naps;
    }
    ck_assert_int_gt(naps, MOST);
    ck_assert_int_lt(naps, 900);
    enq_close(e);
}

int main(void)
{
    unit_begin("far");
    ADD(the_first_two_of_a_queue_look_at_each_tick_the_others_are_told);
    ADD(who_becomes_the_first_is_told);
    ADD(who_stands_behind_one_that_gives_up_is_told);
    ADD(of_those_that_are_granted_together_each_has_it_and_the_next_is_told);
    ADD(who_becomes_the_first_before_a_generic_request_is_told);
    ADD(an_idle_queue_does_not_wake_up);
    return unit_end();
}
