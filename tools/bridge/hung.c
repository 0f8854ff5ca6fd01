/*
 * hung.c - connections that wait for their end (see hung.h).
 */
#include "hung.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "conn.h"
#include "loop.h"
#include "receive.h"

/* Of a round. */
#define HUNG_NS INT64_C(1000000)

void hung_add(struct bridge *b, struct conn *c, uint32_t events)
{
    if (c->is_hung && events == 0)
        c->hung_events = 0;
    if (c->is_hung)
        return;
    epoll_ctl(b->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    c->is_hung = true;
    c->hung_events = events;
    cds_list_add_tail(&c->hung, &b->hung);
}

void hung_forget(struct conn *c)
{
    if (c->is_hung)
        cds_list_del(&c->hung);
    c->is_hung = false;
}

static bool has_said_all(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* It may have said something before it hung up. */
bool hung_is_gone(const struct conn *c)
{
    return c->is_hung && has_said_all(c->fd);
}

static void end_first(struct bridge *b)
{
    struct conn *c = cds_list_first_entry(&b->hung, struct conn, hung);

    hung_forget(c);
    if (c->hung_events == 0 || !conn_watch_anew(b, c))
        conn_end(b, c);
    else
        receive_event(b, c, c->hung_events);
}

void hung_more(struct bridge *b)
{
    if (cds_list_empty(&b->hung))
        return;
    bridge_begin_time(b, HUNG_NS);
    do
        end_first(b);
    while (!cds_list_empty(&b->hung) && bridge_look_late(b) < b->late_ns);
}
