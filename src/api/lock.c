/*
 * lock.c - api: enq_lock and its forms.
 */
#include "api/lock.h"

#include <string.h>

#include "api/attempt.h"
#include "api/audit.h"
#include "api/away.h"
#include "api/options.h"
#include "lock/hold.h"
#include "rules/spec.h"
#include "wait/cycle.h"
#include "wait/wait.h"

/* --- attempts --- */

static int wait_in_queue(struct call *c, struct place *place)
{
    int64_t wait_ms = c->req->wait_ms;
    mono_t deadline = MONO_NEVER;
    int rc = attempt_pack_aside(c);

    if (rc != 0)
        return rc;
    if (wait_ms > 0)
        deadline = mono_add_ms(sys.now(), wait_ms);
    thread_count(c->t, COUNT_WAITS);
    rc = wait_for_grant(&c->e->session, c->t, c->ask, place, deadline,
        &c->grant->blocker);
    if (rc == ENQ_OK)
        thread_count(c->t, COUNT_WAIT_GRANTS);
    return rc;
}

static int test(struct call *c)
{
    int rc = attempt_pack_aside(c);

    return rc != 0
        ? rc
        : request_test(&c->e->session, c->t, c->ask, &c->grant->blocker);
}

HOT int ask_table(struct call *c, struct place *place)
{
    int rc = attempt_take(c, place);

    if (unlikely(rc != 0))
        return rc;
    return request_lock(&c->e->session, c->t, c->ask, c->req->wait_ms != 0,
        place, &c->grant->blocker);
}

HOT int attempt(struct call *c)
{
    struct place place;
    int rc;

    c->grant->blocker.owner[0] = '\0';
    if (unlikely(c->req->flags & ENQ_TEST))
        return test(c);
    rc = ask_table(c, &place);
    if (likely(rc == ENQ_OK))
        thread_count(c->t, COUNT_GRANTS);
    else if (rc == ENQ_PENDING)
        rc = wait_in_queue(c, &place);
    if (unlikely(rc != ENQ_OK))
        return attempt_failed(c, rc);
    attempt_begin_lease(c, &place);
    return ENQ_OK;
}

static __attribute__((noinline)) int attempt_again(struct call *c)
{
    return attempt(c);
}

/* --- retries --- */

static __attribute__((noinline)) int retry(struct call *c)
{
    int64_t step_ms = attempt_first_step_ms(c->req);
    uint64_t dice = c->t->ref ^ c->ask->key.hash;
    int rc = ENQ_BUSY;

    c->retries = 0;
    for (uint32_t left = c->req->retries; rc == ENQ_BUSY && left > 0; left--) {
        attempt_pause(&step_ms, &dice);
        c->retries++;
        rc = attempt_again(c);
    }
    return rc;
}

/* --- the calls --- */

HOT int lock_known(struct call *c)
{
    int rc = attempt_prepare(c, NULL);

    if (unlikely(rc != 0))
        return rc;
    rc = attempt(c);
    if (unlikely(rc == ENQ_BUSY && c->req->retries > 0))
        rc = retry(c);
    if (unlikely(c->beat != NULL && rc != ENQ_OK))
        beat_free(&c->e->desk, c->beat);
    audit(c->e, c->t, rc);
    return likely(rc == ENQ_OK)
        ? rc
        : attempt_explain(rc, c->ask, &c->grant->blocker);
}

int lock_copy_request(const struct enq_req **req, struct enq_req *copy)
{
    int rc;

    if (unlikely(*req == NULL))
        return why(-EINVAL, "no request (NULL)");
    if (likely((*req)->size == sizeof(**req)))
        return 0;
    rc = options_copy(copy, sizeof(*copy), *req, (*req)->size, "request");
    *req = copy;
    return rc;
}

/* A started request that closes a circle leaves the queue again, if it was not
   granted in this very moment. */
static int judge_circle(struct call *c, struct started *r)
{
    enq_handle handle = place_handle(c->e->map, &r->place);
    struct session *s = &c->e->session;
    mono_t never = MONO_NEVER;

    r->suspicion.wanted = c->ask->cycles;
    return cycle_suspect(&r->suspicion, s, c->t, handle, &never) ==
                ENQ_DEADLOCK &&
            hold_withdraw(s, c->t, handle) == ENQ_OK
        ? ENQ_DEADLOCK
        : ENQ_PENDING;
}

/* In the queue: whoever waits there is told who it is that it waits for. */
static int answer_start(struct call *c, int rc, struct started *r)
{
    if (rc == ENQ_PENDING) {
        thread_count(c->t, COUNT_WAITS);
        r->beat = c->beat;
        return rc;
    }
    if (rc == ENQ_OK) {
        thread_count(c->t, COUNT_GRANTS);
        attempt_begin_lease(c, &r->place);
        return rc;
    }
    beat_free(&c->e->desk, c->beat);
    rc = attempt_failed(c, rc);
    return attempt_explain(rc, c->ask, &c->grant->blocker);
}

int lock_start(struct enq *e, struct thread *t, const struct enq_req *req,
    struct enq_grant *grant, struct started *r)
{
    struct call c = {.e = e, .t = t, .req = req, .grant = grant};
    int rc;

    c.ask = &c.own;
    rc = attempt_prepare(&c, NULL);

    if (rc != 0)
        return rc;
    grant->handle = grant->token = 0;
    grant->blocker.owner[0] = '\0';
    c.own.started = ASLEEP_STARTED + r->number;
    shm_add(&e->session.slot->started, 1);
    rc = ask_table(&c, &r->place);
    if (rc == ENQ_PENDING)
        rc = judge_circle(&c, r);
    if (rc != ENQ_PENDING)
        shm_add(&e->session.slot->started, -1);
    rc = answer_start(&c, rc, r);
    audit(e, t, rc);
    return rc;
}

HOT int lock_entered(struct call *c, struct enq *e, const struct enq_req *req,
    struct enq_grant *grant)
{
    struct enq_grant unwanted;
    struct enq_req copy;
    int rc = attachment_enter(e, &c->t);

    if (unlikely(rc != 0))
        return rc == ATTACHMENT_AWAY ? away_lock(e, req, grant, &c->retries)
                                     : rc;
    if (unlikely(req == NULL || req->size != sizeof(*req))) {
        rc = lock_copy_request(&req, &copy);
        if (rc != 0)
            return rc;
    }
    if (unlikely(grant == NULL)) {
        if (!(req->flags & ENQ_TEST))
            return why(-EINVAL, "nowhere to put the grant (NULL)");
        grant = &unwanted;
    }
    c->e = e;
    c->ask = &c->own;
    c->req = req;
    c->grant = grant;
    return lock_known(c);
}

ENQ_API int enq_lock(struct enq *e, const struct enq_req *req,
    struct enq_grant *grant)
{
    struct call c;

    return lock_entered(&c, e, req, grant);
}

int lock_counting(struct enq *e, const struct enq_req *req,
    struct enq_grant *grant, uint32_t *retries)
{
    struct call c;
    int rc;

    c.retries = 0;
    rc = lock_entered(&c, e, req, grant);
    *retries = c.retries;
    return rc;
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
        return why(-EINVAL, "unknown mode \"%.64s%s\": S, E, X or O",
            WHY_CUT(mode == NULL ? "" : mode));
    return enq_lock(e, &req, grant);
}
