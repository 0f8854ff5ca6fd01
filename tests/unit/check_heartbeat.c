/*
 * check_heartbeat.c - heartbeats: locks that the helper thread renews.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/attachment.h"
#include "async/heartbeat.h"
#include "base/point.h"
#include "lib/latches.h"
#include "sync/latch.h"
#include "told.h"

/* Long enough for a round of each second, and short enough for its end to be
   reckoned by the exact clock: from a minute on what is left is up to a second
   more than one sees. */
#define TTL_MS 50000

/* By then the helper thread sleeps, and nothing wakes it but its next time. */
#define SETTLED_US 150000

static int heartbeat_on(struct enq *e, const char *field, int64_t ttl_ms,
    struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X,
            .ttl_ms = ttl_ms, .heartbeat_ms = 20),
        g);
}

static void no_heartbeat_is_left(struct enq *e)
{
    int64_t end = unit_now_ms() + TOLD_MS / 2;

    while (shm_load(&e->async.heartbeats_due.n) > 0 && unit_now_ms() < end)
        unit_nap();
    ck_assert_uint_eq(shm_load(&e->async.heartbeats_due.n), 0);
}

static int64_t left_ms(struct enq *e, enq_handle handle)
{
    struct enq_info info[4];
    size_t total;

    want(ENQ_OK, enq_list(e, "n", NULL, info, LENGTH(info), &total));
    for (size_t i = 0; i < total; i++)
        if (info[i].handle == handle)
            return info[i].ttl_left_ms;
    return -1;
}

/* There is more left of its ttl than there was. */
static void is_beaten(struct enq *e, enq_handle handle)
{
    int64_t before, now = left_ms(e, handle);

    do {
        before = now;
        usleep(2000);
        now = left_ms(e, handle);
        ck_assert_int_gt(now, TTL_MS - 10000);
    } while (now <= before);
}

/* Each 100 ms, or more often: three of them. */
static void is_beaten_at_once(struct enq *e, enq_handle handle)
{
    int64_t begin = unit_now_ms(), starved = test_starved_ms();

    for (int i = 0; i < 3; i++)
        is_beaten(e, handle);
    starved = test_starved_ms() - starved;
    ck_assert_int_lt(unit_now_ms() - begin, 600 + starved);
}

/* Not with the helper thread's round of each second, which would take two or
   three for that. Another lock of the session is to be looked at sooner, so that
   the grant itself is no reason to ring for it. */
TEST(a_heartbeat_comes_when_it_is_due)
{
    struct enq *e = unit_open();
    struct enq_grant sooner = told_lock(e, "sooner", ENQ_MODE_X, 30000), g;

    usleep(SETTLED_US);
    for (int i = 0; i < 5; i++) {
        want(ENQ_OK, heartbeat_on(e, "a", TTL_MS, &g));
        is_beaten_at_once(e, g.handle);
        told_unlock(e, &g);
        no_heartbeat_is_left(e);
    }
    told_unlock(e, &sooner);
    enq_close(e);
}

/* The same of one that was waited for. */
TEST(a_heartbeat_begins_with_the_grant_also_if_another_lock_ends_sooner)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant sooner = told_lock(e, "sooner", ENQ_MODE_X, 30000), held;
    struct enq_event event;
    uint64_t ticket;

    for (int i = 0; i < 5; i++) {
        held = told_lock(other, "a", ENQ_MODE_X, 0);
        ticket = told_start_req(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .wait_ms = ENQ_FOREVER, .ttl_ms = TTL_MS, .heartbeat_ms = 100));
        usleep(50000);
        told_unlock(other, &held);
        event = told_result(e, ticket, ENQ_OK);
        is_beaten_at_once(e, event.grant.handle);
        told_unlock(e, &event.grant);
        no_heartbeat_is_left(e);
    }
    told_unlock(e, &sooner);
    enq_close(e);
    enq_close(other);
}

TEST(a_heartbeat_goes_with_its_lock)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant g;
    struct enq_info info;
    size_t total;

    want(ENQ_OK, heartbeat_on(e, "a", 1000, &g));
    ck_assert_uint_eq(e->async.heartbeats_due.n, 1);
    want(ENQ_OK, enq_list(other, "n", NULL, &info, 1, &total));
    want(ENQ_OK, enq_break(other, info.id));
    no_heartbeat_is_left(e);
    ck_assert_uint_eq(e->async.heartbeats_due.owners, 0);
    enq_close(e);
    enq_close(other);
}

static uint32_t *word_of(struct enq *e, enq_handle handle)
{
    return latch_of_handle(e->map, handle);
}

/* The helper thread waits for the word to renew a lock that has run out, and
   meanwhile those heartbeats are looked for whose locks are gone. */
TEST(a_heartbeat_that_is_being_done_is_not_taken_for_a_lost_one)
{
    struct heartbeat *more[100];
    struct enq *e = unit_open();
    struct enq_grant g;
    struct thread *me = thread_enter(e->map);
    uint32_t *word;

    g = told_lock_req(e,
        ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .ttl_ms = 200,
            .heartbeat_ms = 20));
    word = word_of(e, g.handle);
    ck_assert_int_eq(latch_acquire(me, word, RANK_SHARD), 0);
    usleep(300000);
    ck_assert_ptr_nonnull(e->async.beating);
    for (unsigned i = 0; i < LENGTH(more); i++) {
        more[i] = heartbeat_make(e, 100000);
        ck_assert_ptr_nonnull(more[i]);
    }
    ck_assert_uint_gt(e->async.heartbeats_most, 64); /* they were looked for */
    latch_release(me, word);
    no_heartbeat_is_left(e);
    for (unsigned i = 0; i < LENGTH(more); i++)
        heartbeat_free(&e->async, more[i]);
    ck_assert_uint_eq(e->async.heartbeats_due.owners, 0);
    want(ENQ_EXPIRED, enq_valid(e, g.handle));
    enq_close(e);
}

#define LOOKS 64
#define LOOK_US 20000

static void look_slowly(const struct point *p)
{
    if (strcmp(p->name, "async.looked") == 0)
        usleep(LOOK_US);
}

/* All looks together take longer than its ttl. */
TEST(a_heartbeat_does_not_wait_for_many_looks_that_take_long)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held, beaten, g;
    uint64_t ticket;

    want(ENQ_OK, unit_lock(other, "n", "k", ENQ_MODE_X, &held));
    want(ENQ_OK, heartbeat_on(e, "beaten", LOOKS * LOOK_US / 1300, &beaten));
    point_hook = look_slowly;
    for (int i = 0; i < LOOKS; i++)
        want(ENQ_PENDING,
            enq_start(e,
                ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_X,
                    .wait_ms = ENQ_FOREVER),
                &g, &ticket));
    usleep(LOOKS * LOOK_US + 300000);
    want(ENQ_OK, enq_valid(e, beaten.handle));
    point_hook = NULL;
    enq_close(e);
    enq_close(other);
}

#define CHAIN 12
#define LINK_US 150000

static void helper_leaves_slowly(const struct point *p)
{
    if (strcmp(p->name, "grant.before_wake") == 0 && gettid() != getpid())
        usleep(LINK_US);
}

static const char *link_of(unsigned i)
{
    static char text[2][16];

    snprintf(text[i % 2], sizeof(text[0]), "link %u", i);
    return text[i % 2];
}

/* Each has what the one before waits for. Only the last request is searched
   from: of "asks", who has something that others wait for. */
static void chain_up(struct enq *e)
{
    for (unsigned i = 0; i < CHAIN; i++)
        told_lock_req(e,
            ENQ_REQ(.name = "n", .key = {link_of(i)}, .mode = ENQ_MODE_X,
                .owner = link_of(i)));
    told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {"wanted"}, .mode = ENQ_MODE_X,
            .owner = "asks"));
    told_start_req(e,
        ENQ_REQ(.name = "n", .key = {"wanted"}, .mode = ENQ_MODE_X,
            .owner = "waits", .wait_ms = ENQ_FOREVER,
            .flags = ENQ_NO_DEADLOCK));
    for (unsigned i = 0; i + 1 < CHAIN; i++)
        told_start_req(e,
            ENQ_REQ(.name = "n", .key = {link_of(i + 1)}, .mode = ENQ_MODE_X,
                .owner = link_of(i), .wait_ms = ENQ_FOREVER,
                .flags = ENQ_NO_DEADLOCK));
}

/* Of a site after the other, each of which takes long. */
TEST(a_heartbeat_does_not_wait_for_the_end_of_a_search)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant beaten;

    chain_up(other);
    usleep(SETTLED_US);
    want(ENQ_OK, heartbeat_on(e, "beaten", CHAIN * LINK_US / 2000, &beaten));
    point_hook = helper_leaves_slowly;
    told_start(other, link_of(0), ENQ_MODE_X, "asks", ENQ_FOREVER);
    usleep(2 * CHAIN * LINK_US);
    want(ENQ_OK, enq_valid(e, beaten.handle));
    point_hook = NULL;
    enq_close(e);
    enq_close(other);
}

int main(void)
{
    unit_begin("heartbeat");
    ADD(a_heartbeat_comes_when_it_is_due);
    ADD(a_heartbeat_begins_with_the_grant_also_if_another_lock_ends_sooner);
    ADD(a_heartbeat_goes_with_its_lock);
    ADD(a_heartbeat_that_is_being_done_is_not_taken_for_a_lost_one);
    ADD(a_heartbeat_does_not_wait_for_many_looks_that_take_long);
    ADD(a_heartbeat_does_not_wait_for_the_end_of_a_search);
    return unit_end();
}
