/*
 * told.h - what the tests of started requests and events share: requests, and
 * the one way in which a program waits for events.
 */
#ifndef TOLD_H
#define TOLD_H

#include <poll.h>
#include <unistd.h>

#include "unit.h"

/* What has not come by then does not come. */
#define TOLD_MS (UNIT_SANITIZED ? 10000 : 5000)

/* An attachment that listens from the start. */
static inline struct enq *told_listener(void)
{
    struct enq *e = unit_open();

    ck_assert_int_ge(enq_fd(e), 0);
    return e;
}

static inline bool told_readable(struct enq *e, int wait_ms)
{
    struct pollfd poller = {enq_fd(e), POLLIN, 0};

    ck_assert_int_ge(poller.fd, 0);
    return poll(&poller, 1, wait_ms) == 1;
}

static inline struct enq_event told_next(struct enq *e)
{
    struct enq_event event = {0};

    ck_assert_msg(told_readable(e, TOLD_MS), "no event came");
    want(ENQ_OK, enq_next(e, &event));
    return event;
}

/* Of one without a descriptor: it does not listen, and is told results only. */
static inline struct enq_event told_without_descriptor(struct enq *e)
{
    int64_t end = unit_now_ms() + TOLD_MS;
    struct enq_event event = {0};

    while (enq_next(e, &event) != ENQ_OK && unit_now_ms() < end)
        unit_nap();
    ck_assert_int_eq(event.kind, ENQ_EVENT_RESULT);
    return event;
}

/* The next that is not of this kind. */
static inline struct enq_event told_but(struct enq *e, enum enq_event_kind kind)
{
    struct enq_event event;

    do
        event = told_next(e);
    while (event.kind == kind);
    return event;
}

/* The next is of this kind, and of this lock. */
static inline struct enq_event told(struct enq *e, enum enq_event_kind kind,
    const struct enq_grant *of)
{
    struct enq_event event = told_next(e);

    ck_assert_int_eq(event.kind, kind);
    ck_assert_uint_eq(event.ticket, 0);
    ck_assert_uint_eq(event.grant.handle, of->handle);
    ck_assert_uint_eq(event.grant.token, of->token);
    return event;
}

/* It is announced, and then it has run out; a holder without a processor for
   the last quarter of the ttl is told the end alone. */
static inline void told_end(struct enq *e, const struct enq_grant *of,
    int quarter_ms)
{
    struct enq_event event = told_next(e);

    if (event.kind == ENQ_EVENT_EXPIRING) {
        told(e, ENQ_EVENT_EXPIRED, of);
        return;
    }
    ck_assert_int_eq(event.kind, ENQ_EVENT_EXPIRED);
    ck_assert_uint_eq(event.grant.handle, of->handle);
    ck_assert_msg(test_starved_ms() >= quarter_ms, "it was not announced");
}

/* An owner of this name waits for this lock. */
static inline void told_asker(struct enq *e, const struct enq_grant *of,
    const char *owner)
{
    struct enq_event event = told(e, ENQ_EVENT_BLOCKING, of);

    ck_assert_str_eq(event.grant.blocker.owner, owner);
}

static inline struct enq_event told_result(struct enq *e, uint64_t ticket,
    int result)
{
    struct enq_event event = told_next(e);

    ck_assert_int_eq(event.kind, ENQ_EVENT_RESULT);
    ck_assert_msg(event.result == result, "the result is %s, not %s",
        enq_result_name(event.result), enq_result_name(result));
    ck_assert_uint_eq(event.ticket, ticket);
    return event;
}

static inline void told_nothing(struct enq *e, int for_ms)
{
    struct enq_event event = {0};

    if (told_readable(e, for_ms))
        enq_next(e, &event);
    ck_assert_msg(event.kind == 0, "event %d (%s) of \"%s\"", (int)event.kind,
        enq_result_name(event.result), event.grant.blocker.owner);
    want(ENQ_PENDING, enq_next(e, &event));
}

static inline struct enq_grant told_lock_req(struct enq *e,
    const struct enq_req *req)
{
    struct enq_grant g;

    want(ENQ_OK, enq_lock(e, req, &g));
    return g;
}

/* X on one field of "n", as "me", with this ttl (0: the default). */
static inline struct enq_grant told_lock(struct enq *e, const char *field,
    enum enq_mode mode, int64_t ttl_ms)
{
    return told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = mode, .ttl_ms = ttl_ms));
}

/* One that outlives its holder, under this id. */
static inline struct enq_grant told_lock_kept(struct enq *e, const char *field,
    const char *id)
{
    return told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X, .id = id,
            .on_death = ENQ_DEATH_KEEP));
}

/* It has to wait: its ticket. */
static inline uint64_t told_start_req(struct enq *e, const struct enq_req *req)
{
    struct enq_grant g;
    uint64_t ticket;

    want(ENQ_PENDING, enq_start(e, req, &g, &ticket));
    return ticket;
}

static inline uint64_t told_start(struct enq *e, const char *field,
    enum enq_mode mode, const char *owner, int64_t wait_ms)
{
    return told_start_req(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = mode, .owner = owner,
            .wait_ms = wait_ms));
}

static inline void told_unlock(struct enq *e, const struct enq_grant *g)
{
    want(ENQ_OK, enq_unlock(e, g->handle, g->token));
}

static inline size_t told_count(struct enq *e)
{
    size_t total = 0;

    want(ENQ_OK, enq_list(e, NULL, NULL, NULL, 0, &total));
    return total;
}

static inline int told_wait_for_k(void *unused)
{
    struct enq_grant g;

    (void)unused;
    enq_lock(unit_open(),
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_X, .owner = "H",
            .wait_ms = ENQ_FOREVER),
        &g);
    return 1;
}

/* A process that waits for "k" as H, and is stopped, with no latch held: once it
   is granted it does not know. To be killed. Nobody waited before. */
static inline pid_t told_stopped_waiter(struct enq *e)
{
    pid_t pid = unit_fork(told_wait_for_k, NULL);

    eventually(unit_stats(e).waiting == 1);
    usleep(5000); /* it sleeps */
    unit_stop(pid);
    return pid;
}

/* By an operator, who sees the lock in a list. */
static inline void told_break(struct enq *e, enq_handle handle)
{
    char id[ENQ_ID_BYTES];

    want(ENQ_OK, enq_id(e, handle, id));
    want(ENQ_OK, enq_break(e, id));
}

#endif
