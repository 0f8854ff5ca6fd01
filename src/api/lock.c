/*
 * lock.c - floor 5: enq_lock and its forms.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/attachment.h"
#include "api/audit.h"
#include "api/options.h"
#include "base/hash.h"
#include "rules/spec.h"
#include "table/heal.h"
#include "table/request.h"
#include "table/wait.h"

#define TTL_DEFAULT_MS (15 * 60 * 1000)
#define RETRY_DEFAULT_MS 5
#define RETRY_CAP_MS 10000

/* --- what is asked for --- */

static int judge_times(const struct enq_req *req)
{
    if (req->wait_ms < ENQ_FOREVER || req->ttl_ms < ENQ_FOREVER ||
        req->retry_ms < 0)
        return why(-EINVAL,
            "a time is negative (wait %lld, ttl %lld, retry %lld ms)",
            (long long)req->wait_ms, (long long)req->ttl_ms,
            (long long)req->retry_ms);
    if (req->retries > 0 && req->wait_ms != 0)
        return why(-EINVAL, "wait for the lock, or retry: not both");
    if (req->heartbeat_ms != 0 || req->delay_ms != 0)
        return why(-EOPNOTSUPP,
            "this version has no heartbeat and no lock delay: leave them 0");
    return 0;
}

static int judge_choices(const struct enq_req *req)
{
    if (unlikely(!mode_known(req->mode)))
        return why(-EINVAL, "unknown mode %d: S, E, X or O", (int)req->mode);
    if (unlikely((unsigned)req->on_death > ENQ_DEATH_KEEP))
        return why(-EINVAL, "unknown on_death %d", (int)req->on_death);
    if (unlikely(req->flags & ~(uint32_t)(ENQ_TEST | ENQ_NO_DEADLOCK)))
        return why(-EINVAL, "unknown flags %#x in the request", req->flags);
    if (likely((req->wait_ms | req->ttl_ms | req->heartbeat_ms | req->delay_ms |
                   req->retry_ms | req->retries) == 0))
        return 0;
    return judge_times(req);
}

static int take_owner(const struct enq *e, const struct enq_req *req,
    struct ask *ask)
{
    size_t n;

    ask->owner = req->owner != NULL ? req->owner : e->owner;
    n = strnlen(ask->owner, ENQ_OWNER_BYTES) + 1;
    if (unlikely(n > ENQ_OWNER_BYTES))
        return why(-ENAMETOOLONG, "the owner \"%.32s...\" is longer than %d",
            ask->owner, ENQ_OWNER_BYTES - 1);
    ask->owner_bytes = (uint16_t)n;
    ask->owner_hash = (uint32_t)hash_bytes(ask->owner, n, e->map->hash_seed);
    return 0;
}

static int take_id(const struct enq_req *req, struct ask *ask)
{
    size_t n;

    ask->id = req->id;
    ask->id_bytes = 0;
    if (likely(req->id == NULL))
        return 0;
    n = strnlen(req->id, ENQ_ID_BYTES) + 1;
    if (n > ENQ_ID_BYTES)
        return why(-ENAMETOOLONG, "the id \"%.32s...\" is longer than %d",
            req->id, ENQ_ID_BYTES - 1);
    if (n == 1)
        return why(-EINVAL, "the id is empty: leave it NULL for a new uuid");
    ask->id_bytes = (uint16_t)n;
    return 0;
}

/* `bytes` is where the key is packed. */
static int take_request(const struct enq *e, const struct enq_req *req,
    struct ask *ask, char bytes[KEY_BYTES_MAX])
{
    int rc = judge_choices(req);

    if (likely(rc == 0))
        rc = key_pack(&ask->key, bytes, req, e->map->hash_seed);
    if (likely(rc == 0))
        rc = take_owner(e, req, ask);
    if (likely(rc == 0))
        rc = take_id(req, ask);
    ask->mode = req->mode;
    ask->on_death = (uint8_t)req->on_death;
    ask->ttl_ms = req->ttl_ms == 0 ? TTL_DEFAULT_MS : req->ttl_ms;
    ask->ticket = UINT64_MAX;
    return rc;
}

/* --- attempts --- */

/* What a refusal says, if anybody asks. */
struct refusal {
    char what[128], owner[64];
    uint8_t mode, waiting;
    int64_t age_ms;
};

static void refusal_words(const void *facts, char *text, size_t n)
{
    const struct refusal *r = facts;

    snprintf(text, n, "\"%s\" is %s \"%s\" (%c, since %lld ms)", r->what,
        r->waiting ? "waited for by" : "locked by", r->owner,
        mode_letter(r->mode), (long long)r->age_ms);
}

/* name/field/field, cut where there is no more room. */
static void put_key(const struct key *key, char *out, size_t n)
{
    size_t bytes = key_bytes(key) - 1;

    if (bytes > n - 1)
        bytes = n - 1;
    for (size_t i = 0; i < bytes; i++)
        out[i] = key->bytes[i] == '\0' ? '/' : key->bytes[i];
    out[bytes] = '\0';
}

static int refuse(int rc, const struct ask *ask, const struct enq_blocker *b)
{
    struct refusal r = {
        .mode = b->mode, .waiting = b->waiting, .age_ms = b->age_ms};
    size_t n = strnlen(b->owner, sizeof(r.owner) - 1);

    put_key(&ask->key, r.what, sizeof(r.what));
    memcpy(r.owner, b->owner, n);
    return why_later(rc, refusal_words, &r, sizeof(r));
}

static int explain(int rc, const struct ask *ask, const struct enq_blocker *b)
{
    switch (rc) {
    case ENQ_BUSY:
    case ENQ_TIMEDOUT:
        return refuse(rc, ask, b);
    case ENQ_EXISTS:
        return why(rc, "a lock with id \"%.127s\" exists already", ask->id);
    case ENQ_CANCELLED:
        return why(rc, "the request for \"%.64s\" was cancelled",
            ask->key.bytes);
    case ENQ_ECORRUPT:
        return why(rc, "the segment is damaged: run lockctl doctor");
    default:
        return rc;
    }
}

static void count_answer(struct thread *t, int rc)
{
    if (rc == ENQ_BUSY || rc == ENQ_EXISTS)
        thread_count(t, COUNT_REFUSALS);
    else if (rc == ENQ_TIMEDOUT)
        thread_count(t, COUNT_TIMEOUTS);
}

static int wait_in_queue(struct enq *e, struct thread *t,
    const struct enq_req *req, const struct ask *ask, struct place *place,
    struct enq_blocker *blocker)
{
    mono_t deadline = MONO_NEVER;
    int rc;

    if (req->wait_ms > 0)
        deadline = mono_add_ms(sys.now(), req->wait_ms);
    thread_count(t, COUNT_WAITS);
    rc = wait_for_grant(&e->session, t, ask, place, deadline, blocker);
    if (rc == ENQ_OK)
        thread_count(t, COUNT_WAIT_GRANTS);
    return rc;
}

static void note_overflow(struct enq *e, const struct ask *ask)
{
    char *owner = e->map->h->overflow_owner;

    /* for people; two at once may mix, which a reader survives */
    memcpy(owner, ask->owner, ask->owner_bytes);
    owner[ENQ_OWNER_BYTES - 1] = '\0';
}

/* Before the table is said to be full, what the dead have left is taken. */
static int ask_table(struct enq *e, struct thread *t, const struct ask *ask,
    bool queue, struct place *place, struct enq_blocker *blocker)
{
    int rc = request_lock(&e->session, t, ask, queue, place, blocker);

    if (likely(rc != ENQ_EFULL))
        return rc;
    bury_dead(&e->session, t);
    rc = request_lock(&e->session, t, ask, queue, place, blocker);
    if (rc == ENQ_EFULL) {
        thread_count(t, COUNT_OVERFLOWS);
        note_overflow(e, ask);
    }
    return rc;
}

static int attempt(struct enq *e, struct thread *t, const struct enq_req *req,
    const struct ask *ask, struct enq_grant *grant)
{
    struct place place;
    int rc;

    grant->blocker.owner[0] = '\0';
    if (unlikely(req->flags & ENQ_TEST))
        return request_test(&e->session, t, ask, &grant->blocker);
    rc = ask_table(e, t, ask, req->wait_ms != 0, &place, &grant->blocker);
    if (likely(rc == ENQ_OK))
        thread_count(t, COUNT_GRANTS);
    else if (rc == ENQ_PENDING)
        rc = wait_in_queue(e, t, req, ask, &place, &grant->blocker);
    if (rc != ENQ_BUSY && rc != ENQ_TIMEDOUT && rc != ENQ_EXISTS)
        grant->blocker.owner[0] = '\0';
    if (likely(rc == ENQ_OK)) {
        grant->handle = place_handle(e->map, &place);
        grant->token = place.token;
        return ENQ_OK;
    }
    count_answer(t, rc);
    return rc;
}

/* --- retries --- */

/* Full jitter: anything from nothing to the step. Jitter after the cap. */
static void pause_between(int64_t step_ms, uint64_t *dice)
{
    struct timespec ts;
    int64_t ns;

    *dice = hash_fold(*dice + 1, UINT64_C(0x9e3779b97f4a7c15)) ^
        (uint64_t)sys.now().ns;
    ns = (int64_t)(*dice % (uint64_t)(step_ms * NS_PER_MS));
    ts = (struct timespec){ns / NS_PER_S, ns % NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
        continue;
}

static int retry(struct enq *e, struct thread *t, const struct enq_req *req,
    const struct ask *ask, struct enq_grant *grant)
{
    int64_t step_ms = req->retry_ms == 0 ? RETRY_DEFAULT_MS : req->retry_ms;
    uint64_t dice = (uintptr_t)t ^ ask->key.hash;
    int rc = ENQ_BUSY;

    for (uint32_t left = req->retries; rc == ENQ_BUSY && left > 0; left--) {
        if (step_ms > RETRY_CAP_MS)
            step_ms = RETRY_CAP_MS;
        pause_between(step_ms, &dice);
        step_ms *= 2;
        rc = attempt(e, t, req, ask, grant);
    }
    return rc;
}

/* --- the calls --- */

static int lock_known(struct enq *e, struct thread *t,
    const struct enq_req *req, struct enq_grant *grant)
{
    char bytes[KEY_BYTES_MAX];
    struct ask ask;
    int rc = take_request(e, req, &ask, bytes);

    if (unlikely(rc != 0))
        return rc;
    if (unlikely(shm_load(&e->map->h->unlinked)))
        return why(ENQ_EGONE,
            "%s was removed while we used it: no new locks; open it again",
            e->path);
    rc = attempt(e, t, req, &ask, grant);
    if (unlikely(rc == ENQ_BUSY && req->retries > 0))
        rc = retry(e, t, req, &ask, grant);
    audit(e, t, rc);
    return likely(rc == ENQ_OK) ? rc : explain(rc, &ask, &grant->blocker);
}

ENQ_API int enq_lock(struct enq *e, const struct enq_req *req,
    struct enq_grant *grant)
{
    struct enq_grant unwanted;
    struct enq_req copy;
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (unlikely(rc != 0))
        return rc;
    if (unlikely(req == NULL))
        return why(-EINVAL, "no request (NULL)");
    if (unlikely(req->size != sizeof(*req))) {
        rc = options_copy(&copy, sizeof(copy), req, req->size, "request");
        if (rc != 0)
            return rc;
        req = &copy;
    }
    if (unlikely(grant == NULL)) {
        if (!(req->flags & ENQ_TEST))
            return why(-EINVAL, "nowhere to put the grant (NULL)");
        grant = &unwanted;
    }
    return lock_known(e, t, req, grant);
}

ENQ_API int enq_spec_parse(const char *spec, struct enq_req *req, char *buf,
    size_t n)
{
    if (req == NULL)
        return why(-EINVAL, "no request (NULL)");
    return spec_parse(spec, req, buf, n);
}

ENQ_API int enq_lock_spec(struct enq *e, const char *spec, const char *mode,
    const char *owner, int64_t wait_ms, int64_t ttl_ms, struct enq_grant *grant)
{
    char buf[KEY_BYTES_MAX + ENQ_KEY_FIELDS_MAX];
    struct enq_req req = {.size = sizeof(req),
        .owner = owner,
        .wait_ms = wait_ms,
        .ttl_ms = ttl_ms};
    int rc = spec_parse(spec, &req, buf, sizeof(buf));

    if (rc != 0)
        return rc;
    req.mode = mode == NULL ? 0 : mode_from_letter(mode);
    if (req.mode == 0)
        return why(-EINVAL, "unknown mode \"%.16s\": S, E, X or O",
            mode == NULL ? "" : mode);
    return enq_lock(e, &req, grant);
}
