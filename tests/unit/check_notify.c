/*
 * check_notify.c - how a session is told: the ring of notifications, the
 * descriptor, and that nothing is lost where there is more than either holds.
 */
#include "store/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/atomic.h"
#include "told.h"

/* --- the ring of notifications --- */

static void write_notification(struct session_slot *slot, ref_t ref)
{
    uint32_t number = ++slot->notifications;

    slot->notification[number % NOTIFICATIONS_KEPT] =
        (uint64_t)number << 32 | ref;
}

TEST(notifications_are_taken_in_order)
{
    struct session_slot slot = {0};
    uint32_t seen = 0;
    ref_t ref = 0;

    for (ref_t round = 0; round < 10; round++) {
        for (ref_t i = 0; i < NOTIFICATIONS_KEPT; i++)
            write_notification(&slot, round * 100 + i);
        for (ref_t i = 0; i < NOTIFICATIONS_KEPT; i++) {
            ck_assert_int_eq(notification_take(&slot, &seen, &ref),
                NOTIFICATION_ONE);
            ck_assert_uint_eq(ref, round * 100 + i);
        }
        ck_assert_int_eq(notification_take(&slot, &seen, &ref),
            NOTIFICATION_NONE);
    }
}

TEST(the_number_of_notifications_may_wrap)
{
    struct session_slot slot = {.notifications = UINT32_MAX - 20};
    uint32_t seen = slot.notifications;
    ref_t ref = 0;

    for (ref_t i = 1; i < 50; i++) {
        write_notification(&slot, i);
        ck_assert_int_eq(notification_take(&slot, &seen, &ref),
            NOTIFICATION_ONE);
        ck_assert_uint_eq(ref, i);
        ck_assert_int_eq(notification_take(&slot, &seen, &ref),
            NOTIFICATION_NONE);
    }
}

TEST(more_notifications_than_the_ring_holds_are_lost_and_said_to_be)
{
    struct enq *e = unit_open();
    struct session_slot *slot = e->session.slot;
    uint32_t seen = slot->notifications;
    ref_t ref = 0;

    for (ref_t i = 0; i <= NOTIFICATIONS_KEPT; i++)
        notify_session(e->map, e->session.ref, 7 + i);
    ck_assert_int_eq(notification_take(slot, &seen, &ref), NOTIFICATION_LOST);
    ck_assert_int_eq(notification_take(slot, &seen, &ref), NOTIFICATION_NONE);
    notify_session(e->map, e->session.ref, 5);
    ck_assert_int_eq(notification_take(slot, &seen, &ref), NOTIFICATION_ONE);
    ck_assert_uint_eq(ref, 5);
    enq_close(e);
}

TEST(a_caller_that_dies_before_it_has_written_is_a_lost_call)
{
    struct session_slot slot = {0};
    uint32_t seen = 0;
    ref_t ref = 0;

    write_notification(&slot, 3);
    slot.notifications++;
    write_notification(&slot, 4);
    ck_assert_int_eq(notification_take(&slot, &seen, &ref), NOTIFICATION_ONE);
    ck_assert_int_eq(notification_take(&slot, &seen, &ref), NOTIFICATION_LOST);
    ck_assert_int_eq(notification_take(&slot, &seen, &ref), NOTIFICATION_NONE);
}

/* --- more than there is room for --- */

#define MANY_MAX 6000

struct many {
    struct enq *e, *other;
    struct enq_grant g[MANY_MAX], winner;
    unsigned n, told[MANY_MAX];
};

static void open_many(struct many *m)
{
    m->e = unit_open();
    m->other = unit_open();
    ck_assert_int_ge(enq_fd(m->e), 0);
}

static void close_many(struct many *m)
{
    unit_healthy(m->e);
    enq_close(m->e);
    enq_close(m->other);
    free(m);
}

/* `n` optimistic locks, all lost in one call to one that overlaps them. */
static void lose(struct many *m, unsigned n)
{
    char field[12];

    for (m->n = 0; m->n < n; m->n++) {
        snprintf(field, sizeof(field), "%u", m->n);
        m->g[m->n] = told_lock(m->e, field, ENQ_MODE_O, 0);
        m->told[m->n] = 0;
    }
    m->winner = told_lock(m->other, "@", ENQ_MODE_O, 0);
    want(ENQ_OK,
        enq_promote(m->other, m->winner.handle, m->winner.token, &m->winner));
}

static void note(struct many *m, const struct enq_event *event)
{
    ck_assert_int_eq(event->kind, ENQ_EVENT_LOST);
    for (unsigned i = 0; i < m->n; i++)
        if (m->g[i].handle == event->grant.handle &&
            m->g[i].token == event->grant.token)
            m->told[i]++;
}

static void all_are_told_once(struct many *m)
{
    for (unsigned i = 0; i < m->n; i++) {
        struct enq_event event = told_next(m->e);
        note(m, &event);
    }
    told_nothing(m->e, 50);
    for (unsigned i = 0; i < m->n; i++)
        ck_assert_msg(m->told[i] == 1, "lock %u: %u events", i, m->told[i]);
}

TEST(more_notifications_at_once_than_the_ring_holds_lose_no_event)
{
    struct many *m = calloc(1, sizeof(*m));

    open_many(m);
    for (int i = 0; i < 3; i++) {
        lose(m, 300);
        all_are_told_once(m);
        told_unlock(m->other, &m->winner);
    }
    close_many(m);
}

/* As many events as are kept are in the queue. */
static void until_full(struct many *m)
{
    eventually(shm_load(&m->e->async.n_lock_events) >= 4096);
}

TEST(more_unread_events_than_are_kept_come_later_each_once)
{
    struct many *m = calloc(1, sizeof(*m));

    open_many(m);
    lose(m, UNIT_SANITIZED ? 4500 : MANY_MAX);
    until_full(m);
    all_are_told_once(m);
    told_unlock(m->other, &m->winner);
    close_many(m);
}

TEST(a_full_queue_hides_from_nobody_that_a_lock_has_expired)
{
    struct many *m = calloc(1, sizeof(*m));
    struct enq_grant a, b;

    open_many(m);
    lose(m, 4200);
    told_unlock(m->other, &m->winner);
    until_full(m);
    a = told_lock(m->e, "a", ENQ_MODE_X, 150);
    b = told_lock(m->e, "b", ENQ_MODE_X, 250);
    eventually(enq_valid(m->e, a.handle) == ENQ_EXPIRED);
    eventually(enq_valid(m->e, b.handle) == ENQ_EXPIRED);
    close_many(m);
}

/* The queue is full: what there is to tell stays in the table, where a call
   finds it first. */
TEST(who_was_told_by_a_call_is_not_told_again)
{
    struct many *m = calloc(1, sizeof(*m));
    struct enq_grant g[4];
    struct enq_event event;
    static const char *const fields[] = {"a", "b", "c", "d"};

    open_many(m);
    lose(m, 4200);
    told_unlock(m->other, &m->winner);
    until_full(m);
    for (int i = 0; i < 4; i++) {
        g[i] = told_lock(m->e, fields[i], ENQ_MODE_X, 0);
        told_break(m->other, g[i].handle);
    }
    want(ENQ_FORCED, enq_unlock(m->e, g[0].handle, g[0].token));
    want(ENQ_FORCED, enq_renew(m->e, g[1].handle, g[1].token, 0));
    want(ENQ_FORCED, enq_demote(m->e, g[2].handle, g[2].token));
    want(ENQ_FORCED, enq_promote(m->e, g[3].handle, g[3].token, NULL));
    while (told_readable(m->e, 100)) {
        want(ENQ_OK, enq_next(m->e, &event));
        for (int i = 0; i < 4; i++)
            ck_assert_msg(event.grant.token != g[i].token ||
                    event.grant.handle != g[i].handle,
                "told again: %d", i);
    }
    close_many(m);
}

#define STOPPED_LOCKS 200

struct stopped {
    uint32_t ready, told;
    enq_handle handles[STOPPED_LOCKS];
};

static int hold_and_count(void *shared)
{
    struct stopped *x = shared;
    struct enq *e = unit_open();
    char field[12];

    ck_assert_int_ge(enq_fd(e), 0);
    for (unsigned i = 0; i < STOPPED_LOCKS; i++) {
        snprintf(field, sizeof(field), "%u", i);
        x->handles[i] = told_lock(e, field, ENQ_MODE_X, 0).handle;
    }
    shm_store_release(&x->ready, 1);
    for (;;) {
        struct enq_event event = told_next(e);
        if (event.kind == ENQ_EVENT_LOST && event.result == ENQ_FORCED)
            shm_add(&x->told, 1);
    }
    return 0;
}

TEST(a_process_that_was_stopped_meanwhile_is_told_all)
{
    struct stopped *x = unit_shared(sizeof(*x));
    struct enq *e = unit_open();
    pid_t pid = unit_fork(hold_and_count, x);
    int status;

    eventually(shm_load_acquire(&x->ready));
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    for (unsigned i = 0; i < STOPPED_LOCKS; i++)
        told_break(e, x->handles[i]);
    ck_assert_uint_eq(shm_load(&x->told), 0);
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    eventually(shm_load(&x->told) == STOPPED_LOCKS);
    usleep(60000);
    ck_assert_uint_eq(shm_load(&x->told), STOPPED_LOCKS);
    unit_kill(pid);
    enq_close(e);
}

#define ATTACHMENTS 150

TEST(of_many_attachments_each_is_told_soon)
{
    struct enq *e[ATTACHMENTS], *other = unit_open();
    struct enq_grant g[ATTACHMENTS];
    char field[12];
    int64_t begin, worst = 0;

    for (int i = 0; i < ATTACHMENTS; i++) {
        e[i] = unit_open();
        ck_assert_int_ge(enq_fd(e[i]), 0);
        snprintf(field, sizeof(field), "%d", i);
        g[i] = told_lock(e[i], field, ENQ_MODE_X, 0);
    }
    for (int i = 0; i < ATTACHMENTS; i += ATTACHMENTS / 3 - 1) {
        usleep(200000);
        begin = unit_now_ms();
        told_break(other, g[i].handle);
        told(e[i], ENQ_EVENT_LOST, &g[i]);
        if (unit_now_ms() - begin > worst)
            worst = unit_now_ms() - begin;
    }
    ck_assert_msg(worst < 300, "after %d ms", (int)worst);
    for (int i = 0; i < ATTACHMENTS; i++)
        enq_close(e[i]);
    enq_close(other);
}

TEST(events_of_several_attachments_do_not_mix)
{
    struct enq *e[4], *other = unit_open();
    static const char *const fields[] = {"0", "1", "2", "3"};
    struct enq_grant g[4], blocker = told_lock(other, "b", ENQ_MODE_X, 0);
    uint64_t tickets[4];

    for (int i = 0; i < 4; i++) {
        e[i] = unit_open();
        ck_assert_int_ge(enq_fd(e[i]), 0);
        g[i] = told_lock(e[i], fields[i], ENQ_MODE_X, 0);
    }
    for (int i = 3; i >= 0; i--) {
        told_break(other, g[i].handle);
        told(e[i], ENQ_EVENT_LOST, &g[i]);
        tickets[i] = told_start(e[i], "b", ENQ_MODE_X, "me", ENQ_FOREVER);
    }
    for (int i = 0; i < 4; i++) {
        want(ENQ_OK, enq_cancel(e[i], tickets[i]));
        told_result(e[i], tickets[i], ENQ_CANCELLED);
    }
    for (int i = 0; i < 4; i++) {
        told_nothing(e[i], 20);
        enq_close(e[i]);
    }
    told_unlock(other, &blocker);
    enq_close(other);
}

/* --- the descriptor --- */

TEST(the_descriptor_is_always_the_same_and_does_not_survive_exec)
{
    struct enq *e = unit_open();
    int fd = enq_fd(e);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(enq_fd(e), fd);
    ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    enq_close(e);
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}

TEST(it_is_readable_exactly_while_there_are_events)
{
    struct many *m = calloc(1, sizeof(*m));
    struct enq_event event;

    open_many(m);
    ck_assert(!told_readable(m->e, 0));
    for (int round = 0; round < 3; round++) {
        lose(m, 30);
        told_unlock(m->other, &m->winner);
        for (unsigned i = 0; i < m->n; i++) {
            ck_assert(told_readable(m->e, 5000));
            want(ENQ_OK, enq_next(m->e, &event));
        }
        ck_assert(!told_readable(m->e, 0));
        want(ENQ_PENDING, enq_next(m->e, &event));
    }
    close_many(m);
}

TEST(events_that_are_there_before_the_descriptor_make_it_readable)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);
    struct enq_event event;

    told_start(e, "a", ENQ_MODE_X, "me", 1);
    eventually(told_readable(e, 0));
    want(ENQ_OK, enq_next(e, &event));
    ck_assert_int_eq(event.result, ENQ_TIMEDOUT);
    told_unlock(other, &held);
    enq_close(e);
    enq_close(other);
}

/* Edge triggered, as libraries with a loop do: an edge, then all there is. */
static unsigned edges(int poller, struct enq *e, unsigned until)
{
    struct epoll_event ready;
    struct enq_event event;
    unsigned taken = 0;

    while (taken < until) {
        ck_assert_int_eq(epoll_wait(poller, &ready, 1, 5000), 1);
        while (enq_next(e, &event) == ENQ_OK)
            taken++;
    }
    /* one that was taken on the way may have been an edge as well */
    while (epoll_wait(poller, &ready, 1, 30) == 1)
        want(ENQ_PENDING, enq_next(e, &event));
    return taken;
}

TEST(each_edge_brings_events_and_each_event_an_edge)
{
    struct many *m = calloc(1, sizeof(*m));
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLET};
    int poller = epoll_create1(EPOLL_CLOEXEC);

    open_many(m);
    ck_assert_int_eq(epoll_ctl(poller, EPOLL_CTL_ADD, enq_fd(m->e), &wanted),
        0);
    for (unsigned round = 0; round < 20; round++) {
        unsigned n = 1 + round * 3;
        lose(m, n);
        told_unlock(m->other, &m->winner);
        ck_assert_uint_eq(edges(poller, m->e, n), n);
    }
    close(poller);
    close_many(m);
}

TEST(who_never_asks_for_it_has_no_descriptor_and_is_told_results_only)
{
    struct enq *e = unit_open(), *other = unit_open();
    unsigned before = unit_count_dir("/proc/self/fd");
    struct enq_grant held = told_lock(other, "a", ENQ_MODE_X, 0);
    struct enq_grant lost = told_lock(e, "b", ENQ_MODE_X, 0);
    struct enq_event event = {0};
    uint64_t ticket;

    told_start(other, "b", ENQ_MODE_X, "other", 30);
    told_break(other, lost.handle);
    ticket = told_start(e, "a", ENQ_MODE_X, "me", 40);
    eventually(enq_next(e, &event) == ENQ_OK);
    ck_assert_int_eq(event.kind, ENQ_EVENT_RESULT);
    ck_assert_uint_eq(event.ticket, ticket);
    usleep(50000);
    want_why(ENQ_PENDING, enq_next(e, &event), "no event");
    ck_assert_uint_eq(unit_count_dir("/proc/self/fd"), before);
    ck_assert_uint_eq(shm_load(&e->session.slot->listens), 0);
    told_unlock(other, &held);
    enq_close(e);
    enq_close(other);
}

/* --- memory --- */

static size_t in_use(void)
{
    return mallinfo2().uordblks;
}

/* 100 fields, so that no queue is long. */
static void start_and_cancel(struct many *m, uint64_t *tickets, unsigned n)
{
    struct enq_event event;
    char field[12];

    for (unsigned i = 0; i < n; i++) {
        snprintf(field, sizeof(field), "%u", i % 100);
        tickets[i] = told_start(m->e, field, ENQ_MODE_X, "me", ENQ_FOREVER);
    }
    for (unsigned i = 0; i < n; i++)
        want(ENQ_OK, enq_cancel(m->e, tickets[i]));
    for (unsigned i = 0; i < n; i++) {
        do
            event = told_next(m->e);
        while (event.kind != ENQ_EVENT_RESULT);
        ck_assert_int_eq(event.result, ENQ_CANCELLED);
    }
}

static void fifty_thousand_lost(struct many *m)
{
    size_t before = 0;

    for (int i = 0; i < 60; i++) {
        lose(m, 1000);
        for (unsigned n = 0; n < m->n; n++)
            ck_assert_int_eq(told_next(m->e).kind, ENQ_EVENT_LOST);
        told_unlock(m->other, &m->winner);
        if (i == 10) /* by then there is room for all */
            before = in_use();
    }
    ck_assert_uint_le(in_use(), before + 16384);
}

static void fifty_thousand_cancelled(struct many *m)
{
    uint64_t tickets[1000];
    size_t before = 0;
    char field[12];

    for (unsigned i = 0; i < 100; i++) {
        snprintf(field, sizeof(field), "%u", i);
        m->g[i] = told_lock(m->other, field, ENQ_MODE_X, 0);
    }
    for (int i = 0; i < 60; i++) {
        start_and_cancel(m, tickets, 1000);
        if (i == 10)
            before = in_use();
    }
    ck_assert_uint_le(in_use(), before + 16384);
    for (unsigned i = 0; i < 100; i++)
        told_unlock(m->other, &m->g[i]);
}

TEST(a_hundred_thousand_events_leave_no_memory_behind)
{
    struct many *m = calloc(1, sizeof(*m));

    open_many(m);
    fifty_thousand_cancelled(m);
    fifty_thousand_lost(m);
    close_many(m);
}

TEST(unread_events_go_with_the_attachment)
{
    struct many *m = calloc(1, sizeof(*m));
    size_t before;

    open_many(m);
    enq_close(m->e);
    before = in_use();
    for (int i = 0; i < 5; i++) {
        m->e = unit_open();
        ck_assert_int_ge(enq_fd(m->e), 0);
        lose(m, 100);
        told_unlock(m->other, &m->winner);
        ck_assert(told_readable(m->e, 5000));
        enq_close(m->e);
    }
    ck_assert_uint_le(in_use(), before + 16384);
    m->e = unit_open();
    close_many(m);
}

static void add_descriptor(void)
{
    ADD(the_descriptor_is_always_the_same_and_does_not_survive_exec);
    ADD(it_is_readable_exactly_while_there_are_events);
    ADD(events_that_are_there_before_the_descriptor_make_it_readable);
    ADD(each_edge_brings_events_and_each_event_an_edge);
    ADD(who_never_asks_for_it_has_no_descriptor_and_is_told_results_only);
    if (!UNIT_SANITIZED) /* which has a memory of its own */
        ADD(a_hundred_thousand_events_leave_no_memory_behind);
    ADD(unread_events_go_with_the_attachment);
}

int main(void)
{
    unit_begin("notify");
    ADD(notifications_are_taken_in_order);
    ADD(the_number_of_notifications_may_wrap);
    ADD(more_notifications_than_the_ring_holds_are_lost_and_said_to_be);
    ADD(a_caller_that_dies_before_it_has_written_is_a_lost_call);
    ADD(more_notifications_at_once_than_the_ring_holds_lose_no_event);
    ADD(more_unread_events_than_are_kept_come_later_each_once);
    ADD(a_full_queue_hides_from_nobody_that_a_lock_has_expired);
    ADD(who_was_told_by_a_call_is_not_told_again);
    ADD_IF(!UNIT_TSAN, "the thread sanitizer cannot fork",
        a_process_that_was_stopped_meanwhile_is_told_all);
    ADD(of_many_attachments_each_is_told_soon);
    ADD(events_of_several_attachments_do_not_mix);
    add_descriptor();
    return unit_end();
}
