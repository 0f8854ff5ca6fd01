/*
 * event.c - async: the events of an attachment (see event.h).
 */
#include "async/event.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "async/attachment.h"
#include "async/bell.h"
#include "async/started.h"
#include "base/why.h"

/* Events of held locks that nobody reads: what comes after so many stays in
   the table until there is room. */
#define NOTICES_MAX 4096

/* --- the queue --- */

/* syscall(2), as read() and write() are points at which a thread may be
   cancelled, here with the mutex. While there is an event its counter is not 0.
   One write per change from empty to not: a full counter is as readable.
   No signal interrupts these: an eventfd with EFD_NONBLOCK does not sleep. */
static void set_readable(struct async *d)
{
    uint64_t one = 1;

    if (d->fd >= 0)
        (void)syscall(SYS_write, d->fd, &one, sizeof(one));
}

static void set_unreadable(struct async *d)
{
    uint64_t count;

    if (d->fd >= 0)
        (void)syscall(SYS_read, d->fd, &count, sizeof(count));
}

void event_add(struct async *d, struct event *event)
{
    bool first = cds_list_empty(&d->events);

    cds_list_add_tail(&event->node, &d->events);
    if (first)
        set_readable(d);
}

/* An event of a held lock, which has no record to be part of. */
struct queued_event {
    struct event event;
    struct enq_blocker blocker;
};

bool event_has_room(struct async *d)
{
    if (d->n_lock_events >= NOTICES_MAX)
        return false;
    if (d->spare == NULL)
        d->spare = calloc(1, sizeof(*d->spare));
    return d->spare != NULL;
}

static enum enq_event_kind kind_of(const struct lock_event *n)
{
    switch (n->kind) {
    case LOCK_EVENT_ASKED:
        return ENQ_EVENT_BLOCKING;
    case LOCK_EVENT_NEAR:
        return ENQ_EVENT_EXPIRING;
    default:
        return n->result == ENQ_EXPIRED ? ENQ_EVENT_EXPIRED : ENQ_EVENT_LOST;
    }
}

void event_add_of_lock(struct async *d, const struct lock_event *n)
{
    struct queued_event *event = d->spare;

    d->spare = NULL;
    d->n_lock_events++;
    event->event.kind = kind_of(n);
    event->event.result = n->kind == LOCK_EVENT_GONE ? n->result : ENQ_OK;
    event->event.handle = n->handle;
    event->event.token = n->token;
    event->event.blocker = &event->blocker;
    memcpy(event->blocker.owner, n->owner, sizeof(n->owner));
    event_add(d, &event->event);
}

/* A started request's belongs to its record. */
static void drop(struct async *d, struct event *event)
{
    cds_list_del(&event->node);
    if (event->kind == ENQ_EVENT_RESULT) {
        started_drop(d, caa_container_of(event, struct started, result));
        return;
    }
    d->n_lock_events--;
    free(caa_container_of(event, struct queued_event, event));
}

void event_drop_all(struct async *d)
{
    struct event *event, *next;

    cds_list_for_each_entry_safe (event, next, &d->events, node)
        drop(d, event);
    free(d->spare);
}

/* --- taking them --- */

static int make_fd(struct async *d)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0)
        return why(-errno, "cannot make a descriptor for events: %s",
            strerror(errno));
    d->fd = fd;
    if (!cds_list_empty(&d->events))
        set_readable(d);
    return fd;
}

int event_fd(struct enq *e)
{
    int rc;

    pthread_mutex_lock(&e->async.mutex);
    rc = e->async.fd >= 0 ? e->async.fd : make_fd(&e->async);
    if (rc >= 0 && !e->async.listens) {
        e->async.listens = e->async.lock_events_due = true;
        lock_event_listen(&e->session);
        helper_ring();
    }
    pthread_mutex_unlock(&e->async.mutex);
    return rc;
}

/* Where its caller wants them. */
static void fill_grants(const struct lock_set *l, int result)
{
    for (unsigned i = 0; i < l->set.n; i++) {
        const struct place *place = &l->set.member[i].place;
        struct enq_grant *grant = &l->grants[i];

        grant->handle =
            result == ENQ_OK ? place_handle(l->set.s->map, place) : 0;
        grant->token = result == ENQ_OK ? place->token : 0;
        grant->blocker.owner[0] = '\0';
    }
    if (result == ENQ_TIMEDOUT || result == ENQ_DEADLOCK)
        l->grants[l->set.refused].blocker = l->blocker;
}

static void copy_out(struct event *event, struct enq_event *out)
{
    if (event->kind == ENQ_EVENT_RESULT) {
        const struct started *r =
            caa_container_of(event, struct started, result);
        if (r->set != NULL)
            fill_grants(r->set, event->result);
    }

    out->kind = event->kind;
    out->result = event->result;
    out->ticket = event->ticket;
    out->grant.handle = event->handle;
    out->grant.token = event->token;
    if (event->blocker != NULL)
        out->grant.blocker = *event->blocker;
    else
        out->grant.blocker.owner[0] = '\0';
}

int event_next(struct enq *e, struct enq_event *event)
{
    struct async *d = &e->async;
    int rc = 0;

    pthread_mutex_lock(&d->mutex);
    if (cds_list_empty(&d->events)) {
        rc = why(ENQ_PENDING, "no event yet");
    } else {
        struct event *first =
            cds_list_first_entry(&d->events, struct event, node);
        copy_out(first, event);
        drop(d, first);
        if (cds_list_empty(&d->events))
            set_unreadable(d);
        /* what waits in the table for room among the events may come */
        if (d->lock_events_due && d->n_lock_events < NOTICES_MAX / 2)
            helper_ring();
    }
    pthread_mutex_unlock(&d->mutex);
    return rc;
}
