/*
 * set.c - libenq's acts with lock sets: eight locks asked for as one,
 * against the same eight asked for one after the other.
 */
#include "enq/seat.h"

#include <string.h>

enum { SET = 8 };

/* One process has one of these. */
static struct {
    struct enq_req req[SET];
    const struct enq_req *reqs[SET];
    struct enq_grant grant[SET];
    char field[SET][16];
} set;

int enq_prepare_set(struct seat *s)
{
    struct mine *m = s->mine;

    if (s->trial->held > 0 && enq_hold_many(s) != 0)
        return -1;
    for (unsigned i = 0; i < SET; i++) {
        snprintf(set.field[i], sizeof(set.field[i]), "%u", i);
        set.req[i] = m->req;
        set.req[i].key[1] = set.field[i];
        set.reqs[i] = &set.req[i];
    }
    return 0;
}

/* Free ones, as many as are held. */
static void choose(struct seat *s)
{
    for (unsigned i = 0; s->trial->held > 0 && i < SET; i++)
        enq_field_random(s, set.field[i]);
}

static int give_all(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = enq_unlock_set(m->e, set.grant, SET);

    return rc == ENQ_OK ? 0 : enq_failed(s, "enq_unlock_set", rc);
}

int enq_take_set(struct seat *s)
{
    struct mine *m = s->mine;

    choose(s);
    int rc = enq_lock_set(m->e, set.reqs, SET, set.grant);
    return rc == ENQ_OK ? 0 : enq_failed(s, "enq_lock_set", rc);
}

int enq_give_set(struct seat *s)
{
    return give_all(s);
}

int enq_set_batch(struct seat *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (enq_take_set(s) != 0 || give_all(s) != 0)
            return -1;
    return 0;
}

static int take_singly(struct seat *s)
{
    struct mine *m = s->mine;

    choose(s);
    for (unsigned i = 0; i < SET; i++) {
        int rc = enq_lock(m->e, set.reqs[i], &set.grant[i]);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_lock", rc);
    }
    return 0;
}

static int give_singly(struct seat *s)
{
    struct mine *m = s->mine;

    for (unsigned i = 0; i < SET; i++) {
        const struct enq_grant *g = &set.grant[i];
        int rc = enq_unlock(m->e, g->handle, g->token);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_unlock", rc);
    }
    return 0;
}

/* The base: eight pairs. */
int enq_set_singly(struct seat *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (take_singly(s) != 0 || give_singly(s) != 0)
            return -1;
    return 0;
}
