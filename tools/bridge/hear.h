/*
 * hear.h - what connections say: bytes in, requests out.
 */
#ifndef BRIDGE_HEAR_H
#define BRIDGE_HEAR_H

#include "bridge.h"

/* What epoll has told. The connection may be gone after it. */
void hear_event(struct bridge *b, struct conn *c, uint32_t events);
/* Serves what it has said, as far as there are whole requests. */
void hear_go_on(struct bridge *b, struct conn *c);
/* The same for those who have had their turn, when all others had theirs. */
void hear_behind(struct bridge *b);
/* Is there something to read? Who was stopped, or had much to do, judges nobody
   for silence before that is read. */
bool hear_has_more(const struct conn *c);
/* If a request has begun, it is forgotten. */
void hear_no_more(struct bridge *b, struct conn *c);

#endif
