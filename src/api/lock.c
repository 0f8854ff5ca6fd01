/*
 * lock.c - api: a request for one lock of this host's table (see lock.h).
 */
#include "api/lock.h"

#include <string.h>

#include "api/acquisition.h"
#include "async/started.h"
#include "lock/hold.h"
#include "wait/suspicion.h"
#include "wait/wait.h"

int lock_wait_in_queue(struct acquisition *c, struct place *place)
{
    int64_t wait_ms = c->req->wait_ms;
    mono_t deadline = MONO_NEVER;
    int rc = acquisition_pack_aside(c);

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

int lock_test(struct acquisition *c)
{
    int rc = acquisition_pack_aside(c);

    return rc != 0
        ? rc
        : request_test(&c->e->session, c->t, c->ask, &c->grant->blocker);
}

static __attribute__((noinline)) int lock_again(struct acquisition *c)
{
    return lock_with_wait(c);
}

/* --- retries --- */

int lock_retry(struct acquisition *c)
{
    int64_t step_ms = acquisition_first_step_ms(c->req);
    uint64_t dice = c->t->ref ^ c->ask->key.hash;
    int rc = ENQ_BUSY;

    c->retries = 0;
    for (uint32_t left = c->req->retries; rc == ENQ_BUSY && left > 0; left--) {
        acquisition_pause(&step_ms, &dice);
        c->retries++;
        rc = lock_again(c);
    }
    return rc;
}

/* A started request that closes a cycle leaves the queue again, if it was not
   granted in this very moment. */
static int check_cycle(struct acquisition *c, struct started *r)
{
    enq_handle handle = place_handle(c->e->map, &r->place);
    struct session *s = &c->e->session;
    mono_t never = MONO_NEVER;

    r->suspicion.wanted = c->ask->cycles;
    return suspicion_look(&r->suspicion, s, c->t, handle, 0, &never) ==
                ENQ_DEADLOCK &&
            hold_withdraw(s, c->t, handle) == ENQ_OK
        ? ENQ_DEADLOCK
        : ENQ_PENDING;
}

/* In the queue: the answer names what the request waits for. */
static int answer_start(struct acquisition *c, int rc, struct started *r)
{
    if (rc == ENQ_PENDING) {
        thread_count(c->t, COUNT_WAITS);
        r->heartbeat = c->heartbeat;
        return rc;
    }
    if (rc == ENQ_OK) {
        thread_count(c->t, COUNT_GRANTS);
        acquisition_begin_lease(c, &r->place);
        return rc;
    }
    heartbeat_free(&c->e->async, c->heartbeat);
    rc = acquisition_failed(c, rc);
    return acquisition_explain(rc, c->ask, &c->grant->blocker);
}

int lock_start(struct enq *e, struct thread *t, const struct enq_req *req,
    struct enq_grant *grant, struct started *r)
{
    struct acquisition c = {.e = e, .t = t, .req = req, .grant = grant};
    int rc;

    c.ask = &c.own;
    rc = acquisition_prepare(&c, NULL);

    if (rc != 0)
        return rc;
    grant->handle = grant->token = 0;
    grant->blocker.owner[0] = '\0';
    c.own.started = ASLEEP_STARTED + r->number;
    shm_add(&e->session.slot->started, 1);
    rc = request_with_entry(&c, &r->place);
    if (rc == ENQ_PENDING)
        rc = check_cycle(&c, r);
    if (rc != ENQ_PENDING)
        shm_add(&e->session.slot->started, -1);
    rc = answer_start(&c, rc, r);
    audit(e, t, rc);
    return rc;
}

int local_lock_counting(struct enq *e, struct thread *t,
    const struct enq_req *req, struct enq_grant *grant, uint32_t *retries)
{
    struct acquisition c = {.e = e, .t = t};
    int rc = lock_with_arguments(&c, req, grant);

    *retries = c.retries;
    return rc;
}
