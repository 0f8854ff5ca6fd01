/*
 * event.c - api: the events of an attachment: enq_fd and enq_next.
 */
#include "api/event.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/attachment.h"
#include "api/helper.h"

/* Events of held locks that nobody reads: what comes after so many stays in
   the table until there is room. */
#define NOTICES_MAX 4096

/* --- the queue --- */

/* syscall(2), as read() and write() are points at which a thread may be
   cancelled, here with the mutex. While there is an event its counter is not 0.
   One write per change from empty to not: a full counter is as readable. */
static void set_readable(struct desk *d)
{
    uint64_t one = 1;

    if (d->fd >= 0)
        while (syscall(SYS_write, d->fd, &one, sizeof(one)) < 0 &&
            errno == EINTR)
            continue;
}

static void set_unreadable(struct desk *d)
{
    uint64_t count;

    if (d->fd >= 0)
        while (syscall(SYS_read, d->fd, &count, sizeof(count)) < 0 &&
            errno == EINTR)
            continue;
}

void event_add(struct desk *d, struct event *event)
{
    bool first = cds_list_empty(&d->events);

    cds_list_add_tail(&event->node, &d->events);
    if (first)
        set_readable(d);
}

/* An event of a held lock, which has no record to be part of. */
struct notice_event {
    struct event event;
    struct enq_blocker blocker;
};

bool event_has_room(struct desk *d)
{
    if (d->n_notices >= NOTICES_MAX)
        return false;
    if (d->spare == NULL)
        d->spare = calloc(1, sizeof(*d->spare));
    return d->spare != NULL;
}

static enum enq_event_kind kind_of(const struct notice *n)
{
    switch (n->kind) {
    case NOTICE_ASKED:
        return ENQ_EVENT_BLOCKING;
    case NOTICE_NEAR:
        return ENQ_EVENT_EXPIRING;
    default:
        return n->result == ENQ_EXPIRED ? ENQ_EVENT_EXPIRED : ENQ_EVENT_LOST;
    }
}

void event_add_notice(struct desk *d, const struct notice *n)
{
    struct notice_event *event = d->spare;

    d->spare = NULL;
    d->n_notices++;
    event->event.kind = kind_of(n);
    event->event.result = n->kind == NOTICE_GONE ? n->result : ENQ_OK;
    event->event.handle = n->handle;
    event->event.token = n->token;
    event->event.blocker = &event->blocker;
    memcpy(event->blocker.owner, n->owner, sizeof(n->owner));
    event_add(d, &event->event);
}

/* A started request's belongs to its record. */
static void drop(struct desk *d, struct event *event)
{
    cds_list_del(&event->node);
    if (event->kind == ENQ_EVENT_RESULT) {
        started_drop(d, caa_container_of(event, struct started, result));
        return;
    }
    d->n_notices--;
    free(caa_container_of(event, struct notice_event, event));
}

void event_drop_all(struct desk *d)
{
    struct event *event, *next;

    cds_list_for_each_entry_safe (event, next, &d->events, node)
        drop(d, event);
    free(d->spare);
}

/* --- the calls --- */

static int make_fd(struct desk *d)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0)
        return why(-errno, "no descriptor for events: %s", strerror(errno));
    d->fd = fd;
    if (!cds_list_empty(&d->events))
        set_readable(d);
    return fd;
}

ENQ_API int enq_fd(struct enq *e)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (rc != 0)
        return rc == ATTACHMENT_AWAY ? remote_fd(e->remote) : rc;
    pthread_mutex_lock(&e->desk.mutex);
    rc = e->desk.fd >= 0 ? e->desk.fd : make_fd(&e->desk);
    if (rc >= 0 && !e->desk.listens) {
        e->desk.listens = e->desk.notices_due = true;
        notice_listen(&e->session);
        helper_ring();
    }
    pthread_mutex_unlock(&e->desk.mutex);
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

ENQ_API int enq_next(struct enq *e, struct enq_event *event)
{
    struct desk *d;
    struct thread *t;
    int rc = attachment_enter(e, &t);
    bool away = attachment_is_away(&rc);

    if (rc == 0 && event == NULL)
        rc = why(-EINVAL, "nowhere to put the event (NULL)");
    if (rc != 0 || away)
        return rc != 0 ? rc : remote_next(e->remote, event);
    d = &e->desk;
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
        if (d->notices_due && d->n_notices < NOTICES_MAX / 2)
            helper_ring();
    }
    pthread_mutex_unlock(&d->mutex);
    return rc;
}
