/*
 * event.c - what has become of started requests and of held locks.
 */
#include "event.h"

#include <stdlib.h>

#include "conn.h"
#include "hung.h"
#include "loop.h"
#include "peer.h"
#include "reply.h"
#include "route.h"
#include "serve.h"
#include "session.h"
#include "wait.h"

/* So many in a round, for so long: a client that sends requests is not to wait
   for all. When many hang up, some. */
#define EVENTS_AT_ONCE 512
#define EVENTS_SOME 32
#define EVENTS_NS INT64_C(1000000)

/* --- results --- */

static void give_back(struct bridge *b, const struct enq_grant *grants,
    unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        enq_unlock(b->space, grants[i].handle, grants[i].token);
}

static void tell_event(struct conn *c, const struct wait *w, int result,
    const struct enq_grant *grants)
{
    reply_event(&c->out, WIRE_result, result);
    reply_id(&c->out, WIRE_TICKET, w->id, w->id_is_number);
    if (w->n > 1)
        reply_grants(&c->out, result, grants, w->n);
    else if (result == ENQ_OK)
        reply_grant(&c->out, grants);
    else
        reply_grants(&c->out, result, grants, 1);
    if (result != ENQ_OK)
        text_member_text(&c->out, WIRE_MSG, enq_strerror(result));
    reply_event_end(&c->out);
}

static void tell_reply(struct bridge *b, struct conn *c, const struct wait *w,
    int result, const struct enq_grant *grants)
{
    char id[ENQ_ID_BYTES];
    const struct reply r = {&c->out, w->n > 1 ? OP_SET : OP_LOCK,
        w->legacy ? NULL : w->id, w->id_is_number};

    if (w->nameless && result == ENQ_OK &&
        enq_id(b->space, grants->handle, id) == ENQ_OK) {
        reply_named(&r, grants, id);
        return;
    }
    if (w->n == 1) {
        reply_result(&r, result, grants, NULL);
        return;
    }
    reply_begin(&r, result, NULL);
    reply_grants(&c->out, result, grants, w->n);
    reply_end(&r);
}

/* Nobody is there to be told of it. */
static bool is_unwanted(const struct wait *w)
{
    if (w->session != NULL)
        return w->session->is_over;
    return w->conn == NULL || hung_is_gone(w->conn);
}

static struct conn *whom_to_tell(const struct wait *w)
{
    return w->session != NULL ? w->session->conn : w->conn;
}

static void take_result(struct bridge *b, struct wait *w,
    const struct enq_event *event)
{
    const struct enq_grant *grants =
        w->grants != NULL ? w->grants : &event->grant;
    bool unwanted = is_unwanted(w);
    struct conn *c = unwanted ? NULL : whom_to_tell(w);
    int result = event->result;

    if (result == ENQ_OK && unwanted) {
        give_back(b, grants, w->n);
    } else if (result == ENQ_OK && !wait_granted(b, w, grants)) {
        give_back(b, grants, w->n);
        result = -12; /* ENOMEM */
    }
    if (c != NULL) {
        if (w->start)
            tell_event(c, w, result, grants);
        else
            tell_reply(b, c, w, result, grants);
        conn_wrote(b, c);
    }
    wait_leave(w);
    wait_free(w);
}

/* --- events of locks --- */

static const char *const kinds[] = {
    [ENQ_EVENT_EXPIRED] = WIRE_expired,
    [ENQ_EVENT_EXPIRING] = WIRE_expiring,
    [ENQ_EVENT_LOST] = WIRE_lost,
    [ENQ_EVENT_BLOCKING] = WIRE_blocking,
    [ENQ_EVENT_SESSION] = NULL,
};

static bool is_over(const struct enq_event *event)
{
    return event->kind == ENQ_EVENT_EXPIRED || event->kind == ENQ_EVENT_LOST;
}

static void take_events(struct bridge *b, const struct enq_event *event)
{
    struct held *h = held_find(b, event->grant.handle);
    struct conn *c;

    if (h == NULL && is_over(event))
        peer_lost_lock(b->share, event->grant.handle);
    if (h == NULL || kinds[event->kind] == NULL)
        return;
    c = h->session->conn;
    if (c != NULL) {
        reply_event(&c->out, kinds[event->kind], event->result);
        reply_grant(&c->out, &event->grant);
        text_member_text(&c->out, WIRE_OWNER, event->grant.blocker.owner);
        reply_event_end(&c->out);
        conn_wrote(b, c);
    }
    if (is_over(event))
        held_remove(b, h);
}

void event_tell(struct bridge *b, struct wait *w, const struct enq_event *event)
{
    if (w != NULL)
        take_result(b, w, event);
    else if (event->kind != ENQ_EVENT_RESULT)
        take_events(b, event);
}

void event_take(struct bridge *b)
{
    int64_t until = bridge_clock() + (b->is_flooded ? 0 : EVENTS_NS);
    struct enq_event event;

    for (int i = 0; i < EVENTS_AT_ONCE; i++) {
        if (i % EVENTS_SOME == EVENTS_SOME - 1 && bridge_clock() >= until)
            return;
        event.grant.blocker.id[0] = '\0'; /* nobody, unless it is told */
        if (enq_next(b->space, &event) != ENQ_OK)
            return;
        if (b->share->registry != NULL)
            route_event(b, &event);
        else
            event_tell(b,
                event.kind == ENQ_EVENT_RESULT ? wait_take(b, event.ticket)
                                               : NULL,
                &event);
    }
}
