/*
 * conn.c - a connection (see conn.h).
 */
#include "conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handoff.h"
#include "hung.h"
#include "look.h"
#include "loop.h"
#include "over.h"
#include "peer.h"
#include "receive.h"
#include "reply.h"
#include "say.h"
#include "session.h"
#include "unread.h"
#include "wait.h"

/* A buffer larger than this is given back when it is empty; the others wait
   for the next replies, of whatever connection. */
#define OUT_KEPT 16384u

/* --- begin and end --- */

static bool watch(struct bridge *b, struct conn *c, int how)
{
    struct epoll_event event = {.data.ptr = c};

    event.events =
        (c->eof ? 0 : EPOLLIN | EPOLLRDHUP) | (c->writing ? EPOLLOUT : 0);
    return epoll_ctl(b->epoll, how, c->fd, &event) == 0;
}

void conn_watch(struct bridge *b, struct conn *c)
{
    if (!c->is_hung)
        (void)watch(b, c, EPOLL_CTL_MOD);
}

bool conn_watch_anew(struct bridge *b, struct conn *c)
{
    return watch(b, c, EPOLL_CTL_ADD);
}

/* Others read the sum, and nobody else writes it. */
static void set_part(_Atomic size_t *sum, size_t *counted, size_t unread)
{
    size_t n = atomic_load_explicit(sum, memory_order_relaxed);

    atomic_store_explicit(sum, n + unread - *counted, memory_order_relaxed);
    *counted = unread;
}

static void set_counted(struct bridge *b, struct conn *c, size_t unread)
{
    size_t lists = c->listed < unread ? c->listed : unread;

    if ((unread | c->lists_counted | c->replies_counted) == 0)
        return; /* as with most: it was written at once */
    if (lists != c->lists_counted)
        set_part(&b->list_bytes, &c->lists_counted, lists);
    set_part(&b->reply_bytes, &c->replies_counted, unread - lists);
}

static void count_output(struct bridge *b, struct conn *c)
{
    set_counted(b, c, c->out.n - c->out_at);
}

/* Since when it keeps us waiting. */
void conn_keeps_waiting(struct bridge *b, struct conn *c,
    struct cds_list_head *list)
{
    if (c->is_partial)
        cds_list_del(&c->partial);
    c->is_partial = true;
    c->begun_ns = b->now_ns;
    cds_list_add_tail(&c->partial, list);
}

void conn_uncount(struct bridge *b, struct peer *from)
{
    b->n_conns--;
    if (from == NULL) {
        b->share->n_surplus--;
        return;
    }
    b->share->n_conns--;
    peer_goes(b->share, from);
}

/* So often it is looked at in the time after which it is closed: it may have
   said something since the last look, and be idle before the next. */
#define IDLE_LOOKS 8

static int64_t idle_most_ns(const struct bridge *b)
{
    return b->options.limits.idle_s * INT64_C(1000000000);
}

static void set_idle(struct bridge *b, struct conn *c)
{
    c->idle_ns = b->now_ns + idle_most_ns(b) / IDLE_LOOKS;
}

static bool enter(struct bridge *b, struct conn *c, int fd, const char *peer)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};

    if (c == NULL || epoll_ctl(b->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        say("cannot serve %s: %s", peer, strerror(errno));
        return false;
    }
    c->heard_ns = b->now_ns;
    set_idle(b, c);
    cds_list_add_tail(&c->node, &b->conns);
    table_add(&b->serials, &c->by_serial, c->serial);
    return true;
}

void conn_begin(struct bridge *b, int fd, const char *peer, struct peer *from)
{
    struct conn *c = calloc(1, sizeof(*c));

    if (c != NULL) /* no two loops have the same ones */
        c->serial = b->n_serials += b->share->n;
    if (!enter(b, c, fd, peer)) {
        close(fd);
        free(c);
        conn_uncount(b, from);
        return;
    }
    c->fd = fd;
    strcpy(c->peer, peer);
    c->from = from;
    c->surplus = from == NULL;
    CDS_INIT_LIST_HEAD(&c->waits);
    CDS_INIT_LIST_HEAD(&c->looks);
    if (c->surplus)
        conn_keeps_waiting(b, c, &b->partial);
    say_more("%s connected (connection %llu)", peer,
        (unsigned long long)c->serial);
}

/* This loop. */
static void leave(struct bridge *b, struct conn *c)
{
    if (c->is_dirty)
        cds_list_del(&c->dirty);
    unread_forget(c);
    hung_forget(c);
    set_counted(b, c, 0);
    table_remove(&b->serials, &c->by_serial);
    cds_list_del(&c->node);
}

void conn_end(struct bridge *b, struct conn *c)
{
    say_more("%s disconnected (connection %llu)", c->peer,
        (unsigned long long)c->serial);
    if (c->session != NULL)
        session_leave(b, c->session);
    over_unasked(c);
    wait_drop_all(b, &c->waits);
    look_drop_all(b, c);
    receive_no_more(b, c);
    leave(b, c);
    conn_uncount(b, c->from);
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
        unread_join(b, c);
        conn_wrote(b, c);
        return true;
    }
    conn_uncount(b, c->from);
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

/* Lists count at once, as others may be handed over in this round; replies
   when they are not written. */
void conn_wrote(struct bridge *b, struct conn *c)
{
    if (c->listed > 0)
        count_output(b, c);
    if (c->is_dirty)
        return;
    c->is_dirty = true;
    cds_list_add_tail(&c->dirty, &b->dirty);
}

void conn_finish(struct bridge *b, struct conn *c)
{
    receive_no_more(b, c);
    c->ending = true;
    conn_keeps_waiting(b, c, &b->ending);
    conn_wrote(b, c);
}

/* For any connection of the next round: ten thousand connections that say
   nothing have no buffers. */
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
void conn_refuse(struct bridge *b, struct conn *c, const char *why)
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

void conn_cut_if_full(struct bridge *b, struct conn *c)
{
    if (!c->ending && is_full(b, c))
        conn_refuse(b, c, "Too many replies are unread");
}

/* False: it is over. */
static bool flush(struct bridge *b, struct conn *c)
{
    size_t at = c->out_at;
    ssize_t n = 0;
    bool writing;

    if (c->out.failed) {
        say("out of memory for a reply to %s", c->peer);
        return false;
    }
    while (c->out_at < c->out.n && n >= 0) {
        n = send(c->fd, c->out.bytes + c->out_at, c->out.n - c->out_at,
            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
            c->out_at += (size_t)n;
    }
    unread_note(b, c, c->out_at - at);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return false;
    forget_written(b, c);
    writing = c->out.n > 0;
    if (writing != c->writing) {
        c->writing = writing;
        conn_watch(b, c);
    }
    conn_cut_if_full(b, c); /* events come without being asked for */
    return writing || !c->ending || c->n_looks > 0 || c->farewell != NULL ||
        shut(c);
}

/* To close one is what takes most of its time. */
static void end_soon(struct bridge *b, struct conn *c)
{
    if (b->is_late)
        hung_add(b, c, 0);
    else
        conn_end(b, c);
    bridge_look_late(b);
}

void conn_flush_all(struct bridge *b)
{
    while (!cds_list_empty(&b->dirty)) {
        struct conn *c = cds_list_first_entry(&b->dirty, struct conn, dirty);

        cds_list_del(&c->dirty);
        c->is_dirty = false;
        if (!flush(b, c))
            end_soon(b, c);
    }
    unread_limit(b);
}

/* --- ticks --- */

/* For a client that does not read its last reply, or goes on talking after it.
   One that has said all and reads what it has asked for has a reader's time;
   not so one that was cut off, and is not listened to any more. */
#define ENDING_NS INT64_C(2000000000)

static bool reads_the_rest(const struct conn *c)
{
    return c->writing && c->eof && c->lost_bytes == 0;
}

static void end_late(struct bridge *b)
{
    struct conn *c, *next;

    cds_list_for_each_entry_safe (c, next, &b->ending, partial)
        if (b->now_ns - c->begun_ns >= ENDING_NS &&
            !(reads_the_rest(c) && b->stopping == NULL))
            hung_add(b, c, 0);
}

static bool is_idle(const struct bridge *b, const struct conn *c)
{
    return c->session == NULL && c->n_waits == 0 && c->n_looks == 0 &&
        c->farewell == NULL && c->out.n == 0 &&
        b->now_ns - c->heard_ns >= idle_most_ns(b);
}

/* The list is in the order in which they were looked at: a request costs
   nothing for it. */
static void end_idle(struct bridge *b)
{
    while (!cds_list_empty(&b->conns)) {
        struct conn *c = cds_list_first_entry(&b->conns, struct conn, node);

        if (b->now_ns < c->idle_ns)
            return;
        set_idle(b, c);
        cds_list_del(&c->node);
        cds_list_add_tail(&c->node, &b->conns);
        if (!is_idle(b, c))
            continue;
        say_more("%s has been idle for too long", c->peer);
        hung_add(b, c, 0);
    }
}

void conn_tick(struct bridge *b)
{
    int64_t most_ns = b->options.limits.request_s * INT64_C(1000000000);
    struct conn *c, *next;
    char why[96];

    end_late(b);
    end_idle(b);
    cds_list_for_each_entry_safe (c, next, &b->partial, partial) {
        if (b->now_ns - c->begun_ns < most_ns)
            return;
        if (receive_has_more(c))
            continue;
        snprintf(why, sizeof(why), "The request was not complete after %lld s",
            (long long)b->options.limits.request_s);
        conn_refuse(b, c, why);
    }
}
