/*
 * key.c - one key that many hold, or wait for, and an operation on all of them.
 */
#include <poll.h>
#include <unistd.h>

#include "api/attachment.h"
#include "growth.h"

static struct enq_req request(enum enq_mode mode, const char *owner)
{
    return (struct enq_req){.size = sizeof(struct enq_req),
        .name = "shared",
        .key = {"key"},
        .mode = mode,
        .owner = owner,
        .wait_ms = ENQ_FOREVER,
        .flags = ENQ_NO_DEADLOCK};
}

static void lock_as(struct beside *b, enum enq_mode mode, const char *owner,
    struct enq_grant *g)
{
    struct enq_req req = request(mode, owner);

    must(enq_lock(b->e, &req, g));
}

const char *name_of(unsigned i)
{
    static char name[16];

    snprintf(name, sizeof(name), "w%u", i);
    return name;
}

/* Each of another owner. */
static void queue_up(struct beside *b, enum enq_mode mode)
{
    for (unsigned i = 0; i < b->n; i++) {
        struct enq_req req = request(mode, name_of(i));
        struct enq_grant g;
        uint64_t ticket;

        if (enq_start(b->e, &req, &g, &ticket) != ENQ_PENDING)
            abort();
    }
}

void hold_before_a_queue(struct beside *b)
{
    lock_as(b, ENQ_MODE_S, "own", &b->own);
    queue_up(b, ENQ_MODE_X);
}

static void start_as(struct beside *b, enum enq_mode mode, const char *owner,
    uint64_t *ticket)
{
    struct enq_req req = request(mode, owner);
    struct enq_grant g;

    if (enq_start(b->e, &req, &g, ticket) != ENQ_PENDING)
        abort();
}

/* The result of a request; of locks that wait for it others are told, too. */
static struct enq_grant result_of(struct beside *b)
{
    struct pollfd events = {.fd = enq_fd(b->e), .events = POLLIN};
    struct enq_event event = {.kind = ENQ_EVENT_BLOCKING};

    while (event.kind != ENQ_EVENT_RESULT)
        if (enq_next(b->e, &event) != ENQ_OK)
            poll(&events, 1, -1);
    must(event.result);
    return event.grant;
}

void come_and_give_up(struct beside *b, unsigned i)
{
    struct enq_req req = request(ENQ_MODE_X, name_of(b->n + i));
    struct enq_grant g;

    req.wait_ms = 1;
    if (enq_lock(b->e, &req, &g) != ENQ_TIMEDOUT)
        abort();
}

/* Once, until the helper has seen all that there was before enq_fd(). */
#define FIRST 1000000

static void hold_one_before_a_queue(struct beside *b, enum enq_mode mode)
{
    if (enq_fd(b->e) < 0)
        abort();
    lock_as(b, mode, "own", &b->own);
    queue_up(b, mode);
    come_and_give_up(b, FIRST);
}

void hold_x_before_a_queue(struct beside *b)
{
    hold_one_before_a_queue(b, ENQ_MODE_X);
}

/* More events than are kept. */
#define UNREAD 4500
#define KEPT 4096

void leave_events_unread_before_a_queue(struct beside *b)
{
    struct enq_req req = request(ENQ_MODE_X, "other");
    struct enq_grant g;
    uint64_t ticket;

    if (enq_fd(b->e) < 0)
        abort();
    must(enq_lock(b->other, &req, &g));
    for (unsigned i = 0; i < b->n; i++) {
        req.owner = name_of(i);
        if (enq_start(b->e, &req, &g, &ticket) != ENQ_PENDING)
            abort();
    }
    for (unsigned i = 0; i < UNREAD; i++)
        must(enq_lock(b->e,
            ENQ_REQ(.name = "lost", .key = {name_of(i)}, .mode = ENQ_MODE_O),
            &g));
    must(enq_lock(b->other,
        ENQ_REQ(.name = "lost", .key = {"@"}, .mode = ENQ_MODE_O), &g));
    must(enq_promote(b->other, g.handle, g.token, &g));
    while (shm_load(&b->e->async.n_lock_events) < KEPT)
        usleep(1000);
}

/* '@' of the same name, in requests of more fields: its gate is theirs. */
void hold_x_before_a_queue_beside_any(struct beside *b)
{
    struct enq_grant any;

    must(enq_lock(b->other,
        ENQ_REQ(.name = "shared", .key = {"other", "@"}, .mode = ENQ_MODE_X),
        &any));
    hold_x_before_a_queue(b);
}

/* '@' waits behind them all. */
void hold_x_before_a_queue_and_any(struct beside *b)
{
    struct enq_grant any;
    uint64_t ticket;

    hold_x_before_a_queue(b);
    if (enq_start(b->other,
            ENQ_REQ(.name = "shared", .key = {"@"}, .mode = ENQ_MODE_X,
                .owner = "any", .wait_ms = ENQ_FOREVER,
                .flags = ENQ_NO_DEADLOCK),
            &any, &ticket) != ENQ_PENDING)
        abort();
}

void hold_e_before_a_queue(struct beside *b)
{
    hold_one_before_a_queue(b, ENQ_MODE_E);
}

/* As those in the queue do: give back, learn of the next one's grant, come
   anew. */
static void hand_over(struct beside *b, enum enq_mode mode, unsigned i)
{
    uint64_t ticket;

    must(enq_unlock(b->e, b->own.handle, b->own.token));
    b->own = result_of(b);
    start_as(b, mode, name_of(b->n + i), &ticket);
}

void hand_over_x(struct beside *b, unsigned i)
{
    hand_over(b, ENQ_MODE_X, i);
}

void hand_over_e(struct beside *b, unsigned i)
{
    hand_over(b, ENQ_MODE_E, i);
}

void lock_past_the_queue(struct beside *b, unsigned i)
{
    struct enq_grant g;

    (void)i;
    lock_as(b, ENQ_MODE_S, "own", &g);
}

/* A session that listens is told of what others wait for. */
void listen_before_readers(struct beside *b)
{
    if (enq_fd(b->e) < 0)
        abort();
    lock_as(b, ENQ_MODE_X, "own", &b->own);
    queue_up(b, ENQ_MODE_S);
}

void unlock_the_key(struct beside *b, unsigned i)
{
    (void)i;
    must(enq_unlock(b->e, b->own.handle, b->own.token));
}

/* The first of them goes, and the next one says what they hold. */
void hold_shared(struct beside *b)
{
    struct enq_grant g;

    lock_as(b, ENQ_MODE_S, "own", &b->own);
    for (unsigned i = 0; i < b->n; i++)
        lock_as(b, ENQ_MODE_S, name_of(i), &g);
    unlock_the_key(b, 0);
}

void pair_of_shared(struct beside *b, unsigned i)
{
    struct enq_grant g;

    lock_as(b, ENQ_MODE_S, name_of(b->n + i), &g);
    must(enq_unlock(b->e, g.handle, g.token));
}

void hold_cumulated(struct beside *b)
{
    struct enq_grant g;

    for (unsigned i = 0; i < b->n; i++)
        lock_as(b, ENQ_MODE_E, "own", &g);
}

void cumulate(struct beside *b, unsigned i)
{
    struct enq_grant g;

    (void)i;
    lock_as(b, ENQ_MODE_E, "own", &g);
}

void hold_optimistic(struct beside *b)
{
    struct enq_grant g;

    lock_as(b, ENQ_MODE_O, "own", &b->own);
    for (unsigned i = 0; i < b->n; i++)
        lock_as(b, ENQ_MODE_O, name_of(i), &g);
}

void promote_one(struct beside *b, unsigned i)
{
    struct enq_grant g;

    (void)i;
    must(enq_promote(b->e, b->own.handle, b->own.token, &g));
}
