/*
 * conn.c - a connection (see conn.h).
 *
 * A read goes into one buffer of the loop; only the begin of a request that is
 * not all there is copied to memory of the connection's own. So ten thousand
 * idle connections cost no buffers, and a request that comes in small pieces is
 * looked at once: frame_ends() tells when it is worth scanning.
 */
#include "conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "look.h"
#include "move.h"
#include "reply.h"
#include "say.h"
#include "session.h"
#include "wait.h"

/* A buffer larger than this is given back when it is empty; the others wait
   for the next replies, of whatever connection. */
#define OUT_KEPT 16384u

/* --- begin and end --- */

static void watch(struct bridge *b, struct conn *c)
{
    struct epoll_event event = {.data.ptr = c};

    event.events =
        (c->eof ? 0 : EPOLLIN | EPOLLRDHUP) | (c->writing ? EPOLLOUT : 0);
    epoll_ctl(b->epoll, EPOLL_CTL_MOD, c->fd, &event);
}

/* Others read the sum, and nobody else writes it. */
static void set_counted(struct bridge *b, struct conn *c, size_t unread)
{
    size_t n = atomic_load_explicit(&b->output_bytes, memory_order_relaxed);

    atomic_store_explicit(&b->output_bytes, n + unread - c->out_counted,
        memory_order_relaxed);
    c->out_counted = unread;
}

static void count_output(struct bridge *b, struct conn *c)
{
    set_counted(b, c, c->out.n - c->out_at);
}

/* Since when it keeps us waiting. */
static void begin_waiting(struct bridge *b, struct conn *c,
    struct cds_list_head *list)
{
    if (c->is_partial)
        cds_list_del(&c->partial);
    c->is_partial = true;
    c->begun_ns = b->now_ns;
    cds_list_add_tail(&c->partial, list);
}

/* Few requests come in pieces: that all loops count at one place costs none of
   them anything. */
static void set_room(struct bridge *b, struct conn *c, size_t room)
{
    atomic_fetch_add_explicit(&b->share->partial_bytes, room - c->in_room,
        memory_order_relaxed);
    c->in_room = room;
}

static void is_whole(struct bridge *b, struct conn *c)
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

void conn_uncount(struct bridge *b, bool surplus)
{
    b->n_conns--;
    if (surplus)
        b->share->n_surplus--;
    else
        b->share->n_conns--;
}

static bool enter(struct bridge *b, struct conn *c, int fd, const char *peer)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};

    if (c == NULL || epoll_ctl(b->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        say("cannot serve %s: %s", peer, strerror(errno));
        return false;
    }
    c->heard_ns = b->now_ns;
    cds_list_add_tail(&c->node, &b->conns);
    table_add(&b->serials, &c->by_serial, c->serial);
    return true;
}

void conn_begin(struct bridge *b, int fd, const char *peer, bool surplus)
{
    struct conn *c = calloc(1, sizeof(*c));

    if (c != NULL) /* no two loops have the same ones */
        c->serial = b->n_serials += b->share->n;
    if (!enter(b, c, fd, peer)) {
        close(fd);
        free(c);
        conn_uncount(b, surplus);
        return;
    }
    c->fd = fd;
    c->surplus = surplus;
    snprintf(c->peer, sizeof(c->peer), "%s", peer);
    CDS_INIT_LIST_HEAD(&c->waits);
    CDS_INIT_LIST_HEAD(&c->looks);
    if (surplus)
        begin_waiting(b, c, &b->partial);
    say_more("%s has come (connection %llu)", peer,
        (unsigned long long)c->serial);
}

/* This loop. */
static void leave(struct bridge *b, struct conn *c)
{
    if (c->is_dirty)
        cds_list_del(&c->dirty);
    set_counted(b, c, 0);
    table_remove(&b->serials, &c->by_serial);
    cds_list_del(&c->node);
}

void conn_end(struct bridge *b, struct conn *c)
{
    say_more("%s has gone (connection %llu)", c->peer,
        (unsigned long long)c->serial);
    if (c->session != NULL)
        session_leave(b, c->session);
    wait_drop_all(b, &c->waits);
    look_drop_all(b, c);
    is_whole(b, c);
    leave(b, c);
    conn_uncount(b, c->surplus);
    text_free(&c->out);
    close(c->fd);
    free(c);
}

void conn_leave(struct bridge *b, struct conn *c)
{
    epoll_ctl(b->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    if (c->is_partial)
        cds_list_del(&c->partial);
    leave(b, c);
    b->n_conns--;
    c->is_partial = c->is_dirty = c->writing = false;
}

bool conn_join(struct bridge *b, struct conn *c)
{
    if (enter(b, c, c->fd, c->peer)) {
        conn_wrote(b, c);
        return true;
    }
    conn_uncount(b, false);
    text_free(&c->out);
    close(c->fd);
    free(c->in);
    free(c);
    return false;
}

struct conn *conn_find(struct bridge *b, uint64_t serial)
{
    struct table_node *node = table_find(&b->serials, serial);

    return node == NULL ? NULL : TABLE_OF(node, struct conn, by_serial);
}

/* --- out --- */

void conn_wrote(struct bridge *b, struct conn *c)
{
    count_output(b, c);
    if (c->is_dirty)
        return;
    c->is_dirty = true;
    cds_list_add_tail(&c->dirty, &b->dirty);
}

void conn_finish(struct bridge *b, struct conn *c)
{
    is_whole(b, c);
    c->ending = true;
    begin_waiting(b, c, &b->ending);
    conn_wrote(b, c);
}

/* For the next round, whoever is heard in it: ten thousand connections that
   say nothing have no buffers. */
static void put_away(struct bridge *b, struct text *out)
{
    if (out->room > OUT_KEPT || b->n_spare_outs == SPARE_OUTS)
        text_free(out);
    else
        b->spare_outs[b->n_spare_outs++] = *out;
    *out = (struct text){0};
}

static void forget_written(struct bridge *b, struct conn *c)
{
    if (c->listed > c->out.n - c->out_at)
        c->listed = c->out.n - c->out_at;
    if (c->out_at == c->out.n) {
        c->out.n = c->out_at = 0;
        put_away(b, &c->out);
    } else if (c->out_at > c->out.n / 2) {
        c->out.n -= c->out_at;
        memmove(c->out.bytes, c->out.bytes + c->out_at, c->out.n);
        c->out_at = 0;
    }
    count_output(b, c);
}

/*
 * All is written: the client is told so, and what it still sends is thrown
 * away. To close at once would be a reset, where there are unread bytes, which
 * may reach it before our last reply does.
 */
static bool shut(struct conn *c)
{
    if (!c->shut && !c->eof)
        shutdown(c->fd, SHUT_WR);
    c->shut = true;
    return !c->eof;
}

void conn_dismiss(struct bridge *b, struct conn *c, const char *why)
{
    struct wait *w;

    cds_list_for_each_entry (w, &c->waits, node) {
        const struct reply r = {
            &c->out, OP_LOCK, w->legacy ? NULL : w->id, w->id_is_number};

        reply_wrong(&r, why);
    }
    wait_drop_all(b, &c->waits);
}

/* What still waits could not be told of its lock any more. */
static void refuse(struct bridge *b, struct conn *c, const char *why)
{
    conn_dismiss(b, c, "Lock request cancelled");
    reply_refuse(&c->out, why);
    conn_finish(b, c);
}

/* A list may be longer than that: what counts is the rest. */
static bool is_full(const struct bridge *b, const struct conn *c)
{
    size_t unread = c->out.n - c->out_at;

    return unread > c->listed &&
        unread - c->listed > (size_t)b->options.limits.output_bytes;
}

static void cut_if_full(struct bridge *b, struct conn *c)
{
    if (!c->ending && is_full(b, c))
        refuse(b, c, "Too many replies have not been read");
}

/* False: it is over. */
static bool flush(struct bridge *b, struct conn *c)
{
    ssize_t n = 0;
    bool writing;

    if (c->out.failed) {
        say("no memory for a reply to %s", c->peer);
        return false;
    }
    while (c->out_at < c->out.n && n >= 0) {
        n = send(c->fd, c->out.bytes + c->out_at, c->out.n - c->out_at,
            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
            c->out_at += (size_t)n;
    }
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return false;
    forget_written(b, c);
    writing = c->out.n > 0;
    if (writing != c->writing) {
        c->writing = writing;
        watch(b, c);
    }
    cut_if_full(b, c); /* events come without being asked for */
    return writing || !c->ending || c->n_looks > 0 || shut(c);
}

void conn_flush_all(struct bridge *b)
{
    while (!cds_list_empty(&b->dirty)) {
        struct conn *c = cds_list_first_entry(&b->dirty, struct conn, dirty);

        cds_list_del(&c->dirty);
        c->is_dirty = false;
        if (!flush(b, c))
            conn_end(b, c);
    }
}

/* --- in --- */

static void refuse_found(struct bridge *b, struct conn *c,
    enum scan_found found)
{
    refuse(b, c,
        found == SCAN_DEEP       ? "The request is nested deeper than 16"
            : found == SCAN_MANY ? "The request has too many values"
                                 : "The request is no JSON");
}

static void refuse_long(struct bridge *b, struct conn *c)
{
    char why[96];

    snprintf(why, sizeof(why), "The request is longer than %lld bytes",
        (long long)b->options.limits.request_bytes);
    refuse(b, c, why);
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
        } else if (found == SCAN_MORE) {
            return at;
        } else {
            refuse_found(b, c, found);
        }
        cut_if_full(b, c);
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
        refuse(b, c, why);
        return;
    }
    memcpy(c->in, bytes, n);
    c->in_n = n;
    c->frame = (struct frame){0};
    (void)frame_ends(&c->frame, bytes, n);
    begin_waiting(b, c, &b->partial);
}

/* More of a request that has begun. */
static void go_on(struct bridge *b, struct conn *c, const char *bytes, size_t n)
{
    const char *why = in_grow(b, c, n);

    if (why != NULL) {
        refuse(b, c, why);
        return;
    }
    memcpy(c->in + c->in_n, bytes, n);
    c->in_n += n;
    if (!frame_ends(&c->frame, bytes, n)) {
        if (c->in_n > (size_t)b->options.limits.request_bytes)
            refuse_long(b, c);
        return;
    }
    conn_go_on(b, c);
}

void conn_go_on(struct bridge *b, struct conn *c)
{
    size_t used, whole = c->in_n;
    char *in = c->in;

    c->in = NULL;
    is_whole(b, c);
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
    watch(b, c);
    if (c->in_n > 0)
        refuse(b, c, "The request is no JSON: it has no end");
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
    watch(b, c);
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

void conn_event(struct bridge *b, struct conn *c, uint32_t events)
{
    if ((events & EPOLLOUT) != 0)
        conn_wrote(b, c);
    if (c->eof && (events & (EPOLLERR | EPOLLHUP)) != 0)
        conn_end(b, c);
    else if (!c->eof && (events & ~(uint32_t)EPOLLOUT) != 0)
        take_bytes(b, c);
}

/* Who does not read his last reply, or goes on talking after it. */
#define ENDING_NS INT64_C(2000000000)

static void end_late(struct bridge *b)
{
    struct conn *c;

    while (!cds_list_empty(&b->ending)) {
        c = cds_list_first_entry(&b->ending, struct conn, partial);
        if (b->now_ns - c->begun_ns < ENDING_NS)
            return;
        conn_end(b, c);
    }
}

void conn_tick(struct bridge *b)
{
    int64_t most_ns = b->options.limits.request_s * INT64_C(1000000000);

    end_late(b);
    while (!cds_list_empty(&b->partial)) {
        struct conn *c =
            cds_list_first_entry(&b->partial, struct conn, partial);
        char why[96];

        if (b->now_ns - c->begun_ns < most_ns)
            return;
        snprintf(why, sizeof(why),
            "The request was not complete after %lld seconds",
            (long long)b->options.limits.request_s);
        refuse(b, c, why);
    }
}
