/*
 * next.c - remote: an event is taken (see next.h).
 */
#include "remote/next.h"

#include <string.h>

#include "base/why.h"
#include "remote/await.h"
#include "remote/client.h"
#include "remote/event.h"
#include "remote/held.h"
#include "remote/pending.h"
#include "remote/window.h"

/* Of several the first that happens to a lock. */
static void tell_held(struct held_all *all, struct held *h,
    struct enq_event *out)
{
    uint32_t kind = h->event.kinds & -h->event.kinds;

    out->result = kind == REMOTE_EVENT_GONE ? h->result : ENQ_OK;
    out->grant.handle = h->handle;
    out->grant.token = h->token;
    out->kind = kind == REMOTE_EVENT_BLOCKING ? ENQ_EVENT_BLOCKING
        : kind == REMOTE_EVENT_EXPIRING       ? ENQ_EVENT_EXPIRING
        : h->result == ENQ_EXPIRED            ? ENQ_EVENT_EXPIRED
                                              : ENQ_EVENT_LOST;
    if (kind == REMOTE_EVENT_BLOCKING)
        memcpy(out->grant.blocker.owner, h->asker, sizeof(h->asker));
    else if (out->result == ENQ_LOST)
        memcpy(out->grant.blocker.owner, h->taker, sizeof(h->taker));
    h->event.kinds &= ~kind;
    if (h->event.kinds == 0)
        remote_event_drop(all, &h->event);
}

static void tell_result(struct held_all *all, struct remote_started *s,
    struct enq_event *out)
{
    const struct order *o = &s->order;

    out->kind = ENQ_EVENT_RESULT;
    out->result = s->request.result;
    out->ticket = s->request.number;
    out->grant = o->grants[0];
    if (o->set)
        memcpy(s->callers, o->grants, o->n * sizeof(*o->grants));
    remote_event_drop(all, &s->event);
    pending_free(&s->request);
}

static void tell(struct held_all *all, struct enq_event *out)
{
    struct remote_event *event =
        cds_list_first_entry(&all->events, struct remote_event, node);

    out->ticket = 0;
    out->grant.handle = out->grant.token = 0;
    out->grant.blocker.owner[0] = '\0';
    if (event->kinds == REMOTE_EVENT_RESULT) {
        tell_result(all, caa_container_of(event, struct remote_started, event),
            out);
    } else if (event->kinds == REMOTE_EVENT_SESSION) {
        out->kind = ENQ_EVENT_SESSION;
        out->result = all->session_result;
        remote_event_drop(all, event);
    } else {
        tell_held(all, caa_container_of(event, struct held, event), out);
    }
}

int remote_next(struct remote *r, struct enq_event *event)
{
    int rc = ENQ_OK;

    pthread_mutex_lock(&r->held.mutex);
    if (cds_list_empty(&r->held.events))
        rc = why(ENQ_PENDING, "no event yet");
    else
        tell(&r->held, event);
    pthread_mutex_unlock(&r->held.mutex);
    return rc;
}
