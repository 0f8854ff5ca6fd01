/*
 * check_beat.c - heartbeats: locks that the helper thread renews.
 */
#include <unistd.h>

#include "api/attachment.h"
#include "sync/word.h"
#include "told.h"

/* By then the helper thread sleeps, and nothing wakes it but its next time. */
#define SETTLED_US 150000

static int beat_on(struct enq *e, const char *field, int64_t ttl_ms,
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

    while (shm_load(&e->desk.heartbeats.n) > 0 && unit_now_ms() < end)
        unit_nap();
    ck_assert_uint_eq(shm_load(&e->desk.heartbeats.n), 0);
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

/* Of a lock of a minute, each 100 ms. */
static void is_beaten_at_once(struct enq *e, enq_handle handle)
{
    int64_t starved = test_starved_ms();

    usleep(600000);
    starved = test_starved_ms() - starved;
    ck_assert_int_gt(left_ms(e, handle), 60000 - 400 - starved);
}

/* Not with the helper thread's round of each second: of those there are three
   in this time. Another lock of the session is to be looked at sooner, so that
   the grant itself is no reason to ring for it. */
TEST(a_heartbeat_comes_when_it_is_due)
{
    struct enq *e = unit_open();
    struct enq_grant sooner = told_lock(e, "sooner", ENQ_MODE_X, 30000), g;

    usleep(SETTLED_US);
    for (int i = 0; i < 5; i++) {
        want(ENQ_OK, beat_on(e, "a", 60000, &g));
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
    struct enq_grant g;
    uint64_t ticket;

    for (int i = 0; i < 5; i++) {
        held = told_lock(other, "a", ENQ_MODE_X, 0);
        want(ENQ_PENDING,
            enq_start(e,
                ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                    .wait_ms = ENQ_FOREVER, .ttl_ms = 60000,
                    .heartbeat_ms = 100),
                &g, &ticket));
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

    want(ENQ_OK, beat_on(e, "a", 1000, &g));
    ck_assert_uint_eq(e->desk.heartbeats.n, 1);
    want(ENQ_OK, enq_list(other, "n", NULL, &info, 1, &total));
    want(ENQ_OK, enq_break(other, info.id));
    no_heartbeat_is_left(e);
    ck_assert_uint_eq(e->desk.heartbeats.owners, 0);
    enq_close(e);
    enq_close(other);
}

static uint32_t *word_of(struct enq *e, enq_handle handle)
{
    uint64_t state;
    struct entry *entry = entry_of_handle(e->map, handle, &state);

    ck_assert_ptr_nonnull(entry);
    return &e->map->shards[shard_of_hash(entry->hash)].word;
}

/* The helper thread waits for the word to renew a lock that has run out, and
   meanwhile those heartbeats are looked for whose locks are gone. */
TEST(a_heartbeat_that_is_being_done_is_not_taken_for_a_lost_one)
{
    struct beat *more[100];
    struct enq *e = unit_open();
    struct enq_grant g;
    struct thread *me = thread_enter(e->map);
    uint32_t *word;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .ttl_ms = 200,
                .heartbeat_ms = 20),
            &g));
    word = word_of(e, g.handle);
    ck_assert_int_eq(word_lock(me, word, RANK_SHARD), 0);
    usleep(300000);
    ck_assert_ptr_nonnull(e->desk.beating);
    for (unsigned i = 0; i < LENGTH(more); i++) {
        more[i] = beat_make(e, 100000);
        ck_assert_ptr_nonnull(more[i]);
    }
    ck_assert_uint_gt(e->desk.beats_most, 64); /* they were looked for */
    word_unlock(me, word);
    no_heartbeat_is_left(e);
    for (unsigned i = 0; i < LENGTH(more); i++)
        beat_free(&e->desk, more[i]);
    ck_assert_uint_eq(e->desk.heartbeats.owners, 0);
    want(ENQ_EXPIRED, enq_valid(e, g.handle));
    enq_close(e);
}

int main(void)
{
    unit_begin("beat");
    ADD(a_heartbeat_comes_when_it_is_due);
    ADD(a_heartbeat_begins_with_the_grant_also_if_another_lock_ends_sooner);
    ADD(a_heartbeat_goes_with_its_lock);
    ADD(a_heartbeat_that_is_being_done_is_not_taken_for_a_lost_one);
    return unit_end();
}
