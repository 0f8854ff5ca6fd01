/*
 * used.h - what the tests of answers share: time that stands still, so that what
 * is told of it is exact, and memory that was used before, so that nothing of
 * that may pass for an answer.
 */
#ifndef USED_H
#define USED_H

#include "sync/sys.h"
#include "unit.h"

#define USED 0xa5

static mono_t the_time;

static inline mono_t stands_still(void)
{
    return the_time;
}

static inline void pass_ms(int64_t ms)
{
    the_time = mono_add_ms(the_time, ms);
}

/* In a space where nobody overtakes. */
static inline struct enq *begin(void)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .strict = ENQ_STRICT_YES, .owner = "me"};

    the_time = sys.now();
    sys.now = sys.coarse = stands_still;
    sys_coarse_lag_ns = 0;
    return unit_open_with(&opts);
}

static inline void end(struct enq *e)
{
    unit_healthy(e);
    enq_close(e);
}

static inline struct enq_grant used_grant(void)
{
    struct enq_grant g;

    memset(&g, USED, sizeof(g));
    return g;
}

static inline struct enq_req request(const char *field, enum enq_mode mode)
{
    return (struct enq_req){.size = sizeof(struct enq_req),
        .name = "n",
        .key = {field},
        .mode = mode};
}

static inline struct enq_grant has(struct enq *e, const struct enq_req *req)
{
    struct enq_grant g = used_grant();

    want(ENQ_OK, enq_lock(e, req, &g));
    ck_assert_str_eq(g.blocker.owner, "");
    return g;
}

static inline struct enq_grant has_x(struct enq *e, const char *field)
{
    struct enq_req req = request(field, ENQ_MODE_X);

    return has(e, &req);
}

static inline struct enq_grant waits(struct enq *e, const char *field,
    enum enq_mode mode, const char *owner)
{
    struct enq_req req = request(field, mode);
    struct enq_grant g = used_grant();
    uint64_t ticket = 0;

    req.owner = owner;
    req.wait_ms = ENQ_FOREVER;
    want(ENQ_PENDING, enq_start(e, &req, &g, &ticket));
    ck_assert_uint_ne(ticket, 0);
    return g;
}

#endif
