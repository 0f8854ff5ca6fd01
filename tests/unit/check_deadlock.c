/*
 * check_deadlock.c - cycles of started requests, and what only looks like one.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/attachment.h"
#include "told.h"
#include "wait/suspicion.h"

static int start_as(struct enq *e, const char *owner, const char *field,
    uint64_t *ticket)
{
    struct enq_grant g;

    return enq_start(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X, .owner = owner,
            .wait_ms = ENQ_FOREVER),
        &g, ticket);
}

static void takes(struct enq *e, const char *owner, const char *field,
    enum enq_mode mode)
{
    told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = mode, .owner = owner));
}

static void waits(struct enq *e, const char *owner, const char *field)
{
    uint64_t ticket;

    want(ENQ_PENDING, start_as(e, owner, field, &ticket));
}

static int start_wide(struct enq *e, const char *owner,
    const char *const field[2], enum enq_mode mode)
{
    struct enq_grant g;
    uint64_t ticket;

    return enq_start(e,
        ENQ_REQ(.name = "n", .key = {field[0], field[1]}, .mode = mode,
            .owner = owner, .wait_ms = ENQ_FOREVER),
        &g, &ticket);
}

/* This thread's next calls for more memory, so many, find none. */
static __thread unsigned no_memory;

/* Those of other threads take so long, as if they were switched off there. */
static uint32_t slow_us, slow_calls;
static pthread_t quick;

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_realloc(void *p, size_t n)
{
    if (shm_load(&slow_us) > 0 && !pthread_equal(pthread_self(), quick)) {
        shm_add(&slow_calls, 1);
        usleep(shm_load(&slow_us));
    }
    if (no_memory == 0)
        return __real_realloc(p, n);
    no_memory--;
    return NULL;
}

#define KEY(...) ((const char *const[2]){__VA_ARGS__})

/* --- no cycles --- */

/* A has a for reading; B waits for that alone, and so A need not wait for B
   (R7), but for C only. */
TEST(a_waiter_that_may_be_overtaken_closes_no_cycle)
{
    struct enq *e = unit_open();

    takes(e, "A", "a", ENQ_MODE_S);
    takes(e, "C", "b", ENQ_MODE_X);
    waits(e, "B", "a");
    usleep(10000); /* until nobody else may overtake it any more */
    want(ENQ_PENDING, start_wide(e, "A", KEY("@"), ENQ_MODE_S));
    enq_close(e);
}

/* In all of these an owner that waits for Z is in the way: there is a reason to
   search. */

/* B has a lock that is waited for, or it would not search; C reads, or B's first
   request would not be visited: all who want to write wait for what is held. */
TEST(a_request_behind_another_of_its_owner_closes_no_cycle)
{
    struct enq *e = unit_open();

    takes(e, "Z", "z", ENQ_MODE_X);
    takes(e, "A", "a", ENQ_MODE_S);
    takes(e, "C", "c", ENQ_MODE_X);
    takes(e, "B", "b", ENQ_MODE_X);
    waits(e, "D", "b");
    waits(e, "A", "z");
    waits(e, "B", "a");
    usleep(10000); /* until nobody else may overtake it any more */
    want(ENQ_PENDING, start_wide(e, "C", KEY("a"), ENQ_MODE_S));
    waits(e, "B", "a");
    waits(e, "B", "c");
    enq_close(e);
}

/* A is before B in the queue for c, and waits for b as well: in the way is its
   request for c, and that waits for C alone. */
TEST(what_the_owner_of_a_request_in_the_way_waits_for_elsewhere_does_not_count)
{
    struct enq *e = unit_open();

    takes(e, "Z", "z", ENQ_MODE_X);
    takes(e, "C", "c", ENQ_MODE_X);
    waits(e, "C", "z");
    waits(e, "A", "c");
    takes(e, "B", "b", ENQ_MODE_X);
    waits(e, "A", "b");
    usleep(10000); /* until nobody else may overtake it any more */
    want(ENQ_PENDING, start_wide(e, "B", KEY("c"), ENQ_MODE_S));
    enq_close(e);
}

TEST(two_who_say_no_name_are_not_one)
{
    struct enq *e = unit_open();

    takes(e, "Z", "z", ENQ_MODE_X);
    takes(e, "W", "a", ENQ_MODE_S);
    takes(e, "", "a", ENQ_MODE_S);
    waits(e, "W", "z");
    takes(e, "B", "b", ENQ_MODE_X);
    waits(e, "", "b");
    waits(e, "B", "a");
    enq_close(e);
}

/* Their hashes were the same once, whatever the space's seed. */
TEST(two_whose_names_differ_by_a_digit_are_not_one)
{
    struct enq *e = unit_open();

    takes(e, "w100", "a", ENQ_MODE_X);
    takes(e, "B", "b", ENQ_MODE_X);
    waits(e, "w1000", "b");
    waits(e, "B", "a");
    enq_close(e);
}

/* --- cycles --- */

#define OWNERS 70 /* more than are looked at in one go */

static const unsigned places[] = {0, 1, 62, 63, 64, 65, OWNERS - 1};

TEST(each_of_many_in_the_way_may_be_the_one_who_closes_the_cycle)
{
    struct enq *e = unit_open();
    char owners[OWNERS][8];
    uint64_t ticket;

    takes(e, "B", "b", ENQ_MODE_X);
    for (unsigned i = 0; i < OWNERS; i++) {
        snprintf(owners[i], sizeof(owners[i]), "%u", i);
        takes(e, owners[i], "a", ENQ_MODE_S);
    }
    waits(e, owners[places[_i]], "b");
    want(ENQ_DEADLOCK, start_as(e, "B", "a", &ticket));
    enq_close(e);
}

/* B is behind A's request, which overlaps nothing that B has; D has what A
   wants, which does not overlap what B wants, and waits for B. */
TEST(a_cycle_through_a_generic_request_that_only_waits_is_seen)
{
    struct enq *e = unit_open();

    want(ENQ_OK, start_wide(e, "B", KEY("z", "z"), ENQ_MODE_X));
    want(ENQ_OK, start_wide(e, "D", KEY("q", "1"), ENQ_MODE_X));
    want(ENQ_PENDING, start_wide(e, "D", KEY("z", "z"), ENQ_MODE_X));
    want(ENQ_PENDING, start_wide(e, "A", KEY("q", "@"), ENQ_MODE_X));
    usleep(10000);
    want(ENQ_DEADLOCK, start_wide(e, "B", KEY("@", "2"), ENQ_MODE_S));
    enq_close(e);
}

static void *waits_without_looking(void *arg)
{
    struct enq *e = arg;
    struct enq_grant g;

    enq_lock(e,
        ENQ_REQ(.name = "n", .key = {"b"}, .mode = ENQ_MODE_X, .owner = "A",
            .wait_ms = 500, .flags = ENQ_NO_DEADLOCK),
        &g);
    return NULL;
}

/* A waiter that does not search is seen by those that do. */
TEST(a_cycle_through_one_who_asks_not_to_look_is_seen)
{
    struct enq *e = unit_open(), *other = unit_open();
    pthread_t thread;
    uint64_t ticket;

    takes(e, "A", "a", ENQ_MODE_X);
    takes(e, "B", "b", ENQ_MODE_X);
    pthread_create(&thread, NULL, waits_without_looking, other);
    eventually(told_count(e) == 3);
    usleep(20000); /* it sleeps */
    want(ENQ_DEADLOCK, start_as(e, "B", "a", &ticket));
    pthread_join(thread, NULL);
    enq_close(e);
    enq_close(other);
}

/* --- the graph --- */

#define PAIRS 200

TEST(the_graph_of_many_is_whole)
{
    static struct enq_edge edges[PAIRS + 1];
    struct enq *e = unit_open();
    unsigned seen[PAIRS] = {0};
    char field[8];
    size_t total;

    for (unsigned i = 0; i < PAIRS; i++) {
        snprintf(field, sizeof(field), "%u", i);
        takes(e, "A", field, ENQ_MODE_X);
        waits(e, "B", field);
    }
    want(ENQ_OK, enq_graph(e, edges, LENGTH(edges), &total));
    ck_assert_uint_eq(total, PAIRS);
    for (unsigned i = 0; i < PAIRS; i++) {
        ck_assert_str_eq(edges[i].waiter.key, edges[i].blocker.key);
        seen[atoi(edges[i].waiter.key)]++;
    }
    for (unsigned i = 0; i < PAIRS; i++)
        ck_assert_uint_eq(seen[i], 1);
    want(ENQ_OK, enq_graph(e, edges, 3, &total));
    ck_assert_uint_eq(total, PAIRS);
    enq_close(e);
}

TEST(the_graph_shows_those_before_one_in_a_queue_too)
{
    struct enq_edge edges[4];
    struct enq *e = unit_open();
    size_t total;

    takes(e, "A", "k", ENQ_MODE_X);
    waits(e, "B", "k");
    waits(e, "C", "k");
    want(ENQ_OK, enq_graph(e, edges, LENGTH(edges), &total));
    ck_assert_uint_eq(total, 3); /* B waits for A; C for A, and for B */
    enq_close(e);
}

/* --- the youngest --- */

/* As those would find it that sleep in it. */
static void finds(struct enq *e, const char *owner, bool youngest)
{
    struct thread *t = thread_enter(e->map);
    struct enq_info infos[2]; /* what it has, and what it waits for */
    struct cycle found;
    size_t total;

    want(ENQ_OK, enq_list(e, "n", owner, infos, LENGTH(infos), &total));
    ck_assert_uint_eq(total, 2);
    ck_assert(infos[1].waiting);
    want(ENQ_DEADLOCK,
        cycle_find(&e->session, t, infos[1].handle, false, &found));
    ck_assert_int_eq(found.youngest, youngest);
}

/* Not even where there is memory again for the next of them. */
TEST(a_graph_that_had_no_memory_for_one_who_waits_is_not_passed_for_whole)
{
    struct enq *e = unit_open();
    struct enq_edge edges[4];
    size_t total;

    takes(e, "A", "a", ENQ_MODE_X);
    takes(e, "B", "b", ENQ_MODE_X);
    waits(e, "C", "a");
    waits(e, "D", "b");
    no_memory = 1;
    want_why(-ENOMEM, enq_graph(e, edges, LENGTH(edges), &total), "memory");
    ck_assert_uint_eq(no_memory, 0);
    want(ENQ_OK, enq_graph(e, edges, LENGTH(edges), &total));
    ck_assert_uint_eq(total, 2);
    enq_close(e);
}

TEST(the_youngest_of_a_cycle_is_the_one_who_came_last)
{
    struct enq *e = unit_open();

    takes(e, "A", "a", ENQ_MODE_X);
    takes(e, "B", "b", ENQ_MODE_X);
    takes(e, "C", "c", ENQ_MODE_X);
    waits(e, "B", "c");
    waits(e, "A", "b");
    told_start_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .owner = "C",
            .wait_ms = ENQ_FOREVER, .flags = ENQ_NO_DEADLOCK));
    finds(e, "B", false);
    finds(e, "A", false);
    finds(e, "C", true);
    enq_close(e);
}

static uint64_t waits_blindly(struct enq *e, const char *owner,
    const char *field)
{
    return told_start_req(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X, .owner = owner,
            .wait_ms = ENQ_FOREVER, .flags = ENQ_NO_DEADLOCK));
}

/* What its next look makes of it, as if it were time. */
static int looks(struct enq *e, const char *owner, struct suspicion *x)
{
    struct enq_info infos[2];
    mono_t until = MONO_NEVER;
    size_t total;

    want(ENQ_OK, enq_list(e, "n", owner, infos, LENGTH(infos), &total));
    ck_assert(total == 2 && infos[1].waiting);
    x->next = (mono_t){0};
    return suspicion_look(x, &e->session, thread_enter(e->map), infos[1].handle,
        0, &until);
}

/* Each of B's requests is one that B would be refused for. */
TEST(who_waits_is_refused_for_a_cycle_that_stays_and_not_for_two_after_another)
{
    struct enq *e = unit_open();
    struct suspicion x = {.wanted = true};
    uint64_t ticket;

    takes(e, "A", "a", ENQ_MODE_X);
    takes(e, "B", "b", ENQ_MODE_X);
    waits_blindly(e, "A", "b");
    for (int i = 0; i < 5; i++) {
        ticket = waits_blindly(e, "B", "a");
        want(ENQ_PENDING, looks(e, "A", &x));
        if (i < 4)
            want(ENQ_OK, enq_cancel(e, ticket));
    }
    want(ENQ_DEADLOCK, looks(e, "A", &x));
    enq_close(e);
}

/* --- several attachments, several threads --- */

TEST(a_cycle_through_requests_of_several_attachments_is_seen)
{
    struct enq *one = unit_open(), *two = unit_open();
    uint64_t ticket;

    want(ENQ_OK, start_as(one, "A", "a", &ticket));
    want(ENQ_OK, start_as(two, "B", "b", &ticket));
    want(ENQ_PENDING, start_as(one, "A", "b", &ticket));
    want(ENQ_DEADLOCK, start_as(two, "B", "a", &ticket));
    ck_assert_uint_eq(ticket, 0);
    ck_assert_uint_eq(shm_load(&two->session.slot->started), 0);
    ck_assert_uint_eq(told_count(one), 3);
    unit_healthy(one);
    enq_close(one);
    enq_close(two);
}

static struct {
    void (*act)(void); /* when a cycle is told */
    int (*real)(char *text, size_t n, const char *format, va_list args);
} telling;

/* As the library calls it, outside of all words. */
int vsnprintf(char *text, size_t n, const char *format, va_list args)
{
    void (*act)(void) = telling.act;

    if (telling.real == NULL)
        telling.real = (int (*)(char *, size_t, const char *,
            va_list))dlsym(RTLD_NEXT, "vsnprintf");
    if (act != NULL && strstr(format, "deadlock") != NULL) {
        telling.act = NULL;
        act();
    }
    return telling.real(text, n, format, args);
}

static struct {
    struct enq *e;
    struct enq_grant held;
} scene;

static void *unlock_held(void *nothing)
{
    told_unlock(scene.e, &scene.held);
    return nothing;
}

static void another_unlocks(void)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, unlock_held, NULL), 0);
    pthread_join(thread, NULL);
}

/* The request is granted before it can be taken back. */
TEST(a_cycle_that_ends_in_the_moment_of_its_refusal_is_none)
{
    struct enq_event event;
    uint64_t first, second;

    scene.e = unit_open_with(&(struct enq_open_opts){
        .size = sizeof(struct enq_open_opts), .strict = 1});
    ck_assert_int_ge(enq_fd(scene.e), 0);
    want(ENQ_OK, start_as(scene.e, "B", "b", &first));
    want(ENQ_OK,
        enq_lock(scene.e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .owner = "A"),
            &scene.held));
    want(ENQ_PENDING, start_as(scene.e, "A", "b", &first));
    told_next(scene.e); /* somebody waits for b */
    telling.act = another_unlocks;
    want(ENQ_PENDING, start_as(scene.e, "B", "a", &second));
    ck_assert_ptr_null(telling.act);
    do
        event = told_next(scene.e);
    while (event.kind == ENQ_EVENT_BLOCKING);
    ck_assert_uint_eq(event.ticket, second);
    want(ENQ_OK, event.result);
    want(ENQ_OK, enq_cancel(scene.e, first));
    told_result(scene.e, first, ENQ_CANCELLED);
    unit_healthy(scene.e);
    enq_close(scene.e);
}

/* Requests, by their owners and by the gates of their names; and locks that are
   waited for. */
static void are_counted(struct enq *e, uint64_t requests, uint64_t locks)
{
    uint64_t n = 0, queued = 0;

    for (unsigned i = 0; i < OWNER_WORDS; i++)
        n += shm_load(&e->map->owners[i]) & 0xffff;
    for (unsigned i = 0; i < GATES; i++)
        queued += shm_load(&e->map->gates[i].n_queued);
    ck_assert_uint_eq(queued, requests);
    ck_assert_uint_eq(n, requests + locks);
}

static int takes_a_and_is_killed(void *arg)
{
    (void)arg;
    takes(unit_open(), "A", "a", ENQ_MODE_X);
    kill(getpid(), SIGKILL);
    return 0;
}

/* A's other process is dead, and what it had is about to be free: B need not
   wait until A lets go of it, though nobody has seen its end yet. */
TEST(a_cycle_through_what_a_dead_process_had_is_none)
{
    struct enq *e = unit_open();
    struct enq_event event;
    uint64_t ticket;
    int rc;

    takes(e, "B", "b", ENQ_MODE_X);
    waits(e, "A", "b");
    unit_killed(unit_fork(takes_a_and_is_killed, NULL));
    rc = start_as(e, "B", "a", &ticket);
    ck_assert_msg(rc == ENQ_OK || rc == ENQ_PENDING, "%s: %s",
        enq_result_name(rc), enq_why());
    if (rc == ENQ_PENDING) {
        do
            event = told_next(e); /* that A waits for b, first or last */
        while (event.kind == ENQ_EVENT_BLOCKING);
        ck_assert_int_eq(event.kind, ENQ_EVENT_RESULT);
        want(ENQ_OK, event.result);
        ck_assert_uint_eq(event.ticket, ticket);
        told_unlock(e, &event.grant);
    }
    enq_close(e);
}

TEST(owners_that_wait_no_longer_are_counted_no_longer)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0), g;
    uint64_t granted, cancelled;

    want(ENQ_PENDING, start_as(e, "A", "a", &granted));
    want(ENQ_PENDING, start_as(e, "B", "a", &cancelled));
    are_counted(e, 2, 1);
    want(ENQ_TIMEDOUT,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"@"}, .mode = ENQ_MODE_S, .owner = "C",
                .wait_ms = 10),
            &g));
    are_counted(e, 2, 1);
    want(ENQ_OK, enq_cancel(e, cancelled));
    are_counted(e, 1, 1);
    told_unlock(other, &held);
    told_result(e, cancelled, ENQ_CANCELLED);
    g = told_result(e, granted, ENQ_OK).grant;
    told_unlock(e, &g);
    are_counted(e, 0, 0);
    enq_close(e);
    enq_close(other);
}

/* It rests for 400 times as long as it looked: 24 seconds, if that was the time
   that it was kept from running. It is left to it, as who was granted is
   stopped, and does not look. */
TEST(a_helper_that_was_kept_from_running_looks_again_in_time)
{
    struct enq *e = unit_open();
    struct enq_grant k;
    struct enq_event event;
    pid_t h;

    takes(e, "B", "m", ENQ_MODE_X);
    k = told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_X, .owner = "Z"));
    h = told_stopped_waiter(e);
    waits(e, "B", "k");
    waits(e, "H", "m");
    quick = pthread_self();
    shm_store(&slow_us, 60000);
    eventually(shm_load(&slow_calls) > 0);
    shm_store(&slow_us, 0);
    usleep(200 * 1000); /* that look is over, and found nothing */
    told_unlock(e, &k);
    eventually(enq_next(e, &event) == ENQ_OK);
    want(ENQ_DEADLOCK, event.result);
    unit_kill(h);
    enq_close(e);
}

int main(void)
{
    unit_begin("deadlock");
    ADD(a_request_behind_another_of_its_owner_closes_no_cycle);
    ADD(what_the_owner_of_a_request_in_the_way_waits_for_elsewhere_does_not_count);
    ADD(two_who_say_no_name_are_not_one);
    ADD(two_whose_names_differ_by_a_digit_are_not_one);
    ADD_LOOP(each_of_many_in_the_way_may_be_the_one_who_closes_the_cycle,
        LENGTH(places));
    ADD(a_waiter_that_may_be_overtaken_closes_no_cycle);
    ADD(a_cycle_through_a_generic_request_that_only_waits_is_seen);
    ADD(a_cycle_through_one_who_asks_not_to_look_is_seen);
    ADD(the_graph_of_many_is_whole);
    ADD(the_graph_shows_those_before_one_in_a_queue_too);
    ADD(a_graph_that_had_no_memory_for_one_who_waits_is_not_passed_for_whole);
    ADD(the_youngest_of_a_cycle_is_the_one_who_came_last);
    ADD(who_waits_is_refused_for_a_cycle_that_stays_and_not_for_two_after_another);
    ADD(a_cycle_through_requests_of_several_attachments_is_seen);
    ADD(a_cycle_that_ends_in_the_moment_of_its_refusal_is_none);
    ADD_LOOP(a_cycle_through_what_a_dead_process_had_is_none, 20);
    ADD(owners_that_wait_no_longer_are_counted_no_longer);
    ADD(a_helper_that_was_kept_from_running_looks_again_in_time);
    return unit_end();
}
