/*
 * receive.h - what connections say: bytes in, requests out.
 */
#ifndef BRIDGE_RECEIVE_H
#define BRIDGE_RECEIVE_H

#include "bridge.h"

/* What epoll has told. The connection may be gone after it. */
void receive_event(struct bridge *b, struct conn *c, uint32_t events);
/* Serves what it has said, as far as there are whole requests. */
void receive_go_on(struct bridge *b, struct conn *c);
/* The same for those that have had their turn, when all others had theirs. */
void receive_behind(struct bridge *b);
/* Is there something to read? A bridge that was stopped, or had much to do,
   judges nobody for silence before that is read. */
bool receive_has_more(const struct conn *c);
/* If a request has begun, it is forgotten. */
void receive_no_more(struct bridge *b, struct conn *c);

#endif
