/*
 * start.c - api: lock sets that are started, and requests that are cancelled
 * (see start.h).
 */
#include "api/start.h"

#include "api/set.h"
#include "lock/hold.h"

int local_start_set(struct enq *e, struct thread *t,
    const struct enq_req *const *reqs, size_t n, struct enq_grant *grants,
    uint64_t *ticket)
{
    mono_t deadline = start_deadline(reqs[0]);
    struct started *r;
    int rc = started_take(&e->async, &r);

    if (rc == 0)
        rc = start_answer(e, r, lock_set_start(e, t, reqs, n, grants, r),
            deadline, ticket);
    return rc;
}

int local_cancel(struct enq *e, struct thread *t, uint64_t ticket)
{
    enq_handle handle = 0;
    struct started *r;
    int rc;

    pthread_mutex_lock(&e->async.mutex);
    r = started_find(&e->async, ticket);
    if (r != NULL)
        handle = place_handle(e->map, &r->place);
    pthread_mutex_unlock(&e->async.mutex);
    rc = r == NULL ? ENQ_NOTHELD : hold_cancel(&e->session, t, handle);
    if (rc == ENQ_NOTHELD)
        return why(rc,
            "no request with this ticket is pending: its result comes as an "
            "event");
    return rc;
}
