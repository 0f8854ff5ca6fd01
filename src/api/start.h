/*
 * start.h - api: enq_start(), enq_start_set() and enq_cancel() in a table of
 * this host.
 */
#ifndef API_START_H
#define API_START_H

#include "api/lock.h"
#include "async/started.h"
#include "sync/sys.h"

HOT mono_t start_deadline(const struct enq_req *req)
{
    return req->wait_ms > 0 ? mono_add_ms(sys.now(), req->wait_ms) : MONO_NEVER;
}

HOT int start_answer(struct enq *e, struct started *r, int rc, mono_t deadline,
    uint64_t *ticket)
{
    if (rc != ENQ_PENDING) {
        started_give(&e->async, r);
        return rc;
    }
    *ticket = r->result.ticket; /* its event may be taken from now on */
    started_hand_over(e, r, deadline);
    return rc;
}

HOT int start_request(struct enq *e, struct thread *t,
    const struct enq_req *req, struct enq_grant *grant, uint64_t *ticket)
{
    mono_t deadline = start_deadline(req);
    struct started *r;
    int rc = started_take(&e->async, &r);

    if (rc == 0)
        rc = start_answer(e, r, lock_start(e, t, req, grant, r), deadline,
            ticket);
    return rc;
}

int local_start_set(struct enq *e, struct thread *t,
    const struct enq_req *const *reqs, size_t n, struct enq_grant *grants,
    uint64_t *ticket);
int local_cancel(struct enq *e, struct thread *t, uint64_t ticket);

#endif
