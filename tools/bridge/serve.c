/*
 * serve.c - what a request asks for, done: one function an operation.
 */
#include "serve.h"

#include <stdio.h>

#include "conn.h"
#include "handoff.h"
#include "look.h"
#include "over.h"
#include "peer.h"
#include "say.h"
#include "session.h"
#include "tag.h"
#include "wait.h"

#define PROTOCOL_VERSION 1

/* --- names of locks --- */

/* Ids of a client without a session are its host's: two hosts count the same
   way. */
const char *serving_id(const struct serving *s, const char *uuid, char *out)
{
    bool own = s->c->session == NULL && !s->b->options.shared_ids;
    size_t peer = own ? strlen(s->c->peer) + 1 : 0, n = strlen(uuid);

    if (peer + n >= ENQ_ID_BYTES)
        return NULL;
    if (own) {
        memcpy(out, s->c->peer, peer - 1);
        out[peer - 1] = '/';
    }
    memcpy(out + peer, uuid, n + 1);
    return out;
}

/* Could a host have made this id? Not those that the library makes, nor those
   that we make of hosts' own. */
static bool is_hosts(const char *id)
{
    return strchr(id, '/') == NULL && strlen(id) != 36;
}

/* The client's own, or one that a list has told it: of the space's own ids
   those that a host might have made have a slash before them there. */
int serving_handle(const struct serving *s, enq_handle *handle)
{
    char id[ENQ_ID_BYTES];
    int rc = ENQ_NOTHELD;

    *handle = s->ask->handle;
    if (*handle != 0)
        return ENQ_OK;
    if (s->ask->uuid == NULL || s->ask->uuid[0] == '\0')
        return ENQ_NOTHELD;
    if (serving_id(s, s->ask->uuid, id) != NULL)
        rc = enq_find(s->b->space, id, handle);
    if (rc != ENQ_OK && s->c->session == NULL && !is_hosts(s->ask->uuid))
        rc = enq_find(s->b->space, s->ask->uuid + (s->ask->uuid[0] == '/'),
            handle);
    return rc;
}

/* --- asked again --- */

void serving_done(const struct serving *s, int result,
    const struct enq_grant *grant)
{
    struct done done = {.request = s->request, .result = result};

    if (s->c->session == NULL || !s->ask->has_id)
        return;
    done.op = (uint8_t)s->ask->op;
    done.handle = grant == NULL ? 0 : grant->handle;
    done.token = grant == NULL ? 0 : grant->token;
    done_note(s->c->session, &done);
}

static bool answer_as_before(const struct serving *s)
{
    const struct done *done = done_find(s->c->session, s->request, s->ask->op);
    struct enq_grant grant = {0};

    if (done == NULL)
        return false;
    grant.handle = done->handle;
    grant.token = done->token;
    reply_result(&s->reply, done->result, done->handle == 0 ? NULL : &grant,
        NULL);
    return true;
}

/* What changes the table is not done twice. */
static bool was_done(const struct serving *s)
{
    return s->c->session != NULL && s->ask->has_id && answer_as_before(s);
}

/* --- what is done with a lock --- */

/* A lock that is gone is no session's any more. */
static void forget_if_gone(const struct serving *s, enq_handle handle, int rc)
{
    if (rc != ENQ_OK && enq_valid(s->b->space, handle) == ENQ_OK)
        return; /* it has another token */
    held_gone(s->b, handle);
}

/*
 * Is it held by a process, or for a session of another bridge? What they have
 * left behind is nobody's. A client without a session has only ids to show, as
 * in the operations of enqueue-client: it may unlock what it can name.
 */
static bool is_held_elsewhere(const struct serving *s, enq_handle handle)
{
    struct enq_info info;
    struct tag_found tag;

    if (s->c->session == NULL && s->ask->handle == 0 && s->ask->n_grants == 0)
        return false;
    return enq_look(s->b->space, handle, &info) == ENQ_OK && !info.orphaned &&
        (info.peer[0] == '\0' || tag_read(info.peer, &tag));
}

/*
 * A session does with its own locks what it likes. Another client that would
 * change one has to show its token, lest an id that was mistaken, or made
 * twice, ends what another works under. (To end it on purpose there is break.)
 * True: that was said.
 */
static bool is_anothers(struct serving *s, enq_handle handle, uint64_t token)
{
    enum held_by by;

    if (token != 0)
        return false;
    by = held_by(s->b, s->c->session, handle);
    if (by == HELD_BY_THIS ||
        (by == HELD_BY_NO_SESSION && !is_held_elsewhere(s, handle)) ||
        enq_valid(s->b->space, handle) != ENQ_OK)
        return false;
    reply_result(&s->reply, ENQ_NOTHELD, NULL,
        "The lock belongs to another session: give its TOKEN, or break it");
    return true;
}

static void serve_unlock(struct serving *s)
{
    enq_handle handle;
    int rc;

    if (was_done(s))
        return;
    rc = serving_handle(s, &handle);
    if (rc == ENQ_OK && is_anothers(s, handle, s->ask->token))
        return;
    if (rc == ENQ_OK) {
        rc = enq_unlock(s->b->space, handle, s->ask->token);
        reply_result(&s->reply, rc, NULL, enq_why());
        serving_done(s, rc, NULL);
        forget_if_gone(s, handle, rc);
        return;
    }
    reply_result(&s->reply, rc, NULL, enq_why());
}

static void serve_unset(struct serving *s)
{
    struct ask *ask = s->ask;
    int rc;

    if (was_done(s))
        return;
    for (unsigned i = 0; i < ask->n_grants; i++)
        if (is_anothers(s, ask->grants[i].handle, ask->grants[i].token))
            return;
    rc = enq_unlock_set(s->b->space, ask->grants, ask->n_grants);
    reply_result(&s->reply, rc, NULL, enq_why());
    serving_done(s, rc, NULL);
    for (unsigned i = 0; i < ask->n_grants; i++)
        forget_if_gone(s, ask->grants[i].handle, rc);
}

static void serve_promote(struct serving *s)
{
    struct enq_grant grant = {0};
    enq_handle handle;
    int rc;

    if (was_done(s))
        return;
    rc = serving_handle(s, &handle);
    if (rc == ENQ_OK && is_anothers(s, handle, s->ask->token))
        return;
    if (rc == ENQ_OK)
        rc = enq_promote(s->b->space, handle, s->ask->token, &grant);
    reply_result(&s->reply, rc, &grant, enq_why());
    if (rc != ENQ_OK)
        return;
    serving_done(s, rc, &grant);
    held_change(s->b, handle, grant.token, ENQ_MODE_E);
}

static void serve_demote(struct serving *s)
{
    enq_handle handle;
    int rc;

    if (was_done(s))
        return;
    rc = serving_handle(s, &handle);
    if (rc == ENQ_OK && is_anothers(s, handle, s->ask->token))
        return;
    if (rc == ENQ_OK)
        rc = enq_demote(s->b->space, handle, s->ask->token);
    reply_result(&s->reply, rc, NULL, enq_why());
    if (rc != ENQ_OK)
        return;
    serving_done(s, rc, NULL);
    held_change(s->b, handle, 0, ENQ_MODE_S);
}

static void serve_renew(struct serving *s)
{
    enq_handle handle;
    int rc = serving_handle(s, &handle);

    if (rc == ENQ_OK && is_anothers(s, handle, s->ask->token))
        return;
    if (rc == ENQ_OK)
        rc = enq_renew(s->b->space, handle, s->ask->token, s->ask->timeout_ms);
    reply_result(&s->reply, rc, NULL, enq_why());
}

static void serve_valid(struct serving *s)
{
    enq_handle handle;
    uint64_t token;
    uint8_t mode;
    int rc = serving_handle(s, &handle);

    if (rc == ENQ_OK)
        rc = enq_valid(s->b->space, handle);
    reply_begin(&s->reply, rc, enq_why());
    if (rc == ENQ_OK && held_look(s->b, handle, &token, &mode)) {
        text_member_big(s->reply.out, WIRE_TOKEN, token);
        text_member_text(s->reply.out, WIRE_MODE, reply_mode(mode));
    }
    reply_end(&s->reply);
}

static void serve_find(struct serving *s)
{
    enq_handle handle;
    int rc = serving_handle(s, &handle);

    reply_begin(&s->reply, rc, enq_why());
    if (rc == ENQ_OK)
        text_member_big(s->reply.out, WIRE_HANDLE, handle);
    reply_end(&s->reply);
}

static void serve_id(struct serving *s)
{
    char id[ENQ_ID_BYTES];
    int rc = enq_id(s->b->space, s->ask->handle, id);

    reply_begin(&s->reply, rc, enq_why());
    if (rc == ENQ_OK)
        text_member_text(s->reply.out, WIRE_lockUUID, id);
    reply_end(&s->reply);
}

/* --- adopting --- */

/* For a session it can be inherited, as what it has asked for itself. */
static int adopt(const struct serving *s, const char *id,
    struct enq_grant *grant)
{
    const struct session *session = s->c->session;

    if (session == NULL)
        return enq_adopt(s->b->space, id, grant);
    return enq_adopt_for(s->b->space, id, tag_heir(session->name), grant);
}

/* By a bridge that was gone before it could say so? Then its client asks for
   what it has. */
static bool has_adopted(const struct serving *s, const char *id,
    struct enq_grant *grant)
{
    struct held *h;

    if (s->c->session == NULL ||
        enq_find(s->b->space, id, &grant->handle) != ENQ_OK)
        return false;
    h = held_find(s->b, grant->handle);
    if (h == NULL || h->session != s->c->session || !h->was_adopted)
        return false;
    grant->token = h->token;
    grant->blocker.mode = h->mode;
    h->was_adopted = false;
    return true;
}

static void serve_adopt(struct serving *s)
{
    const char *id = s->ask->uuid == NULL ? "" : s->ask->uuid;
    struct enq_grant grant = {0};
    struct held h = {.request = s->request, .on_death = ENQ_DEATH_LEASE};
    int rc;

    if (was_done(s))
        return;
    if (has_adopted(s, id, &grant)) {
        reply_result(&s->reply, ENQ_OK, &grant, NULL);
        serving_done(s, ENQ_OK, &grant);
        return;
    }
    if (s->c->session != NULL && !held_room(s->b, 1)) {
        reply_full(&s->reply, held_no_room);
        return;
    }
    rc = adopt(s, id, &grant);
    reply_result(&s->reply, rc, &grant, enq_why());
    if (rc != ENQ_OK)
        return;
    peer_lost_lock(s->b->share, grant.handle);
    if (s->c->session == NULL) {
        peer_has_lock(s->b, s->c->from, grant.handle);
        return;
    }
    serving_done(s, rc, &grant);
    h.handle = grant.handle;
    h.token = grant.token;
    h.mode = grant.blocker.mode;
    held_add(s->b, s->c->session, &h);
}

/* --- more of a lock --- */

static void serve_break(struct serving *s)
{
    enq_handle handle;
    int rc;

    if (was_done(s))
        return;
    rc = serving_handle(s, &handle);
    if (rc == ENQ_OK) {
        char id[ENQ_ID_BYTES];

        rc = enq_id(s->b->space, handle, id);
        if (rc == ENQ_OK)
            rc = enq_break(s->b->space, id);
    }
    reply_result(&s->reply, rc, NULL, enq_why());
    if (rc == ENQ_OK)
        serving_done(s, rc, NULL);
}

static void serve_check(struct serving *s)
{
    const char *key[ENQ_KEY_FIELDS_MAX + 1] = {NULL};

    for (unsigned i = 0;
         i < ENQ_KEY_FIELDS_MAX && s->ask->key.req.key[i] != NULL; i++)
        key[i] = s->ask->key.req.key[i];
    reply_result(&s->reply,
        enq_check(s->b->space, s->ask->key.req.name, key, s->ask->token), NULL,
        enq_why());
}

static void serve_cancel(struct serving *s)
{
    struct wait *w = s->ask->ticket == NULL
        ? NULL
        : wait_of_request(s->b, s->c, s->ask->ticket);
    int rc =
        w == NULL ? ENQ_NOTHELD : enq_cancel(s->b->space, w->by_ticket.key);

    reply_result(&s->reply, rc, NULL,
        w == NULL ? "No request with this ticket is pending" : NULL);
}

/* --- sessions --- */

static void tell_session(struct serving *s, const struct joined *joined)
{
    const struct session *session = s->c->session;
    struct text *out = s->reply.out;

    reply_begin(&s->reply, ENQ_OK, NULL);
    text_member_text(out, WIRE_SESSION, joined->id);
    text_member_number(out, WIRE_VERSION, PROTOCOL_VERSION);
    text_member_number(out, WIRE_GRACE, session->grace_ms);
    text_member_number(out, WIRE_KEEPALIVE, s->b->options.limits.keepalive_ms);
    text_member(out, WIRE_RESUMED);
    text_put(out, joined->resumed ? "true" : "false", joined->resumed ? 4 : 5);
    TEXT_PUT(out, "," WIRE_KEY(WIRE_LIMITS) "{" WIRE_KEY(WIRE_window) "64");
    options_tell(&s->b->options.limits, out);
    TEXT_PUT(out, "}");
    reply_end(&s->reply);
}

static bool hello_is_late(const struct serving *s)
{
    return s->c->session != NULL || s->c->n_waits > 0 ||
        (s->c->n_looks > 0 && handoff_is_due(s)); /* they are made for here */
}

/* What is too long is refused, with any request, and never cut: two owners
   would be one. */
static bool owner_is_long(const struct serving *s)
{
    const char *owner = s->ask->owner;

    return owner != NULL && strnlen(owner, ENQ_OWNER_BYTES) == ENQ_OWNER_BYTES;
}

static void serve_hello(struct serving *s)
{
    struct joined joined;
    const char *full;

    if (!s->ask->has_id)
        reply_wrong(&s->reply, "hello needs a reqUUID");
    else if (hello_is_late(s))
        reply_wrong(&s->reply, "hello must be the first request");
    else if (s->ask->secret != NULL && s->ask->secret[0] != '\0')
        /* a client that has one believes that it is asked for */
        reply_wrong(&s->reply,
            "This bridge checks no tokens: say hello without one");
    else if (owner_is_long(s))
        reply_result(&s->reply, -36, NULL, /* ENAMETOOLONG */
            "The owner is longer than 127 bytes");
    else if (handoff_is_due(s))
        handoff_begin(s);
    else if ((full = session_join(s->b, s->c, s->ask, &joined)) != NULL)
        reply_full(&s->reply, full);
    else
        tell_session(s, &joined);
}

static void serve_ping(struct serving *s)
{
    reply_result(&s->reply, ENQ_OK, NULL, NULL);
}

static void serve_goodbye(struct serving *s)
{
    if (s->c->session != NULL) {
        over_by_wish(s->b, s->c, &s->reply);
        return;
    }
    reply_result(&s->reply, ENQ_OK, NULL, NULL);
    conn_finish(s->b, s->c);
}

/* --- all of them --- */

static void serve_look(struct serving *s)
{
    look_ask(s->b, s->c, s->ask, &s->reply);
}

static void (*const operations[])(struct serving *s) = {
    [OP_LOCK] = serve_lock,
    [OP_UNLOCK] = serve_unlock,
    [OP_PROMOTE] = serve_promote,
    [OP_LIST] = serve_look,
    [OP_SET] = serve_set,
    [OP_UNSET] = serve_unset,
    [OP_DEMOTE] = serve_demote,
    [OP_RENEW] = serve_renew,
    [OP_VALID] = serve_valid,
    [OP_FIND] = serve_find,
    [OP_ID] = serve_id,
    [OP_ADOPT] = serve_adopt,
    [OP_BREAK] = serve_break,
    [OP_CHECK] = serve_check,
    [OP_CANCEL] = serve_cancel,
    [OP_GRAPH] = serve_look,
    [OP_STAT] = serve_look,
    [OP_DOCTOR] = serve_look,
    [OP_HELLO] = serve_hello,
    [OP_PING] = serve_ping,
    [OP_GOODBYE] = serve_goodbye,
};

void serve(struct bridge *b, struct conn *c, struct scan_value *values,
    char *bytes)
{
    ask_read(&b->ask, values, bytes, c->session != NULL);
    serve_asked(b, c);
}

void serve_asked(struct bridge *b, struct conn *c)
{
    struct ask *ask = &b->ask;
    struct serving s = {.b = b, .c = c, .ask = ask};

    s.reply = (struct reply){
        &c->out, ask->op, ask->has_id ? ask->id : NULL, ask->id_is_number};
    s.request = ask->has_id ? table_hash(ask->id) : 0;
    if (c->surplus)
        reply_full(&s.reply, "Too many connections");
    else if (ask->wrong != NULL)
        reply_wrong(&s.reply, ask->wrong);
    else
        operations[ask->op](&s);
    if (c->surplus)
        conn_finish(b, c);
    else
        conn_wrote(b, c);
}
