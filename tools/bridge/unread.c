/*
 * unread.c - connections with bytes of ours on their way (see unread.h).
 */
#include "unread.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "conn.h"
#include "hung.h"
#include "say.h"

/* Each is looked at so often. */
#define LOOK_NS INT64_C(250000000)
/* A host that acknowledges nothing for so long has vanished. */
#define VANISHED_MS 3000
/* An answer takes no longer. */
#define ANSWER_MS 300

void unread_join(struct bridge *b, struct conn *c)
{
    c->is_unread = true;
    c->moved_ns = c->judged_ns = b->now_ns;
    c->taken = 0; /* not known yet */
    cds_list_add_tail(&c->unread, &b->unread);
}

void unread_forget(struct conn *c)
{
    if (c->is_unread)
        cds_list_del(&c->unread);
    c->is_unread = false;
}

/* What the other side has not taken. On TCP the bytes that it has not
   acknowledged; on a unix socket the memory that they take, so that more of
   them look as if it had gone on: but only as long as there is room. */
static uint64_t in_kernel(const struct conn *c)
{
    int n = 0;

    return ioctl(c->fd, SIOCOUTQ, &n) == 0 && n > 0 ? (uint64_t)n : 0;
}

/* Nothing has come since what is in flight was sent again: where nothing is,
   the last that came was its acknowledgement. A host that has no room answers
   each attempt at once; but they become rare, so that its last answer may be
   old as well. */
static bool is_silent(const struct tcp_info *info)
{
    return info->tcpi_last_ack_recv >= VANISHED_MS &&
        info->tcpi_last_data_sent >= ANSWER_MS &&
        info->tcpi_last_data_sent + ANSWER_MS < info->tcpi_last_ack_recv;
}

/* It may send, also the same again as it hears no answer; but it acknowledges
   none of what was sent twice more, though it had room. */
static bool is_deaf(const struct tcp_info *info)
{
    return info->tcpi_retransmits >= 2 && info->tcpi_snd_wnd > 0;
}

/* For so long it has not taken anything. */
static bool has_vanished(const struct conn *c)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof(info);

    return getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 &&
        (is_silent(&info) || is_deaf(&info));
}

static const char *judge(const struct bridge *b, const struct conn *c)
{
    int64_t ms = (b->now_ns - c->moved_ns) / 1000000;

    if (ms >= b->options.limits.read_s * 1000)
        return "has read nothing for too long";
    if (ms >= VANISHED_MS && has_vanished(c))
        return "acknowledges nothing: its host is gone";
    return NULL;
}

/* False: it is over. */
static bool look(struct bridge *b, struct conn *c)
{
    uint64_t queued = in_kernel(c), taken = c->sent - queued;
    const char *why;

    if (queued == 0 && c->out.n == 0) {
        unread_forget(c);
        return true;
    }
    if (taken != c->taken && c->taken != 0)
        c->moved_ns = b->now_ns;
    c->taken = taken;
    why = judge(b, c);
    if (why != NULL)
        say_more("%s %s (connection %llu)", c->peer, why,
            (unsigned long long)c->serial);
    return why == NULL;
}

/* Its end is a reset: to let go of what nobody takes. */
static void cut(struct conn *c)
{
    const struct linger at_once = {1, 0};

    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

/* In the order in which they were looked at. */
void unread_tick(struct bridge *b)
{
    struct conn *c, *next;

    cds_list_for_each_entry_safe (c, next, &b->unread, unread) {
        if (b->now_ns - c->judged_ns < LOOK_NS)
            return;
        c->judged_ns = b->now_ns;
        cds_list_del(&c->unread);
        cds_list_add_tail(&c->unread, &b->unread);
        if (c->is_hung || look(b, c))
            continue;
        cut(c);
        hung_add(b, c, 0);
    }
}

static size_t unread_of_all(const struct share *share)
{
    size_t unread = 0;

    for (unsigned i = 0; i < share->n; i++)
        unread += share->loops[i].reply_bytes;
    return unread;
}

/* Of those that leave something unread each may have as much; this at least. */
#define PART_LEAST 4096u

void unread_limit(struct bridge *b)
{
    size_t most = (size_t)b->options.limits.replies_bytes, n = 1, part;
    struct conn *c, *next;

    if (b->reply_bytes == 0 || unread_of_all(b->share) <= most)
        return;
    cds_list_for_each_entry (c, &b->unread, unread)
        n += c->replies_counted > 0;
    part = most / b->share->n / n;
    part = part < PART_LEAST ? PART_LEAST : part;
    cds_list_for_each_entry_safe (c, next, &b->unread, unread) {
        if (c->replies_counted <= part)
            continue;
        say_more("%s has not read %zu bytes, and all clients together more "
                 "than %zu (connection %llu)",
            c->peer, c->replies_counted, most, (unsigned long long)c->serial);
        cut(c);
        conn_end(b, c);
    }
}
