/*
 * check_told.c - events, where a program would be misled by a little: the time
 * of one, its order, its number, and what stands in it.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/point.h"
#include "sync/sys.h"
#include "told.h"
#include "wait/lock_event.h"

/* --- when --- */

static mono_t (*true_now)(void);
static struct {
    struct enq *e;
    struct enq_grant g;
    int64_t end_ns; /* of its ttl, as somebody has read it */
} renewed;

/* Before it asks for the time it has no processor for a while. */
static mono_t renews_first(void)
{
    sys.now = true_now;
    want(ENQ_OK, enq_renew(renewed.e, renewed.g.handle, 0, 7200000));
    return (mono_t){renewed.end_ns + 1};
}

TEST(a_lock_that_is_renewed_while_it_is_looked_at_has_not_run_out)
{
    struct enq *e = renewed.e = unit_open();
    struct thread *t = thread_enter(e->map);
    struct lock_event event;
    mono_t next = MONO_NEVER;
    struct entry *entry;
    uint64_t state = 0;

    renewed.g = told_lock(e, "a", ENQ_MODE_X, 3600000);
    entry = entry_of_handle(e->map, renewed.g.handle, &state);
    renewed.end_ns = entry->deadline_ns;
    true_now = sys.now;
    sys.now = renews_first;
    lock_event_take(&e->session, t, entry, STATE_GENERATION(state), &event,
        &next);
    ck_assert_ptr_eq(sys.now, true_now);
    ck_assert_int_eq(event.kind, LOCK_EVENT_NONE);
    ck_assert_int_gt(next.ns, renewed.end_ns);
    told_unlock(e, &renewed.g);
    enq_close(e);
}

/* The scan for the first was done long before the second came; whose ttl ends
   after the first is announced. */
TEST(a_lock_taken_later_is_announced_in_time)
{
    struct enq *e = told_listener();
    struct enq_grant first = told_lock(e, "a", ENQ_MODE_X, 6000), second;
    int64_t begin, most = 4300;

    usleep(100000);
    begin = unit_now_ms();
    second = told_lock(e, "b", ENQ_MODE_X, 5000);
    told(e, ENQ_EVENT_EXPIRING, &second);
    begin = unit_now_ms() - begin;
    most += test_starved_ms();
    ck_assert_msg(begin >= 3748 && begin < most, "after %d ms", (int)begin);
    told(e, ENQ_EVENT_EXPIRING, &first);
    enq_close(e);
}

TEST(what_was_announced_is_not_announced_again_when_the_mode_changes)
{
    struct enq *e = told_listener();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 1200);

    told(e, ENQ_EVENT_EXPIRING, &g);
    want(ENQ_OK, enq_demote(e, g.handle, g.token));
    told(e, ENQ_EVENT_EXPIRED, &g);
    told_nothing(e, 50);
    enq_close(e);
}

static struct enq_grant delayed(struct enq *e, int64_t ttl_ms, int64_t delay_ms)
{
    return told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
            .owner = "holder", .ttl_ms = ttl_ms, .delay_ms = delay_ms));
}

/* However long it is in the way of others. */
TEST(a_lock_with_a_delay_has_expired_once_when_its_ttl_ends)
{
    struct enq *e = told_listener(), *other = unit_open();
    int64_t begin = unit_now_ms();
    struct enq_grant g = delayed(e, 200, 2000);
    uint64_t ticket = told_start(other, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    struct enq_event event = told_next(e);

    while (event.kind != ENQ_EVENT_EXPIRED)
        event = told_next(e); /* somebody waits; the ttl is near */
    ck_assert_uint_eq(event.grant.handle, g.handle);
    ck_assert_int_ge(unit_now_ms() - begin, 200);
    ck_assert_int_lt(unit_now_ms() - begin, 1500 + test_starved_ms());
    told_result(other, ticket, ENQ_OK);
    ck_assert_int_ge(unit_now_ms() - begin, 2200);
    told_nothing(e, 100);
    enq_close(e);
    enq_close(other);
}

/* It lies among another's locks, and nobody waits for it. */
TEST(an_adopted_lock_is_announced_and_expires)
{
    struct enq *e = told_listener(), *before = unit_open();
    struct enq_grant g;

    g = told_lock_kept(before, "a", "i");
    enq_close(before);
    want(ENQ_OK, enq_adopt(e, "i", &g));
    want(ENQ_OK, enq_renew(e, g.handle, g.token, 600));
    told_end(e, &g, 150);
    enq_close(e);
}

/* --- what stands in it --- */

TEST(of_several_who_wait_the_first_is_named)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 0);

    told_start(other, "a", ENQ_MODE_X, "first", ENQ_FOREVER);
    told_start(other, "a", ENQ_MODE_S, "second", ENQ_FOREVER);
    told_start(other, "@", ENQ_MODE_X, "third", ENQ_FOREVER);
    told_asker(e, &g, "first"); /* listens from here */
    enq_close(other);
    enq_close(e);
}

TEST(an_event_that_has_no_blocker_says_so)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);
    struct enq_event event;

    told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    told_unlock(other, &held);
    memset(&event, 'x', sizeof(event));
    ck_assert(told_readable(e, TOLD_MS));
    want(ENQ_OK, enq_next(e, &event));
    want(ENQ_OK, event.result);
    ck_assert_str_eq(event.grant.blocker.owner, "");
    enq_close(e);
    enq_close(other);
}

TEST(a_request_that_timed_out_names_its_blocker_and_no_lock)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_event event;

    told_lock(other, "a", ENQ_MODE_X, 0);
    told_start(e, "a", ENQ_MODE_X, "me", 5);
    event = told_next(e);
    want(ENQ_TIMEDOUT, event.result);
    ck_assert_str_ne(event.grant.blocker.owner, "");
    ck_assert_uint_eq(event.grant.handle, 0);
    ck_assert_uint_eq(event.grant.token, 0);
    enq_close(e);
    enq_close(other);
}

/* The result alone speaks of it. */
TEST(a_cancelled_request_is_no_lost_lock)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);

    for (int i = 0; i < 50; i++) {
        uint64_t ticket = told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);

        want(ENQ_OK, enq_cancel(e, ticket));
        told_result(e, ticket, ENQ_CANCELLED);
    }
    told_nothing(e, 60);
    told_unlock(other, &held);
    enq_close(e);
    enq_close(other);
}

static void *waits_in_vain(void *arg)
{
    struct enq *e = arg;
    struct enq_grant g;

    want(ENQ_CANCELLED,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .id = "it",
                .wait_ms = ENQ_FOREVER),
            &g));
    return NULL;
}

/* The thread is told, and nobody else. */
TEST(a_waiting_thread_that_is_cancelled_has_lost_no_lock)
{
    struct enq *e = told_listener(), *other = unit_open();
    enq_handle handle;
    pthread_t thread;

    told_lock(other, "a", ENQ_MODE_X, 0);
    for (int i = 0; i < 50; i++) {
        pthread_create(&thread, NULL, waits_in_vain, e);
        eventually(enq_find(other, "it", &handle) == ENQ_OK);
        want(ENQ_OK, enq_unlock(other, handle, 0));
        pthread_join(thread, NULL);
    }
    told_nothing(e, 60);
    enq_close(e);
    enq_close(other);
}

/* The adopter was told the same of a lock that was another's then. */
TEST(who_adopts_a_lock_is_told_what_its_first_holder_was_told)
{
    struct enq *e = told_listener(), *before = told_listener(),
               *other = unit_open();
    struct enq_grant g;

    g = told_lock_kept(before, "a", "i");
    told_start(other, "a", ENQ_MODE_X, "asker", ENQ_FOREVER);
    told(before, ENQ_EVENT_BLOCKING, &g);
    enq_close(before);
    want(ENQ_OK, enq_adopt(e, "i", &g));
    told_asker(e, &g, "asker");
    enq_close(other);
    enq_close(e);
}

/* --- how many --- */

/* A thousand waiters are no thousand notifications. */
TEST(a_holder_that_is_asked_already_is_not_notified_again)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 0);
    uint32_t sent;

    told_start(other, "a", ENQ_MODE_X, "first", ENQ_FOREVER);
    told(e, ENQ_EVENT_BLOCKING, &g);
    sent = shm_load(&e->session.slot->notifications);
    for (int i = 0; i < 10; i++)
        told_start(other, "a", ENQ_MODE_S, "second", ENQ_FOREVER);
    ck_assert_uint_eq(shm_load(&e->session.slot->notifications), sent);
    enq_close(other);
    enq_close(e);
}

TEST(events_from_before_the_descriptor_make_it_readable)
{
    struct enq *e = unit_open(), *other = unit_open();
    uint64_t ticket;

    told_lock(other, "a", ENQ_MODE_X, 0);
    ticket = told_start(e, "a", ENQ_MODE_X, "me", 1);
    eventually(shm_load(&e->async.n_pending) == 0);
    usleep(20000);
    told_result(e, ticket, ENQ_TIMEDOUT);
    enq_close(e);
    enq_close(other);
}

#define UNREAD 4500
#define KEPT 4096

/* Of this many locks, lost at once. */
static void lose(struct enq *e, struct enq *other, unsigned n)
{
    struct enq_grant winner;
    char field[12];

    for (unsigned i = 0; i < n; i++) {
        snprintf(field, sizeof(field), "%u", i);
        told_lock(e, field, ENQ_MODE_O, 0);
    }
    winner = told_lock(other, "@", ENQ_MODE_O, 0);
    want(ENQ_OK, enq_promote(other, winner.handle, winner.token, &winner));
}

TEST(of_unread_events_no_more_are_kept_than_was_promised)
{
    struct enq *e = told_listener(), *other = unit_open();

    lose(e, other, UNREAD);
    eventually(shm_load(&e->async.n_lock_events) == KEPT);
    usleep(200000);
    ck_assert_uint_eq(shm_load(&e->async.n_lock_events), KEPT);
    for (unsigned i = 0; i < UNREAD; i++)
        ck_assert_int_eq(told_next(e).kind, ENQ_EVENT_LOST);
    told_nothing(e, 60);
    ck_assert_uint_eq(e->async.n_lock_events, 0);
    enq_close(e);
    enq_close(other);
}

static void (*real_sleep)(const struct sys_watch *watches, unsigned n,
    mono_t until);
static unsigned naps;

static void sleep_for_ever(const struct sys_watch *watches, unsigned n,
    mono_t until)
{
    (void)until;
    shm_add(&naps, 1);
    real_sleep(watches, n, MONO_NEVER);
}

/* By the clock the helper thread would see that 50 ms later as well. */
TEST(who_makes_room_for_events_wakes_whoever_has_more)
{
    struct enq *e = told_listener(), *other = unit_open();

    lose(e, other, UNREAD);
    eventually(shm_load(&e->async.n_lock_events) == KEPT);
    real_sleep = sys.sleep;
    sys.sleep = sleep_for_ever;
    eventually(shm_load(&naps) > 0);
    for (unsigned i = 0; i < UNREAD; i++)
        ck_assert_int_eq(told_next(e).kind, ENQ_EVENT_LOST);
    enq_close(e);
    enq_close(other);
}

TEST(who_has_closed_listens_no_longer)
{
    struct enq *e = told_listener(), *other = told_listener(),
               *silent = unit_open();

    ck_assert_uint_eq(shm_load(&silent->map->h->listeners), 2);
    ck_assert_int_ge(enq_fd(e), 0);
    ck_assert_uint_eq(shm_load(&silent->map->h->listeners), 2);
    enq_close(e);
    ck_assert_uint_eq(shm_load(&silent->map->h->listeners), 1);
    enq_close(other);
    ck_assert_uint_eq(shm_load(&silent->map->h->listeners), 0);
    enq_close(silent);
}

static int listen_and_die(void *nothing)
{
    (void)nothing;
    told_listener();
    kill(getpid(), SIGKILL);
    return 1;
}

TEST(who_is_dead_listens_no_longer)
{
    struct enq *e = unit_open();

    unit_killed(unit_fork(listen_and_die, NULL));
    eventually(unit_stats(e).sessions == 1);
    ck_assert_uint_eq(shm_load(&e->map->h->listeners), 0);
    enq_close(e);
}

#ifdef ENQ_POINTS
static struct {
    struct enq *e;
    struct enq_grant g;
} broken;

static void *break_it(void *nothing)
{
    (void)nothing;
    told_break(broken.e, broken.g.handle);
    return NULL;
}

static bool it_is_told(void)
{
    bool told;

    pthread_mutex_lock(&broken.e->async.mutex);
    told = broken.e->async.n_lock_events == 1;
    pthread_mutex_unlock(&broken.e->async.mutex);
    return told;
}

static void break_before_it_asks(const struct point *p)
{
    pthread_t thread;

    if (strcmp(p->name, "lock.entry_taken") != 0)
        return;
    point_hook = NULL;
    pthread_create(&thread, NULL, break_it, NULL);
    pthread_join(thread, NULL);
    eventually(it_is_told());
}

/* The lock that is lost was started as the same record that is asking now: but
   it has had its result. */
static void lose_it_while_its_record_asks(struct enq *e)
{
    struct enq_grant g;
    uint64_t ticket;

    told_nothing(e, 120);
    point_hook = break_before_it_asks;
    want(ENQ_OK,
        enq_start(e,
            ENQ_REQ(.name = "m", .key = {"b"}, .mode = ENQ_MODE_X,
                .wait_ms = 200),
            &g, &ticket));
    ck_assert_ptr_null(point_hook);
    ck_assert_int_eq(told_next(e).result, ENQ_FORCED);
    told_unlock(e, &g);
    enq_close(e);
}

TEST(an_event_does_not_wait_for_what_its_record_asks_next)
{
    struct enq *e = broken.e = told_listener();
    struct enq_grant held = told_lock(e, "a", ENQ_MODE_X, 0);
    uint64_t ticket = told_start(e, "a", ENQ_MODE_X, "another", ENQ_FOREVER);

    told_asker(e, &held, "another");
    told_unlock(e, &held);
    broken.g = told_result(e, ticket, ENQ_OK).grant;
    lose_it_while_its_record_asks(e);
}

TEST(no_event_of_a_set_waits_for_what_its_record_asks_next)
{
    const struct enq_req *set[] = {
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
            .owner = "another", .wait_ms = ENQ_FOREVER),
        ENQ_REQ(.name = "n", .key = {"c"}, .mode = ENQ_MODE_X,
            .owner = "another", .wait_ms = ENQ_FOREVER)};
    struct enq *e = broken.e = told_listener();
    struct enq_grant held = told_lock(e, "a", ENQ_MODE_X, 0), grants[2];
    uint64_t ticket;

    want(ENQ_PENDING, enq_start_set(e, set, 2, grants, &ticket));
    told_asker(e, &held, "another");
    told_unlock(e, &held);
    told_result(e, ticket, ENQ_OK);
    broken.g = grants[_i];
    lose_it_while_its_record_asks(e);
}

static int promotes_and_is_killed(void *unused)
{
    struct enq *e = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_O, 0);

    (void)unused;
    point_arm("grant.before_wake");
    enq_promote(e, g.handle, g.token, &g);
    return 1;
}

/* The promotion has taken the loser's lock away, and was about to tell it so:
   the helper that reaps the dead session does, at its next round. The lock has
   no ttl, so that nothing else makes its holder look at it. */
TEST(the_loser_is_told_though_the_promoting_process_is_killed_before_it_tells)
{
    struct enq *e = told_listener();
    struct enq_grant loser = told_lock(e, "a", ENQ_MODE_O, ENQ_FOREVER);

    told_nothing(e, 200); /* the second scan of store/watch.h is over */
    unit_killed(unit_fork(promotes_and_is_killed, NULL));
    told(e, ENQ_EVENT_LOST, &loser);
    enq_close(e);
}

/* [0]: it has the lock; [1]: it is to give it back. */
static int grants_and_is_killed(void *shared)
{
    struct enq *e = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 0);
    uint32_t *steps = shared;

    shm_store_release(&steps[0], 1);
    while (!shm_load_acquire(&steps[1]))
        unit_nap();
    point_arm("grant.stored");
    enq_unlock(e, g.handle, g.token);
    return 1;
}

static void start_behind(struct enq *e, unsigned which)
{
    const char *field = which == 1 ? "@" : "a";
    const struct enq_req *set[] = {
        ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X,
            .owner = "behind", .wait_ms = ENQ_FOREVER),
        ENQ_REQ(.name = "n", .key = {"c"}, .mode = ENQ_MODE_X,
            .owner = "behind", .wait_ms = ENQ_FOREVER)};
    struct enq_grant grants[2];
    uint64_t ticket;

    if (which == 2)
        want(ENQ_PENDING, enq_start_set(e, set, 2, grants, &ticket));
    else
        want(ENQ_PENDING, enq_start(e, set[0], grants, &ticket));
}

/* The grant was stored, and the mark that others wait for the lock was not. */
TEST(who_has_a_lock_from_one_that_died_as_it_granted_hears_who_waits_for_it)
{
    struct enq_open_opts strict = {.size = sizeof(strict), .strict = 1};
    struct enq *e = unit_open_with(&strict), *other;
    uint32_t *steps = unit_shared(2 * sizeof(*steps));
    pid_t granter = unit_fork(grants_and_is_killed, steps);
    struct enq_event result;
    uint64_t ticket;

    ck_assert_int_ge(enq_fd(e), 0);
    other = unit_open();
    eventually(shm_load_acquire(&steps[0]));
    ticket = told_start(e, "a", ENQ_MODE_X, "first", ENQ_FOREVER);
    start_behind(other, (unsigned)_i);
    shm_store_release(&steps[1], 1);
    unit_killed(granter);
    result = told_result(e, ticket, ENQ_OK);
    told_asker(e, &result.grant, "behind");
    told_nothing(e, 60);
    enq_close(other);
    enq_close(e);
}
#endif

int main(void)
{
    unit_begin("told");
    ADD(a_lock_that_is_renewed_while_it_is_looked_at_has_not_run_out);
    ADD(a_lock_taken_later_is_announced_in_time);
    ADD(what_was_announced_is_not_announced_again_when_the_mode_changes);
    ADD(a_lock_with_a_delay_has_expired_once_when_its_ttl_ends);
    ADD(an_adopted_lock_is_announced_and_expires);
    ADD(of_several_who_wait_the_first_is_named);
    ADD(an_event_that_has_no_blocker_says_so);
    ADD(a_request_that_timed_out_names_its_blocker_and_no_lock);
    ADD(a_cancelled_request_is_no_lost_lock);
    ADD(a_waiting_thread_that_is_cancelled_has_lost_no_lock);
    ADD(who_adopts_a_lock_is_told_what_its_first_holder_was_told);
    ADD(a_holder_that_is_asked_already_is_not_notified_again);
    ADD(events_from_before_the_descriptor_make_it_readable);
    if (!UNIT_SANITIZED) /* it takes thousands of locks */
        ADD(of_unread_events_no_more_are_kept_than_was_promised);
    ADD(who_makes_room_for_events_wakes_whoever_has_more);
    ADD(who_has_closed_listens_no_longer);
    ADD_IF(!UNIT_TSAN, "the thread sanitizer cannot fork",
        who_is_dead_listens_no_longer);
#ifdef ENQ_POINTS
    ADD(an_event_does_not_wait_for_what_its_record_asks_next);
    ADD_LOOP(no_event_of_a_set_waits_for_what_its_record_asks_next, 2);
    ADD_IF(!UNIT_TSAN, "the thread sanitizer cannot fork",
        the_loser_is_told_though_the_promoting_process_is_killed_before_it_tells);
    if (!UNIT_TSAN)
        ADD_LOOP(
            who_has_a_lock_from_one_that_died_as_it_granted_hears_who_waits_for_it,
            3);
#endif
    return unit_end();
}
