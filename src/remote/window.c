/*
 * window.c - remote: what is sent to the bridge, when, and when again. All of
 * it under the attachment's mutex.
 */
#include "remote/window.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/why.h"
#include "channel/ask.h"
#include "remote/client.h"
#include "remote/event.h"
#include "remote/leader.h"
#include "remote/pending.h"
#include "remote/receive.h"
#include "remote/sure.h"
#include "sync/sys.h"

/* --- in and out --- */

void pending_queue(struct remote *r, struct pending *c)
{
    c->number = ++r->n_requests;
    ask_end(&c->ask, c->number);
    c->phase = PENDING_UNSENT;
    cds_list_add_tail(&c->node, &r->unsent);
    number_map_add(&r->pending, &c->by_number, c->number);
}

/* Does it count among those that the bridge may have done? */
static bool is_of_window(const struct pending *c)
{
    return !c->waits && c->phase != PENDING_UNSENT;
}

void pending_remove(struct remote *r, struct pending *c)
{
    r->n_window -= is_of_window(c);
    cds_list_del(&c->node);
    number_map_remove(&r->pending, &c->by_number);
}

void pending_free(struct pending *c)
{
    text_free(&c->ask);
    pthread_cond_destroy(&c->done);
    free(c);
}

static void fail_started(struct remote *r, struct remote_started *s, int result)
{
    s->request.result = result;
    if (s->request.abandoned)
        pending_free(&s->request);
    else if (s->is_told)
        remote_event_result(r, s);
}

void pending_fail(struct remote *r, struct pending *c, int result,
    const char *why)
{
    bool pending = c->phase == PENDING_STARTED;

    pending_remove(r, c);
    c->phase = PENDING_DONE;
    c->result = result;
    why_copy(c->why, sizeof(c->why), why);
    if (pending)
        fail_started(r, caa_container_of(c, struct remote_started, request),
            result);
    else if (c->posted || c->abandoned)
        pending_free(c);
    else
        pthread_cond_signal(&c->done);
}

/* --- out to the bridge --- */

bool pending_flush(struct remote *r)
{
    ssize_t n = 0;

    if (r->out.failed)
        return false;
    while (r->out_at < r->out.n) {
        n = send(r->fd, r->out.bytes + r->out_at, r->out.n - r->out_at,
            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        r->out_at += (size_t)n;
    }
    if (n < 0 && errno != EAGAIN)
        return false;
    if (r->out_at == r->out.n)
        r->out.n = r->out_at = 0;
    r->stuck = r->out.n > 0;
    return true;
}

static bool is_too_long(struct remote *r, struct pending *c)
{
    char text[128];

    if ((int64_t)c->ask.n <= r->request_bytes)
        return false;
    snprintf(text, sizeof(text),
        "the request has %zu bytes: the bridge takes at most %lld "
        "(--max-request)",
        c->ask.n, (long long)r->request_bytes);
    pending_fail(r, c, -EMSGSIZE, text);
    return true;
}

mono_t pending_waited_at(const struct pending *c, mono_t sure_at)
{
    return sure_at.ns > c->put_at.ns ? sure_at : c->waited_at;
}

/* Of a wait that goes on what is left of it: rather a millisecond more, as it
   must not end before its time. */
static void put(struct remote *r, struct pending *c)
{
    mono_t now = sys.now();
    int64_t left_ms;

    if (c->again && c->wait_at != 0) {
        left_ms = mono_ms_between(now, c->wait_ends);
        ask_set_wait(&c->ask, c->wait_at, left_ms > 0 ? left_ms + 1 : 1);
    }
    if (c->again)
        c->waited_at = pending_waited_at(c, r->sure.lost_at);
    else
        c->sent_at = c->waited_at = now;
    c->put_at = now;
    r->said_at = now;
    text_put(&r->out, c->ask.bytes, c->ask.n);
}

/* Broken: the reader is told by its end of the socket. */
static void flush_or_break(struct remote *r)
{
    bool stuck = r->stuck;

    if (!pending_flush(r))
        shutdown(r->fd, SHUT_RDWR);
    else if (r->stuck && !stuck)
        remote_ring(r);
}

void pending_push(struct remote *r)
{
    struct pending *c, *next;

    if (r->phase != LINK_UP)
        return;
    cds_list_for_each_entry_safe (c, next, &r->unsent, node) {
        if (!c->waits && r->n_window >= WINDOW)
            break; /* nor does what waits pass it */
        if (is_too_long(r, c))
            continue;
        cds_list_del(&c->node);
        cds_list_add_tail(&c->node, &r->sent);
        c->phase = PENDING_SENT;
        r->n_window += is_of_window(c);
        put(r, c);
    }
    flush_or_break(r);
}

void pending_cancelled(struct remote *r, uint64_t number)
{
    struct map_node *node;

    pthread_mutex_lock(&r->mutex);
    node = number_map_find(&r->pending, number);
    if (node != NULL)
        caa_container_of(node, struct pending, by_number)->cancelled = true;
    pthread_mutex_unlock(&r->mutex);
}

/* True: that is its end. */
static bool was_cancelled(struct remote *r, struct pending *c)
{
    if (!c->cancelled)
        return false;
    pending_fail(r, c, ENQ_CANCELLED, enq_strerror(ENQ_CANCELLED));
    return true;
}

void pending_send_again(struct remote *r)
{
    struct pending *c, *next;

    cds_list_for_each_entry_safe (c, next, &r->sent, node) {
        c->again = true;
        if (!was_cancelled(r, c) && !is_too_long(r, c))
            put(r, c);
    }
    pending_push(r);
}

/* What was posted, or is wanted by nobody any more, was about the locks of the
   session that is over. */
void pending_forget_session(struct remote *r)
{
    struct pending *c, *next;

    cds_list_for_each_entry_safe (c, next, &r->sent, node)
        if (c->posted || c->abandoned) {
            pending_remove(r, c);
            pending_free(c);
        }
    cds_list_for_each_entry_safe (c, next, &r->unsent, node)
        if (c->posted) {
            pending_remove(r, c);
            pending_free(c);
        }
}
