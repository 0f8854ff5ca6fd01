/*
 * check_pending.c - started requests that wait: what dies or is stopped
 * meanwhile, and how many there may be.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/atomic.h"
#include "sync/ended.h"
#include "sync/sys.h"
#include "told.h"

/* --- what dies, what is stopped --- */

static int hold_and_die(void *shared)
{
    struct enq *e = unit_open();

    told_lock(e, "a", ENQ_MODE_X, 0);
    unit_stay(shared);
}

TEST(the_death_of_the_holder_grants_a_started_request_within_20_ms)
{
    uint32_t *ready = unit_shared(4);
    struct enq *e = unit_open();
    pid_t pid = unit_fork(hold_and_die, ready);
    struct enq_event event;
    int64_t killed;

    eventually(shm_load_acquire(ready));
    told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    unit_nap();
    unit_kill(pid);
    killed = unit_now_ms(); /* its last thread has been let run */
    event = told_next(e);
    ck_assert_int_eq(event.result, ENQ_OK);
    ck_assert_int_le(unit_now_ms() - killed,
        (UNIT_SANITIZED ? 500 : 20) + test_starved_ms());
    unit_healthy(e);
    enq_close(e);
}

/* Wants q/@ for reading, and stands behind one of its own session that waits
   for something else: p/1, for ever. It waits itself for q/2 alone, which
   runs out while its holder is stopped. */
static int hold_and_stop(void *shared)
{
    struct enq *e = unit_open();

    told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {"q", "2"}, .mode = ENQ_MODE_X,
            .ttl_ms = 1500));
    usleep(50000); /* not while its helper thread has a word */
    shm_store_release((uint32_t *)shared, 1);
    raise(SIGSTOP);
    return 0;
}

TEST(who_stands_behind_its_kin_misses_nothing_that_time_brings)
{
    uint32_t *ready = unit_shared(4);
    struct enq *e = unit_open(), *other = unit_open();
    uint64_t ticket;
    pid_t pid;

    told_lock_req(other,
        ENQ_REQ(.name = "n", .key = {"p", "1"}, .mode = ENQ_MODE_X));
    pid = unit_fork(hold_and_stop, ready);
    eventually(shm_load_acquire(ready));
    told_start_req(e,
        ENQ_REQ(.name = "n", .key = {"@", "1"}, .mode = ENQ_MODE_S,
            .wait_ms = ENQ_FOREVER));
    ticket = told_start_req(e,
        ENQ_REQ(.name = "n", .key = {"q", "@"}, .mode = ENQ_MODE_S,
            .wait_ms = ENQ_FOREVER));
    told_result(e, ticket, ENQ_OK);
    unit_kill(pid);
    enq_close(e);
    enq_close(other);
}

#define SESSIONS 150

TEST(the_death_of_one_of_many_sessions_is_noticed_as_fast)
{
    uint32_t *ready = unit_shared(4);
    struct enq *e = unit_open(), *others[SESSIONS];
    int64_t killed;
    uint64_t ticket;
    pid_t pid;

    for (int i = 0; i < SESSIONS; i++)
        others[i] = unit_open();
    pid = unit_fork(hold_and_die, ready);
    eventually(shm_load_acquire(ready));
    ticket = told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    usleep(1100000); /* the helper's round of each second is not near */
    unit_kill(pid);
    killed = unit_now_ms();
    told_result(e, ticket, ENQ_OK);
    killed = unit_now_ms() - killed;
    ck_assert_msg(killed <= (UNIT_SANITIZED ? 500 : 100) + test_starved_ms(),
        "%d ms", (int)killed);
    for (int i = 0; i < SESSIONS; i++)
        enq_close(others[i]);
    enq_close(e);
}

#define PENDING_OF_THE_DEAD 1000

static int start_and_die(void *shared)
{
    struct enq *e = unit_open();
    char field[12];

    for (unsigned i = 0; i < PENDING_OF_THE_DEAD; i++) {
        snprintf(field, sizeof(field), "%u", i % 50);
        told_start(e, field, ENQ_MODE_X, "dead", ENQ_FOREVER);
    }
    unit_stay(shared);
}

TEST(with_a_process_all_its_pending_requests_leave_the_queues)
{
    uint32_t *ready = unit_shared(4);
    struct enq *e = unit_open();
    struct enq_grant held[50];
    char field[12];
    uint64_t ticket;
    pid_t pid;

    for (unsigned i = 0; i < 50; i++) {
        snprintf(field, sizeof(field), "%u", i);
        held[i] = told_lock(e, field, ENQ_MODE_X, 0);
    }
    pid = unit_fork(start_and_die, ready);
    eventually(shm_load_acquire(ready));
    ticket = told_start(e, "7", ENQ_MODE_X, "me", ENQ_FOREVER);
    ck_assert_uint_eq(told_count(e), 50 + PENDING_OF_THE_DEAD + 1);
    unit_kill(pid);
    told_unlock(e, &held[7]);
    do {
        struct enq_event event = told_next(e);
        if (event.kind == ENQ_EVENT_RESULT) {
            ck_assert_uint_eq(event.ticket, ticket);
            want(ENQ_OK, event.result);
            break;
        }
    } while (true);
    eventually(told_count(e) == 50);
    unit_healthy(e);
    enq_close(e);
}

/* Stands in the queue, and sleeps when it is its turn. */
static int start_and_stop(void *shared)
{
    struct enq *e = unit_open();

    told_start_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
            .owner = "stopped", .wait_ms = ENQ_FOREVER, .ttl_ms = 150));
    usleep(50000); /* not while its helper thread has a word */
    shm_store_release((uint32_t *)shared, 1);
    raise(SIGSTOP);
    return 0;
}

TEST(a_stopped_waiter_holds_up_those_behind_it_for_its_ttl_at_most)
{
    uint32_t *ready = unit_shared(4);
    struct enq *e = unit_open();
    struct enq_grant held = told_lock(e, "a", ENQ_MODE_X, 0);
    pid_t pid = unit_fork(start_and_stop, ready);
    struct enq_event event;
    int64_t begin;
    int status;

    eventually(shm_load_acquire(ready));
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    usleep(20000); /* until it may not be overtaken any more */
    begin = unit_now_ms();
    told_unlock(e, &held);
    do
        event = told_next(e);
    while (event.kind != ENQ_EVENT_RESULT);
    want(ENQ_OK, event.result);
    ck_assert_int_ge(unit_now_ms() - begin, 150);
    ck_assert_int_le(unit_now_ms() - begin,
        (UNIT_SANITIZED ? 2000 : 600) + test_starved_ms());
    unit_kill(pid);
    unit_healthy(e);
    enq_close(e);
}

/* --- many --- */

#define MANY (UNIT_SANITIZED ? 500 : 10000)

TEST(ten_thousand_requests_are_pending_in_one_process)
{
    struct enq *e = unit_open_with(&(struct enq_open_opts){
        .size = sizeof(struct enq_open_opts), .slots = 4 * MANY});
    struct enq *other = unit_open();
    static struct enq_grant held[10000];
    char field[16];
    struct enq_event event;

    for (unsigned i = 0; i < MANY; i++) {
        snprintf(field, sizeof(field), "%u", i);
        held[i] = told_lock(other, field, ENQ_MODE_X, 0);
        told_start(e, field, ENQ_MODE_X, "me", ENQ_FOREVER);
    }
    for (unsigned i = 0; i < MANY; i++)
        told_unlock(other, &held[i]);
    for (unsigned i = 0; i < MANY; i++) {
        event = told_next(e);
        ck_assert_int_eq(event.result, ENQ_OK);
        told_unlock(e, &event.grant);
    }
    unit_healthy(e);
    enq_close(e);
    enq_close(other);
}

static int64_t cpu_us(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * INT64_C(1000000) +
        r.ru_utime.tv_usec + r.ru_stime.tv_usec;
}

static size_t bytes_used(struct enq *e)
{
    struct enq_stats stats = {.size = sizeof(stats)};

    want(ENQ_OK, enq_stat(e, &stats));
    return mallinfo2().uordblks + stats.bytes_used;
}

#define IDLE 10000

TEST(ten_thousand_pending_requests_cost_next_to_no_time_and_little_memory)
{
    struct enq *other = unit_open_with(&(struct enq_open_opts){
        .size = sizeof(struct enq_open_opts), .slots = 4 * IDLE});
    struct enq *e = unit_open();
    size_t bytes;
    int64_t us, begin;
    char field[12];

    for (unsigned i = 0; i < IDLE; i++) {
        snprintf(field, sizeof(field), "%u", i);
        told_lock(other, field, ENQ_MODE_X, 0);
    }
    bytes = bytes_used(e);
    for (unsigned i = 0; i < IDLE; i++) {
        snprintf(field, sizeof(field), "%u", i);
        told_start(e, field, ENQ_MODE_X, "me", ENQ_FOREVER);
    }
    bytes = (bytes_used(e) - bytes) / IDLE;
    usleep(100000);
    begin = unit_now_ms();
    us = cpu_us();
    usleep(2000000);
    us = cpu_us() - us;
    begin = unit_now_ms() - begin;
    printf("figure started-bytes-each %zu\n", bytes);
    printf("figure started-idle-cpu-percent %.2f\n",
        (double)us / (double)begin / 10);
    fflush(stdout); /* also where that is too much */
    ck_assert_uint_le(bytes, 1000);
    ck_assert_msg(us < begin * 30, "%d us in %d ms", (int)us, (int)begin);
    enq_close(e);
    enq_close(other);
}

static int take_for_a_and_stay(void *shared)
{
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(unit_open(),
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_E,
                .owner = "A"),
            &g));
    unit_stay(shared);
}

static struct enq_event next_result(struct enq *e)
{
    struct enq_event event;

    do
        event = told_next(e);
    while (event.kind != ENQ_EVENT_RESULT);
    return event;
}

static bool nothing_is_proved(const struct map *map, const struct process *who)
{
    return map == NULL && who == NULL;
}

/* A request that makes way serves all waiters. */
static void make_way(struct enq *e)
{
    uint64_t ticket = told_start(e, "a", ENQ_MODE_X, "C", ENQ_FOREVER);
    struct enq_event event;

    want(ENQ_OK, enq_cancel(e, ticket));
    event = next_result(e);
    want(ENQ_CANCELLED, event.result);
    ck_assert_uint_eq(event.ticket, ticket);
}

/* To A's next request it is A's own still, as nobody has seen its end yet; but
   B came first. */
TEST(what_a_dead_process_had_lets_its_owner_pass_nobody)
{
    uint32_t *ready = unit_shared(4);
    struct enq *e = unit_open_with(&(struct enq_open_opts){
        .size = sizeof(struct enq_open_opts), .strict = 1});
    pid_t pid = unit_fork(take_for_a_and_stay, ready);
    uint64_t first, second;
    struct enq_event event;

    eventually(shm_load_acquire(ready));
    first = told_start(e, "a", ENQ_MODE_X, "B", ENQ_FOREVER);
    sys.ended = nothing_is_proved;
    unit_kill(pid);
    second = told_start(e, "a", ENQ_MODE_E, "A", ENQ_FOREVER);
    make_way(e);
    sys.ended = process_ended;
    event = next_result(e);
    want(ENQ_OK, event.result);
    ck_assert_uint_eq(event.ticket, first);
    told_unlock(e, &event.grant);
    event = next_result(e);
    want(ENQ_OK, event.result);
    ck_assert_uint_eq(event.ticket, second);
    told_unlock(e, &event.grant);
    enq_close(e);
}

/* A lock set that waits for it waits for the proof, and not for A. */
TEST(what_a_dead_process_had_lets_its_owner_pass_no_lock_set)
{
    uint32_t *ready = unit_shared(4);
    struct enq *e = unit_open_with(&(struct enq_open_opts){
        .size = sizeof(struct enq_open_opts), .strict = 1});
    pid_t pid = unit_fork(take_for_a_and_stay, ready);
    const struct enq_req *set[] = {
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .owner = "B",
            .wait_ms = ENQ_FOREVER),
        ENQ_REQ(.name = "n", .key = {"b"}, .mode = ENQ_MODE_X, .owner = "B",
            .wait_ms = ENQ_FOREVER)};
    struct enq_grant grants[2], g;
    struct enq_event event;
    uint64_t ticket;

    eventually(shm_load_acquire(ready));
    want(ENQ_PENDING, enq_start_set(e, set, 2, grants, &ticket));
    sys.ended = nothing_is_proved;
    unit_kill(pid);
    want(ENQ_BUSY,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"b"}, .mode = ENQ_MODE_X,
                .owner = "A"),
            &g));
    ck_assert_str_eq(g.blocker.owner, "B");
    sys.ended = process_ended;
    event = next_result(e);
    want(ENQ_OK, event.result);
    ck_assert_uint_eq(event.ticket, ticket);
    enq_close(e);
}

static void add_deaths(void)
{
    ADD(what_a_dead_process_had_lets_its_owner_pass_nobody);
    ADD(what_a_dead_process_had_lets_its_owner_pass_no_lock_set);
    ADD(the_death_of_the_holder_grants_a_started_request_within_20_ms);
    ADD(who_stands_behind_its_kin_misses_nothing_that_time_brings);
    ADD(the_death_of_one_of_many_sessions_is_noticed_as_fast);
    ADD(with_a_process_all_its_pending_requests_leave_the_queues);
    ADD(a_stopped_waiter_holds_up_those_behind_it_for_its_ttl_at_most);
}

TEST(the_first_time_that_a_request_waits_for_is_not_missed)
{
    struct enq *e = unit_open();
    struct enq_event event;
    int64_t begin;

    told_lock_req(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .owner = "a"));
    begin = unit_now_ms();
    told_start_req(e,
        ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .owner = "b", .wait_ms = 5));
    eventually(enq_next(e, &event) == ENQ_OK);
    want(ENQ_TIMEDOUT, event.result);
    ck_assert_int_le(unit_now_ms() - begin,
        (UNIT_SANITIZED ? 500 : 25) + test_starved_ms());
    enq_close(e);
}

/* src/LIMITS.md. As if there were so many: each of them takes 400 bytes. */
#define PENDING_MOST (1u << 20)

TEST(one_more_pending_request_than_there_may_be_is_refused)
{
    struct enq *e = unit_open();
    struct enq_grant held = told_lock(e, "a", ENQ_MODE_X, 0), g;
    const struct enq_req req = {.size = sizeof(req),
        .name = "n",
        .key = {"a"},
        .mode = ENQ_MODE_X,
        .owner = "b",
        .wait_ms = ENQ_FOREVER};
    uint32_t *n = &e->async.n_started, had = *n;
    uint64_t ticket;

    ck_assert_uint_eq(had, 0);
    *n = PENDING_MOST;
    want(-EAGAIN, enq_start(e, &req, &g, &ticket));
    ck_assert_ptr_nonnull(strstr(enq_why(), "1048576 requests are pending"));
    *n = had;
    want(ENQ_PENDING, enq_start(e, &req, &g, &ticket));
    told_unlock(e, &held);
    enq_close(e);
}

int main(void)
{
    unit_begin("pending");
    ADD(one_more_pending_request_than_there_may_be_is_refused);
    if (!UNIT_TSAN) /* which cannot fork */
        add_deaths();
    ADD(ten_thousand_requests_are_pending_in_one_process);
    ADD(the_first_time_that_a_request_waits_for_is_not_missed);
    if (!UNIT_SANITIZED) /* which has time and memory of its own */
        ADD(ten_thousand_pending_requests_cost_next_to_no_time_and_little_memory);
    return unit_end();
}
