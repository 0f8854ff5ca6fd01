/*
 * any.c - operations while a request for all of a name waits.
 */
#include <stdio.h>

#include "growth.h"

static int lock_field(struct enq *e, unsigned field, enum enq_mode mode,
    struct enq_grant *g)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", field);
    return enq_lock(e, ENQ_REQ(.name = "name", .key = {text}, .mode = mode), g);
}

static void wait_for_any(struct beside *b, enum enq_mode mode)
{
    struct enq_grant g;
    uint64_t ticket;
    int rc = enq_start(b->other,
        ENQ_REQ(.name = "name", .key = {"@"}, .mode = mode, .owner = "waits",
            .wait_ms = ENQ_FOREVER),
        &g, &ticket);

    must(rc == ENQ_PENDING ? ENQ_OK : rc);
}

void pair_of_the_name(struct beside *b, unsigned i)
{
    struct enq_grant g;

    must(lock_field(b->e, b->n + 1 + i, ENQ_MODE_S, &g));
    must(enq_unlock(b->e, g.handle, g.token));
}

/* One lock of many is in its way. The first release finds out which. */
void wait_for_one_of_a_name(struct beside *b)
{
    b->held = calloc(b->n, sizeof(*b->held));
    for (unsigned i = 0; i < b->n; i++)
        must(lock_field(b->e, i, ENQ_MODE_S, &b->held[i]));
    must(lock_field(b->e, b->n, ENQ_MODE_X, &b->own));
    wait_for_any(b, ENQ_MODE_S);
    pair_of_the_name(b, 0);
}

/* Looked through once, when it is granted: nobody waits when it goes. */
void pair_of_all_of_the_name(struct beside *b, unsigned unused)
{
    struct enq_grant g;

    (void)unused;
    must(enq_lock(b->other,
        ENQ_REQ(.name = "name", .key = {"@"}, .mode = ENQ_MODE_S), &g));
    must(enq_unlock(b->other, g.handle, g.token));
}

void hold_some_of_a_name(struct beside *b)
{
    b->held = calloc(b->n, sizeof(*b->held));
    for (unsigned i = 0; i < b->n; i++)
        must(lock_field(b->e, i, ENQ_MODE_S, &b->held[i]));
    pair_of_all_of_the_name(b, 0); /* finds out which shards are empty */
}

/* All of them are in its way. */
void wait_for_all_of_a_name(struct beside *b)
{
    b->held = calloc(b->n, sizeof(*b->held));
    for (unsigned i = 0; i < b->n; i++)
        must(lock_field(b->e, i, ENQ_MODE_X, &b->held[i]));
    wait_for_any(b, ENQ_MODE_X);
}

/* Each waits for a key of its own. */
void hold_all_of_a_name_before_others(struct beside *b)
{
    must(enq_lock(b->other,
        ENQ_REQ(.name = "name", .key = {"@"}, .mode = ENQ_MODE_X), &b->own));
    for (unsigned i = 0; i < b->n; i++) {
        char text[16];
        struct enq_grant g;
        uint64_t ticket;

        snprintf(text, sizeof(text), "%u", i);
        if (enq_start(b->e,
                ENQ_REQ(.name = "name", .key = {text}, .mode = ENQ_MODE_X,
                    .wait_ms = ENQ_FOREVER),
                &g, &ticket) != ENQ_PENDING)
            abort();
    }
}

void give_back_all_of_a_name(struct beside *b, unsigned unused)
{
    (void)unused;
    must(enq_unlock(b->other, b->own.handle, b->own.token));
}

void give_back_all(struct beside *b, unsigned unused)
{
    (void)unused;
    for (unsigned i = 0; i < b->n; i++)
        must(enq_unlock(b->e, b->held[i].handle, b->held[i].token));
}

void give_back_the_last_first(struct beside *b, unsigned unused)
{
    (void)unused;
    for (unsigned i = b->n; i-- > 0;)
        must(enq_unlock(b->e, b->held[i].handle, b->held[i].token));
}
