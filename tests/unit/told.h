/*
 * told.h - what the tests of started requests and events share: requests, and
 * the one way in which a program waits for news.
 */
#ifndef TOLD_H
#define TOLD_H

#include <poll.h>

#include "unit.h"

/* What has not come by then does not come. */
#define TOLD_MS (UNIT_SANITIZED ? 10000 : 5000)

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

/* X on one field of "n", as "me", with this ttl (0: the default). */
static inline struct enq_grant told_lock(struct enq *e, const char *field,
    enum enq_mode mode, int64_t ttl_ms)
{
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {field}, .mode = mode,
                .ttl_ms = ttl_ms),
            &g));
    return g;
}

static inline uint64_t told_start(struct enq *e, const char *field,
    enum enq_mode mode, const char *owner, int64_t wait_ms)
{
    struct enq_grant g;
    uint64_t ticket;

    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {field}, .mode = mode, .owner = owner,
                .wait_ms = wait_ms),
            &g, &ticket));
    return ticket;
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

/* An operator, who sees the lock in a list. */
static inline void told_break(struct enq *e, enq_handle handle)
{
    char id[ENQ_ID_BYTES];

    want(ENQ_OK, enq_id(e, handle, id));
    want(ENQ_OK, enq_break(e, id));
}

#endif
