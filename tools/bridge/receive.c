/*
 * receive.c - what connections say (see receive.h).
 *
 * A read goes into one buffer of the loop; only the begin of a request that is
 * not all there is copied to memory of the connection's own. So ten thousand
 * idle connections cost no buffers, and a request that comes in small pieces is
 * looked at once: frame_ends() tells when it is worth scanning.
 *
 * A client that says much at once is served for a millisecond, and then it is
 * the others' turn: the rest of what was read is put by, and nothing more is
 * read of it until that is served. The same for all of them together: when a
 * round has had its time, it serves one request of each, and goes on in the
 * next. When much is put by, little is read of each: what cannot be served yet
 * stays where it costs us nothing, and slows its sender down.
 */
#include "receive.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "conn.h"
#include "handoff.h"
#include "loop.h"
#include "reply.h"
#include "serve.h"
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

void receive_no_more(struct bridge *b, struct conn *c)
{
    free(c->in);
    c->in = NULL;
    c->in_n = 0;
    if (c->in_room > 0)
        set_room(b, c, 0);
    c->frame = (struct frame){0};
    if (c->is_partial)
        cds_list_del(&c->partial);
    c->is_partial = c->behind = false;
}

/* --- what is said --- */

static void refuse_found(struct bridge *b, struct conn *c,
    enum scan_found found)
{
    conn_refuse(b, c,
        found == SCAN_DEEP       ? "The request is nested deeper than 16"
            : found == SCAN_MANY ? "The request has too many values"
                                 : "The request is not JSON");
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

#define LEAST_ROOM 512u

static bool may_grow(const struct bridge *b, size_t by)
{
    size_t all =
        atomic_load_explicit(&b->share->partial_bytes, memory_order_relaxed);

    return all + by <= (size_t)b->options.limits.partial_bytes;
}

#define TURN_NS INT64_C(1000000)

/* Asked after each request behind which there is more. Most say one at a time:
   then no clock is read. @ends_ns: 0, in the begin. */
static bool turn_is_over(struct bridge *b, int64_t *ends_ns)
{
    int64_t now;

    if (b->is_late || ++b->n_more % 4 != 0)
        return b->is_late;
    now = bridge_look_late(b);
    if (*ends_ns == 0)
        *ends_ns = now + TURN_NS;
    return b->is_late || now >= *ends_ns;
}

/* Where there is no room to put it by, it is served at once. */
static bool puts_by(struct bridge *b, struct conn *c, int64_t *ends_ns,
    size_t rest)
{
    c->behind = rest > 0 && !c->ending && c->moving == NULL &&
        turn_is_over(b, ends_ns) && may_grow(b, 2 * rest + LEAST_ROOM);
    return c->behind;
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
    int64_t ends_ns = 0;
    enum scan_found found;

    while ((at += blanks(bytes + at, n - at)) < n && !c->ending &&
        c->moving == NULL) {
        found = scan(&s, bytes + at, n - at, &used);
        if (used > (size_t)b->options.limits.request_bytes) {
            refuse_long(b, c);
        } else if (found == SCAN_WHOLE) {
            serve(b, c, b->values, bytes + at);
            at += used;
            if (puts_by(b, c, &ends_ns, n - at))
                return at;
        } else if (found == SCAN_MORE && is_number(bytes[at])) {
            /* more digits may come, but no request */
            reply_refuse(&c->out, "The request is not a JSON object");
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

/* Room for another read behind what there is; NULL, or why there is none. */
static const char *in_grow(struct bridge *b, struct conn *c, size_t more)
{
    size_t room = c->in_room == 0 ? LEAST_ROOM : c->in_room;
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
    if (!c->behind)
        (void)frame_ends(&c->frame, bytes, n);
    conn_keeps_waiting(b, c, c->behind ? &b->behind : &b->partial);
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
    receive_go_on(b, c);
}

void receive_go_on(struct bridge *b, struct conn *c)
{
    size_t used, whole = c->in_n;
    char *in = c->in;

    c->in = NULL;
    receive_no_more(b, c);
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
    if (c->in_n > (size_t)b->options.limits.request_bytes &&
        c->moving == NULL && !c->behind)
        refuse_long(b, c);
}

/* The client has said all: what it still waits for nobody will read. */
static void hang_up(struct bridge *b, struct conn *c)
{
    wait_drop_all(b, &c->waits);
    c->eof = true;
    conn_watch(b, c);
    if (c->in_n > 0)
        conn_refuse(b, c, "The request is not JSON: it has no end");
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

/* Of ten thousand that say much at once: they are to leave room for those whose
   requests come in pieces. */
#define LITTLE_BYTES 4096u

static size_t read_bytes(const struct bridge *b)
{
    size_t by =
        atomic_load_explicit(&b->share->partial_bytes, memory_order_relaxed);

    return by < (size_t)b->options.limits.partial_bytes / 16 ? b->scratch_bytes
                                                             : LITTLE_BYTES;
}

bool receive_has_more(const struct conn *c)
{
    int n = 0;

    return !c->ending && ioctl(c->fd, SIOCINQ, &n) == 0 && n > 0;
}

static void take_bytes(struct bridge *b, struct conn *c)
{
    ssize_t n = recv(c->fd, b->scratch, read_bytes(b), MSG_DONTWAIT);

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
        handoff_go(b, c);
}

/* What comes for it stays where it is; once cut off, it needs no answers. */
static void look_behind(struct bridge *b, struct conn *c, uint32_t events)
{
    if ((events & EPOLLERR) != 0)
        conn_end(b, c);
}

void receive_event(struct bridge *b, struct conn *c, uint32_t events)
{
    if ((events & EPOLLOUT) != 0)
        conn_wrote(b, c);
    if (c->behind)
        look_behind(b, c, events);
    else if (c->eof && (events & (EPOLLERR | EPOLLHUP)) != 0)
        conn_end(b, c);
    else if (!c->eof && (events & ~(uint32_t)EPOLLOUT) != 0)
        take_bytes(b, c);
}

/* One after the other, each again when all have had a turn. They have a time of
   their own, lest new ones take all of it. */
void receive_behind(struct bridge *b)
{
    if (!cds_list_empty(&b->behind))
        bridge_begin_time(b, TURN_NS);
    while (!cds_list_empty(&b->behind) && !b->is_late) {
        struct conn *c = cds_list_first_entry(&b->behind, struct conn, partial);

        c->heard_ns = b->now_ns;
        receive_go_on(b, c);
        if (c->moving != NULL)
            handoff_go(b, c);
        bridge_look_late(b);
    }
}
