/*
 * scale.c - libenq's acts beside what there is a lot of: holders of one key,
 * one's own locks on it, names of others, a full table, processes.
 */
#include "enq/seat.h"

#include <stdlib.h>
#include <string.h>

/* One key ------------------------------------------------------------------ */

/* Each of another owner. */
int enq_prepare_holders(struct seat *s)
{
    struct mine *m = s->mine;

    for (uint64_t i = 0; i < s->trial->count; i++) {
        snprintf(m->owner, sizeof(m->owner), "holder %u", (unsigned)i);
        if (enq_take(s) != 0)
            return -1;
    }
    snprintf(m->owner, sizeof(m->owner), "worker %u", s->index);
    return 0;
}

/* All of one's own. */
int enq_prepare_cumulated(struct seat *s)
{
    for (uint64_t i = 0; i < s->trial->count; i++)
        if (enq_take(s) != 0)
            return -1;
    return 0;
}

/* Other names -------------------------------------------------------------- */

static int hold_others(struct seat *s)
{
    struct mine *m = s->mine;
    const char *name = m->req.name;

    m->req.name = "others";
    m->req.owner = "holder";
    int rc = enq_hold_many(s);
    m->req.name = name;
    m->req.owner = m->owner;
    return rc;
}

int enq_prepare_wide_apart(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = hold_others(s);

    snprintf(m->field, sizeof(m->field), "@");
    return rc;
}

int enq_prepare_list_one(struct seat *s)
{
    struct mine *m = s->mine;

    m->n_infos = 2;
    m->infos = calloc(m->n_infos, sizeof(*m->infos));
    if (m->infos == NULL)
        return seat_fail(s, "out of memory");
    return hold_others(s) != 0 ? -1 : enq_take(s);
}

int enq_list_one_batch(struct seat *s, uint32_t n)
{
    struct mine *m = s->mine;

    for (uint32_t i = 0; i < n; i++) {
        size_t total = 0;
        int rc =
            enq_list(m->e, m->req.name, NULL, m->infos, m->n_infos, &total);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_list", rc);
        if (total != 1)
            return seat_fail(s, "enq_list found %zu of 1", total);
    }
    return 0;
}

int enq_list_one_once(struct seat *s)
{
    return enq_list_one_batch(s, 1);
}

/* A full table ------------------------------------------------------------- */

enum { MORE_MAX = 10000 };

/* The table has room for trial->held, rounded up to whole pages. */
int enq_prepare_full(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = ENQ_OK;

    if (enq_hold_many(s) != 0)
        return -1;
    m->req.key[0] = "more";
    for (unsigned i = 0; rc == ENQ_OK && i < MORE_MAX; i++) {
        snprintf(m->field, sizeof(m->field), "%u", i);
        rc = enq_lock(m->e, &m->req, &m->grant);
    }
    if (rc != ENQ_EFULL)
        return enq_failed(s, "enq_lock (until the table is full)", rc);
    return 0;
}

int enq_full_batch(struct seat *s, uint32_t n)
{
    return enq_refused_as(s, n, ENQ_EFULL);
}

int enq_full_once(struct seat *s)
{
    return enq_full_batch(s, 1);
}

/* Processes ---------------------------------------------------------------- */

int enq_take_own(struct seat *s)
{
    struct mine *m = s->mine;

    enq_field_set(m->field, seat_own_key(s));
    return enq_take(s);
}

int enq_pool_batch(struct seat *s, uint32_t n)
{
    struct mine *m = s->mine;

    for (uint32_t i = 0; i < n; i++) {
        enq_field_set(m->field, seat_own_key(s));
        if (enq_pair_batch(s, 1) != 0)
            return -1;
    }
    return 0;
}

/* What a latch of one place costs all, if its holder is switched off in it. */
int enq_pool_shared(struct seat *s, uint32_t n)
{
    enum { ONE_IN = 100 };
    struct mine *m = s->mine;
    int rc = 0;

    for (uint32_t i = 0; i < n && rc == 0; i++) {
        if (s->turn % ONE_IN != 0) {
            rc = enq_pool_batch(s, 1);
            continue;
        }
        s->turn++;
        snprintf(m->field, sizeof(m->field), "of all");
        m->req.mode = ENQ_MODE_S;
        rc = enq_pair_batch(s, 1);
        m->req.mode = ENQ_MODE_E;
    }
    return rc;
}
