/*
 * check_neighbours.c - the ring of sessions: each watches the one before it.
 *
 * A process that ends is noticed by a helper thread that its end wakes up, not
 * by one that looks around. So all but the last of these have no ticks and no
 * rounds: what nobody is woken for never happens.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/atomic.h"
#include "base/point.h"
#include "lib/latches.h"
#include "sync/latch.h"
#include "sync/life.h"
#include "unit.h"

#define MOST 20

struct circle {
    uint32_t ready, close, closed; /* a number: of the one that shall */
    pid_t pid[MOST + 1];
};

static int is_attached(void *ring)
{
    struct circle *r = ring;
    struct enq *e = unit_open();
    uint32_t own = (uint32_t)(e->session.slot - e->map->sessions);
    struct enq_grant g;
    char text[16];

    snprintf(text, sizeof(text), "%u", own);
    if (unit_lock(e, "n", text, ENQ_MODE_X, &g) != ENQ_OK)
        return 1;
    eventually(shm_load(&e->before) != 0); /* its helper is about to sleep */
    shm_store(&r->ready, own);
    while (shm_load(&r->close) != own)
        unit_nap();
    enq_close(e);
    shm_store(&r->closed, own);
    for (;;)
        pause();
}

static void join(struct circle *r, unsigned i)
{
    shm_store(&r->ready, 0);
    r->pid[i] = unit_fork(is_attached, r);
    eventually(shm_load(&r->ready) == i);
}

/* This process is the first; so many come after it, one after the other. */
static struct enq *begin(struct circle *r, unsigned n)
{
    struct enq *e = unit_open();

    for (unsigned i = 1; i <= n; i++)
        join(r, i);
    return e;
}

static struct enq *begin_without_ticks(struct circle *r, unsigned n)
{
    setenv("ENQ_TICK_MS", "600000", 1);
    return begin(r, n);
}

static bool is_buried(struct enq *e, unsigned i)
{
    return shm_load(&e->map->sessions[i].ref) == 0;
}

static void end(struct enq *e, struct circle *r, unsigned n)
{
    for (unsigned i = 1; i <= n; i++)
        if (r->pid[i] != 0)
            unit_kill(r->pid[i]);
    enq_close(e);
}

static void die(struct circle *r, unsigned i)
{
    unit_kill(r->pid[i]);
    r->pid[i] = 0;
}

/* How often a process's helper thread went to sleep, and whether it is asleep. */
static unsigned naps_of(pid_t pid, bool *asleep)
{
    char path[300], line[200];
    unsigned all = 0, naps;
    struct dirent *task;
    DIR *tasks;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    ck_assert_ptr_nonnull(tasks);
    while ((task = readdir(tasks)) != NULL) {
        bool is_helper = false;
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)pid,
            task->d_name);
        f = fopen(path, "r");
        while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
            is_helper |= strstr(line, "enq-helper") != NULL;
            if (is_helper && strncmp(line, "State:", 6) == 0)
                *asleep = *asleep && strchr(line, 'S') != strrchr(line, 'S');
            if (is_helper &&
                sscanf(line, "voluntary_ctxt_switches: %u", &naps) == 1)
                all += naps;
        }
        if (f != NULL)
            fclose(f);
    }
    closedir(tasks);
    return all;
}

/* Of the others. */
static unsigned naps_of_all(const struct circle *r, bool *asleep)
{
    unsigned all = 0;

    for (unsigned i = 1; i <= MOST; i++)
        if (r->pid[i] != 0)
            all += naps_of(r->pid[i], asleep);
    return all;
}

/* Each has heard of all that it is told of, and sleeps on what it read then. They
   are all asleep twice, and none woke in between: so they were at one time. */
static void until_helpers_sleep(const struct circle *r)
{
    unsigned before, naps = 0;
    bool asleep = true;

    do {
        before = naps;
        asleep = true;
        naps = naps_of(getpid(), &asleep) + naps_of_all(r, &asleep);
    } while (!asleep || naps != before);
}

TEST(a_death_that_nobody_waits_for_is_noticed_by_the_next)
{
    struct circle *r = unit_shared(sizeof(*r));
    struct enq *e = begin_without_ticks(r, 5);

    die(r, 3);
    eventually(is_buried(e, 3));
    die(r, 1);
    eventually(is_buried(e, 1));
    unit_healthy(e);
    end(e, r, 5);
}

/* By the first, which is told of each that comes behind the last. */
TEST(the_death_of_the_last_is_noticed_by_the_first)
{
    struct circle *r = unit_shared(sizeof(*r));
    struct enq *e = begin_without_ticks(r, 4);

    eventually(shm_load(&e->before) == e->map->sessions[4].ref);
    die(r, 4);
    eventually(is_buried(e, 4));
    eventually(shm_load(&e->before) == e->map->sessions[3].ref);
    join(r, 4);
    eventually(shm_load(&e->before) == e->map->sessions[4].ref);
    die(r, 4);
    eventually(is_buried(e, 4));
    end(e, r, 4);
}

/* Nobody has been told of the second, as the third is stopped; nor comes upon it,
   in a round that is not over yet. */
TEST(the_dead_on_the_way_to_a_neighbour_are_seen)
{
    struct circle *r = unit_shared(sizeof(*r));
    struct enq *e = begin_without_ticks(r, 3);
    session_ref_t third = e->map->sessions[2].ref, before = 0;
    struct sys_watch watch;
    bool dead = false;

    ck_assert(session_watch_before(e->map, third, &before, &watch, &dead));
    ck_assert_uint_eq(before, e->map->sessions[1].ref);
    ck_assert(!dead);
    until_helpers_sleep(r);
    unit_stop(r->pid[2]);
    die(r, 1);
    ck_assert(session_watch_before(e->map, third, &before, &watch, &dead));
    ck_assert_uint_eq(before, e->session.ref);
    ck_assert(dead);
    end(e, r, 3);
}

/* In the slot of one that has ended: whoever watched over that one's head is to
   watch it. */
TEST(one_that_comes_in_between_is_watched)
{
    struct circle *r = unit_shared(sizeof(*r));
    struct enq *e = begin_without_ticks(r, 4);

    for (unsigned i = 0; i < 5; i++) {
        die(r, 2);
        eventually(is_buried(e, 2));
        join(r, 2);
    }
    die(r, 3);
    eventually(is_buried(e, 3));
    die(r, 2);
    eventually(is_buried(e, 2));
    end(e, r, 4);
}

/* The second dies while the fourth still watches the third, or has just looked
   for another. */
TEST(one_that_is_closed_is_in_nobodys_view)
{
    struct circle *r = unit_shared(sizeof(*r));
    struct enq *e = begin_without_ticks(r, 4);

    shm_store(&r->close, 3);
    eventually(shm_load(&r->closed) == 3);
    die(r, 2);
    eventually(is_buried(e, 2));
    end(e, r, 4);
}

/* The first of the others, with a second session behind the next of them. */
static int has_two(void *ring)
{
    struct circle *r = ring;
    struct enq *one = unit_open(), *two;

    shm_store(&r->ready, 1);
    eventually(shm_load(&r->close) == 1);
    two = unit_open();
    shm_store(&r->ready, 3);
    eventually(shm_load(&r->close) == 3);
    enq_close(two);
    shm_store(&r->closed, 3);
    pause();
    enq_close(one);
    return 0;
}

/* Its helper thread lives on, and so the word that the fourth sleeps on. */
TEST(who_watches_a_session_that_is_closed_watches_the_one_before_it)
{
    struct circle *r = unit_shared(sizeof(*r));
    struct enq *e = begin_without_ticks(r, 0);

    r->pid[1] = unit_fork(has_two, r);
    eventually(shm_load(&r->ready) == 1);
    join(r, 2);
    shm_store(&r->close, 1);
    eventually(shm_load(&r->ready) == 3);
    join(r, 4);
    until_helpers_sleep(r);
    shm_store(&r->close, 3);
    eventually(shm_load(&r->closed) == 3);
    die(r, 2);
    eventually(is_buried(e, 2));
    end(e, r, 4);
}

static void *wait_for_the_second(void *e)
{
    struct enq_grant g;

    enq_lock(e,
        ENQ_REQ(.name = "n", .key = {"2"}, .mode = ENQ_MODE_X, .owner = "first",
            .wait_ms = ENQ_FOREVER),
        &g);
    return NULL;
}

static bool is_asleep(struct enq *e, const char *owner)
{
    struct enq_info info;
    uint64_t state;
    size_t total;

    want(ENQ_OK, enq_list(e, "n", owner, &info, 1, &total));
    return total == 1 &&
        entry_sleeps(entry_of_handle(e->map, info.handle, &state)) ==
        ASLEEP_THREAD;
}

static int dies_as_its_waiter_wakes(void *ring)
{
    struct circle *r = ring;
    struct enq *e = unit_open();
    pthread_t thread;

    shm_store(&r->ready, 1);
    eventually(shm_load(&r->close) == 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_the_second, e), 0);
    eventually(is_asleep(e, "first"));
    usleep(100 * 1000); /* or about to be */
    point_arm("wait.woken");
    shm_store(&r->closed, 1);
    pthread_join(thread, NULL);
    return 0;
}

/* The first of them sleeps on a word of the second, and before the third does, which
   is told of that one's death all the same. */
static void dies_before_two(struct circle *r, int (*first)(void *ring))
{
    r->pid[1] = unit_fork(first, r);
    eventually(shm_load(&r->ready) == 1);
    join(r, 2);
    shm_store(&r->close, 1);
    eventually(shm_load(&r->closed) == 1);
    join(r, 3);
    until_helpers_sleep(r);
    die(r, 2);
}

/* The kernel wakes one of those that sleep on a word, the one that came first:
   here a waiter, which dies as it wakes, and passes nothing on. It does not wake
   before, as in a strict space it has no bypass window that ends. */
TEST(a_waiter_that_dies_of_it_keeps_no_death_from_the_next)
{
    struct enq_open_opts strict = {.size = sizeof(strict), .strict = 1};
    struct circle *r = unit_shared(sizeof(*r));
    struct enq *e;

    setenv("ENQ_TICK_MS", "600000", 1);
    e = unit_open_with(&strict);
    dies_before_two(r, dies_as_its_waiter_wakes);
    unit_killed(r->pid[1]);
    r->pid[1] = 0;
    eventually(is_buried(e, 2));
    end(e, r, 3);
}

static void (*true_wait)(const struct sys_watch *watches, unsigned n,
    mono_t until);

static void wait_without_ticks(const struct sys_watch *watches, unsigned n,
    mono_t until)
{
    (void)until;
    true_wait(watches, n, MONO_NEVER);
}

static char elsewhere[] = "z";

/* A key whose bucket is not that of the third's. */
static uint32_t *lock_elsewhere(struct enq *e)
{
    struct enq_grant g;
    const uint32_t *other;
    uint32_t *latch;

    want(ENQ_OK, unit_lock(e, "n", "3", ENQ_MODE_X, &g));
    other = latch_of_handle(e->map, g.handle);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    for (;; elsewhere[0]--) {
        want(ENQ_OK, unit_lock(e, "n", elsewhere, ENQ_MODE_S, &g));
        latch = latch_of_handle(e->map, g.handle);
        if (latch != other)
            return latch;
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
}

static void *lock_once_more(void *e)
{
    struct enq_grant g;

    want(ENQ_OK, unit_lock(e, "n", elsewhere, ENQ_MODE_S, &g));
    return NULL;
}

/* Of the second's helper thread. */
static int sleeps_for_a_latch(void *ring)
{
    struct circle *r = ring;
    struct enq *e = unit_open();
    pthread_t thread;
    uint32_t *latch;

    shm_store(&r->ready, 1);
    eventually(shm_load(&r->close) == 1);
    latch = lock_elsewhere(e);
    true_wait = sys.wait;
    sys.wait = wait_without_ticks;
    shm_store(latch, shm_load(&e->map->sessions[2].keeper));
    ck_assert_int_eq(pthread_create(&thread, NULL, lock_once_more, e), 0);
    eventually((shm_load(latch) & LATCH_WAITERS) != 0);
    usleep(100 * 1000); /* and sleeps, or is about to */
    shm_store(&r->closed, 1);
    pthread_join(thread, NULL);
    pause();
    return 0;
}

/* The one that came first, and is woken, waits for a latch of the dead. */
TEST(who_waits_for_a_latch_keeps_no_death_from_the_next)
{
    struct circle *r = unit_shared(sizeof(*r));
    struct enq *e = begin_without_ticks(r, 0);

    dies_before_two(r, sleeps_for_a_latch);
    eventually(is_buried(e, 2));
    end(e, r, 3);
}

/* All at once, so that many of those that are woken die of it. */
TEST(of_those_that_die_together_all_are_noticed)
{
    struct circle *r = unit_shared(sizeof(*r));
    struct enq *e = begin_without_ticks(r, MOST);

    for (unsigned i = 2; i < MOST; i++)
        kill(r->pid[i], SIGKILL);
    for (unsigned i = 2; i < MOST; i++)
        die(r, i);
    for (unsigned i = 2; i < MOST; i++)
        eventually(is_buried(e, i));
    end(e, r, MOST);
}

struct holding {
    struct enq_grant g;
    uint32_t holds, shortened;
};

static int hold_for_long(void *holding)
{
    struct holding *h = holding;
    struct enq *e = unit_open();

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"long"}, .mode = ENQ_MODE_X,
                .ttl_ms = 600000),
            &h->g));
    shm_store_release(&h->holds, 1);
    eventually(shm_load(&h->shortened));
    eventually(enq_valid(e, h->g.handle) == ENQ_EXPIRED);
    enq_close(e);
    return 0;
}

/* enq_valid() reads no clock: the helper says when the time has come. */
TEST(a_process_hears_that_another_has_shortened_the_ttl_of_its_lock)
{
    struct holding *h = unit_shared(sizeof(*h));
    struct enq *e;
    pid_t pid;

    setenv("ENQ_TICK_MS", "600000", 1);
    e = unit_open();
    pid = unit_fork(hold_for_long, h);
    eventually(shm_load_acquire(&h->holds));
    want(ENQ_OK, enq_renew(e, h->g.handle, h->g.token, 300));
    shm_store(&h->shortened, 1);
    unit_join(pid);
    enq_close(e);
}

/* With ticks and rounds, as they are: of each process one or two in this time,
   if each had its own. */
TEST(an_idle_process_does_not_wake_up)
{
    struct circle *r = unit_shared(sizeof(*r));
    struct enq *e;
    unsigned before;
    bool asleep = true;

    unit_with_ticks();
    e = begin(r, MOST);
    until_helpers_sleep(r);
    before = naps_of_all(r, &asleep);
    ck_assert_uint_gt(before, 0);
    sleep(2);
    ck_assert_uint_le(naps_of_all(r, &asleep) - before, 8);
    end(e, r, MOST);
}

int main(void)
{
    unit_begin("neighbours");
    ADD(a_death_that_nobody_waits_for_is_noticed_by_the_next);
    ADD(the_death_of_the_last_is_noticed_by_the_first);
    ADD(the_dead_on_the_way_to_a_neighbour_are_seen);
    ADD(one_that_comes_in_between_is_watched);
    ADD(one_that_is_closed_is_in_nobodys_view);
    ADD(who_watches_a_session_that_is_closed_watches_the_one_before_it);
    ADD(a_waiter_that_dies_of_it_keeps_no_death_from_the_next);
    ADD(who_waits_for_a_latch_keeps_no_death_from_the_next);
    ADD(of_those_that_die_together_all_are_noticed);
    ADD(a_process_hears_that_another_has_shortened_the_ttl_of_its_lock);
    ADD(an_idle_process_does_not_wake_up);
    return unit_end();
}
