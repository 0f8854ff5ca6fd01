/*
 * check_start.c - started requests: asked for without waiting, told by an
 * event.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "told.h"

/* --- results --- */

TEST(what_can_be_granted_is_granted_at_once)
{
    struct enq *e = unit_open();
    struct enq_grant g;
    uint64_t ticket = 1;

    want(ENQ_OK,
        enq_start(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    ck_assert_uint_eq(ticket, 0);
    want(ENQ_OK, enq_valid(e, g.handle));
    told_nothing(e, 60);
    told_unlock(e, &g);
    enq_close(e);
}

TEST(a_request_that_may_not_wait_is_refused_at_once)
{
    struct enq *e = unit_open();
    struct enq_grant held = told_lock(e, "a", ENQ_MODE_X, 0), g;
    uint64_t ticket = 1;

    want(ENQ_BUSY,
        enq_start(e, ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X), &g,
            &ticket));
    ck_assert_uint_eq(ticket, 0);
    ck_assert_str_ne(g.blocker.owner, "");
    told_unlock(e, &held);
    enq_close(e);
}

TEST(the_grant_comes_as_an_event)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);
    uint64_t ticket = told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    struct enq_event event;

    told_nothing(e, 60);
    told_unlock(other, &held);
    event = told_next(e);
    ck_assert_int_eq(event.kind, ENQ_EVENT_RESULT);
    ck_assert_int_eq(event.result, ENQ_OK);
    ck_assert_uint_eq(event.ticket, ticket);
    ck_assert_uint_gt(event.grant.token, held.token);
    want(ENQ_OK, enq_valid(e, event.grant.handle));
    told_nothing(e, 60);
    told_unlock(e, &event.grant);
    unit_healthy(e);
    enq_close(e);
    enq_close(other);
}

TEST(a_refusal_names_the_blocker_and_so_does_the_end_of_the_wait)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0), g;
    struct enq_event event;
    uint64_t ticket;
    int64_t begin = unit_now_ms();

    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .wait_ms = 50),
            &g, &ticket));
    ck_assert_str_ne(g.blocker.owner, "");
    event = told_next(e);
    ck_assert_int_ge(unit_now_ms() - begin, 50);
    ck_assert_int_eq(event.result, ENQ_TIMEDOUT);
    ck_assert_uint_eq(event.ticket, ticket);
    ck_assert_str_eq(event.grant.blocker.owner, g.blocker.owner);
    ck_assert_str_eq(event.grant.blocker.id, g.blocker.id);
    told_unlock(other, &held);
    unit_healthy(e);
    enq_close(e);
    enq_close(other);
}

TEST(a_cancelled_request_leaves_the_queue_and_says_so)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0), g;
    uint64_t ticket = told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    struct enq_event event;

    want(ENQ_OK, enq_cancel(e, ticket));
    event = told_next(e);
    ck_assert_int_eq(event.result, ENQ_CANCELLED);
    ck_assert_uint_eq(event.ticket, ticket);
    want(ENQ_NOTHELD, enq_cancel(e, ticket));
    want(ENQ_NOTHELD, enq_cancel(e, 0));
    want(ENQ_NOTHELD, enq_cancel(e, UINT64_MAX));
    told_unlock(other, &held);
    want(ENQ_OK, unit_lock(other, "n", "a", ENQ_MODE_X, &g));
    told_nothing(e, 60);
    unit_healthy(e);
    enq_close(e);
    enq_close(other);
}

TEST(requests_are_granted_in_the_order_in_which_they_were_started)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);
    struct enq_event event;
    uint64_t tickets[20];

    for (unsigned i = 0; i < LENGTH(tickets); i++)
        tickets[i] = told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    told_unlock(other, &held);
    for (unsigned i = 0; i < LENGTH(tickets); i++) {
        event = told_but(e, ENQ_EVENT_BLOCKING);
        ck_assert_uint_eq(event.ticket, tickets[i]);
        ck_assert_int_eq(event.result, ENQ_OK);
        told_unlock(e, &event.grant);
    }
    unit_healthy(e);
    enq_close(e);
    enq_close(other);
}

/* --- its end --- */

#define WAITS 60

TEST(each_wait_ends_once_and_never_before_its_time)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);
    int64_t begins[WAITS], waits[WAITS], took;
    uint64_t tickets[WAITS];
    uint64_t dice = unit_seed();

    for (int i = 0; i < WAITS; i++) {
        waits[i] = 1 + (int64_t)(unit_random(&dice) % 150);
        begins[i] = unit_now_ms();
        tickets[i] = told_start(e, "a", ENQ_MODE_X, "me", waits[i]);
    }
    for (int n = 0; n < WAITS; n++) {
        struct enq_event event = told_next(e);
        int i = WAITS - 1;

        while (i > 0 && tickets[i] != event.ticket)
            i--;
        ck_assert_uint_eq(tickets[i], event.ticket);
        tickets[i] = 0;
        took = unit_now_ms() - begins[i];
        ck_assert_int_eq(event.result, ENQ_TIMEDOUT);
        ck_assert_int_ge(took, waits[i]);
        ck_assert_int_le(took,
            waits[i] + (UNIT_SANITIZED ? 3000 : 500) + test_starved_ms());
    }
    told_nothing(e, 50);
    told_unlock(other, &held);
    unit_healthy(e);
    enq_close(e);
    enq_close(other);
}

static int unlock_by_id(struct enq *e, const char *id)
{
    enq_handle handle;

    want(ENQ_OK, enq_find(e, id, &handle));
    return enq_unlock(e, handle, 0);
}

static int (*const enders[])(struct enq *e, const char *id) = {
    unlock_by_id, enq_break};

TEST(whoever_knows_its_id_can_end_a_pending_request)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);
    uint64_t ticket;

    ticket = told_start_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .id = "order 7",
            .wait_ms = ENQ_FOREVER));
    want(ENQ_OK, enders[_i](other, "order 7"));
    told_result(e, ticket, ENQ_CANCELLED);
    told_nothing(e, 60);
    want(ENQ_NOTHELD, enq_cancel(e, ticket));
    told_unlock(other, &held);
    ck_assert_uint_eq(told_count(e), 0);
    unit_healthy(e);
    enq_close(e);
    enq_close(other);
}

TEST(an_id_in_use_is_refused_at_once_and_one_that_is_pending_is_in_use)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0), g;
    const struct enq_req *req = ENQ_REQ(.name = "n", .key = {"a"},
        .mode = ENQ_MODE_X, .id = "same", .wait_ms = ENQ_FOREVER);
    uint64_t first, second = 5;

    want(ENQ_PENDING, enq_start(e, req, &g, &first));
    want_why(ENQ_EXISTS, enq_start(e, req, &g, &second), "same");
    ck_assert_uint_eq(second, 0);
    ck_assert_str_eq(g.blocker.id, "same");
    want(ENQ_OK, enq_cancel(e, first));
    told_result(e, first, ENQ_CANCELLED);
    want(ENQ_PENDING, enq_start(e, req, &g, &second));
    ck_assert_uint_ne(first, second);
    want(ENQ_NOTHELD, enq_cancel(e, first));
    told_unlock(other, &held);
    told_result(e, second, ENQ_OK);
    enq_close(e);
    enq_close(other);
}

/* --- a cancel meets a grant --- */

#define MEETINGS (UNIT_SANITIZED ? 500 : 3000)

struct meeting {
    struct enq *other;
    struct enq_grant held;
    pthread_barrier_t both;
};

static void *release_each(void *arg)
{
    struct meeting *m = arg;

    for (int i = 0; i < MEETINGS; i++) {
        pthread_barrier_wait(&m->both);
        told_unlock(m->other, &m->held);
        pthread_barrier_wait(&m->both);
    }
    return NULL;
}

static int one_meeting(struct enq *e, struct meeting *m, uint64_t *dice)
{
    struct enq_event event;
    uint64_t ticket;
    int rc;

    m->held = told_lock(m->other, "a", ENQ_MODE_X, 0);
    ticket = told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    pthread_barrier_wait(&m->both);
    for (uint64_t n = unit_random(dice) % 100000; n > 0; n--)
        __asm__ volatile("");
    rc = enq_cancel(e, ticket);
    pthread_barrier_wait(&m->both);
    event = told_next(e);
    ck_assert_int_eq(event.kind, ENQ_EVENT_RESULT);
    ck_assert_uint_eq(event.ticket, ticket);
    ck_assert_int_eq(event.result, rc == ENQ_OK ? ENQ_CANCELLED : ENQ_OK);
    if (event.result == ENQ_OK)
        told_unlock(e, &event.grant);
    return rc;
}

TEST(a_cancel_that_meets_the_grant_gives_one_event_and_leaves_no_lock)
{
    struct meeting m = {.other = unit_open()};
    struct enq *e = unit_open();
    uint64_t dice = unit_seed();
    unsigned cancelled = 0;
    pthread_t thread;

    pthread_barrier_init(&m.both, NULL, 2);
    pthread_create(&thread, NULL, release_each, &m);
    for (int i = 0; i < MEETINGS; i++)
        cancelled += one_meeting(e, &m, &dice) == ENQ_OK;
    pthread_join(thread, NULL);
    told_nothing(e, 50);
    ck_assert_uint_eq(told_count(e), 0);
    printf("%u of %d cancelled, the others granted\n", cancelled, MEETINGS);
    unit_healthy(e);
    enq_close(e);
    enq_close(m.other);
}

/* --- keys and modes --- */

TEST(generic_and_concrete_requests_wait_for_each_other)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);
    uint64_t all = told_start(e, "@", ENQ_MODE_X, "all", ENQ_FOREVER), b, c;
    struct enq_event event;

    usleep(20000); /* until it may not be overtaken any more */
    b = told_start(e, "b", ENQ_MODE_X, "b", ENQ_FOREVER);
    c = told_start(e, "c", ENQ_MODE_X, "c", ENQ_FOREVER);
    told_unlock(other, &held);
    event = told_result(e, all, ENQ_OK);
    told(e, ENQ_EVENT_BLOCKING, &event.grant);
    told_unlock(e, &event.grant);
    event = told_next(e); /* one release grants both: in any order */
    want(ENQ_OK, event.result);
    ck_assert(event.ticket == b || event.ticket == c);
    told_result(e, b + c - event.ticket, ENQ_OK);
    unit_healthy(e);
    enq_close(e);
    enq_close(other);
}

TEST(a_demotion_grants_and_a_promotion_does_not)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_O, 0);
    uint64_t first = told_start(e, "a", ENQ_MODE_S, "me", ENQ_FOREVER);
    uint64_t second = told_start(e, "a", ENQ_MODE_S, "me", ENQ_FOREVER);

    want(ENQ_OK, enq_promote(other, held.handle, held.token, &held));
    told_nothing(e, 60);
    want(ENQ_OK, enq_demote(other, held.handle, held.token));
    told_result(e, first, ENQ_OK);
    told_result(e, second, ENQ_OK);
    told_unlock(other, &held);
    unit_healthy(e);
    enq_close(e);
    enq_close(other);
}

/* --- a lock that came by an event --- */

TEST(a_lock_that_was_waited_for_expires_as_any_other)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);
    struct enq_event event;
    uint64_t ticket;
    int64_t begin;

    ticket = told_start_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
            .wait_ms = ENQ_FOREVER, .ttl_ms = 1500));
    told_nothing(e, 300); /* its ttl begins with the grant */
    begin = unit_now_ms();
    told_unlock(other, &held);
    event = told_result(e, ticket, ENQ_OK);
    told(e, ENQ_EVENT_EXPIRING, &event.grant);
    told(e, ENQ_EVENT_EXPIRED, &event.grant);
    ck_assert_int_ge(unit_now_ms() - begin, 1500);
    ck_assert_int_le(unit_now_ms() - begin,
        1500 + (UNIT_SANITIZED ? 1800 : 300) + test_starved_ms());
    want(ENQ_EXPIRED, enq_valid(e, event.grant.handle));
    enq_close(e);
    enq_close(other);
}

/* Nobody listens: enq_valid() all the same. */
TEST(it_is_no_longer_valid_then_even_where_nobody_asks_for_events)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);
    struct enq_event event = {0};
    int64_t begin;

    told_start_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
            .wait_ms = ENQ_FOREVER, .ttl_ms = 100));
    told_unlock(other, &held);
    eventually(enq_next(e, &event) == ENQ_OK);
    want(ENQ_OK, event.result);
    begin = unit_now_ms();
    while (enq_valid(e, event.grant.handle) == ENQ_OK)
        ck_assert_int_lt(unit_now_ms() - begin, 600 + test_starved_ms());
    want(ENQ_EXPIRED, enq_valid(e, event.grant.handle));
    enq_close(e);
    enq_close(other);
}

/* --- what runs out --- */

TEST(a_lock_that_runs_out_is_taken_over_by_a_started_request)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant g;
    struct enq_event event;
    int64_t begin = unit_now_ms();

    g = told_lock_req(other,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .ttl_ms = 100));
    told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    event = told_next(e);
    ck_assert_int_eq(event.result, ENQ_OK);
    ck_assert_int_ge(unit_now_ms() - begin, 100);
    ck_assert_int_le(unit_now_ms() - begin,
        100 + (UNIT_SANITIZED ? 500 : 40) + test_starved_ms());
    want(ENQ_EXPIRED, enq_unlock(other, g.handle, g.token));
    enq_close(e);
    enq_close(other);
}

TEST(closing_ends_what_is_pending)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);
    size_t total;

    for (int i = 0; i < 10; i++)
        told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    enq_close(e);
    told_unlock(other, &held);
    want(ENQ_OK, enq_list(other, "n", NULL, NULL, 0, &total));
    ck_assert_uint_eq(total, 0);
    unit_healthy(other);
    enq_close(other);
}

TEST(wrong_use_is_refused_with_a_reason)
{
    struct enq *e = unit_open();
    struct enq_event event;
    struct enq_grant g;
    uint64_t ticket;

    want(-EINVAL, enq_start(e, NULL, &g, &ticket));
    want_why(-EINVAL,
        enq_start(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X), NULL, &ticket),
        "grant");
    want_why(-EINVAL,
        enq_start(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .retries = 1), &g,
            &ticket),
        "retries");
    want(-EINVAL, enq_next(e, NULL));
    want(ENQ_PENDING, enq_next(e, &event));
    enq_close(e);
}

TEST(a_full_table_refuses_and_takes_what_is_given_back)
{
    struct enq *e = unit_open_with(&(struct enq_open_opts){
        .size = sizeof(struct enq_open_opts), .slots = 210});
    struct enq *other = unit_open();
    uint64_t tickets[300], ticket = 1;
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0), g;
    int n = 0, rc;

    const struct enq_req *req = ENQ_REQ(.name = "n", .key = {"a"},
        .mode = ENQ_MODE_X, .wait_ms = ENQ_FOREVER);

    while (n < 300 && (rc = enq_start(e, req, &g, &tickets[n])) == ENQ_PENDING)
        n++;
    ck_assert_int_ge(n, 150);
    want_why(ENQ_EFULL, enq_start(e, req, &g, &ticket), "full");
    ck_assert_uint_eq(ticket, 0);
    for (int i = 0; i < n; i++) {
        want(ENQ_OK, enq_cancel(e, tickets[i]));
        told_result(e, tickets[i], ENQ_CANCELLED);
    }
    for (int i = 0; i < n; i++)
        want(ENQ_PENDING, enq_start(e, req, &g, &tickets[i]));
    enq_close(e);
    told_unlock(other, &held);
    enq_close(other);
}

/* --- heartbeats that have not begun --- */

TEST(a_request_that_never_got_its_lock_leaves_no_heartbeat_behind)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0), g;
    const struct enq_req *req = ENQ_REQ(.name = "n", .key = {"a"},
        .mode = ENQ_MODE_X, .wait_ms = ENQ_FOREVER, .heartbeat_ms = 1000);
    size_t before = 0;
    uint64_t ticket;

    for (int i = 0; i < 1010; i++) {
        if (i == 10)
            before = mallinfo2().uordblks;
        want(ENQ_PENDING, enq_start(e, req, &g, &ticket));
        want(ENQ_OK, enq_cancel(e, ticket));
        told_result(e, ticket, ENQ_CANCELLED);
    }
    if (!UNIT_SANITIZED)
        ck_assert_uint_le(mallinfo2().uordblks, before + 4096);
    told_unlock(other, &held);
    enq_close(e);
    enq_close(other);
}

TEST(a_set_that_was_told_leaves_no_memory_behind)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0), g[2];
    const struct enq_req *reqs[] = {
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
            .wait_ms = ENQ_FOREVER),
        ENQ_REQ(.name = "n", .key = {"b"}, .mode = ENQ_MODE_X,
            .wait_ms = ENQ_FOREVER)};
    size_t before = 0;
    uint64_t ticket;

    for (int i = 0; i < 110; i++) {
        if (i == 10)
            before = mallinfo2().uordblks;
        want(ENQ_PENDING, enq_start_set(e, reqs, 2, g, &ticket));
        want(ENQ_OK, enq_cancel(e, ticket));
        told_result(e, ticket, ENQ_CANCELLED);
    }
    if (!UNIT_SANITIZED)
        ck_assert_uint_le(mallinfo2().uordblks, before + 4096);
    told_unlock(other, &held);
    enq_close(e);
    enq_close(other);
}

TEST(closing_ends_pending_requests_with_heartbeats)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);

    for (int i = 0; i < 10; i++)
        told_start_req(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .wait_ms = ENQ_FOREVER, .heartbeat_ms = 100));
    enq_close(e);
    told_unlock(other, &held);
    ck_assert_uint_eq(told_count(other), 0);
    enq_close(other);
}

static void add_ends(void)
{
    ADD(each_wait_ends_once_and_never_before_its_time);
    ADD_LOOP(whoever_knows_its_id_can_end_a_pending_request, LENGTH(enders));
    ADD(an_id_in_use_is_refused_at_once_and_one_that_is_pending_is_in_use);
    ADD(a_cancel_that_meets_the_grant_gives_one_event_and_leaves_no_lock);
    ADD(generic_and_concrete_requests_wait_for_each_other);
    ADD(a_demotion_grants_and_a_promotion_does_not);
    ADD(a_lock_that_was_waited_for_expires_as_any_other);
    ADD(it_is_no_longer_valid_then_even_where_nobody_asks_for_events);
    ADD(a_request_that_never_got_its_lock_leaves_no_heartbeat_behind);
    ADD(a_set_that_was_told_leaves_no_memory_behind);
    ADD(closing_ends_pending_requests_with_heartbeats);
}

int main(void)
{
    unit_begin("start");
    ADD(what_can_be_granted_is_granted_at_once);
    ADD(a_request_that_may_not_wait_is_refused_at_once);
    ADD(the_grant_comes_as_an_event);
    ADD(a_refusal_names_the_blocker_and_so_does_the_end_of_the_wait);
    ADD(a_cancelled_request_leaves_the_queue_and_says_so);
    ADD(requests_are_granted_in_the_order_in_which_they_were_started);
    add_ends();
    ADD(a_lock_that_runs_out_is_taken_over_by_a_started_request);
    ADD(closing_ends_what_is_pending);
    ADD(wrong_use_is_refused_with_a_reason);
    ADD(a_full_table_refuses_and_takes_what_is_given_back);
    return unit_end();
}
