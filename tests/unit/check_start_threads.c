/*
 * check_start_threads.c - threads that share attachments, started requests and
 * events: for the thread sanitizer.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/atomic.h"
#include "told.h"

#define THREADS 4
#define ROUNDS (UNIT_TSAN ? 200 : 400)
#define FIELDS 5

struct team {
    struct enq *e, *other;
    uint32_t working;
    uint32_t pending, cancelled, granted, results; /* counted */
};

struct member {
    struct team *team;
    pthread_t thread;
    uint64_t dice;
};

#define ENOUGH 50 /* pending */

static void begin(struct team *team, struct member *m, void *(*f)(void *),
    uint64_t seed)
{
    *m = (struct member){.team = team, .dice = seed};
    ck_assert_int_eq(pthread_create(&m->thread, NULL, f, m), 0);
}

static const char *a_field(struct member *m)
{
    static const char *const fields[FIELDS] = {"a", "b", "c", "d", "@"};

    return fields[unit_random(&m->dice) % FIELDS];
}

static enum enq_mode a_mode(struct member *m)
{
    return (enum enq_mode)(ENQ_MODE_S + unit_random(&m->dice) % 4);
}

/* Unless a promotion has taken it away. */
static void given_back(int rc)
{
    ck_assert_msg(rc == ENQ_OK || rc == ENQ_LOST, "unlock: %s",
        enq_result_name(rc));
}

/* --- what each of them does --- */

static void *start_and_cancel(void *arg)
{
    struct member *m = arg;
    struct team *team = m->team;
    struct enq_grant g;
    uint64_t ticket;

    /* more, where the others have not even begun by then */
    for (int i = 0;
         i < ROUNDS || (i < 100 * ROUNDS && shm_load(&team->pending) < ENOUGH);
         i++) {
        int rc = enq_start(team->e,
            ENQ_REQ(.name = "n", .key = {a_field(m)}, .mode = a_mode(m),
                .wait_ms = 1 + (int64_t)(unit_random(&m->dice) % 50),
                .ttl_ms = 60000, .heartbeat_ms = 3),
            &g, &ticket);
        if (rc == ENQ_OK) {
            rc = enq_unlock(team->e, g.handle, g.token);
            given_back(rc);
            continue;
        }
        want(ENQ_PENDING, rc);
        shm_add(&team->pending, 1);
        if (unit_random(&m->dice) % 3 == 0 &&
            enq_cancel(team->e, ticket) == ENQ_OK)
            shm_add(&team->cancelled, 1);
    }
    shm_add(&team->working, -1);
    return NULL;
}

static void take(struct team *team, const struct enq_event *event)
{
    int rc;

    if (event->kind != ENQ_EVENT_RESULT)
        return;
    ck_assert_uint_ne(event->ticket, 0);
    shm_add(&team->results, 1);
    if (event->result != ENQ_OK)
        return;
    rc = enq_unlock(team->e, event->grant.handle, event->grant.token);
    given_back(rc);
}

static void *take_events(void *arg)
{
    struct member *m = arg;
    struct team *team = m->team;
    struct enq_event event;

    while (shm_load(&team->working) > 0 ||
        shm_load(&team->results) < shm_load(&team->pending)) {
        if (told_readable(team->e, 5) && enq_next(team->e, &event) == ENQ_OK)
            take(team, &event);
    }
    return NULL;
}

static void *lock_with_heartbeats(void *arg)
{
    struct member *m = arg;
    struct enq_grant g;

    while (shm_load(&m->team->working) > 0) {
        int rc = enq_lock(m->team->e,
            ENQ_REQ(.name = "n", .key = {a_field(m)}, .mode = a_mode(m),
                .wait_ms = 20, .ttl_ms = 60000, .heartbeat_ms = 1),
            &g);
        if (rc == ENQ_TIMEDOUT)
            continue;
        want(ENQ_OK, rc);
        usleep(unit_random(&m->dice) % 3000);
        enq_promote(m->team->e, g.handle, g.token, &g);
        rc = enq_unlock(m->team->e, g.handle, 0);
        given_back(rc);
    }
    return NULL;
}

/* Opens, listens, leaves something pending and unread, closes. */
static void *open_and_close(void *arg)
{
    struct member *m = arg;
    struct enq_grant g;
    struct enq_event event;
    uint64_t ticket;

    while (shm_load(&m->team->working) > 0) {
        struct enq *e = unit_open();

        ck_assert_int_ge(enq_fd(e), 0);
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {a_field(m)}, .mode = ENQ_MODE_O,
                .ttl_ms = 1000, .heartbeat_ms = 2),
            &g);
        for (int i = 0; i < 5; i++)
            enq_start(e,
                ENQ_REQ(.name = "n", .key = {a_field(m)}, .mode = a_mode(m),
                    .wait_ms = 1 + i, .heartbeat_ms = 100),
                &g, &ticket);
        usleep(unit_random(&m->dice) % 5000);
        enq_next(e, &event);
        enq_close(e);
    }
    return NULL;
}

/* --- all at once --- */

TEST(each_pending_request_has_one_result_whoever_cancels_or_takes_it)
{
    struct team team = {.e = unit_open(), .working = 2};
    struct member m[6];
    uint64_t seed = unit_seed();

    ck_assert_int_ge(enq_fd(team.e), 0);
    begin(&team, &m[0], start_and_cancel, seed);
    begin(&team, &m[1], start_and_cancel, seed + 1);
    begin(&team, &m[2], take_events, seed + 2);
    begin(&team, &m[3], take_events, seed + 3);
    begin(&team, &m[4], lock_with_heartbeats, seed + 4);
    begin(&team, &m[5], open_and_close, seed + 5);
    for (int i = 0; i < 6; i++)
        pthread_join(m[i].thread, NULL);
    printf("%u pending, %u cancelled\n", team.pending, team.cancelled);
    ck_assert_uint_gt(team.pending, 0);
    ck_assert_uint_eq(team.results, team.pending);
    eventually(told_count(team.e) == 0);
    unit_healthy(team.e);
    enq_close(team.e);
}

/* --- several takers --- */

#define MANY 600

static void *take_some(void *arg)
{
    struct member *m = arg;
    struct enq_event event;

    while (shm_load(&m->team->results) < MANY)
        if (enq_next(m->team->e, &event) == ENQ_OK) {
            ck_assert_int_eq(event.kind, ENQ_EVENT_RESULT);
            want(ENQ_TIMEDOUT, event.result);
            shm_add(&m->team->results, 1);
        } else {
            unit_nap();
        }
    return NULL;
}

TEST(each_event_goes_to_one_thread)
{
    struct team team = {.e = unit_open(), .other = unit_open()};
    struct enq_grant held = told_lock(team.other, "a", ENQ_MODE_X, 0);
    struct member m[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        begin(&team, &m[i], take_some, i);
    for (unsigned i = 0; i < MANY; i++)
        told_start(team.e, "a", ENQ_MODE_X, "me", 1 + i % 30);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(m[i].thread, NULL);
    ck_assert_uint_eq(team.results, MANY);
    told_nothing(team.e, 40);
    told_unlock(team.other, &held);
    ck_assert_uint_eq(told_count(team.e), 0);
    enq_close(team.e);
    enq_close(team.other);
}

/* --- attachments that come and go --- */

TEST(attachments_that_close_take_nothing_from_those_that_stay)
{
    struct team team = {.e = unit_open(), .other = unit_open(), .working = 1};
    struct enq_grant kept = told_lock(team.other, "kept", ENQ_MODE_X, 0);
    struct member m[THREADS];
    uint64_t seed = unit_seed();
    struct enq_event event;

    for (unsigned i = 0; i < THREADS; i++)
        begin(&team, &m[i], open_and_close, seed + i);
    for (int i = 0; i < 40; i++) {
        uint64_t ticket = told_start(team.e, "kept", ENQ_MODE_X, "me", 5);
        event = told_next(team.e);
        ck_assert_uint_eq(event.ticket, ticket);
        /* whatever else is in the way, it is never granted: "kept" is held */
        want(ENQ_TIMEDOUT, event.result);
    }
    shm_store(&team.working, 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(m[i].thread, NULL);
    told_unlock(team.other, &kept);
    eventually(told_count(team.e) == 0);
    unit_healthy(team.e);
    enq_close(team.e);
    enq_close(team.other);
}

int main(void)
{
    unit_begin("start_threads");
    ADD(each_pending_request_has_one_result_whoever_cancels_or_takes_it);
    ADD(each_event_goes_to_one_thread);
    ADD(attachments_that_close_take_nothing_from_those_that_stay);
    return unit_end();
}
