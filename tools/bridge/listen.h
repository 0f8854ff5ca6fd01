/*
 * listen.h - where clients come in.
 */
#ifndef BRIDGE_LISTEN_H
#define BRIDGE_LISTEN_H

#include "bridge.h"

/* Opens all that the options name, or the defaults, or what systemd has opened
   for us. Ends the program where that is not possible. By the first loop. */
void listen_begin(const struct bridge *b);
/* Each loop takes in whom it is woken for. */
void listen_watch(struct bridge *b);
/* No more; the last loop that says so closes them. */
void listen_end(struct bridge *b);

/* Is that what epoll has told of? */
bool listen_is(const void *what);
/* If so, the clients that have come are taken in. */
bool listen_event(struct bridge *b, void *what);

/* Again, after descriptors were short. */
void listen_tick(struct bridge *b);

#endif
