/*
 * news.c - remote: what has happened, for enq_fd() and enq_next().
 *
 * News lies in what it is about: the lock, the request. So none is lost, and
 * what is unread takes no memory of its own. Of a lock the same news is told
 * once, however often it came since it was read last.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/why.h"
#include "remote/answer.h"
#include "remote/client.h"

/* --- the descriptor --- */

/* syscall(2), as read() and write() are points at which a thread may be
   cancelled, here with the mutex. */
static void set_readable(struct held_all *all)
{
    uint64_t one = 1;

    if (all->fd >= 0)
        while (syscall(SYS_write, all->fd, &one, sizeof(one)) < 0 &&
            errno == EINTR)
            continue;
}

static void set_unreadable(struct held_all *all)
{
    uint64_t count;

    if (all->fd >= 0)
        while (syscall(SYS_read, all->fd, &count, sizeof(count)) < 0 &&
            errno == EINTR)
            continue;
}

/* --- the list --- */

static void list(struct held_all *all, struct news *news)
{
    bool first = cds_list_empty(&all->news);

    if (!cds_list_empty(&news->node) || news->held_back)
        return; /* already; or not yet */
    cds_list_add_tail(&news->node, &all->news);
    if (first)
        set_readable(all);
}

/* Who does not listen hears of what he has started only. */
void news_add(struct held_all *all, struct news *news, uint32_t kind)
{
    news->kinds |= kind;
    if (all->fd >= 0 || kind == NEWS_RESULT)
        list(all, news);
}

void news_show(struct held_all *all, struct news *news)
{
    news->held_back = false;
    if (news->kinds != 0 && all->fd >= 0)
        list(all, news);
}

void news_drop(struct held_all *all, struct news *news)
{
    news->kinds = 0;
    if (cds_list_empty(&news->node))
        return;
    cds_list_del_init(&news->node);
    if (cds_list_empty(&all->news))
        set_unreadable(all);
}

void news_session(struct remote *r, int result)
{
    pthread_mutex_lock(&r->held.mutex);
    r->held.session_result = result;
    if (r->held.fd >= 0)
        news_add(&r->held, &r->held.session, NEWS_SESSION);
    pthread_mutex_unlock(&r->held.mutex);
}

/* It comes before all that has happened to its locks since. */
void news_result(struct remote *r, struct started *s)
{
    const struct order *o = &s->order;

    pthread_mutex_lock(&r->held.mutex);
    news_add(&r->held, &s->news, NEWS_RESULT);
    for (size_t i = 0; i < o->n && s->call.result == ENQ_OK; i++)
        held_show(&r->held, o->grants[i].handle);
    pthread_mutex_unlock(&r->held.mutex);
}

void news_event(struct remote *r, const struct answer *a)
{
    if (strcmp(a->event, "blocking") == 0)
        held_told(r, a->handle, NEWS_BLOCKING, a->owner);
    else if (strcmp(a->event, "expiring") == 0)
        held_told(r, a->handle, NEWS_EXPIRING, "");
    else if (strcmp(a->event, "expired") == 0)
        held_gone(r, a->handle, ENQ_EXPIRED, "");
    else if (strcmp(a->event, "lost") == 0)
        held_gone(r, a->handle, a->result, a->owner);
}

/* --- the calls --- */

static void list_all(struct held_all *all)
{
    struct held *h;

    cds_list_for_each_entry (h, &all->locks, node)
        if (h->news.kinds != 0)
            list(all, &h->news);
    cds_list_for_each_entry (h, &all->gone, node)
        if (h->news.kinds != 0)
            list(all, &h->news);
}

static int make_fd(struct held_all *all)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0)
        return why(-errno, "no descriptor for events: %s", strerror(errno));
    all->fd = fd;
    if (!cds_list_empty(&all->news))
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

/* Of several the first that happens to a lock. */
static void tell_held(struct held_all *all, struct held *h,
    struct enq_event *out)
{
    uint32_t kind = h->news.kinds & -h->news.kinds;

    out->result = kind == NEWS_GONE ? h->result : ENQ_OK;
    out->grant.handle = h->handle;
    out->grant.token = h->token;
    out->kind = kind == NEWS_BLOCKING ? ENQ_EVENT_BLOCKING
        : kind == NEWS_EXPIRING       ? ENQ_EVENT_EXPIRING
        : h->result == ENQ_EXPIRED    ? ENQ_EVENT_EXPIRED
                                      : ENQ_EVENT_LOST;
    if (kind == NEWS_BLOCKING)
        memcpy(out->grant.blocker.owner, h->asker, sizeof(h->asker));
    else if (out->result == ENQ_LOST)
        memcpy(out->grant.blocker.owner, h->taker, sizeof(h->taker));
    h->news.kinds &= ~kind;
    if (h->news.kinds == 0)
        news_drop(all, &h->news);
}

static void tell_result(struct held_all *all, struct started *s,
    struct enq_event *out)
{
    const struct order *o = &s->order;

    out->kind = ENQ_EVENT_RESULT;
    out->result = s->call.result;
    out->ticket = s->call.number;
    out->grant = o->grants[0];
    if (o->set)
        memcpy(s->callers, o->grants, o->n * sizeof(*o->grants));
    news_drop(all, &s->news);
    call_free(&s->call);
}

static void tell(struct held_all *all, struct enq_event *out)
{
    struct news *news = cds_list_first_entry(&all->news, struct news, node);

    out->ticket = 0;
    out->grant.handle = out->grant.token = 0;
    out->grant.blocker.owner[0] = '\0';
    if (news->kinds == NEWS_RESULT) {
        tell_result(all, caa_container_of(news, struct started, news), out);
    } else if (news->kinds == NEWS_SESSION) {
        out->kind = ENQ_EVENT_SESSION;
        out->result = all->session_result;
        news_drop(all, news);
    } else {
        tell_held(all, caa_container_of(news, struct held, news), out);
    }
}

int remote_next(struct remote *r, struct enq_event *event)
{
    int rc = ENQ_OK;

    pthread_mutex_lock(&r->held.mutex);
    if (cds_list_empty(&r->held.news))
        rc = why(ENQ_PENDING, "no event yet");
    else
        tell(&r->held, event);
    pthread_mutex_unlock(&r->held.mutex);
    return rc;
}
