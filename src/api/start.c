/*
 * start.c - api: enq_start and enq_cancel.
 */
#include <stdlib.h>

#include "api/attachment.h"
#include "api/away.h"
#include "api/event.h"
#include "api/helper.h"
#include "api/lock.h"
#include "api/set.h"
#include "lock/hold.h"
#include "sync/sys.h"

/* Pending at once, in one attachment. */
#define STARTED_MAX (1u << 20)

/* --- records --- */

static uint64_t ticket_of(const struct started *r)
{
    return (uint64_t)r->generation << 32 | (r->number + 1);
}

void started_free(struct desk *d, struct started *r)
{
    r->phase = STARTED_FREE;
    cds_list_add(&r->node, &d->free);
}

static int make_room(struct desk *d)
{
    struct started **more;

    if (d->n_started >= STARTED_MAX)
        return why(-EAGAIN, "%u requests are pending, and no more can be",
            STARTED_MAX);
    if ((d->n_started & (d->n_started - 1)) != 0 || d->n_started == 1)
        return 0;
    more = realloc(d->started,
        (d->n_started == 0 ? 2 : d->n_started * 2) * sizeof(*more));
    if (more == NULL)
        return why(-ENOMEM, "out of memory for a started request");
    d->started = more;
    return 0;
}

/* Under the mutex: a record more, among the free ones. */
static int make_record(struct desk *d)
{
    struct started *r;
    int rc = make_room(d);

    if (rc != 0)
        return rc;
    r = calloc(1, sizeof(*r));
    if (r == NULL || heap_reserve(&d->requests) != 0) {
        free(r);
        return why(-ENOMEM, "out of memory for a started request");
    }
    r->number = d->n_started;
    d->started[d->n_started++] = r;
    started_free(d, r);
    return 0;
}

static int take_record(struct desk *d, struct started **out)
{
    struct started *r;
    int rc = 0;

    pthread_mutex_lock(&d->mutex);
    if (cds_list_empty(&d->free))
        rc = make_record(d);
    if (rc == 0) {
        r = cds_list_first_entry(&d->free, struct started, node);
        cds_list_del(&r->node);
        r->generation++;
        r->phase = STARTED_ASKING;
        r->result.kind = ENQ_EVENT_RESULT;
        r->result.ticket = ticket_of(r);
        r->suspicion = (struct suspicion){false};
        r->beat = NULL;
        r->set = NULL;
        *out = r;
    }
    pthread_mutex_unlock(&d->mutex);
    return rc;
}

static void give_record(struct desk *d, struct started *r)
{
    pthread_mutex_lock(&d->mutex);
    started_free(d, r);
    pthread_mutex_unlock(&d->mutex);
}

/* --- the calls --- */

static void hand_over(struct enq *e, struct started *r, const mono_t deadline)
{
    struct desk *d = &e->desk;

    pthread_mutex_lock(&d->mutex);
    r->deadline = deadline;
    r->plan = (struct wait_plan){.again = MONO_NEVER};
    r->phase = STARTED_PENDING;
    d->n_pending++;
    r->fresh = true;
    cds_list_add_tail(&r->node, &d->fresh);
    if (!r->suspicion.wanted)
        CDS_INIT_LIST_HEAD(&r->wary);
    else
        cds_list_add_tail(&r->wary, r->suspicion.old ? &d->suspects : &d->wary);
    pthread_mutex_unlock(&d->mutex);
    helper_ring();
}

static mono_t deadline_of(const struct enq_req *req)
{
    return req->wait_ms > 0 ? mono_add_ms(sys.now(), req->wait_ms) : MONO_NEVER;
}

static int answer(struct enq *e, struct started *r, int rc, mono_t deadline,
    uint64_t *ticket)
{
    if (rc != ENQ_PENDING) {
        give_record(&e->desk, r);
        return rc;
    }
    *ticket = r->result.ticket; /* its event may be taken from now on */
    hand_over(e, r, deadline);
    return rc;
}

static int start(struct enq *e, struct thread *t, const struct enq_req *req,
    struct enq_grant *grant, uint64_t *ticket)
{
    mono_t deadline = deadline_of(req);
    struct started *r;
    int rc = take_record(&e->desk, &r);

    if (rc == 0)
        rc = answer(e, r, lock_start(e, t, req, grant, r), deadline, ticket);
    return rc;
}

static int judge_retries(const struct enq_req *req)
{
    return req->retries == 0
        ? 0
        : why(-EINVAL,
              "a started request waits in the queue: retries are for "
              "enq_lock()");
}

static bool may_wait(const struct enq_req *req)
{
    return req->wait_ms != 0 && (req->flags & ENQ_TEST) == 0;
}

ENQ_API int enq_start(struct enq *e, const struct enq_req *req,
    struct enq_grant *grant, uint64_t *ticket)
{
    struct enq_req copy;
    struct thread *t;
    int rc = attachment_enter(e, &t);
    bool away = attachment_is_away(&rc);

    if (rc == 0)
        rc = lock_copy_request(&req, &copy);
    if (rc == 0 && (grant == NULL || ticket == NULL))
        rc = why(-EINVAL, "nowhere to put the grant or the ticket (NULL)");
    if (rc == 0)
        rc = judge_retries(req);
    if (rc != 0)
        return rc;
    *ticket = 0;
    if (!may_wait(req))
        return enq_lock(e, req, grant);
    if (unlikely(away))
        return away_start(e, req, grant, ticket);
    return start(e, t, req, grant, ticket);
}

static int start_set(struct enq *e, struct thread *t,
    const struct enq_req *const *reqs, size_t n, struct enq_grant *grants,
    uint64_t *ticket)
{
    struct enq_req copy;
    const struct enq_req *first = reqs[0];
    struct started *r;
    mono_t deadline;
    int rc = lock_copy_request(&first, &copy);

    if (rc == 0)
        rc = judge_retries(first);
    if (rc != 0)
        return rc;
    *ticket = 0;
    if (!may_wait(first))
        return enq_lock_set(e, reqs, n, grants);
    if (t == NULL)
        return away_start_set(e, reqs, n, grants, ticket);
    deadline = deadline_of(first);
    rc = take_record(&e->desk, &r);
    if (rc == 0)
        rc = answer(e, r, lock_set_start(e, t, reqs, n, grants, r), deadline,
            ticket);
    return rc;
}

ENQ_API int enq_start_set(struct enq *e, const struct enq_req *const *reqs,
    size_t n, struct enq_grant *grants, uint64_t *ticket)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    (void)attachment_is_away(&rc); /* then there is no thread's slot */
    if (rc == 0)
        rc = lock_set_check(reqs, n, grants);
    if (rc == 0 && (grants == NULL || ticket == NULL))
        rc = why(-EINVAL, "nowhere to put the grants or the ticket (NULL)");
    return rc != 0 ? rc : start_set(e, t, reqs, n, grants, ticket);
}

static struct started *pending(struct desk *d, uint64_t ticket)
{
    uint32_t number = (uint32_t)ticket - 1;
    struct started *r;

    if (number >= d->n_started)
        return NULL;
    r = d->started[number];
    return r->phase == STARTED_PENDING && ticket_of(r) == ticket ? r : NULL;
}

ENQ_API int enq_cancel(struct enq *e, uint64_t ticket)
{
    enq_handle handle = 0;
    struct started *r;
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (rc != 0)
        return rc == ATTACHMENT_AWAY ? remote_cancel(e->remote, ticket) : rc;
    pthread_mutex_lock(&e->desk.mutex);
    r = pending(&e->desk, ticket);
    if (r != NULL)
        handle = place_handle(e->map, &r->place);
    pthread_mutex_unlock(&e->desk.mutex);
    rc = r == NULL ? ENQ_NOTHELD : hold_cancel(&e->session, t, handle);
    if (rc == ENQ_NOTHELD)
        return why(rc,
            "no request with this ticket is pending: its result is an event");
    return rc;
}
