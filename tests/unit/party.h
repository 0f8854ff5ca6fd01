/*
 * party.h - somebody that asks for a lock set, perhaps in a thread of its own.
 */
#ifndef PARTY_H
#define PARTY_H

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "unit.h"

#define MOST 8

struct party {
    struct enq *e;
    struct enq_req req[MOST];
    const struct enq_req *reqs[MOST];
    struct enq_grant g[MOST];
    size_t n;
    pthread_t thread;
    char why[512];
    int rc;
    uint32_t done;
};

/* "a b c": one field each, all in one mode. */
static inline void invite(struct party *p, struct enq *e, const char *owner,
    enum enq_mode mode, const char *fields, int64_t wait_ms)
{
    static char texts[64][64];
    static unsigned used;
    char *rest = texts[used++ % 64], *field;

    memset(p, 0, sizeof(*p));
    snprintf(rest, sizeof(texts[0]), "%s", fields);
    p->e = e;
    while ((field = strtok_r(rest, " ", &rest)) != NULL) {
        p->req[p->n] = (struct enq_req){.size = sizeof(struct enq_req),
            .name = "n",
            .key = {field},
            .mode = mode,
            .owner = owner,
            .wait_ms = wait_ms};
        p->reqs[p->n] = &p->req[p->n];
        p->n++;
    }
}

static inline int come(struct party *p)
{
    p->rc = enq_lock_set(p->e, p->reqs, p->n, p->g);
    snprintf(p->why, sizeof(p->why), "%s", enq_why());
    return p->rc;
}

static inline void *come_in_thread(void *party)
{
    struct party *p = party;

    come(p);
    shm_store_release(&p->done, 1);
    return NULL;
}

static inline size_t count(struct enq *e, bool waiting)
{
    struct enq_info infos[256];
    size_t n = 0, total;

    want(ENQ_OK, enq_list(e, NULL, NULL, infos, LENGTH(infos), &total));
    for (size_t i = 0; i < total; i++)
        n += infos[i].waiting == waiting;
    return n;
}

static inline void begins_to_wait(struct party *p)
{
    size_t before = count(p->e, true);

    pthread_create(&p->thread, NULL, come_in_thread, p);
    eventually(count(p->e, true) == before + p->n);
    usleep(2000); /* and is beyond the window in which it may be overtaken */
}

/* Its wait is over: it has all that it asked for. */
static inline void has_come(struct party *p)
{
    pthread_join(p->thread, NULL);
    want(ENQ_OK, p->rc);
}

static inline void goes(struct party *p)
{
    want(ENQ_OK, enq_unlock_set(p->e, p->g, p->n));
}

static inline struct enq_grant holds(struct enq *e, const char *owner,
    const char *field, enum enq_mode mode)
{
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {field}, .mode = mode, .owner = owner),
            &g));
    return g;
}

static inline int tries(struct enq *e, const char *owner, const char *field,
    enum enq_mode mode)
{
    struct enq_grant g;
    int rc = enq_lock(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = mode, .owner = owner), &g);

    if (rc == ENQ_OK)
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    return rc;
}

static inline void frees(struct enq *e, const struct enq_grant *g)
{
    want(ENQ_OK, enq_unlock(e, g->handle, g->token));
}

static inline void ends(struct enq *e)
{
    ck_assert_uint_eq(count(e, true) + count(e, false), 0);
    unit_healthy(e);
    enq_close(e);
}

/* Other events are of held locks that have waiters. */
static inline struct enq_event next_result(struct enq *e)
{
    struct pollfd ready = {enq_fd(e), POLLIN, 0};
    struct enq_event event;

    do {
        ck_assert_int_eq(poll(&ready, 1, (int)unit_patience_ms()), 1);
        want(ENQ_OK, enq_next(e, &event));
    } while (event.kind != ENQ_EVENT_RESULT);
    return event;
}

#endif
