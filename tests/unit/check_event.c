/*
 * check_event.c - what a session that listens is told of its held locks.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "api/attachment.h"
#include "async/bell.h"
#include "base/point.h"
#include "store/watch.h"
#include "sync/sys.h"
#include "told.h"

/* A loaded machine is late, and may be so by this much. */
#define LATE_MS (UNIT_SANITIZED ? 2000 : 500)

static void pass_ms(int64_t ms)
{
    int64_t end = unit_now_ms() + ms;

    while (unit_now_ms() < end)
        unit_nap();
}

/* --- EXPIRED --- */

static const int64_t ttls[] = {1, 7, 30, 250};

TEST(a_lock_that_runs_out_is_said_to_be_expired_once_and_not_before)
{
    struct enq *e = told_listener();
    int64_t begin = unit_now_ms(), ttl = ttls[_i];
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, ttl);
    struct enq_event event = told_next(e);

    if (event.kind == ENQ_EVENT_EXPIRING)
        event = told_next(e);
    ck_assert_int_eq(event.kind, ENQ_EVENT_EXPIRED);
    ck_assert_int_eq(event.result, ENQ_EXPIRED);
    ck_assert_uint_eq(event.grant.handle, g.handle);
    ck_assert_uint_eq(event.grant.token, g.token);
    ck_assert_int_ge(unit_now_ms() - begin, ttl);
    ck_assert_int_le(unit_now_ms() - begin, ttl + LATE_MS + test_starved_ms());
    told_nothing(e, 60);
    unit_healthy(e);
    enq_close(e);
}

TEST(a_lock_that_was_given_back_never_expires)
{
    struct enq *e = told_listener();
    struct enq_event event;
    struct enq_grant g;
    char field[12];

    for (int i = 0; i < 50; i++) {
        snprintf(field, sizeof(field), "%d", i);
        g = told_lock(e, field, ENQ_MODE_X, 200);
        told_unlock(e, &g);
    }
    pass_ms(300);
    while (enq_next(e, &event) == ENQ_OK)
        ck_assert_int_eq(event.kind, ENQ_EVENT_EXPIRING); /* a slow machine */
    told_nothing(e, 0);
    enq_close(e);
}

TEST(a_renewed_lock_expires_when_its_renewal_does)
{
    struct enq *e = told_listener();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 2000);
    int64_t begin;

    pass_ms(50);
    begin = unit_now_ms();
    want(ENQ_OK, enq_renew(e, g.handle, g.token, 120));
    told_end(e, &g, 30);
    ck_assert_int_ge(unit_now_ms() - begin, 120);
    ck_assert_int_le(unit_now_ms() - begin, 120 + LATE_MS + test_starved_ms());
    told_nothing(e, 30);
    enq_close(e);
}

TEST(a_lock_renewed_for_ever_does_not_expire)
{
    struct enq *e = told_listener();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 1000);

    want(ENQ_OK, enq_renew(e, g.handle, g.token, ENQ_FOREVER));
    told_nothing(e, 1200);
    told_unlock(e, &g);
    enq_close(e);
}

TEST(promotion_and_demotion_leave_the_ttl_as_it_was)
{
    struct enq *e = told_listener();
    int64_t begin = unit_now_ms();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_O, 300), x, won;

    x = told_lock(e, "b", ENQ_MODE_X, 0);
    want(ENQ_OK, enq_promote(e, g.handle, g.token, &won));
    want(ENQ_OK, enq_demote(e, won.handle, won.token));
    want(ENQ_OK, enq_demote(e, x.handle, x.token));
    told_end(e, &won, 75);
    ck_assert_int_ge(unit_now_ms() - begin, 300);
    told_nothing(e, 30);
    told_unlock(e, &x);
    enq_close(e);
}

TEST(whoever_takes_an_expired_lock_away_does_not_hide_that_it_expired)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 50), taken;
    struct enq_event event;

    taken = told_lock_req(other,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .owner = "other",
            .wait_ms = ENQ_FOREVER));
    do
        event = told_next(e);
    while (event.kind != ENQ_EVENT_EXPIRED);
    ck_assert_uint_eq(event.grant.handle, g.handle);
    want(ENQ_EXPIRED, enq_valid(e, g.handle));
    want(ENQ_EXPIRED, enq_unlock(e, g.handle, g.token));
    told_nothing(e, 30);
    told_unlock(other, &taken);
    enq_close(e);
    enq_close(other);
}

/* --- EXPIRING --- */

TEST(the_last_quarter_of_the_ttl_is_announced)
{
    struct enq *e = told_listener();
    int64_t begin = unit_now_ms(), at;
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 3000);

    told(e, ENQ_EVENT_EXPIRING, &g);
    at = unit_now_ms() - begin;
    ck_assert_msg(at >= 2248 && at < 3000, "after %d ms", (int)at);
    told(e, ENQ_EVENT_EXPIRED, &g);
    enq_close(e);
}

TEST(a_long_ttl_is_announced_ten_seconds_before_its_end)
{
    struct enq *e = told_listener();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 3600000);
    int64_t begin = unit_now_ms();

    want(ENQ_OK, enq_renew(e, g.handle, g.token, 10300));
    told(e, ENQ_EVENT_EXPIRING, &g);
    ck_assert_int_ge(unit_now_ms() - begin, 298);
    ck_assert_int_le(unit_now_ms() - begin, 300 + LATE_MS + test_starved_ms());
    told_nothing(e, 50);
    told_unlock(e, &g);
    enq_close(e);
}

TEST(each_renewal_is_announced_once)
{
    struct enq *e = told_listener();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 1000);

    for (int i = 0; i < 2; i++) {
        told(e, ENQ_EVENT_EXPIRING, &g);
        told_nothing(e, 20);
        want(ENQ_OK, enq_renew(e, g.handle, g.token, 0));
    }
    told_unlock(e, &g);
    told_nothing(e, 50);
    enq_close(e);
}

/* --- LOST --- */

TEST(who_loses_to_a_promotion_is_told_to_whom)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_O, 0), rival;
    struct enq_event event;

    rival = told_lock_req(other,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_O,
            .owner = "winner"));
    want(ENQ_OK, enq_promote(other, rival.handle, rival.token, &rival));
    want(ENQ_LOST, enq_valid(e, g.handle));
    event = told(e, ENQ_EVENT_LOST, &g);
    ck_assert_int_eq(event.result, ENQ_LOST);
    ck_assert_str_eq(event.grant.blocker.owner, "winner");
    want(ENQ_LOST, enq_unlock(e, g.handle, g.token));
    told_nothing(e, 30);
    told_unlock(other, &rival);
    enq_close(e);
    enq_close(other);
}

TEST(who_loses_to_an_own_promotion_is_told_as_well)
{
    struct enq *e = told_listener();
    struct enq_grant loser = told_lock(e, "a", ENQ_MODE_O, 0);
    struct enq_grant winner = told_lock(e, "@", ENQ_MODE_O, 0);
    struct enq_event event;

    want(ENQ_OK, enq_promote(e, winner.handle, winner.token, &winner));
    event = told(e, ENQ_EVENT_LOST, &loser);
    ck_assert_str_eq(event.grant.blocker.owner, "me");
    told_nothing(e, 30);
    enq_close(e);
}

TEST(a_lock_broken_by_an_operator_is_lost_by_force)
{
    struct enq *e = told_listener(), *breaker = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 0);
    struct enq_event event;

    told_break(breaker, g.handle);
    want(ENQ_FORCED, enq_valid(e, g.handle));
    event = told(e, ENQ_EVENT_LOST, &g);
    ck_assert_int_eq(event.result, ENQ_FORCED);
    ck_assert_str_eq(event.grant.blocker.owner, "");
    want(ENQ_FORCED, enq_unlock(e, g.handle, g.token));
    told_nothing(e, 30);
    enq_close(e);
    enq_close(breaker);
}

/* An orphan that others wait for, adopted. */
static struct enq_grant adopted(struct enq *e, const char *field)
{
    struct enq *before = unit_open();
    struct enq_grant g = told_lock_kept(before, field, field);

    enq_close(before);
    want(ENQ_OK, enq_adopt(e, field, &g));
    return g;
}

TEST(the_events_of_an_adopted_lock_are_its_new_sessions)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant broken = adopted(e, "a"), wanted = adopted(e, "b");
    uint64_t ticket = told_start(other, "b", ENQ_MODE_S, "asker", ENQ_FOREVER);
    struct enq_event event;

    told_asker(e, &wanted, "asker");
    told_break(other, broken.handle);
    event = told(e, ENQ_EVENT_LOST, &broken);
    ck_assert_int_eq(event.result, ENQ_FORCED);
    want(ENQ_OK, enq_renew(e, wanted.handle, 0, 40));
    event = told_but(e, ENQ_EVENT_EXPIRING);
    ck_assert_int_eq(event.kind, ENQ_EVENT_EXPIRED);
    told_result(other, ticket, ENQ_OK);
    told_nothing(e, 30);
    enq_close(e);
    enq_close(other);
}

/* Nobody listens: only enq_valid() can tell. */
TEST(of_adopted_locks_each_is_known_to_have_run_out)
{
    struct enq *e = unit_open();
    struct enq_grant first = adopted(e, "a"), second = adopted(e, "b");

    want(ENQ_OK, enq_renew(e, second.handle, 0, 300));
    want(ENQ_OK, enq_renew(e, first.handle, 0, 50));
    eventually(enq_valid(e, first.handle) == ENQ_EXPIRED);
    eventually(enq_valid(e, second.handle) == ENQ_EXPIRED);
    enq_close(e);
}

/* --- BLOCKING --- */

TEST(a_holder_is_told_once_that_somebody_waits_and_who)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 0);

    told_start(other, "a", ENQ_MODE_X, "first", ENQ_FOREVER);
    told_asker(e, &g, "first");
    told_start(other, "a", ENQ_MODE_X, "second", ENQ_FOREVER);
    told_nothing(e, 60);
    enq_close(other);
    told_unlock(e, &g);
    enq_close(e);
}

TEST(who_does_not_wait_blocks_nobody)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_S, 0), s, none;

    want(ENQ_BUSY, unit_lock(other, "n", "a", ENQ_MODE_X, &none));
    want(ENQ_BUSY,
        enq_lock(other,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .flags = ENQ_TEST, .wait_ms = ENQ_FOREVER),
            NULL));
    s = told_lock(other, "a", ENQ_MODE_S, 0);
    told_nothing(e, 60);
    told_unlock(other, &s);
    told_unlock(e, &g);
    enq_close(e);
    enq_close(other);
}

TEST(a_lock_granted_while_others_wait_is_said_to_block_them)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);
    uint64_t ticket = told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    uint64_t behind = told_start(other, "a", ENQ_MODE_X, "b", ENQ_FOREVER);
    struct enq_event result, event;

    usleep(10000); /* until the one behind may not overtake any more */
    told_unlock(other, &held);
    result = told_result(e, ticket, ENQ_OK);
    told_asker(e, &result.grant, "b");
    told_unlock(e, &result.grant);
    /* it listens as well, by now */
    event = told_but(other, ENQ_EVENT_BLOCKING);
    ck_assert_uint_eq(event.ticket, behind);
    told_nothing(e, 30);
    enq_close(e);
    enq_close(other);
}

TEST(a_cumulated_lock_is_said_to_block_who_waits_already)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant first = told_lock(e, "a", ENQ_MODE_E, 0), second;

    told_start(other, "a", ENQ_MODE_X, "asker", ENQ_FOREVER);
    told(e, ENQ_EVENT_BLOCKING, &first);
    second = told_lock(e, "a", ENQ_MODE_E, 0);
    told_asker(e, &second, "asker");
    enq_close(other);
    enq_close(e);
}

TEST(who_begins_to_listen_is_told_of_the_waiters)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 0);

    told_start(other, "a", ENQ_MODE_X, "asker", ENQ_FOREVER);
    told_asker(e, &g, "asker");
    enq_close(other);
    enq_close(e);
}

TEST(who_adopts_a_lock_is_told_of_the_waiters)
{
    struct enq *e = told_listener(), *before = unit_open(),
               *other = unit_open();
    struct enq_grant g;

    g = told_lock_kept(before, "a", "i");
    told_start(other, "a", ENQ_MODE_X, "asker", ENQ_FOREVER);
    enq_close(before);
    want(ENQ_OK, enq_adopt(e, "i", &g));
    told(e, ENQ_EVENT_BLOCKING, &g);
    enq_close(other);
    enq_close(e);
}

#ifdef ENQ_POINTS
static struct enq *adopter;

/* Of all that the helper does, it looks once more through its session's locks. */
static void let_helper_look(const struct point *p)
{
    mono_t now = sys.now();

    if (strcmp(p->name, "adopt.stored") != 0)
        return;
    watch_lower(&adopter->session, now.ns);
    helper_come_at(now);
    eventually(shm_load(&adopter->session.earliest_ns) > now.ns);
}

TEST(a_lock_adopted_near_its_end_has_its_whole_ttl_again_and_is_not_announced)
{
    struct enq *before = unit_open();
    struct enq_grant g = told_lock_req(before,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .id = "i",
            .ttl_ms = 60000, .on_death = ENQ_DEATH_LEASE));
    uint64_t state;

    enq_close(before);
    adopter = told_listener();
    told_nothing(adopter, 30);
    shm_store(&entry_of_handle(adopter->map, g.handle, &state)->deadline_ns,
        mono_add_ms(sys.now(), 5000).ns);
    point_hook = let_helper_look;
    want(ENQ_OK, enq_adopt(adopter, "i", &g));
    point_hook = NULL;
    told_nothing(adopter, 30);
    told_unlock(adopter, &g);
    enq_close(adopter);
}
#endif

#ifdef ENQ_POINTS
static struct entry *restless;

/* Once, between the helper's look and its mark. */
static void change_it(const struct point *p)
{
    if (strcmp(p->name, "event.seen") == 0 && restless != NULL) {
        shm_or(&restless->state, STATE_NEAR);
        restless = NULL;
    }
}

TEST(a_lock_that_changes_as_it_is_looked_at_is_looked_at_again)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 0);
    uint64_t state;

    told_nothing(e, 80); /* it looks at all once more as it has begun */
    restless = entry_of_handle(e->map, g.handle, &state);
    point_hook = change_it;
    told_start(other, "a", ENQ_MODE_X, "asker", ENQ_FOREVER);
    told_asker(e, &g, "asker");
    ck_assert_ptr_null(restless);
    point_hook = NULL;
    enq_close(other);
    enq_close(e);
}
#endif

static const char *const overlaps[][2] = {{"@", "a"}, {"a", "@"}, {"@", "@"}};

TEST(generic_keys_block_and_are_blocked)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant beside = told_lock(e, "z", ENQ_MODE_S, 0);
    struct enq_grant g = told_lock(e, overlaps[_i][0], ENQ_MODE_S, 0);
    struct enq_event event;
    unsigned n = 0;

    told_start(other, overlaps[_i][1], ENQ_MODE_X, "asker", ENQ_FOREVER);
    do {
        event = told_next(e);
        ck_assert_int_eq(event.kind, ENQ_EVENT_BLOCKING);
        ck_assert_str_eq(event.grant.blocker.owner, "asker");
        n += event.grant.handle == g.handle ? 1 : 10;
    } while (told_readable(e, 60));
    ck_assert_uint_eq(n, overlaps[_i][1][0] == '@' ? 11 : 1);
    enq_close(other);
    told_unlock(e, &g);
    told_unlock(e, &beside);
    enq_close(e);
}

TEST(every_shared_holder_is_told_that_somebody_waits)
{
    struct enq *e[3] = {told_listener(), told_listener(), told_listener()};
    struct enq *other = unit_open();
    struct enq_grant g[3];

    for (int i = 0; i < 3; i++)
        g[i] = told_lock(e[i], "a", ENQ_MODE_S, 0);
    told_start(other, "a", ENQ_MODE_X, "asker", ENQ_FOREVER);
    for (int i = 0; i < 3; i++)
        told(e[i], ENQ_EVENT_BLOCKING, &g[i]);
    for (int i = 0; i < 3; i++) {
        told_nothing(e[i], 20);
        enq_close(e[i]);
    }
    enq_close(other);
}

/* p/1 X is another's. A request for @/1 S waits for that, not for our S on q/1;
   a request for q/1 X waits for ours. */
TEST(the_one_named_is_one_who_waits_for_this_lock)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant g;

    told_lock_req(other,
        ENQ_REQ(.name = "n", .key = {"p", "1"}, .mode = ENQ_MODE_X));
    g = told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {"q", "1"}, .mode = ENQ_MODE_S));
    told_start_req(other,
        ENQ_REQ(.name = "n", .key = {"@", "1"}, .mode = ENQ_MODE_S,
            .owner = "patient", .wait_ms = ENQ_FOREVER));
    told_start_req(other,
        ENQ_REQ(.name = "n", .key = {"q", "1"}, .mode = ENQ_MODE_X,
            .owner = "asker", .wait_ms = ENQ_FOREVER));
    told_asker(e, &g, "asker");
    enq_close(e);
    enq_close(other);
}

/* --- attachments that may not --- */

TEST(an_attachment_for_looking_only_has_no_events)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .flags = ENQ_OPEN_READONLY};
    struct enq *e = unit_open(), *reader = unit_open_with(&opts);
    struct enq_event event;
    struct enq_grant g;
    uint64_t ticket;

    want(-EROFS, enq_fd(reader));
    want(-EROFS, enq_next(reader, &event));
    want(-EROFS, enq_cancel(reader, 1));
    want(-EROFS,
        enq_start(reader, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X), &g,
            &ticket));
    want(-EINVAL, enq_fd(NULL));
    want(-EINVAL, enq_next(NULL, &event));
    want(-EINVAL, enq_cancel(NULL, 1));
    enq_close(reader);
    enq_close(e);
}

static int use_the_parents(void *arg)
{
    struct enq *e = arg;
    struct enq_event event;
    struct enq_grant g;
    uint64_t ticket;

    if (enq_fd(e) != ENQ_EFORKED || enq_next(e, &event) != ENQ_EFORKED ||
        enq_cancel(e, 1) != ENQ_EFORKED ||
        enq_start(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X), &g, &ticket) !=
            ENQ_EFORKED)
        return 1;
    enq_close(e);
    return 0;
}

TEST(a_child_of_fork_cannot_take_the_parents_events)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 0);

    ck_assert_int_ge(enq_fd(e), 0);
    told_break(other, g.handle);
    ck_assert(told_readable(e, 5000));
    unit_join(unit_fork(use_the_parents, e));
    told(e, ENQ_EVENT_LOST, &g);
    enq_close(e);
    enq_close(other);
}

static void add_told(void)
{
    ADD(who_loses_to_a_promotion_is_told_to_whom);
    ADD(who_loses_to_an_own_promotion_is_told_as_well);
    ADD(a_lock_broken_by_an_operator_is_lost_by_force);
    ADD(the_events_of_an_adopted_lock_are_its_new_sessions);
    ADD(of_adopted_locks_each_is_known_to_have_run_out);
    ADD(a_holder_is_told_once_that_somebody_waits_and_who);
    ADD(who_does_not_wait_blocks_nobody);
    ADD(a_lock_granted_while_others_wait_is_said_to_block_them);
    ADD(a_cumulated_lock_is_said_to_block_who_waits_already);
    ADD(who_begins_to_listen_is_told_of_the_waiters);
    ADD(who_adopts_a_lock_is_told_of_the_waiters);
#ifdef ENQ_POINTS
    ADD(a_lock_that_changes_as_it_is_looked_at_is_looked_at_again);
    ADD(a_lock_adopted_near_its_end_has_its_whole_ttl_again_and_is_not_announced);
#endif
    ADD_LOOP(generic_keys_block_and_are_blocked, LENGTH(overlaps));
    ADD(every_shared_holder_is_told_that_somebody_waits);
    ADD(the_one_named_is_one_who_waits_for_this_lock);
}

int main(void)
{
    unit_begin("event");
    ADD_LOOP(a_lock_that_runs_out_is_said_to_be_expired_once_and_not_before,
        LENGTH(ttls));
    ADD(a_lock_that_was_given_back_never_expires);
    ADD(a_renewed_lock_expires_when_its_renewal_does);
    ADD(a_lock_renewed_for_ever_does_not_expire);
    ADD(promotion_and_demotion_leave_the_ttl_as_it_was);
    ADD(whoever_takes_an_expired_lock_away_does_not_hide_that_it_expired);
    ADD(the_last_quarter_of_the_ttl_is_announced);
    ADD(a_long_ttl_is_announced_ten_seconds_before_its_end);
    ADD(each_renewal_is_announced_once);
    add_told();
    ADD(an_attachment_for_looking_only_has_no_events);
    ADD_IF(!UNIT_TSAN, "the thread sanitizer cannot fork",
        a_child_of_fork_cannot_take_the_parents_events);
    return unit_end();
}
