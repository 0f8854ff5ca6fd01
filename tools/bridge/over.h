/*
 * over.h - sessions that are over.
 *
 * What goes with one is given back: its requests that wait, and then its locks,
 * of which it may have a million. That is done in parts, some in each round of
 * the loop, and a part of each session that is over, so that nobody waits for
 * all of another's. A few locks are gone before anybody else is served.
 *
 * Meanwhile nobody finds it: its id is nobody's. Its locks are held, and are
 * counted, until each is given back. If the bridge is told to stop it ends them
 * first. If it is killed, they are left like those of any other session
 * (left.h).
 */
#ifndef BRIDGE_OVER_H
#define BRIDGE_OVER_H

#include "bridge.h"
#include "reply.h"

void session_end(struct bridge *b, struct session *s);
/* The same, as its client, @c, has asked for: it is answered when all is given
   back, and not listened to any more. */
void over_by_wish(struct bridge *b, struct conn *c, const struct reply *reply);
/* Its connection is gone before that. */
void over_unasked(struct conn *c);

/* Some of what is left to give back; all of it. */
void over_more(struct bridge *b);
void over_all(struct bridge *b);

#endif
