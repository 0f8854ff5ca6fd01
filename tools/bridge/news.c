/*
 * news.c - what has become of started requests and of held locks.
 */
#include <stdlib.h>

#include "conn.h"
#include "peer.h"
#include "reply.h"
#include "route.h"
#include "serve.h"
#include "session.h"
#include "wait.h"

/* So many in a round: who sends requests is not to wait for all. */
#define NEWS_AT_ONCE 512

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
    reply_event(&c->out, "result", result);
    reply_id(&c->out, "TICKET", w->id, w->id_is_number);
    if (w->n > 1)
        reply_grants(&c->out, result, grants, w->n);
    else if (result == ENQ_OK)
        reply_grant(&c->out, grants);
    else
        reply_grants(&c->out, result, grants, 1);
    if (result != ENQ_OK)
        text_member_text(&c->out, "MSG", enq_strerror(result));
    reply_event_end(&c->out);
}

static void tell_reply(struct bridge *b, struct conn *c, const struct wait *w,
    const struct enq_event *event)
{
    const struct enq_grant *grants =
        w->grants != NULL ? w->grants : &event->grant;
    int result = event->result;
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

static void take_result(struct bridge *b, struct wait *w,
    const struct enq_event *event)
{
    const struct enq_grant *grants =
        w->grants != NULL ? w->grants : &event->grant;
    struct conn *c = w->session != NULL ? w->session->conn : w->conn;

    if (event->result == ENQ_OK && w->session == NULL && w->conn == NULL)
        give_back(b, grants, w->n);
    else if (event->result == ENQ_OK)
        wait_granted(b, w, grants);
    if (c != NULL) {
        if (w->start)
            tell_event(c, w, event->result, grants);
        else
            tell_reply(b, c, w, event);
        conn_wrote(b, c);
    }
    wait_leave(w);
    wait_free(w);
}

/* --- news of locks --- */

static const char *const kinds[] = {
    [ENQ_EVENT_EXPIRED] = "expired",
    [ENQ_EVENT_EXPIRING] = "expiring",
    [ENQ_EVENT_LOST] = "lost",
    [ENQ_EVENT_BLOCKING] = "blocking",
    [ENQ_EVENT_SESSION] = NULL,
};

static bool is_over(const struct enq_event *event)
{
    return event->kind == ENQ_EVENT_EXPIRED || event->kind == ENQ_EVENT_LOST;
}

static void take_news(struct bridge *b, const struct enq_event *event)
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
        text_member_text(&c->out, "OWNER", event->grant.blocker.owner);
        reply_event_end(&c->out);
        conn_wrote(b, c);
    }
    if (is_over(event))
        held_remove(b, h);
}

void news_tell(struct bridge *b, struct wait *w, const struct enq_event *event)
{
    if (w != NULL)
        take_result(b, w, event);
    else if (event->kind != ENQ_EVENT_RESULT)
        take_news(b, event);
}

void news_take(struct bridge *b)
{
    struct enq_event event;

    for (int i = 0; i < NEWS_AT_ONCE; i++) {
        event.grant.blocker.id[0] = '\0'; /* nobody, unless it is told */
        if (enq_next(b->space, &event) != ENQ_OK)
            return;
        if (b->share->roll != NULL)
            route_event(b, &event);
        else
            news_tell(b,
                event.kind == ENQ_EVENT_RESULT ? wait_take(b, event.ticket)
                                               : NULL,
                &event);
    }
}
