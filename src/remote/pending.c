/*
 * pending.c - remote: requests, and what is done with their answers.
 *
 * An answer is read without the mutex (PENDING_TAKING), as lists are long; a
 * caller whose time is over meanwhile waits for the end of that. A request that
 * its caller has given up goes on without it: a lock that it gets is given
 * back.
 */
#include "remote/pending.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/why.h"
#include "channel/answer.h"
#include "channel/ask.h"
#include "remote/await.h"
#include "remote/client.h"
#include "remote/event.h"
#include "remote/held.h"
#include "remote/sure.h"
#include "remote/window.h"

void pending_begin(struct pending *c, enum op op)
{
    pthread_condattr_t attr;

    memset(c, 0, sizeof(*c));
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->done, &attr);
    pthread_condattr_destroy(&attr);
    c->wait_ends = MONO_NEVER;
    ask_begin(&c->ask, op);
}

struct pending *pending_new(enum op op)
{
    struct pending *c = malloc(sizeof(*c));

    if (c == NULL) {
        why(-ENOMEM, "out of memory for a request");
        return NULL;
    }
    pending_begin(c, op);
    return c;
}

/* --- giving back --- */

static void post_unlock(struct remote *r, const struct enq_grant *g)
{
    struct pending *c = pending_new(OP_UNLOCK);

    if (c == NULL)
        return; /* it ends with its ttl, or the session */
    ask_grant(&c->ask, g->handle, g->token);
    pending_post(r, c);
}

void pending_give_back(struct remote *r, const struct answer *a)
{
    struct enq_grant g = {.handle = a->handle, .token = a->token};
    struct scan_value *at = fields_first(a->grants);

    if (g.handle != 0)
        post_unlock(r, &g);
    for (; at != NULL; at = fields_next(a->grants, at)) {
        answer_grant(a, at, &g);
        post_unlock(r, &g);
    }
}

/* The answer to what nobody wants any more: what was granted, or is left of
   it. */
static void settle(struct remote *r, const struct pending *c,
    const struct answer *a)
{
    if (c->locks && (a->result == ENQ_OK || a->result == ENQ_NOTHELD))
        pending_give_back(r, a);
}

/* --- answers --- */

static struct pending *find(const struct remote *r, uint64_t number)
{
    struct map_node *node = number_map_find(&r->pending, number);

    return node == NULL ? NULL
                        : caa_container_of(node, struct pending, by_number);
}

/* It waits at the bridge; its caller is told so, once. */
static void is_pending(struct pending *c, const struct answer *a)
{
    struct remote_started *s =
        caa_container_of(c, struct remote_started, request);

    if (s->is_pending)
        return;
    s->is_pending = true;
    if (a->has_blocker)
        s->blocker = a->blocker;
    s->index = a->index;
    pthread_cond_signal(&c->done);
}

/* A started one whose caller has not woken up yet is left to the caller. */
static void conclude(struct remote *r, struct pending *c)
{
    struct remote_started *s =
        caa_container_of(c, struct remote_started, request);

    pending_remove(r, c);
    c->phase = PENDING_DONE;
    if (c->posted || c->abandoned)
        pending_free(c);
    else if (c->started && s->is_told)
        remote_event_result(r, s);
    else
        pthread_cond_signal(&c->done);
}

/* A late reply to what was sent again may meet a call that is answered: its
   number is forgotten then. */
void pending_answered(struct remote *r, const struct answer *a)
{
    enum pending_phase before;
    struct pending *c;
    bool wanted;

    pthread_mutex_lock(&r->mutex);
    c = find(r, a->number);
    if (c == NULL || c->phase == PENDING_UNSENT) {
        pthread_mutex_unlock(&r->mutex);
        return;
    }
    /* A request that timed out has waited, also when the word of that was lost
       with a connection: enq_start() does not end like that, its event does. */
    if (c->started && (a->result == ENQ_PENDING || a->result == ENQ_TIMEDOUT))
        is_pending(c, a);
    if (c->started && a->result == ENQ_PENDING) {
        c->phase = PENDING_STARTED;
        c->waited_at = c->put_at;
        sure_answered(r, c->put_at);
        pthread_mutex_unlock(&r->mutex);
        return;
    }
    before = c->phase;
    c->phase = PENDING_TAKING;
    wanted = !c->abandoned;
    c->result = a->result;
    if (a->msg[0] != '\0')
        why_copy(c->why, sizeof(c->why), a->msg);
    pthread_mutex_unlock(&r->mutex);
    if (!wanted)
        settle(r, c, a);
    else if (c->take != NULL)
        c->take(r, c, a);
    pthread_mutex_lock(&r->mutex);
    sure_answered(r, c->put_at);
    c->phase = before;
    conclude(r, c);
    pending_push(r);
    pthread_mutex_unlock(&r->mutex);
}

/* --- posting --- */

void pending_post(struct remote *r, struct pending *c)
{
    c->posted = true;
    if (c->ask.failed) {
        pending_free(c);
        return;
    }
    pthread_mutex_lock(&r->mutex);
    pending_queue(r, c);
    pending_push(r);
    pthread_mutex_unlock(&r->mutex);
}
