/*
 * conn.h - a connection: its begin, bytes out, and when it is over.
 */
#ifndef BRIDGE_CONN_H
#define BRIDGE_CONN_H

#include "bridge.h"

/* Takes over @fd, which is counted already, or closes it. @from: whose it is;
   NULL: it is one too many, and its first request is refused. */
void conn_begin(struct bridge *b, int fd, const char *peer, struct peer *from);
void conn_end(struct bridge *b, struct conn *c);
void conn_uncount(struct bridge *b, struct peer *from);

/* To another loop, with what has been read and written (handoff.h). False: it
   is gone, for want of memory. */
void conn_leave(struct bridge *b, struct conn *c);
bool conn_join(struct bridge *b, struct conn *c);

/* What epoll is to tell of it is not what it was. */
void conn_watch(struct bridge *b, struct conn *c);
/* Nothing is told of it (hung.h), and now it is again. False: no memory. */
bool conn_watch_anew(struct bridge *b, struct conn *c);
/* Since now; in bridge.partial or .ending. */
void conn_keeps_waiting(struct bridge *b, struct conn *c,
    struct cds_list_head *list);

/* There is something in c->out: it is written at the end of the round. */
void conn_wrote(struct bridge *b, struct conn *c);
void conn_flush_all(struct bridge *b);

/* No more is read; what was said is written, then it ends. */
void conn_finish(struct bridge *b, struct conn *c);

/* The same; it is told @why, and so is each of its pending requests. */
void conn_refuse(struct bridge *b, struct conn *c, const char *why);
/* If too much of what was said is unread. */
void conn_cut_if_full(struct bridge *b, struct conn *c);

/* Its pending requests are over, and told so; those of a session go on. */
void conn_dismiss(struct bridge *b, struct conn *c, const char *why);

struct conn *conn_find(struct bridge *b, uint64_t serial);

/* Requests that have begun too long ago, and connections without any. */
void conn_tick(struct bridge *b);

#endif
