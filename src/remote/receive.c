/*
 * receive.c - remote: what a bridge says is read, cut into messages, and each
 * given to what it concerns. By one thread at a time.
 */
#include "remote/receive.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/why.h"
#include "channel/answer.h"
#include "remote/client.h"
#include "remote/event.h"
#include "remote/greet.h"
#include "remote/held.h"
#include "remote/pending.h"
#include "sync/sys.h"

/* A read, at most; and what may be one reply: no bridge says more. */
#define READ_BYTES 65536u
#define REPLY_BYTES_MAX ((size_t)1 << 30)
#define VALUES_FEW 256u

/* --- one message --- */

static void take_event(struct remote *r, const struct answer *a)
{
    if (strcmp(a->event, WIRE_blocking) == 0)
        held_told(r, a->handle, REMOTE_EVENT_BLOCKING, a->owner);
    else if (strcmp(a->event, WIRE_expiring) == 0)
        held_told(r, a->handle, REMOTE_EVENT_EXPIRING, "");
    else if (strcmp(a->event, WIRE_expired) == 0)
        held_gone(r, a->handle, ENQ_EXPIRED, "");
    else if (strcmp(a->event, WIRE_lost) == 0)
        held_gone(r, a->handle, a->result, a->owner);
}

/* What is no reply to a request of ours: a bridge that refuses, without our
   reqUUID, what it could not read. It closes the connection then. */
static int take_answer(struct remote *r, char *bytes)
{
    struct answer a;

    answer_read(&a, r->values, bytes);
    if (r->phase == LINK_GREETING)
        return remote_greeted(r, &a);
    if (a.event != NULL && strcmp(a.event, WIRE_result) != 0)
        take_event(r, &a);
    else if (a.number != 0)
        pending_answered(r, &a);
    else
        return remote_broken(r, -EPROTO, a.msg);
    return 0;
}

static bool grow_values(struct remote *r)
{
    size_t n = r->n_values == 0 ? VALUES_FEW : r->n_values * 2;
    struct scan_value *values = realloc(r->values, n * sizeof(*values));

    if (values == NULL)
        return false;
    r->values = values;
    r->n_values = n;
    return true;
}

/* One that is whole, from @at. @used: 0: there is none yet. */
static int take_one(struct remote *r, size_t at, size_t *used)
{
    struct scan s = {r->values, (uint32_t)r->n_values, 0};
    size_t n;

    *used = 0;
    switch (scan(&s, r->in.bytes + at, r->in.n - at, &n)) {
    case SCAN_WHOLE:
        *used = n;
        return take_answer(r, r->in.bytes + at);
    case SCAN_MORE:
        return 0;
    case SCAN_MANY:
        return grow_values(r)
            ? take_one(r, at, used)
            : remote_broken(r, -ENOMEM, "out of memory for a reply");
    default:
        return remote_broken(r, -EPROTO, "what answers is not an enq-bridge");
    }
}

/* --- all that has come --- */

/* Behind the last reply: else the buffer would never be empty, and never
   shrink. Before a reply the scanner skips any blank. */
static size_t line_ends(const char *bytes, size_t n)
{
    size_t i = 0;

    while (i < n && bytes[i] == '\n')
        i++;
    return i;
}

/* Lists may have been long. */
static void shrink(struct remote *r)
{
    if (r->in.n > 0)
        return;
    if (r->in.room > 16 * READ_BYTES)
        text_free(&r->in);
    if (r->n_values > 16 * VALUES_FEW) {
        free(r->values);
        r->values = NULL;
        r->n_values = 0;
    }
}

static int take_all(struct remote *r)
{
    size_t at = 0, used = 1;
    int rc = 0;

    if (r->n_values == 0 && !grow_values(r))
        return remote_broken(r, -ENOMEM, "out of memory for a reply");
    while (rc == 0 && used > 0) {
        at += line_ends(r->in.bytes + at, r->in.n - at);
        used = 0;
        if (at < r->in.n)
            rc = take_one(r, at, &used);
        at += used;
    }
    r->in.n -= at;
    memmove(r->in.bytes, r->in.bytes + at, r->in.n);
    r->frame = (struct frame){0};
    if (r->in.n > 0) /* from now on only bytes that are new are looked at */
        (void)frame_ends(&r->frame, r->in.bytes, r->in.n);
    shrink(r);
    return rc;
}

/* The socket waits for HEAR_MS at most (link.c): a read that waits is one
   system call less than poll() and a read. */
static int receive(struct remote *r, bool wait)
{
    ssize_t n = recv(r->fd, r->in.bytes + r->in.n, r->in.room - r->in.n,
        wait ? 0 : MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return -EAGAIN;
    if (n < 0)
        return remote_broken(r, -errno, strerrordesc_np(errno));
    if (n == 0)
        return remote_broken(r, -ECONNRESET,
            "the bridge closed the connection");
    r->in.n += (size_t)n;
    pthread_mutex_lock(&r->mutex);
    r->received_at = sys.now();
    pthread_mutex_unlock(&r->mutex);
    return 0;
}

int remote_receive(struct remote *r, bool wait)
{
    size_t before = r->in.n;
    int rc;

    if (before > REPLY_BYTES_MAX || !text_room(&r->in, READ_BYTES))
        return remote_broken(r, -ENOMEM, "out of memory for a reply");
    rc = receive(r, wait);
    if (rc != 0)
        return rc;
    if (before > 0 &&
        !frame_ends(&r->frame, r->in.bytes + before, r->in.n - before))
        return 0;
    return take_all(r);
}
