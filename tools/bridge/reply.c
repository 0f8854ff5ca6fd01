/*
 * reply.c - what is said to a client (see reply.h).
 */
#include "reply.h"

/* --- RC --- */

static bool may_be_refused(enum op op)
{
    return op == OP_PROMOTE || op == OP_DEMOTE || op == OP_ADOPT ||
        op == OP_RENEW;
}

/* enqueue-server says no more of a promotion than that it was not possible. */
static char rc_of(const struct reply *r, int result)
{
    switch (result) {
    case ENQ_OK:
    case ENQ_PENDING:
        return '0';
    case ENQ_BUSY:
    case ENQ_TIMEDOUT:
    case ENQ_DEADLOCK:
        return '1';
    case ENQ_REFUSED:
    case ENQ_LOST:
        return may_be_refused(r->op) ? '2' : '4';
    default:
        return r->op == OP_PROMOTE && r->id == NULL && result > 0 ? '2' : '4';
    }
}

/* The words of enqueue-server, where it has some. */
static const char *old_words(int result)
{
    switch (result) {
    case ENQ_EXISTS:
        return "Lock already exists!";
    case ENQ_CANCELLED:
    case ENQ_FORCED:
        return "Lock request cancelled";
    case ENQ_EFULL:
        return "Lock table overflow";
    default:
        return NULL;
    }
}

static const char *words(const struct reply *r, int result, const char *why)
{
    const char *old = old_words(result);

    if (r->id == NULL && r->op != OP_LOCK && result > 0)
        return "The lock does not exist!";
    if (old != NULL && (r->id == NULL || result == ENQ_EXISTS))
        return old;
    return why != NULL && why[0] != '\0' ? why : enq_strerror(result);
}

/* --- parts --- */

void reply_begin(const struct reply *r, int result, const char *why)
{
    char begin[] = "{" WIRE_KEY(WIRE_RC) "\"?\"", rc;

    if (result == ENQ_OK && r->id != NULL) {
        TEXT_PUT(r->out,
            "{" WIRE_KEY(WIRE_RC) "\"0\"," WIRE_KEY(WIRE_RESULT) "0");
        return;
    }
    rc = rc_of(r, result);
    begin[sizeof("{" WIRE_KEY(WIRE_RC) "\"") - 1] = rc;
    TEXT_PUT(r->out, begin);
    if (r->id != NULL)
        text_member_number(r->out, WIRE_RESULT, result);
    if (rc == '4' || (rc != '0' && r->id != NULL))
        text_member_text(r->out, WIRE_MSG, words(r, result, why));
}

void reply_id(struct text *out, const char *name, const char *id, bool number)
{
    text_member(out, name);
    if (number)
        text_put(out, id, strlen(id));
    else
        text_quote(out, id);
}

void reply_end(const struct reply *r)
{
    if (r->id == NULL) {
        TEXT_PUT(r->out, "}");
        return;
    }
    reply_id(r->out, WIRE_reqUUID, r->id, r->id_is_number);
    TEXT_PUT(r->out, "}\n");
}

const char *reply_mode(uint8_t mode)
{
    static const char *const letters[] = {"?", "S", "E", "X", "O"};

    return letters[mode <= ENQ_MODE_O ? mode : 0];
}

void reply_blocker(struct text *out, const struct enq_blocker *b)
{
    TEXT_PUT(out, "," WIRE_KEY(WIRE_OWNER));
    text_quote(out, b->owner);
    TEXT_PUT(out, "," WIRE_KEY(WIRE_BLOCKER) "{" WIRE_KEY(WIRE_owner));
    text_quote(out, b->owner);
    text_member_text(out, WIRE_id, b->id);
    text_member_number(out, WIRE_pid, b->pid);
    text_member_text(out, WIRE_mode, reply_mode(b->mode));
    text_member_number(out, WIRE_waiting, b->waiting);
    if (b->dying)
        text_member_number(out, WIRE_dying, 1);
    text_member_number(out, WIRE_age, b->age_ms);
    text_member_number(out, WIRE_ttl, b->ttl_left_ms);
    text_member_number(out, WIRE_queue, b->queue);
    TEXT_PUT(out, "}");
}

void reply_grant(struct text *out, const struct enq_grant *grant)
{
    TEXT_PUT(out, "," WIRE_KEY(WIRE_HANDLE) "\"");
    text_unsigned(out, grant->handle);
    TEXT_PUT(out, "\"," WIRE_KEY(WIRE_TOKEN) "\"");
    text_unsigned(out, grant->token);
    TEXT_PUT(out, "\"");
}

/* The blocker, if it was told. A lock without an owner may be one: its owner is
   empty, and its id is not. Of a promotion that was lost only the owner is. */
static bool has_blocker(int result, const struct enq_grant *g)
{
    return g != NULL &&
        (g->blocker.owner[0] != '\0' || g->blocker.id[0] != '\0') &&
        (result == ENQ_BUSY || result == ENQ_TIMEDOUT || result == ENQ_EXISTS ||
            result == ENQ_REFUSED || result == ENQ_LOST ||
            result == ENQ_DEADLOCK || result == ENQ_PENDING);
}

void reply_grants(struct text *out, int result, const struct enq_grant *grants,
    unsigned n)
{
    if (result == ENQ_OK) {
        text_member(out, WIRE_GRANTS);
        for (unsigned i = 0; i < n; i++) {
            text_put(out, i == 0 ? "[{" : ",{", 2);
            TEXT_PUT(out, WIRE_KEY(WIRE_HANDLE) "\"");
            text_unsigned(out, grants[i].handle);
            TEXT_PUT(out, "\"");
            text_member_big(out, WIRE_TOKEN, grants[i].token);
            TEXT_PUT(out, "}");
        }
        TEXT_PUT(out, "]");
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        if (!has_blocker(result, &grants[i]))
            continue;
        text_member_number(out, WIRE_INDEX, i);
        reply_blocker(out, &grants[i].blocker);
        return;
    }
}

/* --- whole ones --- */

void reply_refuse(struct text *out, const char *why)
{
    TEXT_PUT(out, "{" WIRE_KEY(WIRE_RC) "\"4\"," WIRE_KEY(WIRE_MSG));
    text_quote(out, why);
    TEXT_PUT(out, "}");
}

static void deny(const struct reply *r, int result, const char *why)
{
    if (r->id == NULL && r->op == OP_LIST) {
        /* whose client knows no refusal: an empty list */
        text_put(r->out, "\2\0\0\0[]", 6);
        return;
    }
    if (r->id == NULL) {
        reply_refuse(r->out, why);
        return;
    }
    reply_begin(r, result, why);
    reply_end(r);
}

void reply_wrong(const struct reply *r, const char *why)
{
    deny(r, -22, why); /* EINVAL, as the library would say */
}

void reply_full(const struct reply *r, const char *why)
{
    deny(r, ENQ_EFULL, why);
}

void reply_result(const struct reply *r, int result,
    const struct enq_grant *grant, const char *why)
{
    reply_begin(r, result, why);
    if (r->id != NULL && grant != NULL && result == ENQ_OK)
        reply_grant(r->out, grant);
    if (has_blocker(result, grant) && r->id != NULL)
        reply_blocker(r->out, &grant->blocker);
    else if (r->op == OP_LOCK && rc_of(r, result) == '1')
        text_member_text(r->out, WIRE_OWNER, grant->blocker.owner);
    else if (r->op == OP_PROMOTE && rc_of(r, result) == '2' &&
        has_blocker(result, grant))
        text_member_text(r->out, WIRE_MSG, grant->blocker.owner);
    reply_end(r);
}

void reply_named(const struct reply *r, const struct enq_grant *grant,
    const char *id)
{
    reply_begin(r, ENQ_OK, NULL);
    if (r->id != NULL)
        reply_grant(r->out, grant);
    text_member_text(r->out, WIRE_uuid, id);
    reply_end(r);
}

/* --- events --- */

void reply_event(struct text *out, const char *kind, int result)
{
    TEXT_PUT(out, "{" WIRE_KEY(WIRE_EVENT));
    text_quote(out, kind);
    text_member_number(out, WIRE_RESULT, result);
}

void reply_event_end(struct text *out)
{
    TEXT_PUT(out, "}\n");
}
