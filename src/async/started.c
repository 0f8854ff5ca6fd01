/*
 * started.c - async: the records of requests that were started (see async.h).
 */
#include "async/started.h"

#include <errno.h>
#include <stdlib.h>

#include "async/attachment.h"
#include "async/bell.h"
#include "base/why.h"
#include "lock/bypass.h"

/* Pending at once, in one attachment. */
#define STARTED_MAX (1u << 20)

static uint64_t ticket_of(const struct started *r)
{
    return (uint64_t)r->generation << 32 | (r->number + 1);
}

void started_free(struct async *d, struct started *r)
{
    r->phase = STARTED_FREE;
    cds_list_add(&r->node, &d->free);
}

void lock_set_free(struct lock_set *l)
{
    if (l != NULL)
        bypass_end(&l->set.bypass);
    free(l);
}

void started_drop(struct async *d, struct started *r)
{
    free(r->result.blocker);
    r->result.blocker = NULL;
    lock_set_free(r->set);
    r->set = NULL;
    started_free(d, r);
}

static int make_room(struct async *d)
{
    struct started **more;

    if (d->n_started >= STARTED_MAX)
        return why(-EAGAIN, "%u requests are pending: there can be no more",
            STARTED_MAX);
    if ((d->n_started & (d->n_started - 1)) != 0 || d->n_started == 1)
        return 0;
    more = realloc(d->started,
        (d->n_started == 0 ? 2 : d->n_started * 2) * sizeof(*more));
    if (more == NULL)
        return why(-ENOMEM, "out of memory for an async request");
    d->started = more;
    return 0;
}

/* Under the mutex: a record more, among the free ones. Seldom, so that a request
   that finds one does not pay for the room of this. */
static __attribute__((noinline)) int make_record(struct async *d)
{
    struct started *r;
    int rc = make_room(d);

    if (rc != 0)
        return rc;
    r = calloc(1, sizeof(*r));
    if (r == NULL || heap_reserve(&d->requests) != 0) {
        free(r);
        return why(-ENOMEM, "out of memory for an async request");
    }
    r->number = d->n_started;
    d->started[d->n_started++] = r;
    started_free(d, r);
    return 0;
}

int started_take(struct async *d, struct started **out)
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
        r->heartbeat = NULL;
        r->set = NULL;
        r->behind = 0;
        *out = r;
    }
    pthread_mutex_unlock(&d->mutex);
    return rc;
}

void started_give(struct async *d, struct started *r)
{
    pthread_mutex_lock(&d->mutex);
    started_free(d, r);
    pthread_mutex_unlock(&d->mutex);
}

void started_look_soon(struct async *d, struct started *r)
{
    if (r->fresh)
        return;
    r->fresh = true;
    cds_list_add_tail(&r->node, &d->fresh);
}

void started_hand_over(struct enq *e, struct started *r, const mono_t deadline)
{
    struct async *d = &e->async;

    pthread_mutex_lock(&d->mutex);
    r->deadline = deadline;
    r->plan = (struct wait_plan){.again = MONO_NEVER};
    r->phase = STARTED_PENDING;
    d->n_pending++;
    started_look_soon(d, r);
    if (!r->suspicion.wanted)
        CDS_INIT_LIST_HEAD(&r->wary);
    else
        cds_list_add_tail(&r->wary, r->suspicion.old ? &d->suspects : &d->wary);
    pthread_mutex_unlock(&d->mutex);
    helper_ring();
}

struct started *started_find(struct async *d, uint64_t ticket)
{
    uint32_t number = (uint32_t)ticket - 1;
    struct started *r;

    if (number >= d->n_started)
        return NULL;
    r = d->started[number];
    return r->phase == STARTED_PENDING && ticket_of(r) == ticket ? r : NULL;
}
