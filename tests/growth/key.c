/*
 * key.c - one key that many hold, or wait for, and an operation on all of them.
 */
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
