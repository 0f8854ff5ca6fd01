/*
 * hold.c - remote: what can be done at a bridge with a lock (see hold.h).
 */
#include "remote/hold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/why.h"
#include "channel/answer.h"
#include "channel/ask.h"
#include "remote/await.h"
#include "remote/client.h"
#include "remote/held.h"
#include "remote/pending.h"
#include "remote/window.h"

static struct pending *begin(enum op op, enq_handle handle, uint64_t token)
{
    struct pending *c = pending_new(op);

    if (c == NULL)
        return NULL;
    ask_grant(&c->ask, handle, token);
    c->handle = handle;
    c->token = token;
    return c;
}

static int finish(struct remote *r, struct pending *c)
{
    return c == NULL ? -ENOMEM : pending_ask(r, c, 0, SLACK_MS);
}

/* Why a lock is gone. */
static bool is_gone(int result)
{
    switch (result) {
    case ENQ_NOTHELD:
    case ENQ_EXPIRED:
    case ENQ_LOST:
    case ENQ_FORCED:
    case ENQ_OWNERDIED:
    case ENQ_CANCELLED:
        return true;
    default:
        return false;
    }
}

/* --- the end --- */

/*
 * It may have been done when it was sent first, and so long ago that the bridge
 * has forgotten that: then it says that there is no such lock.
 */
static void take_unlock(struct remote *r, struct pending *c,
    const struct answer *a)
{
    if (c->again && a->result == ENQ_NOTHELD &&
        held_has(r, c->handle, c->token))
        c->result = ENQ_OK;
    if (a->result == ENQ_OK || is_gone(a->result))
        held_drop(r, c->handle, c->token);
}

int remote_unlock(struct remote *r, enq_handle handle, uint64_t token)
{
    struct pending *c = begin(OP_UNLOCK, handle, token);
    int rc;

    if (c != NULL)
        c->take = take_unlock;
    held_leave(r, handle, token, true);
    rc = finish(r, c);
    if (rc < 0) /* nobody knows */
        held_leave(r, handle, token, false);
    return rc;
}

struct given {
    const struct enq_grant *grants;
    size_t n;
};

static void take_unset(struct remote *r, struct pending *c,
    const struct answer *a)
{
    const struct given *given = c->to;

    if (a->result != ENQ_OK && !is_gone(a->result))
        return;
    for (size_t i = 0; i < given->n; i++)
        held_drop(r, given->grants[i].handle, given->grants[i].token);
}

static int unlock_some(struct remote *r, const struct enq_grant *grants,
    size_t n)
{
    struct given given = {grants, n};
    struct pending *c = pending_new(OP_UNSET);

    if (c == NULL)
        return -ENOMEM;
    c->to = &given;
    c->take = take_unset;
    if (ask_grants(&c->ask, grants, n) > 0)
        return finish(r, c);
    pending_free(c);
    return ENQ_OK; /* nothing to give back */
}

/* As many at a time as the bridge takes; the first answer but ENQ_OK counts. */
int remote_unlock_set(struct remote *r, const struct enq_grant *grants,
    size_t n)
{
    int first = ENQ_OK;
    char text[WHY_BYTES] = "";

    for (size_t at = 0; at < n; at += ENQ_SET_MAX) {
        size_t some = n - at < ENQ_SET_MAX ? n - at : ENQ_SET_MAX;
        int rc = unlock_some(r, grants + at, some);

        if (rc != ENQ_OK && first == ENQ_OK) {
            first = rc;
            why_copy(text, sizeof(text), enq_why());
        }
    }
    return first == ENQ_OK ? first : why(first, "%s", text);
}

/* --- changes --- */

static void take_promote(struct remote *r, struct pending *c,
    const struct answer *a)
{
    struct enq_grant *grant = c->to;

    if (a->result == ENQ_OK) {
        grant->token = a->token;
        held_promoted(r, c->handle, a->token);
    } else if (is_gone(a->result)) {
        held_drop(r, c->handle, c->token);
    }
    if (a->has_blocker)
        grant->blocker = a->blocker;
}

int remote_promote(struct remote *r, enq_handle handle, uint64_t token,
    struct enq_grant *grant)
{
    struct pending *c = begin(OP_PROMOTE, handle, token);

    grant->handle = handle;
    grant->blocker.owner[0] = '\0';
    if (c != NULL) {
        c->take = take_promote;
        c->to = grant;
    }
    return finish(r, c);
}

static void take_change(struct remote *r, struct pending *c,
    const struct answer *a)
{
    if (is_gone(a->result))
        held_drop(r, c->handle, c->token);
}

int remote_demote(struct remote *r, enq_handle handle, uint64_t token)
{
    struct pending *c = begin(OP_DEMOTE, handle, token);

    if (c != NULL)
        c->take = take_change;
    return finish(r, c);
}

static void take_renew(struct remote *r, struct pending *c,
    const struct answer *a)
{
    if (a->result == ENQ_OK)
        held_renewed(r, c->handle, c->sent_at, c->ttl_ms);
    else
        take_change(r, c, a);
}

int remote_renew(struct remote *r, enq_handle handle, uint64_t token,
    int64_t ttl_ms)
{
    struct pending *c = begin(OP_RENEW, handle, token);

    if (c != NULL) {
        ask_timeout(&c->ask, ttl_ms);
        c->ttl_ms = ttl_ms;
        c->take = take_renew;
    }
    return finish(r, c);
}

static bool is_up(struct remote *r)
{
    bool up;

    pthread_mutex_lock(&r->mutex);
    up = r->phase == LINK_UP;
    pthread_mutex_unlock(&r->mutex);
    return up;
}

static int why_suspect(const struct remote *r)
{
    return why(ENQ_ELEASE,
        "%s has not answered for the grace period: another may have the lock",
        r->name);
}

int remote_valid(struct remote *r, enq_handle handle)
{
    int rc;

    if (!held_look(r, handle, &rc) || (rc == ENQ_PENDING && is_up(r)))
        return finish(r, begin(OP_VALID, handle, 0));
    if (rc == ENQ_PENDING || rc == ENQ_ELEASE)
        return why_suspect(r);
    return rc == ENQ_OK
        ? rc
        : why(rc, "cannot rely on the lock: %s", enq_strerror(rc));
}

int remote_check(struct remote *r, const char *name, const char *const *key,
    uint64_t token)
{
    static const char *const none[] = {NULL};
    struct pending *c;
    int rc = ask_check("name", name);

    for (unsigned i = 0; rc == 0 && key != NULL && key[i] != NULL; i++)
        rc = ask_check("field", key[i]);
    if (rc != 0)
        return rc;
    c = pending_new(OP_CHECK);
    if (c != NULL) {
        ask_key(&c->ask, name, key == NULL ? none : key);
        text_member_big(&c->ask, WIRE_TOKEN, token);
    }
    return finish(r, c);
}

/* --- by id --- */

static struct pending *begin_id(enum op op, const char *id)
{
    struct pending *c = pending_new(op);

    if (c != NULL)
        text_member_text(&c->ask, WIRE_lockUUID, id);
    return c;
}

static void take_handle(struct remote *r, struct pending *c,
    const struct answer *a)
{
    (void)r;
    *(enq_handle *)c->to = a->handle;
}

int remote_find(struct remote *r, const char *id, enq_handle *handle)
{
    struct pending *c;
    int rc = ask_check("id", id);

    if (rc != 0)
        return rc;
    c = begin_id(OP_FIND, id);
    if (c != NULL) {
        c->take = take_handle;
        c->to = handle;
    }
    return finish(r, c);
}

static void take_id(struct remote *r, struct pending *c, const struct answer *a)
{
    (void)r;
    snprintf(c->to, ENQ_ID_BYTES, "%s", a->id);
}

int remote_id(struct remote *r, enq_handle handle, char *id)
{
    struct pending *c = begin(OP_ID, handle, 0);

    if (c != NULL) {
        c->take = take_id;
        c->to = id;
    }
    return finish(r, c);
}

/* Its ttl is not told, nor what shall become of it: for that its bridge is
   asked each time. */
static void take_adopted(struct remote *r, struct pending *c,
    const struct answer *a)
{
    struct enq_grant *grant = c->to;
    const struct want want = {.on_death = ENQ_DEATH_LEASE};

    if (a->result != ENQ_OK)
        return;
    grant->handle = a->handle;
    grant->token = a->token;
    held_add(r, grant, &want, (struct since){c->sent_at, c->sent_at});
}

int remote_adopt(struct remote *r, const char *id, struct enq_grant *grant)
{
    struct pending *c;
    int rc = ask_check("id", id);

    grant->blocker.owner[0] = '\0';
    if (rc != 0)
        return rc;
    c = begin_id(OP_ADOPT, id);
    if (c != NULL) {
        c->take = take_adopted;
        c->to = grant;
    }
    return finish(r, c);
}

int remote_break(struct remote *r, const char *id)
{
    int rc = ask_check("id", id);

    return rc != 0 ? rc : finish(r, begin_id(OP_BREAK, id));
}
