/*
 * conn.h - a connection: bytes in, bytes out, and when it is over.
 */
#ifndef BRIDGE_CONN_H
#define BRIDGE_CONN_H

#include "bridge.h"

/* Takes over @fd, which is counted already, or closes it. @surplus: its first
   request is refused. */
void conn_begin(struct bridge *b, int fd, const char *peer, bool surplus);
void conn_end(struct bridge *b, struct conn *c);
void conn_uncount(struct bridge *b, bool surplus);

/* To another loop, with what has been read and written (move.h). False: it is
   gone, for want of memory. */
void conn_leave(struct bridge *b, struct conn *c);
bool conn_join(struct bridge *b, struct conn *c);
/* Serves what it has said, as far as there are whole requests. */
void conn_go_on(struct bridge *b, struct conn *c);

/* What epoll has told. The connection may be gone after it. */
void conn_event(struct bridge *b, struct conn *c, uint32_t events);

/* There is something in c->out: it is written at the end of the round. */
void conn_wrote(struct bridge *b, struct conn *c);
void conn_flush_all(struct bridge *b);

/* No more is read; what was said is written, then it ends. */
void conn_finish(struct bridge *b, struct conn *c);

/* Its pending requests are over, and told so; those of a session go on. */
void conn_dismiss(struct bridge *b, struct conn *c, const char *why);

struct conn *conn_find(struct bridge *b, uint64_t serial);

/* Requests that have begun too long ago. */
void conn_tick(struct bridge *b);

#endif
