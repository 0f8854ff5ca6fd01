/*
 * hear.c - what connections say (see hear.h).
 *
 * A read goes into one buffer of the loop; only the begin of a request that is
 * not all there is copied to memory of the connection's own. So ten thousand
 * idle connections cost no buffers, and a request that comes in small pieces is
 * looked at once: frame_ends() tells when it is worth scanning.
 */
#include "hear.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "conn.h"
#include "move.h"
#include "reply.h"
#include "wait.h"

/* --- the begin of a request --- */

/* Few requests come in pieces: that all loops count at one place costs none of
   them anything. */
static void set_room(struct bridge *b, struct conn *c, size_t room)
{
    atomic_fetch_add_explicit(&b->share->partial_bytes, room - c->in_room,
        memory_order_relaxed);
    c->in_room = room;
}

void hear_no_more(struct bridge *b, struct conn *c)
{
    free(c->in);
    c->in = NULL;
    c->in_n = 0;
    if (c->in_room > 0)
        set_room(b, c, 0);
    c->frame = (struct frame){0};
    if (c->is_partial)
        cds_list_del(&c->partial);
    c->is_partial = false;
}

/* --- what is said --- */

static void refuse_found(struct bridge *b, struct conn *c,
    enum scan_found found)
{
    conn_refuse(b, c,
        found == SCAN_DEEP       ? "The request is nested deeper than 16"
            : found == SCAN_MANY ? "The request has too many values"
                                 : "The request is no JSON");
}

static void refuse_long(struct bridge *b, struct conn *c)
{
    char why[96];

    snprintf(why, sizeof(why), "The request is longer than %lld bytes",
        (long long)b->options.limits.request_bytes);
    conn_refuse(b, c, why);
}

/* Between requests; they belong to none. */
static size_t blanks(const char *bytes, size_t n)
{
    size_t i = 0;

    while (i < n &&
        (bytes[i] == ' ' || bytes[i] == '\n' || bytes[i] == '\r' ||
            bytes[i] == '\t'))
        i++;
    return i;
}

static bool is_number(char c)
{
    return c == '-' || (c >= '0' && c <= '9');
}

/*
 * Serves what is whole; the bytes that it took. The rest is the begin of a
 * request, or wrong, which was said.
 */
static size_t serve_whole(struct bridge *b, struct conn *c, char *bytes,
    size_t n)
{
    struct scan s = {b->values, VALUES_MAX, 0};
    size_t at = 0, used;
    enum scan_found found;

    while ((at += blanks(bytes + at, n - at)) < n && !c->ending &&
        c->moving == NULL) {
        found = scan(&s, bytes + at, n - at, &used);
        if (used > (size_t)b->options.limits.request_bytes) {
            refuse_long(b, c);
        } else if (found == SCAN_WHOLE) {
            serve(b, c, b->values, bytes + at);
            at += used;
        } else if (found == SCAN_MORE && is_number(bytes[at])) {
            /* more digits may come, but no request */
            reply_refuse(&c->out, "The request is no object");
            conn_wrote(b, c);
            return n;
        } else if (found == SCAN_MORE) {
            return at;
        } else {
            refuse_found(b, c, found);
        }
        conn_cut_if_full(b, c);
    }
    return c->ending ? n : at;
}

static bool may_grow(const struct bridge *b, size_t by)
{
    size_t all =
        atomic_load_explicit(&b->share->partial_bytes, memory_order_relaxed);

    return all + by <= (size_t)b->options.limits.partial_bytes;
}

/* Room for another read behind what there is; NULL, or why there is none. */
static const char *in_grow(struct bridge *b, struct conn *c, size_t more)
{
    size_t room = c->in_room == 0 ? 512 : c->in_room;
    char *in;

    while (room - c->in_n < more)
        room *= 2;
    if (room == c->in_room)
        return NULL;
    if (!may_grow(b, room - c->in_room))
        return "Too many requests have only begun";
    in = realloc(c->in, room);
    if (in == NULL)
        return "Out of memory";
    c->in = in;
    set_room(b, c, room);
    return NULL;
}

static void remember(struct bridge *b, struct conn *c, const char *bytes,
    size_t n)
{
    const char *why = in_grow(b, c, n);

    if (why != NULL) {
        conn_refuse(b, c, why);
        return;
    }
    memcpy(c->in, bytes, n);
    c->in_n = n;
    c->frame = (struct frame){0};
    (void)frame_ends(&c->frame, bytes, n);
    conn_keeps_waiting(b, c, &b->partial);
}

/* More of a request that has begun. */
static void go_on(struct bridge *b, struct conn *c, const char *bytes, size_t n)
{
    const char *why = in_grow(b, c, n);

    if (why != NULL) {
        conn_refuse(b, c, why);
        return;
    }
    memcpy(c->in + c->in_n, bytes, n);
    c->in_n += n;
    if (!frame_ends(&c->frame, bytes, n)) {
        if (c->in_n > (size_t)b->options.limits.request_bytes)
            refuse_long(b, c);
        return;
    }
    hear_go_on(b, c);
}

void hear_go_on(struct bridge *b, struct conn *c)
{
    size_t used, whole = c->in_n;
    char *in = c->in;

    c->in = NULL;
    hear_no_more(b, c);
    used = serve_whole(b, c, in, whole);
    if (used < whole)
        remember(b, c, in + used, whole - used);
    free(in);
}

static void hear(struct bridge *b, struct conn *c, char *bytes, size_t n)
{
    size_t used;

    if (c->out.room == 0 && b->n_spare_outs > 0)
        c->out = b->spare_outs[--b->n_spare_outs];
    c->heard_ns = b->now_ns;
    if (c->in_n > 0) {
        go_on(b, c, bytes, n);
        return;
    }
    used = serve_whole(b, c, bytes, n);
    if (used < n)
        remember(b, c, bytes + used, n - used);
    if (c->in_n > (size_t)b->options.limits.request_bytes && c->moving == NULL)
        refuse_long(b, c);
}

/* The client has said all: what it still waits for nobody will read. */
static void hang_up(struct bridge *b, struct conn *c)
{
    wait_drop_all(b, &c->waits);
    c->eof = true;
    conn_watch(b, c);
    if (c->in_n > 0)
        conn_refuse(b, c, "The request is no JSON: it has no end");
    else
        conn_finish(b, c);
}

/* What comes after the last reply: not for ever. */
#define LOST_BYTES_MAX (1u << 20)

static void throw_away(struct bridge *b, struct conn *c, size_t n)
{
    c->lost_bytes += n;
    if (n > 0 && c->lost_bytes < LOST_BYTES_MAX)
        return;
    c->eof = true;
    conn_watch(b, c);
    conn_wrote(b, c);
}

static void take_bytes(struct bridge *b, struct conn *c)
{
    ssize_t n = recv(c->fd, b->scratch, b->scratch_bytes, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0)
        conn_end(b, c);
    else if (c->ending)
        throw_away(b, c, (size_t)n);
    else if (n > 0)
        hear(b, c, b->scratch, (size_t)n);
    else
        hang_up(b, c);
    if (n > 0 && c->moving != NULL)
        move_go(b, c);
}

void hear_event(struct bridge *b, struct conn *c, uint32_t events)
{
    if ((events & EPOLLOUT) != 0)
        conn_wrote(b, c);
    if (c->eof && (events & (EPOLLERR | EPOLLHUP)) != 0)
        conn_end(b, c);
    else if (!c->eof && (events & ~(uint32_t)EPOLLOUT) != 0)
        take_bytes(b, c);
}
