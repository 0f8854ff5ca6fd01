/*
 * subject.c - libenq at work, with full semantics: an owner, the default
 * ttl, a token, an id. The request is built once; a measured loop holds the
 * two calls and the test of their results, nothing else.
 */
#include "enq/seat.h"

#include <stdlib.h>
#include <string.h>

int enq_failed(struct seat *s, const char *call, int rc)
{
    return seat_fail(s, "%s: %s (%s)", call, enq_result_name(rc), enq_why());
}

static bool has_bridge(const struct trial *t)
{
    enum work w = t->scenario->work;

    return w == WORK_REMOTE || w == WORK_NPM || w == WORK_CLIENT;
}

int enq_arena_open(const struct trial *t, void **arena)
{
    static struct space space;

    snprintf(space.address, sizeof(space.address), "%s", crew_space());
    *arena = &space;
    return has_bridge(t) ? enq_bridge_start(&space) : 0;
}

void enq_arena_close(const struct trial *t, void *arena)
{
    struct space *space = arena;

    (void)t;
    server_end(&space->bridge);
    enq_unlink(space->address);
}

int enq_attach(struct seat *s)
{
    const struct scenario *sc = s->trial->scenario;
    const struct space *space = s->arena;
    bool fills = sc->work == WORK_FULL;
    struct enq_open_opts opts = {.size = sizeof(opts),
        .strict = space->strict,
        .slots = fills ? (uint32_t)s->trial->held : 0};
    struct mine *m = calloc(1, sizeof(*m));

    if (m == NULL)
        return seat_fail(s, "out of memory");
    s->mine = m;
    int rc = enq_open(&m->e, space->address, &opts);
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

void enq_detach(struct seat *s)
{
    struct mine *m = s->mine;

    if (m != NULL) {
        load_free(m->load);
        enq_client_end(m);
        enq_close(m->e);
    }
    free(m);
    s->mine = NULL;
}

/* A pair: also shared, cumulated, and on distinct keys --------------------- */

int enq_take(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = enq_lock(m->e, &m->req, &m->grant);

    return rc == ENQ_OK ? 0 : enq_failed(s, "enq_lock", rc);
}

int enq_give(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = enq_unlock(m->e, m->grant.handle, m->grant.token);

    return rc == ENQ_OK ? 0 : enq_failed(s, "enq_unlock", rc);
}

int enq_pair_batch(struct seat *s, uint32_t n)
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

int enq_prepare_waiting(struct seat *s)
{
    struct mine *m = s->mine;

    m->req.wait_ms = ENQ_FOREVER;
    return 0;
}

static int prepare_held(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = enq_take(s);

    m->held = m->grant.handle;
    return rc;
}

/* A fight ------------------------------------------------------------------ */

int enq_take_guarded(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = enq_take(s);

    if (rc == 0)
        guard_visit(s, m->grant.token);
    return rc;
}

int enq_fight_batch(struct seat *s, uint32_t n)
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

int enq_refused_as(struct seat *s, uint32_t n, int why)
{
    struct mine *m = s->mine;

    for (uint32_t i = 0; i < n; i++) {
        int rc = enq_lock(m->e, &m->req, &m->grant);
        if (rc != why)
            return enq_failed(s, "enq_lock (to be refused)", rc);
    }
    return 0;
}

int enq_refuse_batch(struct seat *s, uint32_t n)
{
    return enq_refused_as(s, n, ENQ_BUSY);
}

static int refuse_once(struct seat *s)
{
    return enq_refuse_batch(s, 1);
}

/* What a grant costs, on a key that nobody holds. */
static int granted_batch(struct seat *s, uint32_t n)
{
    struct mine *m = s->mine;

    m->req.key[1] = "free";
    int rc = enq_pair_batch(s, n);
    m->req.key[1] = m->field;
    return rc;
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
void enq_field_set(char *field, uint32_t key)
{
    for (int i = 7; i >= 0; i--, key >>= 4)
        field[i] = (char)('a' + (key & 15));
    field[8] = 0;
}

int enq_hold_many(struct seat *s)
{
    struct mine *m = s->mine;

    for (uint64_t i = 0; i < s->trial->held; i++) {
        enq_field_set(m->field, (uint32_t)i);
        if (enq_take(s) != 0)
            return -1;
    }
    return 0;
}

/* The free keys are as many as the held ones, and follow them. */
void enq_field_random(struct seat *s, char *field)
{
    uint64_t n = s->trial->held > 0 ? s->trial->held : 1;

    enq_field_set(field, (uint32_t)(n + seat_random(s) % n));
}

static int take_random(struct seat *s)
{
    struct mine *m = s->mine;

    enq_field_random(s, m->field);
    return enq_take(s);
}

static int random_batch(struct seat *s, uint32_t n)
{
    struct mine *m = s->mine;

    for (uint32_t i = 0; i < n; i++) {
        enq_field_random(s, m->field);
        int rc = enq_lock(m->e, &m->req, &m->grant);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_lock", rc);
        rc = enq_unlock(m->e, m->grant.handle, m->grant.token);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_unlock", rc);
    }
    return 0;
}

/* An id of one's own: that of the key. */
static int prepare_ids(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = enq_hold_many(s);

    m->req.id = m->field;
    return rc;
}

static int without_ids(struct seat *s, uint32_t n)
{
    struct mine *m = s->mine;

    m->req.id = NULL;
    int rc = random_batch(s, n);
    m->req.id = m->field;
    return rc;
}

static int weigh(struct seat *s)
{
    struct mine *m = s->mine;
    struct enq_stats before = {.size = sizeof(before)}, after = before;

    int rc = enq_stat(m->e, &before);
    if (rc == ENQ_OK && enq_hold_many(s) != 0)
        return -1;
    if (rc == ENQ_OK)
        rc = enq_stat(m->e, &after);
    if (rc != ENQ_OK)
        return enq_failed(s, "enq_stat", rc);
    uint64_t n = s->trial->held > 0 ? s->trial->held : 1;
    s->slot->bytes = (double)(after.bytes_used - before.bytes_used) / (double)n;
    return 0;
}

enum { THREADS_MOST = 16000, SESSIONS_MOST = 1000 };

static const char *declines(const struct trial *t)
{
    const char *why = NULL;

    if (t->scenario->work == WORK_DEADLOCK && t->count < 2)
        return "a deadlock has two owners at least";
    if (t->scenario->work == WORK_QUEUE && t->count > THREADS_MOST)
        return "the table has room for 16,384 threads";
    if (t->scenario->work == WORK_SESSIONS && t->count > SESSIONS_MOST)
        return "a process has 1,000 attachments at most";
    if (has_bridge(t))
        why = enq_remote_declines(t);
    if (why == NULL && t->scenario->work == WORK_NPM)
        why = enq_npm_declines();
    if (why == NULL && t->scenario->work == WORK_CLIENT)
        why = enq_client_declines();
    return why;
}

const struct subject subject_enq =
    {
        .name = "enq",
        .what = "libenq",
        .declines = declines,
        SUBJECT_CALLS(enq_arena_open, enq_arena_close, enq_attach, enq_detach),
        .acts =
            {
                [WORK_PAIR] = {ACT_PAIRS(enq_pair_batch, enq_take, enq_give)},
                [WORK_FIGHT] = {.prepare = enq_prepare_waiting,
                    ACT_PAIRS(enq_fight_batch, enq_take_guarded, enq_give)},
                [WORK_CUMULATE] = {.prepare = prepare_held,
                    ACT_PAIRS(enq_pair_batch, enq_take, enq_give)},
                [WORK_SHARE] = {.prepare = enq_prepare_waiting,
                    ACT_PAIRS(enq_pair_batch, enq_take, enq_give)},
                [WORK_REFUSE] = {.prepare = prepare_refused,
                    ACT_PAIRS(enq_refuse_batch, refuse_once, NULL),
                    .base = granted_batch},
                [WORK_VALID] = {.prepare = prepare_held,
                    ACT_PAIRS(valid_batch, valid_once, NULL)},
                [WORK_RANDOM] = {.prepare = enq_hold_many,
                    ACT_PAIRS(random_batch, take_random, enq_give)},
                [WORK_WEIGH] = {.weigh = weigh},
                [WORK_DEATH] = {.prepare = enq_prepare_waiting,
                    .acquire = enq_take,
                    .release = enq_give,
                    .hold = enq_hold_victim},
                [WORK_ATTACH] = {.weigh = enq_weigh_empty},
                [WORK_LIST] = {.prepare = enq_prepare_list,
                    ACT_PAIRS(enq_list_batch, enq_list_once, NULL),
                    .base = enq_list_none,
                    .aside = enq_list_beside},
                [WORK_LIST_NAME] = {.prepare = enq_prepare_list,
                    ACT_PAIRS(enq_list_batch, enq_list_once, NULL),
                    .base = enq_list_none,
                    .aside = enq_list_beside},
                [WORK_BESIDE] = {.arrange = enq_arrange_generic,
                    ACT_PAIRS(enq_pair_batch, enq_take, enq_give),
                    .base = enq_pair_batch},
                [WORK_APART] = {.prepare = enq_prepare_apart,
                    .arrange = enq_arrange_generic,
                    ACT_PAIRS(enq_pair_batch, enq_take, enq_give),
                    .base = enq_pair_batch},
                [WORK_WIDE] = {.prepare = enq_prepare_wide,
                    ACT_PAIRS(enq_pair_batch, enq_take, enq_give)},
                [WORK_QUEUE] = {.arrange = enq_queue_fill,
                    .aside = enq_queue_run},
                [WORK_SESSIONS] = {.prepare = enq_prepare_sessions,
                    ACT_PAIRS(enq_pair_batch, enq_take, enq_give)},
                [WORK_START] = {.prepare = enq_prepare_waiting,
                    ACT_PAIRS(enq_start_batch, enq_start_once, enq_give),
                    .base = enq_pair_batch},
                [WORK_NEXT] = {.prepare = enq_prepare_events,
                    ACT_PAIRS(enq_start_guarded_batch, enq_start_guarded,
                        enq_give)},
                [WORK_PENDING] = {.weigh = enq_weigh_pending},
                [WORK_LOOK] =
                    {.prepare = enq_prepare_waiting,
                        ACT_PAIRS(enq_fight_batch, enq_take_guarded, enq_give),
                        .base = enq_fight_blind},
                [WORK_DEADLOCK] =
                    {.prepare = enq_prepare_deadlock,
                        ACT_PAIRS(enq_deadlock_batch, enq_deadlock_once, NULL),
                        .base = enq_deadlock_busy},
                [WORK_HOLDERS] =
                    {.prepare = enq_prepare_holders,
                        ACT_PAIRS(enq_pair_batch, enq_take, enq_give)},
                [WORK_CUMULATED] =
                    {.prepare = enq_prepare_cumulated,
                        ACT_PAIRS(enq_pair_batch, enq_take, enq_give)},
                [WORK_STARTED] =
                    {.prepare = enq_prepare_started,
                        .batch = enq_started_batch},
                [WORK_SEARCH] =
                    {.prepare = enq_prepare_search,
                        ACT_PAIRS(enq_deadlock_batch, enq_deadlock_once, NULL),
                        .base = enq_deadlock_busy},
                [WORK_WIDE_APART] =
                    {.prepare = enq_prepare_wide_apart,
                        ACT_PAIRS(enq_pair_batch, enq_take, enq_give)},
                [WORK_LIST_ONE] =
                    {.prepare = enq_prepare_list_one,
                        ACT_PAIRS(enq_list_one_batch, enq_list_one_once, NULL)},
                [WORK_IDS] =
                    {.prepare = prepare_ids,
                        ACT_PAIRS(random_batch, take_random, enq_give),
                        .base = without_ids},
                [WORK_FULL] =
                    {.prepare = enq_prepare_full,
                        ACT_PAIRS(enq_full_batch, enq_full_once, NULL)},
                [WORK_POOL] =
                    {ACT_PAIRS(enq_pool_batch, enq_take_own, enq_give),
                        .base = enq_pool_shared},
                [WORK_SET] =
                    {.prepare = enq_prepare_set,
                        ACT_PAIRS(enq_set_batch, enq_take_set, enq_give_set),
                        .base = enq_set_singly},
                [WORK_REMOTE] =
                    {.prepare = enq_prepare_remote, .batch = enq_remote_batch},
                [WORK_NPM] =
                    {.prepare = enq_prepare_npm,
                        ACT_PAIRS(enq_npm_batch, enq_npm_once, NULL)},
                [WORK_CLIENT] =
                    {.prepare = enq_prepare_client,
                        ACT_PAIRS(enq_far_batch, enq_far_take, enq_far_give),
                        .base = enq_far_base},
            },
};
