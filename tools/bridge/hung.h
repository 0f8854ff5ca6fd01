/*
 * hung.h - connections that have come to their end, and wait for it.
 *
 * A few that hang up end at once, before others' requests are looked at. When
 * thousands do, those for which the round has no time are put by: epoll tells
 * no more of them, so that it tells of the others, and some of them end in
 * each round.
 */
#ifndef BRIDGE_HUNG_H
#define BRIDGE_HUNG_H

#include "bridge.h"

/* What epoll has told of it (receive_event); 0: nothing, it is to end. */
void hung_add(struct bridge *b, struct conn *c, uint32_t events);
void hung_forget(struct conn *c);
/* Is it one that nobody reads any more? */
bool hung_is_gone(const struct conn *c);

/* Some of them. */
void hung_more(struct bridge *b);

#endif
