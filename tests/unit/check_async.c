/*
 * check_async.c - what an attachment does without a thread of the caller's,
 * where only a closer look tells: by what it is told, what it counts, what it
 * keeps, and what comes first.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/attachment.h"
#include "async/bell.h"
#include "async/started.h"
#include "lib/latches.h"
#include "store/notify.h"
#include "sync/latch.h"
#include "sync/life.h"
#include "sync/sys.h"
#include "told.h"

/* By then the locks of a session that has begun to listen were looked through
   twice. */
#define SCANNED_US 150000

/* In a space where a waiter is granted at once what comes free. */
static struct enq *strict_listener(void)
{
    struct enq *e = unit_open_with(&(struct enq_open_opts){
        .size = sizeof(struct enq_open_opts), .strict = 1});

    ck_assert_int_ge(enq_fd(e), 0);
    return e;
}

/* --- started requests --- */

#define AT_ONCE 400

static int by_ticket(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* More than are looked at in one round, and far more than the ring of
   notifications holds. */
TEST(one_release_grants_hundreds_and_each_is_told_once)
{
    struct enq *e = told_listener(), *other = unit_open();
    uint64_t tickets[AT_ONCE];

    for (int round = 0; round < 3; round++) {
        struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);

        for (int i = 0; i < AT_ONCE; i++)
            tickets[i] = told_start(e, "a", ENQ_MODE_S, "me", ENQ_FOREVER);
        told_unlock(other, &held);
        qsort(tickets, AT_ONCE, sizeof(*tickets), by_ticket);
        for (int i = 0; i < AT_ONCE; i++) {
            struct enq_event event = told_next(e);
            uint64_t *at = bsearch(&event.ticket, tickets, AT_ONCE,
                sizeof(*tickets), by_ticket);

            ck_assert_int_eq(event.kind, ENQ_EVENT_RESULT);
            want(ENQ_OK, event.result);
            ck_assert_ptr_nonnull(at);
            told_unlock(e, &event.grant);
        }
        told_nothing(e, 100);
    }
    ck_assert_uint_eq(e->async.n_started, AT_ONCE); /* records are used again */
    unit_healthy(e);
    enq_close(e);
    enq_close(other);
}

struct notifier {
    struct enq *e;
    uint32_t stop;
};

/* As if notifications were lost all the time. */
static void *notify_of_all(void *arg)
{
    struct notifier *c = arg;

    while (!shm_load(&c->stop)) {
        notify_session(c->e->map, c->e->session.ref, NOTIFICATION_ALL);
        usleep(20);
    }
    return NULL;
}

/* The helper thread glances at those that are in its list already. */
TEST(who_is_to_be_looked_at_twice_is_told_once)
{
    struct notifier c = {.e = unit_open()};
    struct enq *other = unit_open();
    pthread_t thread;

    for (int round = 0; round < 3; round++) {
        struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);

        for (int i = 0; i < AT_ONCE; i++)
            told_start(c.e, "a", ENQ_MODE_S, "me", ENQ_FOREVER);
        shm_store(&c.stop, 0);
        pthread_create(&thread, NULL, notify_of_all, &c);
        told_unlock(other, &held);
        for (int i = 0; i < AT_ONCE; i++) {
            struct enq_event event = told_without_descriptor(c.e);

            want(ENQ_OK, event.result);
            told_unlock(c.e, &event.grant);
        }
        shm_store(&c.stop, 1);
        pthread_join(thread, NULL);
    }
    enq_close(c.e);
    enq_close(other);
}

static struct entry *entry_of(struct enq *e, const char *owner)
{
    struct enq_info info;
    struct entry *entry;
    uint64_t state;
    size_t total;

    want(ENQ_OK, enq_list(e, NULL, owner, &info, 1, &total));
    ck_assert_uint_eq(total, 1);
    entry = entry_of_handle(e->map, info.handle, &state);
    ck_assert_ptr_nonnull(entry);
    return entry;
}

/* Notifications of these, as if they had changed. */
static void notify_of(struct enq *e, const char *owner)
{
    notify_session(e->map, e->session.ref, map_ref(e->map, entry_of(e, owner)));
}

static uint32_t *word_of(struct enq *e, const char *owner)
{
    return &bucket_of_entry(e->map, entry_of(e, owner))->latch;
}

static void *start_and_cancel(void *arg)
{
    struct enq *e = arg;

    want(ENQ_OK,
        enq_cancel(e, told_start(e, "a", ENQ_MODE_X, "short", ENQ_FOREVER)));
    return NULL;
}

static void glance_at_once(struct enq *e)
{
    pthread_mutex_lock(&e->async.mutex);
    e->async.all = true;
    pthread_mutex_unlock(&e->async.mutex);
    helper_ring();
}

/* The helper thread stands in a look at the first, to which its glance has led,
   then at the second; in between it hears that a request was cancelled which it
   has not seen yet. That takes so long that this turn ends, and what it hears
   comes first in the next. */
static void cancelled_unseen(struct enq *e, struct thread *me)
{
    uint32_t *first = word_of(e, "first"), *second = word_of(e, "second");
    uint32_t n = shm_load(&e->async.n_pending);
    pthread_t thread;

    shm_or(&entry_of(e, "first")->state, STATE_CYCLE);
    glance_at_once(e);
    usleep(50000);
    pthread_create(&thread, NULL, start_and_cancel, e);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(shm_load(&e->async.n_pending), n + 1);
    notify_of(e, "second");
    latch_release(me, first);
    want(ENQ_CANCELLED,
        told_without_descriptor(e).result); /* its record is free */
    usleep(50000);
    latch_release(me, second);
}

static uint32_t shard_of(struct enq *e, enq_handle handle)
{
    uint64_t state;
    struct entry *entry = entry_of_handle(e->map, handle, &state);

    ck_assert_ptr_nonnull(entry);
    return shard_of_hash(entry->hash);
}

/* Another lock, whose word is none of these; its field. */
static void lock_elsewhere(struct enq *e, char field[12], uint32_t a,
    uint32_t b)
{
    static unsigned n;
    uint32_t shard;

    do {
        snprintf(field, 12, "%u", n++);
        shard = shard_of(e, told_lock(e, field, ENQ_MODE_X, 0).handle);
    } while (shard == a || shard == b);
}

TEST(a_request_that_ends_before_it_was_looked_at_is_looked_at_no_more)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct thread *me = thread_enter(e->map);
    uint32_t a = shard_of(other, told_lock(other, "a", ENQ_MODE_X, 0).handle);
    uint32_t *words[2];
    char field[12];

    lock_elsewhere(other, field, a, a);
    told_start(e, field, ENQ_MODE_X, "first", ENQ_FOREVER);
    words[0] = word_of(e, "first");
    lock_elsewhere(other, field, a, shard_of_hash(entry_of(e, "first")->hash));
    told_start(e, field, ENQ_MODE_X, "second", ENQ_FOREVER);
    words[1] = word_of(e, "second");
    usleep(50000);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(latch_acquire(me, words[(words[0] > words[1]) ^ i],
                             RANK_SHARD),
            0);
    cancelled_unseen(e, me);
    for (int i = 0; i < 3; i++) {
        told_start(e, "a", ENQ_MODE_X, "me", 20);
        want(ENQ_TIMEDOUT, told_without_descriptor(e).result);
    }
    usleep(100000);
    pthread_mutex_lock(&e->async.mutex);
    ck_assert(cds_list_empty(&e->async.fresh));
    ck_assert_uint_eq(e->async.n_pending, 2);
    pthread_mutex_unlock(&e->async.mutex);
    enq_close(e);
    enq_close(other);
}

/* The first stands before the second, and leaves. Nobody but the second will
   ever look at the lock, whose holder does not. */
TEST(who_stood_behind_its_kin_looks_for_itself_when_that_has_left)
{
    unit_with_ticks();
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant g = told_lock(other, "a", ENQ_MODE_X, 400);
    uint64_t first = told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    uint64_t second = told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);

    usleep(60000);
    want(ENQ_OK, enq_cancel(e, first));
    told_result(e, first, ENQ_CANCELLED);
    told_result(e, second, ENQ_OK);
    want(ENQ_EXPIRED, enq_unlock(other, g.handle, g.token));
    enq_close(e);
    enq_close(other);
}

/* --- records --- */

/* As does one whose entry says that it waits by that record: others wrote that. */
TEST(a_lock_event_comes_though_its_record_is_another_requests_by_now)
{
    struct enq *e = told_listener(), *other = unit_open();
    struct enq_grant a = told_lock(other, "a", ENQ_MODE_X, 0), b;
    uint64_t first = told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER), second;
    struct enq_event event;
    struct entry *entry;
    uint64_t state;

    told_unlock(other, &a);
    event = told_result(e, first, ENQ_OK);
    b = told_lock(other, "b", ENQ_MODE_X, 0);
    second = told_start(e, "b", ENQ_MODE_X, "me", ENQ_FOREVER);
    ck_assert_uint_eq((uint32_t)first, (uint32_t)second);
    usleep(SCANNED_US);
    entry = entry_of_handle(e->map, event.grant.handle, &state);
    if (_i > 0)
        shm_store(&entry->asleep, ASLEEP_STARTED + (uint32_t)second - 1);
    told_break(other, event.grant.handle);
    told(e, ENQ_EVENT_LOST, &event.grant);
    told_unlock(other, &b);
    told_result(e, second, ENQ_OK);
    enq_close(e);
    enq_close(other);
}

TEST(what_was_answered_is_pending_no_longer)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0), g;
    uint64_t ticket = told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);

    told_start(e, "a", ENQ_MODE_X, "me", 10);
    ck_assert_uint_eq(shm_load(&e->session.slot->started), 2);
    want(ENQ_TIMEDOUT, told_without_descriptor(e).result);
    ck_assert_uint_eq(shm_load(&e->session.slot->started), 1);
    want(ENQ_OK, enq_cancel(e, ticket));
    want(ENQ_CANCELLED, told_without_descriptor(e).result);
    want(ENQ_OK,
        enq_start(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    ck_assert_uint_eq(shm_load(&e->session.slot->started), 0);
    ck_assert_uint_eq(e->async.n_pending, 0);
    ck_assert_uint_eq(e->async.requests.n, 0);
    told_unlock(other, &held);
    enq_close(e);
    enq_close(other);
}

TEST(started_requests_are_counted_like_those_of_threads)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);
    struct enq_stats before = unit_stats(e), after;
    uint64_t ticket = told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);

    told_start(e, "a", ENQ_MODE_X, "me", 10);
    want(ENQ_TIMEDOUT, told_without_descriptor(e).result);
    want(ENQ_OK, enq_cancel(e, ticket));
    want(ENQ_CANCELLED, told_without_descriptor(e).result);
    told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    told_unlock(other, &held);
    want(ENQ_OK, told_without_descriptor(e).result);
    after = unit_stats(e);
    ck_assert_uint_eq(after.waits - before.waits, 3);
    ck_assert_uint_eq(after.wait_grants - before.wait_grants, 1);
    ck_assert_uint_eq(after.timeouts - before.timeouts, 1);
    ck_assert_uint_eq(after.cancels - before.cancels, 1);
    ck_assert_uint_eq(after.grants - before.grants, 1);
    enq_close(e);
    enq_close(other);
}

/* --- moments --- */

/* Somebody acts while this thread wakes another, outside of all words. */
static struct {
    pthread_t thread;
    const uint32_t *word; /* a thread that sleeps on it is woken */
    void (*act)(void);
    void (*real)(const uint32_t *word, int how_many);
} moment;

static void wake_and_act(const uint32_t *word, int how_many)
{
    void (*act)(void) = moment.act;

    moment.real(word, how_many);
    if (act == NULL || !pthread_equal(pthread_self(), moment.thread) ||
        (moment.word != NULL && moment.word != word))
        return;
    moment.act = NULL;
    act();
}

static void arm(const uint32_t *word, void (*act)(void))
{
    moment.thread = pthread_self();
    moment.word = word;
    moment.act = act;
    if (moment.real == NULL)
        moment.real = sys.wake;
    sys.wake = wake_and_act;
}

static struct {
    struct enq *e, *other;
    struct enq_grant held;
    uint64_t ticket;
} scene;

static void in_a_thread(void *(*f)(void *))
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, f, NULL), 0);
    pthread_join(thread, NULL);
}

static void *take_and_start_another(void *nothing)
{
    struct enq_event event = told_without_descriptor(scene.e);

    scene.ticket = told_start(scene.e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    ck_assert_uint_eq((uint32_t)scene.ticket, (uint32_t)event.ticket);
    return nothing;
}

static void another_takes_and_starts(void)
{
    in_a_thread(take_and_start_another);
}

TEST(the_ticket_is_ones_own_however_soon_others_take_the_event)
{
    uint64_t ticket;

    scene.e = unit_open();
    scene.other = unit_open();
    scene.held = told_lock(scene.other, "a", ENQ_MODE_X, 0);
    arm(NULL, another_takes_and_starts);
    ticket = told_start(scene.e, "a", ENQ_MODE_X, "me", 1);
    ck_assert_ptr_null(moment.act);
    ck_assert_uint_ne(ticket, scene.ticket);
    want(ENQ_NOTHELD, enq_cancel(scene.e, ticket));
    want(ENQ_OK, enq_cancel(scene.e, scene.ticket));
    enq_close(scene.e);
    enq_close(scene.other);
}

static void *grant_and_take_away(void *nothing)
{
    struct enq_grant g;

    told_unlock(scene.other, &scene.held);
    g = told_lock(scene.other, "a", ENQ_MODE_O, 0);
    want(ENQ_OK, enq_promote(scene.other, g.handle, g.token, &g));
    usleep(30000); /* the helper thread hears of it */
    return nothing;
}

static void another_grants_and_takes_away(void)
{
    in_a_thread(grant_and_take_away);
}

/* Granted, and lost, before the call that asked has come back: it says PENDING,
   and until then nothing may be said of the lock. */
TEST(no_event_of_a_lock_comes_before_the_result_that_brings_it)
{
    struct enq_event event;
    uint64_t ticket;

    scene.e = strict_listener();
    scene.other = told_listener(); /* told that we wait: by this thread */
    scene.held = told_lock(scene.other, "a", ENQ_MODE_X, 0);
    usleep(SCANNED_US);
    do {
        usleep(2000); /* its helper thread sleeps, most likely */
        arm(&scene.other->session.slot->notifications,
            another_grants_and_takes_away);
        ticket = told_start(scene.e, "a", ENQ_MODE_O, "me", ENQ_FOREVER);
        if (moment.act != NULL) {
            want(ENQ_OK, enq_cancel(scene.e, ticket));
            told_result(scene.e, ticket, ENQ_CANCELLED);
            told_unlock(scene.other, &scene.held);
            scene.held = told_lock(scene.other, "a", ENQ_MODE_X, 0);
        }
    } while (moment.act != NULL);
    event = told_result(scene.e, ticket, ENQ_OK);
    event = told(scene.e, ENQ_EVENT_LOST, &event.grant);
    want(ENQ_LOST, event.result);
    told_nothing(scene.e, 50);
    enq_close(scene.e);
    enq_close(scene.other);
}

/* --- what others cost --- */

#define WAITING 50
#define UNSEEN UINT8_MAX /* no look leaves that for a CPU */

static struct entry *waiting_entry(struct enq *e, size_t i)
{
    return caa_container_of(e->async.requests.nodes[i], struct started, timer)
        ->place.e;
}

/* A waiting one has no events, and a look at it visits the queue: of all of
   them, it would take the square of their number. */
TEST(an_event_of_one_lock_is_no_reason_to_look_at_the_waiters)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0), brief;
    struct enq_event event;
    unsigned seen = 0;
    char owner[16];

    for (int i = 0; i < WAITING; i++) {
        snprintf(owner, sizeof(owner), "w%d", i);
        told_start(e, "a", ENQ_MODE_X, owner, ENQ_FOREVER);
    }
    usleep(50000); /* each was looked at */
    pthread_mutex_lock(&e->async.mutex);
    ck_assert_uint_eq(e->async.requests.n, WAITING);
    for (size_t i = 0; i < WAITING; i++)
        shm_store(&waiting_entry(e, i)->cpu, UNSEEN);
    pthread_mutex_unlock(&e->async.mutex);
    brief = told_lock(e, "b", ENQ_MODE_X, 100);
    do {
        event = told_next(e);
    } while (event.kind != ENQ_EVENT_EXPIRED);
    ck_assert_uint_eq(event.grant.handle, brief.handle);
    pthread_mutex_lock(&e->async.mutex);
    for (size_t i = 0; i < WAITING; i++)
        seen += shm_load(&waiting_entry(e, i)->cpu) != UNSEEN;
    pthread_mutex_unlock(&e->async.mutex);
    ck_assert_uint_le(seen, 1);
    told_unlock(other, &held);
    enq_close(e);
    enq_close(other);
}

/* Else each order to the helper, as each opening is one, would be a round
   through all that there is. */
TEST(a_death_that_was_reported_is_looked_after_once)
{
    struct enq *e = unit_open();

    for (int i = 0; i < 3; i++) {
        helper_report_death(&e->session);
        eventually(shm_load(&helper_bell.death) == 0);
    }
    enq_close(e);
}

int main(void)
{
    unit_begin("async");
    ADD(one_release_grants_hundreds_and_each_is_told_once);
    ADD(who_is_to_be_looked_at_twice_is_told_once);
    ADD(a_request_that_ends_before_it_was_looked_at_is_looked_at_no_more);
    ADD(who_stood_behind_its_kin_looks_for_itself_when_that_has_left);
    ADD_LOOP(a_lock_event_comes_though_its_record_is_another_requests_by_now,
        2);
    ADD(what_was_answered_is_pending_no_longer);
    ADD(started_requests_are_counted_like_those_of_threads);
    ADD(the_ticket_is_ones_own_however_soon_others_take_the_event);
    ADD(no_event_of_a_lock_comes_before_the_result_that_brings_it);
    ADD(an_event_of_one_lock_is_no_reason_to_look_at_the_waiters);
    ADD(a_death_that_was_reported_is_looked_after_once);
    return unit_end();
}
