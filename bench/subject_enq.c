/*
 * subject_enq.c - libenq at work, with full semantics: an owner, the default
 * ttl, a token, an id. The request is built once; a measured loop holds the
 * two calls and the test of their results, nothing else.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

struct mine {
    struct enq *e;
    struct enq_req req;
    struct enq_grant grant;
    enq_handle held;
    char owner[24], field[24];
};

static int enq_failed(struct seat *s, const char *call, int rc)
{
    return seat_fail(s, "%s: %s (%s)", call, enq_result_name(rc), enq_why());
}

static int arena_open(const struct trial *t, void **arena)
{
    (void)t;
    *arena = (void *)crew_space();
    return 0;
}

static void arena_close(const struct trial *t, void *arena)
{
    (void)t;
    enq_unlink(arena);
}

static int attach(struct seat *s)
{
    const struct scenario *sc = s->trial->scenario;
    struct mine *m = calloc(1, sizeof(*m));

    if (m == NULL)
        return seat_fail(s, "out of memory");
    s->mine = m;
    int rc = enq_open(&m->e, s->arena, NULL);
    if (rc != ENQ_OK)
        return enq_failed(s, "enq_open", rc);
    bool own_key = strcmp(sc->keys, "one") != 0;
    snprintf(m->field, sizeof(m->field), "%u", own_key ? s->index : 0);
    snprintf(m->owner, sizeof(m->owner), "worker %u", s->index);
    m->req = (struct enq_req){
        .size = sizeof(m->req),
        .name = "product",
        .key = {"Computer", m->field},
        .mode = sc->mode[0] == 'S' ? ENQ_MODE_S : ENQ_MODE_E,
        .owner = m->owner,
    };
    return 0;
}

static void detach(struct seat *s)
{
    struct mine *m = s->mine;

    if (m != NULL)
        enq_close(m->e);
    free(m);
    s->mine = NULL;
}

/* A pair: also shared, cumulated, and on distinct keys --------------------- */

static int take(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = enq_lock(m->e, &m->req, &m->grant);

    return rc == ENQ_OK ? 0 : enq_failed(s, "enq_lock", rc);
}

static int give(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = enq_unlock(m->e, m->grant.handle, m->grant.token);

    return rc == ENQ_OK ? 0 : enq_failed(s, "enq_unlock", rc);
}

static int pair_batch(struct seat *s, uint32_t n)
{
    struct mine *m = s->mine;

    for (uint32_t i = 0; i < n; i++) {
        int rc = enq_lock(m->e, &m->req, &m->grant);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_lock", rc);
        rc = enq_unlock(m->e, m->grant.handle, m->grant.token);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_unlock", rc);
    }
    return 0;
}

static int prepare_waiting(struct seat *s)
{
    struct mine *m = s->mine;

    m->req.wait_ms = ENQ_FOREVER;
    return 0;
}

static int prepare_held(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = take(s);

    m->held = m->grant.handle;
    return rc;
}

/* A fight ------------------------------------------------------------------ */

static int take_guarded(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = take(s);

    if (rc == 0)
        guard_visit(s, m->grant.token);
    return rc;
}

static int fight_batch(struct seat *s, uint32_t n)
{
    struct mine *m = s->mine;

    for (uint32_t i = 0; i < n; i++) {
        int rc = enq_lock(m->e, &m->req, &m->grant);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_lock", rc);
        guard_visit(s, m->grant.token);
        rc = enq_unlock(m->e, m->grant.handle, m->grant.token);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_unlock", rc);
    }
    return 0;
}

/* Refused ------------------------------------------------------------------ */

static int refuse_batch(struct seat *s, uint32_t n)
{
    struct mine *m = s->mine;

    for (uint32_t i = 0; i < n; i++) {
        int rc = enq_lock(m->e, &m->req, &m->grant);
        if (rc != ENQ_BUSY)
            return enq_failed(s, "enq_lock (to be refused)", rc);
    }
    return 0;
}

static int refuse_once(struct seat *s)
{
    return refuse_batch(s, 1);
}

static int prepare_refused(struct seat *s)
{
    struct mine *m = s->mine;

    m->req.owner = "holder";
    if (prepare_held(s) != 0)
        return -1;
    m->req.owner = m->owner;
    if (refuse_once(s) != 0)
        return -1;
    if (strcmp(m->grant.blocker.owner, "holder") != 0)
        return seat_fail(s, "the refusal names \"%s\", not the holder",
            m->grant.blocker.owner);
    return 0;
}

/* Still valid? ------------------------------------------------------------- */

static int valid_batch(struct seat *s, uint32_t n)
{
    struct mine *m = s->mine;

    for (uint32_t i = 0; i < n; i++) {
        int rc = enq_valid(m->e, m->held);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_valid", rc);
    }
    return 0;
}

static int valid_once(struct seat *s)
{
    return valid_batch(s, 1);
}

/* Many held ---------------------------------------------------------------- */

/* Eight digits in place: cheaper than a format, and without a cache miss of
   our own, which a table of ready-made keys would have. */
static void field_set(char *field, uint32_t key)
{
    for (int i = 7; i >= 0; i--, key >>= 4)
        field[i] = (char)('a' + (key & 15));
    field[8] = 0;
}

static int hold_many(struct seat *s)
{
    struct mine *m = s->mine;

    for (uint64_t i = 0; i < s->trial->held; i++) {
        field_set(m->field, (uint32_t)i);
        if (take(s) != 0)
            return -1;
    }
    return 0;
}

/* The free keys are as many as the held ones, and follow them. */
static void field_random(struct seat *s)
{
    struct mine *m = s->mine;
    uint64_t n = s->trial->held > 0 ? s->trial->held : 1;

    field_set(m->field, (uint32_t)(n + seat_random(s) % n));
}

static int take_random(struct seat *s)
{
    field_random(s);
    return take(s);
}

static int random_batch(struct seat *s, uint32_t n)
{
    struct mine *m = s->mine;

    for (uint32_t i = 0; i < n; i++) {
        field_random(s);
        int rc = enq_lock(m->e, &m->req, &m->grant);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_lock", rc);
        rc = enq_unlock(m->e, m->grant.handle, m->grant.token);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_unlock", rc);
    }
    return 0;
}

static int weigh(struct seat *s)
{
    struct mine *m = s->mine;
    struct enq_stats before = {.size = sizeof(before)}, after = before;

    int rc = enq_stat(m->e, &before);
    if (rc == ENQ_OK && hold_many(s) != 0)
        return -1;
    if (rc == ENQ_OK)
        rc = enq_stat(m->e, &after);
    if (rc != ENQ_OK)
        return enq_failed(s, "enq_stat", rc);
    uint64_t n = s->trial->held > 0 ? s->trial->held : 1;
    s->slot->bytes = (double)(after.bytes_used - before.bytes_used) / (double)n;
    return 0;
}

const struct subject subject_enq = {
    .name = "enq",
    .what = "libenq",
    .open = arena_open,
    .close = arena_close,
    .attach = attach,
    .detach = detach,
    .acts =
        {
            [WORK_PAIR] = {.batch = pair_batch,
                .acquire = take,
                .release = give},
            [WORK_FIGHT] = {.prepare = prepare_waiting,
                .batch = fight_batch,
                .acquire = take_guarded,
                .release = give},
            [WORK_CUMULATE] = {.prepare = prepare_held,
                .batch = pair_batch,
                .acquire = take,
                .release = give},
            [WORK_SHARE] = {.prepare = prepare_waiting,
                .batch = pair_batch,
                .acquire = take,
                .release = give},
            [WORK_REFUSE] = {.prepare = prepare_refused,
                .batch = refuse_batch,
                .acquire = refuse_once},
            [WORK_VALID] = {.prepare = prepare_held,
                .batch = valid_batch,
                .acquire = valid_once},
            [WORK_RANDOM] = {.prepare = hold_many,
                .batch = random_batch,
                .acquire = take_random,
                .release = give},
            [WORK_WEIGH] = {.weigh = weigh},
        },
};
