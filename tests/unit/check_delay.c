/*
 * check_delay.c - the lock delay: after an abnormal loss the object stays
 * closed to other owners for a while.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/attachment.h"
#include "sync/life.h"
#include "unit.h"

static int lock_as(struct enq *e, const char *owner, int64_t ttl_ms,
    int64_t wait_ms, struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_X, .owner = owner,
            .ttl_ms = ttl_ms, .wait_ms = wait_ms, .delay_ms = 200),
        g);
}

/* Long enough to be told from a machine that has no time for us. */
#define LONG_MS 2000
#define LONG_BEFORE_MS 1500

static int lock_for_long(struct enq *e, struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_X, .owner = "a",
            .ttl_ms = 100, .delay_ms = LONG_MS),
        g);
}

TEST(after_the_ttl_others_wait_for_the_delay)
{
    struct enq *e = unit_open();
    int64_t begin = unit_now_ms();
    struct enq_grant g, h;

    want(ENQ_OK, lock_for_long(e, &g));
    eventually(enq_valid(e, g.handle) == ENQ_EXPIRED);
    want(ENQ_BUSY, lock_as(e, "b", 0, 0, &h));
    ck_assert_str_eq(h.blocker.owner, "a");
    want(ENQ_OK, lock_as(e, "b", 0, ENQ_FOREVER, &h));
    ck_assert_int_ge(unit_now_ms() - begin, 100 + LONG_MS);
    ck_assert_int_le(unit_now_ms() - begin,
        100 + LONG_MS + (UNIT_SANITIZED ? 1700 : 100) + test_starved_ms());
    want(ENQ_EXPIRED, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, enq_unlock(e, h.handle, h.token));
    unit_healthy(e);
    enq_close(e);
}

TEST(the_same_owner_need_not_wait)
{
    struct enq *e = unit_open();
    struct enq_grant g, h;

    want(ENQ_OK, lock_as(e, "a", 50, 0, &g));
    usleep(100000);
    want(ENQ_OK, lock_as(e, "a", 0, 0, &h));
    ck_assert_uint_gt(h.token, g.token);
    want(ENQ_EXPIRED, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, enq_valid(e, h.handle));
    want(ENQ_OK, enq_unlock(e, h.handle, h.token));
    unit_healthy(e);
    enq_close(e);
}

TEST(a_clean_unlock_has_no_delay)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    want(ENQ_OK, lock_as(e, "a", 0, 0, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, lock_as(e, "b", 0, 0, &g));
    enq_close(e);
    e = unit_open();
    want(ENQ_OK, lock_as(e, "c", 0, 0, &g));
    enq_close(e);
}

static int seen_as(struct enq *e, const struct enq_grant *g, mono_t now)
{
    uint64_t state;

    return entry_over(e->map, entry_of_handle(e->map, g->handle, &state), now);
}

/* Of two looks at it, one by a thread that has read the clock long ago. */
TEST(a_closing_ends_a_lock_without_a_delay_only_before_its_ttl_has_ended)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant g;
    mono_t before = sys.now();
    uint64_t state;

    want(ENQ_OK, lock_as(e, "me", 60000, 0, &g));
    shm_store(&e->session.slot->state, SESSION_ENDING);
    want(ENQ_OWNERDIED, seen_as(other, &g, before));
    shm_store(&entry_of_handle(e->map, g.handle, &state)->deadline_ns,
        mono_add_ns(before, 1).ns);
    want(ENQ_OK, seen_as(other, &g, before));
    enq_close(e);
    enq_close(other);
}

TEST(an_operator_ends_a_delay)
{
    struct enq *e = unit_open();
    char id[ENQ_ID_BYTES];
    struct enq_grant g;

    want(ENQ_OK, lock_for_long(e, &g));
    want(ENQ_OK, enq_id(e, g.handle, id));
    eventually(enq_valid(e, g.handle) == ENQ_EXPIRED);
    want(ENQ_BUSY, lock_as(e, "b", 0, 0, &g));
    want(ENQ_OK, enq_break(e, g.blocker.id));
    want(ENQ_OK, lock_as(e, "b", 0, 0, &g));
    enq_close(e);
}

static int lock_and_die(void *nothing)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK, lock_as(e, "a", 0, 0, &g));
    kill(getpid(), SIGKILL);
    return 1;
}

TEST(after_the_holders_death_others_wait_for_the_delay)
{
    struct enq *e = unit_open();
    int64_t began = unit_now_ms(), died;
    struct enq_grant g;

    unit_killed(unit_fork(lock_and_die, NULL));
    died = unit_now_ms(); /* it may have been buried before we heard of it */
    want(ENQ_OK, lock_as(e, "b", 0, ENQ_FOREVER, &g));
    ck_assert_int_ge(unit_now_ms() - began, 200);
    ck_assert_int_le(unit_now_ms() - died,
        (UNIT_SANITIZED ? 4000 : 1400) + test_starved_ms());
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    unit_healthy(e);
    enq_close(e);
}

/* Its lock keeps others out for 200 ms: who asks later, on a busy machine, gets
   it, and a holder is killed again. */
static void kill_a_holder(struct enq *e, struct enq_grant *g)
{
    int64_t began = unit_now_ms();
    int rc;

    unit_killed(unit_fork(lock_and_die, NULL));
    while ((rc = lock_as(e, "b", 0, 0, g)) != ENQ_BUSY) {
        want(ENQ_OK, rc);
        ck_assert_int_ge(unit_now_ms() - began, 200);
        want(ENQ_OK, enq_unlock(e, g->handle, g->token));
        began = unit_now_ms();
        unit_killed(unit_fork(lock_and_die, NULL));
    }
}

/* The one that found out that the holder is dead may have died itself before it
   said so: then it is the waiter that finds out, and not the clock. */
TEST(of_a_death_that_was_proved_already_the_delay_begins_at_once)
{
    struct enq_grant g;
    session_ref_t ref;
    uint64_t state;
    struct enq *e;
    enq_handle h;

    setenv("ENQ_TICK_MS", "600000", 1);
    e = unit_open();
    kill_a_holder(e, &g);
    want(ENQ_OK, enq_find(e, g.blocker.id, &h));
    ref = entry_of_handle(e->map, h, &state)->session;
    eventually(session_prove(e->map, ref, true));
    want(ENQ_OK, lock_as(e, "b", 0, ENQ_FOREVER, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    unit_healthy(e);
    enq_close(e);
}

static int keep_and_die(void *unused)
{
    struct enq_grant g;
    struct enq *e;

    (void)unused;
    want(ENQ_OK, enq_open(&e, unit_space(), NULL));
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_E, .owner = "a",
                .id = "kept", .on_death = ENQ_DEATH_KEEP, .ttl_ms = 20,
                .delay_ms = 60000),
            &g));
    /* it runs out, and keeps others out; it is told by the coarse clock */
    eventually(enq_valid(e, g.handle) == ENQ_EXPIRED);
    return 0;
}

TEST(what_has_run_out_is_not_revived_by_the_death_of_its_holder)
{
    struct enq *e = unit_open();
    struct enq_grant own, g;

    unit_join(unit_fork(keep_and_die, NULL));
    want(ENQ_OK, lock_as(e, "a", 0, 0, &own));
    unit_healthy(e); /* and what the dead have left is cleared up */
    want(ENQ_EXPIRED, enq_adopt(e, "kept", &g));
    want(ENQ_OK, enq_valid(e, own.handle));
    want(ENQ_OK, enq_unlock(e, own.handle, own.token));
    enq_close(e);
}

/* The coarse clock is behind by a tick. */
TEST(what_its_owner_has_got_anew_cannot_be_renewed_as_it_was)
{
    struct enq *e = unit_open();
    struct enq_grant g, h;
    int rc;

    for (int i = 0; i < 20; i++) {
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_E,
                    .owner = "a", .ttl_ms = 3, .delay_ms = 2),
                &g));
        while ((rc = lock_as(e, "a", 0, 0, &h)) == ENQ_BUSY)
            continue;
        want(ENQ_OK, rc);
        want(ENQ_EXPIRED, enq_renew(e, g.handle, g.token, 1000));
        want(ENQ_OK, enq_unlock(e, h.handle, h.token));
        usleep(6000);
    }
    unit_healthy(e);
    enq_close(e);
}

TEST(a_started_request_of_the_owner_does_not_wait_for_the_delay)
{
    struct enq *e = unit_open();
    struct enq_event event;
    uint64_t ticket;
    struct enq_grant g;
    int64_t begin = unit_now_ms();

    want(ENQ_OK, lock_as(e, "a", 50, 0, &g)); /* X, delayed by 200 ms */
    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_X, .owner = "a",
                .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    eventually(enq_next(e, &event) == ENQ_OK);
    want(ENQ_OK, event.result);
    ck_assert_int_ge(unit_now_ms() - begin, 50);
    ck_assert_int_le(unit_now_ms() - begin,
        (UNIT_SANITIZED ? 1000 : 150) + test_starved_ms());
    enq_close(e);
}

TEST(a_delay_has_a_longest_time)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    want_why(-EINVAL,
        enq_lock(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .delay_ms = 86400001), &g),
        "delay");
    want(-EINVAL,
        enq_lock(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .delay_ms = -1),
            &g));
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .delay_ms = 86400000),
            &g));
    enq_close(e);
}

/* --- what ends a delay, and what does not --- */

TEST(who_gives_back_what_has_run_out_does_not_end_its_delay)
{
    struct enq *e = unit_open();
    struct enq_grant g, h;

    want(ENQ_OK, lock_as(e, "a", 50, 0, &g));
    usleep(100000);
    want(ENQ_EXPIRED, enq_unlock(e, g.handle, g.token));
    want(ENQ_EXPIRED, enq_renew(e, g.handle, g.token, 0));
    want(ENQ_BUSY, lock_as(e, "b", 0, 0, &h));
    want(ENQ_OK, lock_as(e, "b", 0, ENQ_FOREVER, &h));
    enq_close(e);
}

/* Its own owner waits, the first in the queue. */
TEST(the_same_owner_waits_for_the_ttl_and_not_for_the_delay)
{
    struct enq *e = unit_open();
    int64_t begin = unit_now_ms();
    struct enq_grant g, h;

    want(ENQ_OK, lock_for_long(e, &g));
    want(ENQ_OK, lock_as(e, "a", 0, ENQ_FOREVER, &h));
    begin = unit_now_ms() - begin;
    ck_assert_int_ge(begin, 100);
    ck_assert_int_lt(begin, LONG_BEFORE_MS);
    want(ENQ_OK, enq_valid(e, h.handle));
    want(ENQ_OK, enq_unlock(e, h.handle, h.token));
    unit_healthy(e);
    enq_close(e);
}

static const char *const wanted[] = {"f", "@"};

TEST(its_token_is_worthless_while_it_is_delayed)
{
    const char *const key[] = {wanted[_i], NULL};
    struct enq *e = unit_open();
    struct enq_grant g, h;

    want(ENQ_OK, lock_for_long(e, &g));
    want(ENQ_OK, enq_check(e, "n", key, g.token));
    eventually(enq_valid(e, g.handle) == ENQ_EXPIRED);
    want(ENQ_BUSY, lock_as(e, "b", 0, 0, &h));
    want(ENQ_NOTHELD, enq_check(e, "n", key, g.token));
    enq_close(e);
}

TEST(generic_requests_of_others_wait_for_the_delay_and_own_ones_do_not)
{
    struct enq *e = unit_open();
    int64_t begin = unit_now_ms();
    struct enq_req req = {.size = sizeof(req),
        .name = "n",
        .key = {"@"},
        .mode = ENQ_MODE_S,
        .owner = "b",
        .wait_ms = ENQ_FOREVER};
    struct enq_grant g, h;

    want(ENQ_OK, lock_as(e, "a", 100, 0, &g));
    want(ENQ_OK, enq_lock(e, &req, &h));
    ck_assert_int_ge(unit_now_ms() - begin, 300);
    want(ENQ_OK, enq_unlock(e, h.handle, h.token));
    begin = unit_now_ms();
    want(ENQ_OK, lock_for_long(e, &g));
    req.owner = "a";
    want(ENQ_OK, enq_lock(e, &req, &h));
    ck_assert_int_ge(unit_now_ms() - begin, 100);
    ck_assert_int_lt(unit_now_ms() - begin, LONG_BEFORE_MS + test_starved_ms());
    unit_healthy(e);
    enq_close(e);
}

/* The delay is kept behind the texts: there must be room for it. */
TEST(texts_that_leave_no_room_for_a_delay_take_a_larger_entry)
{
    struct enq *e = unit_open();
    char owner[ENQ_OWNER_BYTES], field[4];
    struct enq_grant g[42], h;

    for (unsigned i = 0; i < LENGTH(g); i++) {
        unsigned n = 60 + i % 20;

        memset(owner, 'o', n);
        owner[n] = '\0';
        snprintf(field, sizeof(field), "%u", i);
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X,
                    .owner = owner, .ttl_ms = 300, .delay_ms = 86400000),
                &g[i]));
    }
    unit_healthy(e);
    usleep(350000);
    for (unsigned i = 0; i < LENGTH(g); i++) {
        snprintf(field, sizeof(field), "%u", i);
        want(ENQ_BUSY, unit_lock(e, "n", field, ENQ_MODE_X, &h));
        ck_assert_uint_eq(strlen(h.blocker.owner), 60 + i % 20);
        want(ENQ_EXPIRED, enq_unlock(e, g[i].handle, g[i].token));
    }
    enq_close(e);
}

int main(void)
{
    unit_begin("delay");
    ADD(after_the_ttl_others_wait_for_the_delay);
    ADD(the_same_owner_need_not_wait);
    ADD(a_clean_unlock_has_no_delay);
    ADD(a_closing_ends_a_lock_without_a_delay_only_before_its_ttl_has_ended);
    ADD(an_operator_ends_a_delay);
    ADD(after_the_holders_death_others_wait_for_the_delay);
    ADD(of_a_death_that_was_proved_already_the_delay_begins_at_once);
    ADD(what_has_run_out_is_not_revived_by_the_death_of_its_holder);
    ADD(what_its_owner_has_got_anew_cannot_be_renewed_as_it_was);
    ADD(a_started_request_of_the_owner_does_not_wait_for_the_delay);
    ADD(a_delay_has_a_longest_time);
    ADD(who_gives_back_what_has_run_out_does_not_end_its_delay);
    ADD(the_same_owner_waits_for_the_ttl_and_not_for_the_delay);
    ADD_LOOP(its_token_is_worthless_while_it_is_delayed, LENGTH(wanted));
    ADD(generic_requests_of_others_wait_for_the_delay_and_own_ones_do_not);
    ADD(texts_that_leave_no_room_for_a_delay_take_a_larger_entry);
    return unit_end();
}
