/*
 * deadlock.c - libenq's acts that concern deadlocks: what the search for one
 * costs a wait, and what one costs that is there.
 */
#include "enq/seat.h"

/* A fight without the search. */
int enq_fight_blind(struct seat *s, uint32_t n)
{
    struct mine *m = s->mine;

    m->req.flags = ENQ_NO_DEADLOCK;
    int rc = enq_fight_batch(s, n);
    m->req.flags = 0;
    return rc;
}

static void owner_set(struct mine *m, unsigned i)
{
    snprintf(m->owner, sizeof(m->owner), "owner %u", i);
}

static void key_set(struct mine *m, unsigned i)
{
    snprintf(m->field, sizeof(m->field), "cycle %u", i);
}

/* Each has its own lock, and all but the last wait for the next one's. */
int enq_prepare_deadlock(struct seat *s)
{
    struct mine *m = s->mine;
    unsigned n = (unsigned)s->trial->count;
    uint64_t ticket;

    for (unsigned i = 0; i < n; i++) {
        owner_set(m, i);
        key_set(m, i);
        if (enq_take(s) != 0)
            return -1;
    }
    m->req.wait_ms = ENQ_FOREVER;
    for (unsigned i = 0; i + 1 < n; i++) {
        owner_set(m, i);
        key_set(m, i + 1);
        int rc = enq_start(m->e, &m->req, &m->grant, &ticket);
        if (rc != ENQ_PENDING)
            return enq_failed(s, "enq_start (to wait)", rc);
    }
    owner_set(m, n - 1);
    key_set(m, 0);
    return 0;
}

/* One has the key that all others wait for, and asks for what the first of them
   has: two owners, behind whom the others wait as well. */
int enq_prepare_search(struct seat *s)
{
    struct mine *m = s->mine;
    uint64_t ticket;

    for (unsigned i = 0; i < 2; i++) {
        owner_set(m, i);
        key_set(m, i);
        if (enq_take(s) != 0)
            return -1;
    }
    m->req.wait_ms = ENQ_FOREVER;
    key_set(m, 0);
    for (unsigned i = 1; i <= s->trial->count; i++) {
        owner_set(m, i);
        int rc = enq_start(m->e, &m->req, &m->grant, &ticket);
        if (rc != ENQ_PENDING)
            return enq_failed(s, "enq_start (to wait)", rc);
    }
    owner_set(m, 0);
    key_set(m, 1);
    return 0;
}

/* The last would close the cycle: it is refused, and the others wait on. */
int enq_deadlock_batch(struct seat *s, uint32_t n)
{
    return enq_refused_as(s, n, ENQ_DEADLOCK);
}

int enq_deadlock_once(struct seat *s)
{
    return enq_deadlock_batch(s, 1);
}

/* The same request, refused as it would not wait. */
int enq_deadlock_busy(struct seat *s, uint32_t n)
{
    struct mine *m = s->mine;

    m->req.wait_ms = 0;
    int rc = enq_refuse_batch(s, n);
    m->req.wait_ms = ENQ_FOREVER;
    return rc;
}
