/*
 * lock.h - api: a request for one lock of this host's table: the chain of
 * enq_lock(), and what enq_start() asks.
 */
#ifndef API_LOCK_H
#define API_LOCK_H

#include "api/acquisition.h"
#include "api/audit.h"

/*
 * enq_lock() is a chain, inlined but for request_lock(); what each link adds:
 *	enq_lock		the attachment is entered: table or bridge (calls.c)
 *	lock_with_arguments	pointers are checked
 *	lock_with_retries	the request is packed; asked for again; explained
 *	lock_with_wait		tests only; or waits; the ttl begins
 *	request_with_entry	an entry for it, from the magazine
 *	request_lock		asks past lock sets; gives the entry back
 *	request_latched		the latches; the entry is filled
 *	request_hold_or_queue	the decision, and the transition
 * The last three are lock/request.c's.
 */

/* What is rare in it. */
int lock_wait_in_queue(struct acquisition *c, struct place *place);
int lock_test(struct acquisition *c);
int lock_retry(struct acquisition *c);

HOT int request_with_entry(struct acquisition *c, struct place *place)
{
    int rc = acquisition_take(c, place);

    if (unlikely(rc != 0))
        return rc;
    return request_lock(&c->e->session, c->t, c->ask, c->req->wait_ms != 0,
        place, &c->grant->blocker);
}

HOT int lock_with_wait(struct acquisition *c)
{
    struct place place;
    int rc;

    c->grant->blocker.owner[0] = '\0';
    if (unlikely(c->req->flags & ENQ_TEST))
        return lock_test(c);
    rc = request_with_entry(c, &place);
    if (likely(rc == ENQ_OK))
        thread_count(c->t, COUNT_GRANTS);
    else if (rc == ENQ_PENDING)
        rc = lock_wait_in_queue(c, &place);
    if (unlikely(rc != ENQ_OK))
        return acquisition_failed(c, rc);
    acquisition_begin_lease(c, &place);
    return ENQ_OK;
}

HOT int lock_with_retries(struct acquisition *c)
{
    int rc = acquisition_prepare(c, NULL);

    if (unlikely(rc != 0))
        return acquisition_fault(rc, c->grant, 1);
    rc = lock_with_wait(c);
    if (unlikely(rc == ENQ_BUSY && c->req->retries > 0))
        rc = lock_retry(c);
    if (unlikely(c->heartbeat != NULL && rc != ENQ_OK))
        heartbeat_free(&c->e->async, c->heartbeat);
    audit(c->e, c->t, rc);
    return likely(rc == ENQ_OK)
        ? rc
        : acquisition_explain(rc, c->ask, &c->grant->blocker);
}

HOT int lock_with_arguments(struct acquisition *c, const struct enq_req *req,
    struct enq_grant *grant)
{
    struct enq_grant unwanted;
    struct enq_req copy;
    int rc;

    if (unlikely(req == NULL || req->size != sizeof(*req))) {
        rc = lock_copy_request(&req, &copy);
        if (rc != 0)
            return acquisition_fault(rc, grant, 1);
    }
    if (unlikely(grant == NULL)) {
        if (!(req->flags & ENQ_TEST))
            return why(-EINVAL, "the pointer for the grant is NULL");
        grant = &unwanted;
    }
    c->ask = &c->own;
    c->req = req;
    c->grant = grant;
    return lock_with_retries(c);
}

/* @retries: how often it had to ask anew. */
int local_lock_counting(struct enq *e, struct thread *t,
    const struct enq_req *req, struct enq_grant *grant, uint32_t *retries);

/*
 * Asks; not granted, the request queues: ENQ_PENDING. Its session is called by
 * the record's number (store/notify.h).
 *
 * @r  its record: place, heartbeat (on ENQ_PENDING) and suspicion are set
 */
int lock_start(struct enq *e, struct thread *t, const struct enq_req *req,
    struct enq_grant *grant, struct started *r);

#endif
