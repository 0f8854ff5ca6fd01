/*
 * check_closing.c - cycles that a grant closes: who was granted looks for them,
 * and those that are in one are told.
 *
 * In each, B has "m" and waits for "k"; H gets "k", and waits for "m".
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/attachment.h"
#include "sync/sys.h"
#include "told.h"

#define AT_ONCE_MS (UNIT_SANITIZED ? 300 : 50)

static struct enq *open_strict(void)
{
    struct enq_open_opts strict = {
        .size = sizeof(strict), .strict = ENQ_STRICT_YES};

    return unit_open_with(&strict);
}

static struct enq_grant takes(struct enq *e, const char *owner,
    const char *field)
{
    return told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X,
            .owner = owner));
}

static uint64_t waits(struct enq *e, const char *owner, const char *field)
{
    return told_start(e, field, ENQ_MODE_X, owner, ENQ_FOREVER);
}

static uint64_t waits_without_a_look(struct enq *e, const char *owner,
    const char *field)
{
    return told_start_req(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X, .owner = owner,
            .wait_ms = ENQ_FOREVER, .flags = ENQ_NO_DEADLOCK));
}

/* Of k and x, for H. */
static const struct enq_req *const *set_of_two(void)
{
    static const struct enq_req k = {.size = sizeof(k),
        .name = "n",
        .key = {"k"},
        .mode = ENQ_MODE_X,
        .owner = "H",
        .wait_ms = ENQ_FOREVER};
    static const struct enq_req x = {.size = sizeof(x),
        .name = "n",
        .key = {"x"},
        .mode = ENQ_MODE_X,
        .owner = "H",
        .wait_ms = ENQ_FOREVER};
    static const struct enq_req *const both[] = {&k, &x};

    return both;
}

static uint64_t waits_for_two(struct enq *e, struct enq_grant *grants)
{
    uint64_t ticket;

    want(ENQ_PENDING, enq_start_set(e, set_of_two(), 2, grants, &ticket));
    return ticket;
}

/* This request's result, whatever is told of locks meanwhile. */
static void ends(struct enq *e, uint64_t ticket, int result)
{
    struct enq_event event = told_but(e, ENQ_EVENT_BLOCKING);

    ck_assert_uint_eq(event.ticket, ticket);
    ck_assert_msg(event.result == result, "the result is %s, not %s",
        enq_result_name(event.result), enq_result_name(result));
}

struct clock {
    int64_t begin, starved;
};

static struct clock now(void)
{
    return (struct clock){unit_now_ms(), test_starved_ms()};
}

static void was_at_once(struct clock since)
{
    ck_assert_int_le(unit_now_ms() - since.begin,
        AT_ONCE_MS + test_starved_ms() - since.starved);
}

/* Once this is given back one request is granted, and another refused. */
static void closes(struct enq *e, const struct enq_grant *held,
    uint64_t granted, uint64_t refused)
{
    struct clock begin = now();

    told_unlock(e, held);
    ends(e, granted, ENQ_OK);
    ends(e, refused, ENQ_DEADLOCK);
    was_at_once(begin);
}

/* And though the helper has others to look for before: W. */
TEST(the_youngest_is_refused_though_its_request_has_not_changed)
{
    struct enq *e = open_strict();
    struct enq_grant k = takes(e, "Z", "k");
    uint64_t h, b, again;

    takes(e, "B", "m");
    waits(e, "W", "m");
    h = waits(e, "H", "k");
    again = waits(e, "H", "m");
    b = waits(e, "B", "k");
    closes(e, &k, h, b);
    want(ENQ_OK, enq_cancel(e, again));
    unit_healthy(e);
    enq_close(e);
}

TEST(the_youngest_is_refused_also_where_it_waits_elsewhere)
{
    struct enq *e = open_strict();
    struct enq_grant k = takes(e, "Z", "k");
    uint64_t h, again;

    takes(e, "B", "m");
    h = waits(e, "H", "k");
    waits(e, "B", "k");
    again = waits(e, "H", "m");
    closes(e, &k, h, again);
    unit_healthy(e);
    enq_close(e);
}

/* The youngest would wait for ever: so an older one goes. */
TEST(an_older_one_is_refused_if_the_youngest_does_not_look)
{
    struct enq *e = open_strict();
    struct enq_grant k = takes(e, "Z", "k");
    uint64_t h, b;

    takes(e, "B", "m");
    h = waits(e, "H", "k");
    b = waits(e, "B", "k");
    waits_without_a_look(e, "H", "m");
    closes(e, &k, h, b);
    enq_close(e);
}

#define LONG 40 /* more than a session is notified of one by one */

/* For what is free, and for this. */
static uint64_t waits_for_one_of_two(struct enq *e, const char *owner,
    const char *field, struct enq_grant *grants)
{
    const struct enq_req *both[] = {
        ENQ_REQ(.name = "n", .key = {"free"}, .mode = ENQ_MODE_X,
            .owner = owner, .wait_ms = ENQ_FOREVER),
        ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X, .owner = owner,
            .wait_ms = ENQ_FOREVER),
    };
    uint64_t ticket;

    want(ENQ_PENDING, enq_start_set(e, both, 2, grants, &ticket));
    return ticket;
}

/* H waits for o39, whose owner waits for o38, ... whose owner waits for "k". Only
   the youngest looks: one request, or the last of a set. */
TEST(the_youngest_of_a_long_cycle_is_told_wherever_it_is)
{
    struct enq *e = open_strict();
    struct enq_grant k = takes(e, "Z", "k"), set[2];
    char before[8] = "k", name[8];
    uint64_t h = waits(e, "H", "k");

    for (unsigned i = 0; i < LONG; i++) {
        snprintf(name, sizeof(name), "o%u", i);
        takes(e, name, name);
        waits_without_a_look(e, name, before);
        strcpy(before, name);
    }
    closes(e, &k, h,
        _i == 0 ? waits(e, "H", before)
                : waits_for_one_of_two(e, "H", before, set));
    ck_assert_uint_eq(unit_stats(e).waiting, LONG);
    enq_close(e);
}

struct sleeper {
    struct enq *e;
    int rc;
};

static void *sleeps_for_m(void *arg)
{
    struct sleeper *x = arg;
    struct enq_grant g;

    x->rc = enq_lock(x->e,
        ENQ_REQ(.name = "n", .key = {"m"}, .mode = ENQ_MODE_X, .owner = "H",
            .wait_ms = ENQ_FOREVER),
        &g);
    return NULL;
}

/* Nobody but that thread looks, and nothing else wakes it. */
TEST(a_thread_that_sleeps_is_told_and_woken)
{
    struct enq *e = open_strict();
    struct enq_grant k = takes(e, "Z", "k");
    struct sleeper again = {.e = e};
    struct clock begin;
    pthread_t thread;

    takes(e, "B", "m");
    waits(e, "H", "k");
    waits_without_a_look(e, "B", "k");
    pthread_create(&thread, NULL, sleeps_for_m, &again);
    eventually(unit_stats(e).waiting == 3);
    usleep(5000);
    begin = now();
    told_unlock(e, &k);
    pthread_join(thread, NULL);
    was_at_once(begin);
    want(ENQ_DEADLOCK, again.rc);
    enq_close(e);
}

/* Its request of "k", or of "x": either is in B's way once H has both. */
TEST(a_set_that_was_started_closes_a_cycle_by_any_of_its_locks)
{
    struct enq *e = open_strict();
    struct enq_grant k = takes(e, "Z", "k"), set[2];
    uint64_t h, b;

    takes(e, "B", "m");
    h = waits_for_two(e, set);
    waits(e, "H", "m");
    b = waits(e, "B", _i == 0 ? "k" : "x");
    closes(e, &k, h, b);
    enq_close(e);
}

/* The youngest waits for two, and is in a cycle by either: G has the one once
   it is granted, and somebody outside the cycle has the other. */
TEST(a_set_is_told_by_any_of_its_members)
{
    struct enq *e = open_strict();
    struct enq_grant z = takes(e, "Z", _i == 0 ? "k" : "x"), set[2];
    uint64_t g, h;

    takes(e, "Y", _i == 0 ? "x" : "k");
    takes(e, "H", "m");
    g = waits(e, "G", _i == 0 ? "k" : "x");
    waits(e, "G", "m");
    h = waits_for_two(e, set);
    closes(e, &z, g, h);
    enq_close(e);
}

struct setter {
    struct enq *e;
    struct enq_grant set[2];
    int rc;
};

static void *takes_two(void *arg)
{
    struct setter *x = arg;

    x->rc = enq_lock_set(x->e, set_of_two(), 2, x->set);
    return NULL;
}

TEST(a_set_that_a_thread_waits_for_closes_a_cycle)
{
    struct enq *e = open_strict();
    struct enq_grant k = takes(e, "Z", "k");
    struct setter h = {.e = e};
    struct clock begin;
    pthread_t thread;
    uint64_t b;

    takes(e, "B", "m");
    pthread_create(&thread, NULL, takes_two, &h);
    eventually(unit_stats(e).waiting == 2);
    waits(e, "H", "m");
    b = waits(e, "B", "x");
    begin = now();
    told_unlock(e, &k);
    ends(e, b, ENQ_DEADLOCK);
    was_at_once(begin);
    pthread_join(thread, NULL);
    want(ENQ_OK, h.rc);
    enq_close(e);
}

/* H is granted, and stopped: it does not know, and does not look. */
TEST(a_cycle_whose_grantee_is_stopped_is_seen_by_the_others_in_time)
{
    struct enq *e;
    struct enq_grant k;
    struct enq_event event;
    pid_t h;

    unit_with_ticks();
    e = open_strict();
    k = takes(e, "Z", "k");
    takes(e, "B", "m");
    h = told_stopped_waiter(e);
    waits(e, "H", "m");
    waits(e, "B", "k");
    told_unlock(e, &k);
    event = told_but(e, ENQ_EVENT_BLOCKING);
    want(ENQ_DEADLOCK, event.result);
    unit_kill(h);
    enq_close(e);
}

static uint64_t starts(struct enq *e, const char *owner, const char *field,
    enum enq_mode mode, unsigned flags)
{
    return told_start_req(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = mode, .owner = owner,
            .wait_ms = ENQ_FOREVER, .flags = flags));
}

/* Nobody waits for a lock of A, which has none: B waits behind A's request, for
   no lock of "k", and H for a lock of B. Neither of these looks. */
static uint64_t waits_in_a_cycle_by_its_place(struct enq *e)
{
    uint64_t a;

    told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_S, .owner = "H"));
    takes(e, "B", "m");
    a = starts(e, "A", "k", ENQ_MODE_X, 0);
    starts(e, "H", "m", ENQ_MODE_X, ENQ_NO_DEADLOCK);
    starts(e, "B", "k", ENQ_MODE_S, ENQ_NO_DEADLOCK);
    return a;
}

TEST(
    a_cycle_by_a_place_in_a_queue_is_seen_in_time_if_its_youngest_does_not_look)
{
    struct enq *e;

    unit_with_ticks();
    e = open_strict();
    ends(e, waits_in_a_cycle_by_its_place(e), ENQ_DEADLOCK);
    enq_close(e);
}

/* Others have used up the time for searches just when its second comes. */
TEST(a_look_for_which_there_was_no_time_is_made_soon_after)
{
    struct enq *e;
    struct clock begin;

    unit_with_ticks();
    e = open_strict();
    begin = now();
    shm_store(&e->map->h->searched_ns, sys.now().ns + NS_PER_S * 21 / 20);
    ends(e, waits_in_a_cycle_by_its_place(e), ENQ_DEADLOCK);
    ck_assert_int_le(unit_now_ms() - begin.begin,
        1800 + test_starved_ms() - begin.starved);
    enq_close(e);
}

/* For 1.15 s: so far ahead that no more than three looks find it so. */
static void *use_up_the_time(void *context)
{
    struct enq *e = context;
    int64_t begin = sys.now().ns;

    while (sys.now().ns - begin < NS_PER_S * 23 / 20) {
        shm_store(&e->map->h->searched_ns, sys.now().ns + 60 * NS_PER_MS);
        usleep(1000);
    }
    return NULL;
}

TEST(a_look_for_which_there_was_no_time_twice_is_made_soon_after)
{
    pthread_t others;
    struct clock begin;
    struct enq *e;

    unit_with_ticks();
    e = open_strict();
    begin = now();
    pthread_create(&others, NULL, use_up_the_time, e);
    ends(e, waits_in_a_cycle_by_its_place(e), ENQ_DEADLOCK);
    ck_assert_int_le(unit_now_ms() - begin.begin,
        1800 + test_starved_ms() - begin.starved);
    pthread_join(others, NULL);
    enq_close(e);
}

/* --- what it costs --- */

static void close_one(struct enq *e)
{
    struct enq_grant k = takes(e, "Z", "k");
    uint64_t h;

    takes(e, "B", "m");
    h = waits(e, "H", "k");
    waits(e, "H", "m");
    waits(e, "B", "k");
    told_unlock(e, &k);
    ends(e, h, ENQ_OK);
}

/* They have used up their part of the time, for a second and more to come. */
TEST(searches_after_grants_end_with_their_part_of_the_time)
{
    struct enq *e = open_strict();
    int64_t *until = &e->map->h->searched_ns;

    shm_store(until, sys.now().ns + 3 * NS_PER_S);
    close_one(e);
    usleep(100 * 1000);
    ck_assert_uint_eq(unit_stats(e).waiting, 2);
    ck_assert_int_le(shm_load(until) - sys.now().ns, 3 * NS_PER_S);
    enq_close(e);
}

TEST(a_search_after_a_grant_is_paid_for)
{
    struct enq *e = open_strict();
    struct clock begin = now();
    struct enq_event event;
    int64_t ahead;

    close_one(e);
    ahead = shm_load(&e->map->h->searched_ns) - sys.now().ns;
    event = told_but(e, ENQ_EVENT_BLOCKING);
    want(ENQ_DEADLOCK, event.result);
    was_at_once(begin);
    ck_assert_int_lt(ahead, NS_PER_S / 100);
    ck_assert_int_gt(shm_load(&e->map->h->searched_ns), 0);
    enq_close(e);
}

/* By another process, which has written what it liked. */
TEST(a_damaged_account_of_searches_stops_none)
{
    static const int64_t damaged[] = {INT64_MAX, INT64_MIN, INT64_MAX / 2};
    struct enq *e = open_strict();
    struct clock begin = now();
    struct enq_event event;

    shm_store(&e->map->h->searched_ns, damaged[_i]);
    close_one(e);
    event = told_but(e, ENQ_EVENT_BLOCKING);
    want(ENQ_DEADLOCK, event.result);
    was_at_once(begin);
    enq_close(e);
}

int main(void)
{
    unit_begin("closing");
    ADD(the_youngest_is_refused_though_its_request_has_not_changed);
    ADD(the_youngest_is_refused_also_where_it_waits_elsewhere);
    ADD_LOOP(the_youngest_of_a_long_cycle_is_told_wherever_it_is, 2);
    ADD(a_thread_that_sleeps_is_told_and_woken);
    ADD(an_older_one_is_refused_if_the_youngest_does_not_look);
    ADD_LOOP(a_set_that_was_started_closes_a_cycle_by_any_of_its_locks, 2);
    ADD_LOOP(a_set_is_told_by_any_of_its_members, 2);
    ADD(a_set_that_a_thread_waits_for_closes_a_cycle);
    ADD(a_cycle_whose_grantee_is_stopped_is_seen_by_the_others_in_time);
    ADD(a_cycle_by_a_place_in_a_queue_is_seen_in_time_if_its_youngest_does_not_look);
    ADD(a_look_for_which_there_was_no_time_is_made_soon_after);
    ADD(a_look_for_which_there_was_no_time_twice_is_made_soon_after);
    ADD(searches_after_grants_end_with_their_part_of_the_time);
    ADD(a_search_after_a_grant_is_paid_for);
    ADD_LOOP(a_damaged_account_of_searches_stops_none, 3);
    return unit_end();
}
