/*
 * event.c - remote: what has happened and was not told yet, and enq_fd().
 *
 * News lies in what it is about: the lock, the request. So none is lost, and
 * what is unread takes no memory of its own. Of a lock the same event is told
 * once, however often it came since it was read last.
 */
#include "remote/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/why.h"
#include "remote/client.h"
#include "remote/held.h"

/* --- the descriptor --- */

/* syscall(2), as read() and write() are points at which a thread may be
   cancelled, here with the mutex. No signal interrupts these: an eventfd with
   EFD_NONBLOCK does not sleep. */
static void set_readable(struct held_all *all)
{
    uint64_t one = 1;

    if (all->fd >= 0)
        (void)syscall(SYS_write, all->fd, &one, sizeof(one));
}

static void set_unreadable(struct held_all *all)
{
    uint64_t count;

    if (all->fd >= 0)
        (void)syscall(SYS_read, all->fd, &count, sizeof(count));
}

/* --- the list --- */

static void list(struct held_all *all, struct remote_event *event)
{
    bool first = cds_list_empty(&all->events);

    if (!cds_list_empty(&event->node) || event->held_back)
        return; /* already; or not yet */
    cds_list_add_tail(&event->node, &all->events);
    if (first)
        set_readable(all);
}

/* A caller that does not listen hears of its async requests only. */
void remote_event_add(struct held_all *all, struct remote_event *event,
    uint32_t kind)
{
    event->kinds |= kind;
    if (all->fd >= 0 || kind == REMOTE_EVENT_RESULT)
        list(all, event);
}

void remote_event_show(struct held_all *all, struct remote_event *event)
{
    event->held_back = false;
    if (event->kinds != 0 && all->fd >= 0)
        list(all, event);
}

void remote_event_drop(struct held_all *all, struct remote_event *event)
{
    event->kinds = 0;
    if (cds_list_empty(&event->node))
        return;
    cds_list_del_init(&event->node);
    if (cds_list_empty(&all->events))
        set_unreadable(all);
}

void remote_event_session(struct remote *r, int result)
{
    pthread_mutex_lock(&r->held.mutex);
    r->held.session_result = result;
    if (r->held.fd >= 0)
        remote_event_add(&r->held, &r->held.session, REMOTE_EVENT_SESSION);
    pthread_mutex_unlock(&r->held.mutex);
}

/* --- listening --- */

static void list_all(struct held_all *all)
{
    struct held *h;

    cds_list_for_each_entry (h, &all->locks, node)
        if (h->event.kinds != 0)
            list(all, &h->event);
    cds_list_for_each_entry (h, &all->gone, node)
        if (h->event.kinds != 0)
            list(all, &h->event);
}

static int make_fd(struct held_all *all)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0)
        return why(-errno, "cannot make a descriptor for events: %s",
            strerror(errno));
    all->fd = fd;
    if (!cds_list_empty(&all->events))
        set_readable(all);
    list_all(all);
    return fd;
}

int remote_fd(struct remote *r)
{
    int fd;

    pthread_mutex_lock(&r->held.mutex);
    fd = r->held.fd >= 0 ? r->held.fd : make_fd(&r->held);
    pthread_mutex_unlock(&r->held.mutex);
    return fd;
}
