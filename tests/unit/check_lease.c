/*
 * check_lease.c - heartbeats; and the leases of the libraries that this one
 * replaces, a scenario each as their texts promise it.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "told.h"

static struct enq_grant beating(struct enq *e, const char *field,
    int64_t ttl_ms, int64_t heartbeat_ms)
{
    return told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X,
            .ttl_ms = ttl_ms, .heartbeat_ms = heartbeat_ms));
}

static int64_t ttl_left(struct enq *e, const char *name)
{
    struct enq_info info;
    size_t total;

    want(ENQ_OK, enq_list(e, name, NULL, &info, 1, &total));
    ck_assert_uint_eq(total, 1);
    return info.ttl_left_ms;
}

/* --- heartbeats --- */

TEST(a_lock_with_a_heartbeat_outlives_its_ttl_many_times)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant g = beating(e, "a", 1000, 20), none;
    int64_t begin = unit_now_ms();

    while (unit_now_ms() - begin < 4500) {
        want(ENQ_OK, enq_valid(e, g.handle));
        want(ENQ_BUSY, unit_lock(other, "n", "a", ENQ_MODE_S, &none));
        usleep(5000);
    }
    told_unlock(e, &g);
    enq_close(e);
    enq_close(other);
}

TEST(it_stops_with_the_unlock_and_leaves_the_next_lock_alone)
{
    struct enq *e = unit_open();
    struct enq_grant g = beating(e, "a", 3000, 20);
    int64_t begin;

    usleep(60000);
    told_unlock(e, &g);
    begin = unit_now_ms();
    g = told_lock(e, "a", ENQ_MODE_X, 200); /* the same entry, most likely */
    while (enq_valid(e, g.handle) == ENQ_OK)
        ck_assert_int_lt(unit_now_ms() - begin, 2000 + test_starved_ms());
    ck_assert_int_ge(unit_now_ms() - begin, 200);
    want(ENQ_EXPIRED, enq_unlock(e, g.handle, g.token));
    enq_close(e);
}

TEST(it_stops_when_the_lock_is_broken)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant g = beating(e, "a", 3000, 10), next;

    told_break(other, g.handle);
    next = told_lock(other, "a", ENQ_MODE_X, 150);
    eventually(enq_valid(other, next.handle) == ENQ_EXPIRED);
    want(ENQ_FORCED, enq_unlock(e, g.handle, g.token));
    enq_close(e);
    enq_close(other);
}

TEST(it_stops_with_the_attachment_and_does_not_follow_an_adopted_lock)
{
    struct enq *before = unit_open(), *e = unit_open();
    struct enq_grant g;

    g = told_lock_req(before,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .id = "i",
            .ttl_ms = 1500, .heartbeat_ms = 10, .on_death = ENQ_DEATH_LEASE));
    enq_close(before);
    want(ENQ_OK, enq_adopt(e, "i", &g));
    eventually(enq_valid(e, g.handle) == ENQ_EXPIRED);
    enq_close(e);
}

TEST(it_never_shortens_a_longer_renewal)
{
    struct enq *e = unit_open();
    struct enq_grant g = beating(e, "a", 1000, 20);

    want(ENQ_OK, enq_renew(e, g.handle, g.token, 60000));
    usleep(150000);
    ck_assert_int_gt(ttl_left(e, "n"), 50000);
    want(ENQ_OK, enq_renew(e, g.handle, g.token, ENQ_FOREVER));
    usleep(150000);
    ck_assert_int_eq(ttl_left(e, "n"), ENQ_FOREVER);
    enq_close(e);
}

/* --- a ttl that another process changes --- */

static int shortens(void *grant)
{
    const struct enq_grant *g = grant;
    struct enq *e = unit_open();

    want(ENQ_OK, enq_renew(e, g->handle, g->token, 400));
    enq_close(e);
    return 0;
}

/* Its helper watches a time that is too late now, and is told. */
TEST(a_lock_that_another_process_has_shortened_expires_when_that_says)
{
    struct enq *e = told_listener();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 60000);

    told_nothing(e, 30);
    unit_join(unit_fork(shortens, &g));
    told_end(e, &g, 100);
    enq_close(e);
}

TEST(it_goes_on_after_promotion_and_demotion)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    g = told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_O, .ttl_ms = 1000,
            .heartbeat_ms = 20));
    want(ENQ_OK, enq_promote(e, g.handle, g.token, &g));
    usleep(1100000); /* longer than its ttl */
    want(ENQ_OK, enq_demote(e, g.handle, g.token));
    usleep(1100000); /* longer than its ttl */
    want(ENQ_OK, enq_valid(e, g.handle));
    told_unlock(e, &g);
    enq_close(e);
}

TEST(it_is_shorter_than_the_ttl_or_refused)
{
    struct enq *e = unit_open();
    struct enq_grant g;
    uint64_t ticket;
    static const int64_t wrong[][2] = {
        {100, 100}, {100, 101}, {0, 900000}, {ENQ_FOREVER, 10}, {100, -1}};

    for (unsigned i = 0; i < LENGTH(wrong); i++) {
        const struct enq_req *req =
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .ttl_ms = wrong[i][0],
                .heartbeat_ms = wrong[i][1], .wait_ms = ENQ_FOREVER);
        want_why(-EINVAL, enq_lock(e, req, &g), "heartbeat");
        want_why(-EINVAL, enq_start(e, req, &g, &ticket), "heartbeat");
    }
    ck_assert_uint_eq(told_count(e), 0);
    g = beating(e, "a", 0, 899999);
    told_unlock(e, &g);
    enq_close(e);
}

TEST(that_of_a_started_request_begins_with_the_grant)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0), g;
    struct enq_event event;
    uint64_t ticket;

    ticket = told_start_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
            .wait_ms = ENQ_FOREVER, .ttl_ms = 1500, .heartbeat_ms = 30));
    usleep(1600000); /* longer than its ttl */
    told_unlock(other, &held);
    event = told_result(e, ticket, ENQ_OK);
    usleep(1600000);
    want(ENQ_OK, enq_valid(e, event.grant.handle));
    told_unlock(e, &event.grant);
    want(ENQ_OK,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .wait_ms = ENQ_FOREVER, .ttl_ms = 1500, .heartbeat_ms = 30),
            &g, &ticket));
    usleep(1600000);
    want(ENQ_OK, enq_valid(e, g.handle));
    told_nothing(e, 0);
    enq_close(e);
    enq_close(other);
}

#define HEARTS 1000

TEST(a_thousand_locks_are_kept_by_their_heartbeats)
{
    struct enq *e = unit_open();
    struct enq_grant g[HEARTS];
    char field[12];

    for (unsigned i = 0; i < HEARTS; i++) {
        snprintf(field, sizeof(field), "%u", i);
        g[i] = beating(e, field, 2000, 100);
    }
    usleep(2200000); /* longer than the ttl of the last */
    for (unsigned i = 0; i < HEARTS; i++)
        want(ENQ_OK, enq_valid(e, g[i].handle));
    unit_healthy(e);
    enq_close(e);
}

TEST(heartbeats_of_locks_given_back_take_no_memory)
{
    struct enq *e = unit_open();
    size_t before = 0;

    for (int i = 0; i < 5100; i++) {
        struct enq_grant g = beating(e, "a", 600000, 300000);

        told_unlock(e, &g);
        if (i == 100)
            before = mallinfo2().uordblks;
    }
    if (!UNIT_SANITIZED)
        ck_assert_uint_le(mallinfo2().uordblks, before + 65536);
    enq_close(e);
}

/* --- a process that was stopped --- */

struct sleeper {
    uint32_t ready, told;
};

static int heartbeat_and_listen(void *shared)
{
    struct sleeper *x = shared;
    struct enq *e = unit_open();
    struct enq_grant g;
    struct enq_event event;

    ck_assert_int_ge(enq_fd(e), 0);
    g = beating(e, "a", 200, 20);
    shm_store_release(&x->ready, 1);
    event = told_but(e, ENQ_EVENT_EXPIRING);
    if (event.kind == ENQ_EVENT_EXPIRED && event.grant.token == g.token &&
        enq_valid(e, g.handle) == ENQ_EXPIRED)
        shm_store_release(&x->told, 1);
    return 0;
}

static void stop_for_ms(pid_t pid, unsigned ms)
{
    int status;

    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    usleep(ms * 1000);
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
}

TEST(a_holder_stopped_for_longer_than_its_ttl_learns_of_it)
{
    struct sleeper *x = unit_shared(sizeof(*x));
    struct enq *e = unit_open();
    pid_t pid = unit_fork(heartbeat_and_listen, x);

    eventually(shm_load_acquire(&x->ready));
    usleep(300000);
    stop_for_ms(pid, 400);
    eventually(shm_load_acquire(&x->told));
    unit_join(pid);
    ck_assert_uint_eq(told_count(e), 0);
    enq_close(e);
}

TEST(and_takes_nothing_back_from_whoever_has_got_the_lock)
{
    struct sleeper *x = unit_shared(sizeof(*x));
    struct enq *e = unit_open();
    pid_t pid = unit_fork(heartbeat_and_listen, x);
    struct enq_grant g;
    int status;

    eventually(shm_load_acquire(&x->ready));
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    g = told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
            .wait_ms = ENQ_FOREVER));
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    eventually(shm_load_acquire(&x->told));
    unit_join(pid);
    want(ENQ_OK, enq_valid(e, g.handle));
    told_unlock(e, &g);
    enq_close(e);
}

/* --- the seeds --- */

/* "Ephemeral" nodes: what a dead client holds and waits for is gone, and the
   one behind it is woken, no other (no herd): the others' results stay out. */
static int recipe_client(void *shared)
{
    struct enq *e = unit_open();
    uint32_t *ready = shared;

    told_start(e, "a", ENQ_MODE_X, "client", ENQ_FOREVER);
    unit_stay(ready);
}

TEST(zookeeper_recipe_who_dies_leaves_the_queue_and_the_next_is_granted)
{
    uint32_t *ready = unit_shared(4);
    struct enq *e = unit_open();
    struct enq_grant held = told_lock(e, "a", ENQ_MODE_X, 0);
    pid_t dead = unit_fork(recipe_client, ready);
    uint64_t second, third;
    struct enq_event event;

    eventually(shm_load_acquire(ready));
    second = told_start(e, "a", ENQ_MODE_X, "second", ENQ_FOREVER);
    third = told_start(e, "a", ENQ_MODE_X, "third", ENQ_FOREVER);
    unit_kill(dead);
    told_unlock(e, &held);
    event = told_but(e, ENQ_EVENT_BLOCKING);
    ck_assert_uint_eq(event.ticket, second);
    told_unlock(e, &event.grant);
    event = told_but(e, ENQ_EVENT_BLOCKING);
    ck_assert_uint_eq(event.ticket, third);
    told_unlock(e, &event.grant);
    unit_healthy(e);
    enq_close(e);
}

TEST(zookeeper_ttl_expired_is_an_event_and_frees_the_resource)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant g, next;
    struct enq_event event;

    ck_assert_int_ge(enq_fd(e), 0);
    g = told_lock(e, "resource1", ENQ_MODE_X, 80);
    event = told_but(e, ENQ_EVENT_EXPIRING);
    ck_assert_int_eq(event.kind, ENQ_EVENT_EXPIRED);
    ck_assert_uint_eq(event.grant.handle, g.handle);
    next = told_lock(other, "resource1", ENQ_MODE_X, ENQ_FOREVER);
    told_unlock(other, &next);
    enq_close(e);
    enq_close(other);
}

struct lease {
    enum enq_death on_death;
    uint32_t ready;
    uint64_t token;
};

static int crash_with_lease(void *shared)
{
    struct lease *x = shared;
    struct enq *e = unit_open();
    struct enq_grant g;

    g = told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .id = "lock",
            .on_death = x->on_death, .ttl_ms = 3000, .heartbeat_ms = 50));
    x->token = g.token;
    unit_stay(&x->ready);
}

static struct lease *crashed(enum enq_death on_death)
{
    struct lease *x = unit_shared(sizeof(*x));
    pid_t pid;

    x->on_death = on_death;
    pid = unit_fork(crash_with_lease, x);
    eventually(shm_load_acquire(&x->ready));
    usleep(3200000); /* past its ttl: its heartbeats have kept it */
    unit_kill(pid);
    return x;
}

TEST(dynamodb_fail_open_ends_a_lease_after_the_last_heartbeat)
{
    struct enq *e = unit_open();
    struct enq_grant g;
    struct lease *x = crashed(ENQ_DEATH_LEASE);
    int64_t begin = unit_now_ms(), left;

    want(ENQ_BUSY, unit_lock(e, "n", "a", ENQ_MODE_X, &g));
    left = g.blocker.ttl_left_ms; /* since the last one */
    ck_assert_int_gt(left, 0);
    g = told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
            .wait_ms = ENQ_FOREVER));
    ck_assert_int_ge(unit_now_ms() - begin, left - 1);
    ck_assert_int_le(unit_now_ms() - begin, 3000 + 1500 + test_starved_ms());
    ck_assert_uint_gt(g.token, x->token);
    told_unlock(e, &g);
    enq_close(e);
}

TEST(dynamodb_fail_closed_needs_somebody_who_intervenes)
{
    struct enq *e = unit_open();
    struct lease *x = crashed(ENQ_DEATH_KEEP);
    struct enq_grant g;

    want(ENQ_TIMEDOUT,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .wait_ms = 4500),
            &g));
    want(ENQ_OK, enq_adopt(e, "lock", &g));
    ck_assert_uint_gt(g.token, x->token);
    told_unlock(e, &g);
    g = told_lock(e, "a", ENQ_MODE_X, 0);
    told_unlock(e, &g);
    enq_close(e);
}

TEST(dynamodb_heartbeats_leave_the_fencing_token_and_acquisitions_raise_it)
{
    struct enq *e = unit_open();
    const char *const key[] = {"a", NULL};
    struct enq_info info;
    uint64_t last = 0;
    size_t total;

    for (int i = 0; i < 5; i++) {
        struct enq_grant g = beating(e, "a", 2000, 5);

        ck_assert_uint_gt(g.token, last);
        last = g.token;
        usleep(30000);
        want(ENQ_OK, enq_list(e, "n", NULL, &info, 1, &total));
        ck_assert_uint_eq(total, 1);
        ck_assert_uint_eq(info.token, g.token);
        told_unlock(e, &g);
        want(ENQ_NOTHELD, enq_check(e, "n", key, g.token));
    }
    enq_close(e); /* and with nobody there the space remembers */
    e = unit_open();
    ck_assert_uint_gt(told_lock(e, "a", ENQ_MODE_X, 0).token, last);
    enq_close(e);
}

TEST(redis_exp_lock_release_compares_before_it_deletes)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant late = told_lock(e, "bankAccount", ENQ_MODE_X, 40), next;

    next = told_lock_req(other,
        ENQ_REQ(.name = "n", .key = {"bankAccount"}, .mode = ENQ_MODE_X,
            .wait_ms = ENQ_FOREVER));
    want(ENQ_EXPIRED, enq_unlock(e, late.handle, late.token));
    want(ENQ_NOTHELD, enq_unlock(e, late.handle, late.token));
    want(ENQ_NOTHELD, enq_unlock(e, next.handle, late.token));
    want(ENQ_OK, enq_valid(other, next.handle));
    told_unlock(other, &next);
    enq_close(e);
    enq_close(other);
}

static void add_seeds(void)
{
    ADD(a_holder_stopped_for_longer_than_its_ttl_learns_of_it);
    ADD(and_takes_nothing_back_from_whoever_has_got_the_lock);
    ADD(zookeeper_recipe_who_dies_leaves_the_queue_and_the_next_is_granted);
    ADD(dynamodb_fail_open_ends_a_lease_after_the_last_heartbeat);
    ADD(dynamodb_fail_closed_needs_somebody_who_intervenes);
}

int main(void)
{
    unit_begin("lease");
    ADD(a_lock_with_a_heartbeat_outlives_its_ttl_many_times);
    ADD(it_stops_with_the_unlock_and_leaves_the_next_lock_alone);
    ADD(it_stops_when_the_lock_is_broken);
    ADD(it_stops_with_the_attachment_and_does_not_follow_an_adopted_lock);
    ADD(it_never_shortens_a_longer_renewal);
    ADD(a_lock_that_another_process_has_shortened_expires_when_that_says);
    ADD(it_goes_on_after_promotion_and_demotion);
    ADD(it_is_shorter_than_the_ttl_or_refused);
    ADD(that_of_a_started_request_begins_with_the_grant);
    ADD(a_thousand_locks_are_kept_by_their_heartbeats);
    ADD(heartbeats_of_locks_given_back_take_no_memory);
    if (!UNIT_TSAN) /* which cannot fork */
        add_seeds();
    ADD(zookeeper_ttl_expired_is_an_event_and_frees_the_resource);
    ADD(dynamodb_heartbeats_leave_the_fencing_token_and_acquisitions_raise_it);
    ADD(redis_exp_lock_release_compares_before_it_deletes);
    return unit_end();
}
