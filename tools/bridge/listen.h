/*
 * listen.h - where clients come in.
 */
#ifndef BRIDGE_LISTEN_H
#define BRIDGE_LISTEN_H

#include "bridge.h"

/* Opens all that the options name, or the defaults, or what systemd has opened
   for us. Ends the program where that is not possible. */
void listen_begin(struct bridge *b);
void listen_end(struct bridge *b);

/* Is that what epoll has told of? */
bool listen_is(const void *what);
/* If so, whoever has come is taken in. */
bool listen_event(struct bridge *b, void *what);

/* Again, after descriptors were short. */
void listen_tick(struct bridge *b);

#endif
