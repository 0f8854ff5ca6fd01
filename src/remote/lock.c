/*
 * lock.c - remote: asking a bridge for locks (see lock.h).
 */
#include "remote/lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/why.h"
#include "channel/answer.h"
#include "channel/ask.h"
#include "remote/await.h"
#include "remote/client.h"
#include "remote/held.h"
#include "remote/pending.h"
#include "remote/sure.h"
#include "remote/window.h"
#include "sync/sys.h"

#define TTL_DEFAULT_MS (15 * 60 * 1000)

/* --- answers --- */

/*
 * Of one that did not wait, its ttl counts for us from before it was asked for.
 * Of one that waited it is not known when it was granted: before we heard of
 * it; and after a later request was sent whose answer came first.
 */
static struct since granted_at(const struct remote *r, const struct pending *c)
{
    if (!c->waits)
        return (struct since){c->sent_at, c->sent_at};
    return (struct since){pending_waited_at(c, r->sure.at), r->received_at};
}

static void take_grants(struct remote *r, struct pending *c,
    const struct answer *a, const struct order *o)
{
    struct since since = granted_at(r, c);
    bool is_event = c->started &&
        caa_container_of(c, struct remote_started, request)->is_pending;

    if (!o->set || (o->n == 1 && a->grants == NULL)) {
        o->grants[0].handle = a->handle;
        o->grants[0].token = a->token;
    } else if (!answer_grants(a, o->grants, o->n)) {
        return;
    }
    for (size_t i = 0; i < o->n; i++) {
        o->want[i].is_event = is_event;
        held_add(r, &o->grants[i], &o->want[i], since);
    }
}

static void clear(const struct order *o)
{
    for (size_t i = 0; i < o->n; i++) {
        o->grants[i].handle = o->grants[i].token = 0;
        o->grants[i].blocker.owner[0] = o->grants[i].blocker.id[0] = '\0';
    }
}

static void take_lock(struct remote *r, struct pending *c,
    const struct answer *a)
{
    const struct order *o = c->to;

    clear(o);
    if (a->result == ENQ_OK && o->want != NULL)
        take_grants(r, c, a, o);
    else if (a->result == ENQ_NOTHELD)
        pending_give_back(r, a); /* of a set that was sent again some is left */
    else if (a->has_blocker && a->index < o->n)
        o->grants[a->index].blocker = a->blocker;
}

/* --- questions --- */

static void note_wants(const struct order *o, const struct enq_req *const *reqs)
{
    for (size_t i = 0; i < o->n; i++)
        o->want[i] = (struct want){
            reqs[i]->ttl_ms == 0 ? TTL_DEFAULT_MS : reqs[i]->ttl_ms,
            reqs[i]->heartbeat_ms, (uint8_t)reqs[i]->on_death, false};
}

static int judge_texts(const struct remote *r, const struct enq_req *req)
{
    int rc = ask_check("name", req->name);

    for (unsigned i = 0;
         rc == 0 && i < ENQ_KEY_FIELDS_MAX && req->key[i] != NULL; i++)
        rc = ask_check("field", req->key[i]);
    if (rc == 0)
        rc = ask_check("owner", req->owner != NULL ? req->owner : r->owner);
    return rc == 0 ? ask_check("id", req->id) : rc;
}

static int write_request(struct remote *r, struct pending *c,
    const struct enq_req *const *reqs, const struct order *o)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < o->n; i++)
        rc = judge_texts(r, reqs[i]);
    if (rc != 0)
        return rc;
    if (reqs[0]->flags & ENQ_TEST)
        TEXT_PUT(&c->ask, "," WIRE_KEY(WIRE_test) "true");
    if (reqs[0]->flags & ENQ_NO_DEADLOCK)
        TEXT_PUT(&c->ask, "," WIRE_KEY(WIRE_noDeadlock) "true");
    c->wait_at = ask_locks(&c->ask, reqs, o->n, o->set, r->owner);
    c->waits = reqs[0]->wait_ms != 0 && !(reqs[0]->flags & ENQ_TEST);
    c->locks = !(reqs[0]->flags & ENQ_TEST);
    c->take = take_lock;
    return 0;
}

int remote_lock(struct remote *r, const struct enq_req *const *reqs, size_t n,
    struct enq_grant *grants, bool set)
{
    bool test = (reqs[0]->flags & ENQ_TEST) != 0;
    struct want wants[ENQ_SET_MAX];
    struct order o = {n, set, grants, wants};
    struct pending *c = pending_new(set ? OP_SET : OP_LOCK);
    int rc;

    if (c == NULL)
        return -ENOMEM;
    note_wants(&o, reqs);
    if (test)
        o.want = NULL;
    c->to = &o;
    rc = write_request(r, c, reqs, &o);
    if (rc != 0) {
        pending_free(c);
        return rc;
    }
    return pending_ask(r, c, test ? 0 : reqs[0]->wait_ms, SLACK_MS);
}

/* --- started requests --- */

/* All in one piece, as the reader may be the thread that frees it. */
static struct remote_started *make_started(size_t n, bool set)
{
    size_t wants = sizeof(struct remote_started) + n * sizeof(struct enq_grant);
    struct remote_started *s = calloc(1, wants + n * sizeof(struct want));

    if (s == NULL)
        return NULL;
    pending_begin(&s->request, set ? OP_SET : OP_LOCK);
    CDS_INIT_LIST_HEAD(&s->event.node);
    s->order.n = n;
    s->order.set = set;
    s->order.grants = (struct enq_grant *)(s + 1);
    s->order.want = (struct want *)(s->order.grants + n);
    s->request.to = &s->order;
    s->request.started = true;
    return s;
}

int remote_start(struct remote *r, const struct enq_req *const *reqs, size_t n,
    struct enq_grant *grants, bool set, uint64_t *ticket)
{
    struct remote_started *s = make_started(n, set);
    int rc;

    if (s == NULL)
        return why(-ENOMEM, "out of memory for an async request");
    note_wants(&s->order, reqs);
    s->callers = grants;
    TEXT_PUT(&s->request.ask, "," WIRE_KEY(WIRE_start) "true");
    rc = write_request(r, &s->request, reqs, &s->order);
    if (rc != 0) {
        pending_free(&s->request);
        return rc;
    }
    return pending_start(r, &s->request, reqs[0]->wait_ms, ticket);
}

static void take_cancelled(struct remote *r, struct pending *c,
    const struct answer *a)
{
    if (a->result == ENQ_OK)
        pending_cancelled(r, *(uint64_t *)c->to);
}

int remote_cancel(struct remote *r, uint64_t ticket)
{
    struct pending *c = pending_new(OP_CANCEL);
    int rc;

    if (c == NULL)
        return -ENOMEM;
    text_member_big(&c->ask, WIRE_ticket, ticket);
    c->take = take_cancelled;
    c->to = &ticket;
    rc = pending_ask(r, c, 0, SLACK_MS);
    if (rc == ENQ_NOTHELD)
        return why(rc,
            "no request with this ticket is pending: its result comes as an "
            "event");
    return rc;
}
