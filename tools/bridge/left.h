/*
 * left.h - what bridges that are gone have left at our space.
 *
 * Several bridges may serve one space. What one held that is killed, or
 * stopped, are orphans in the table, and stay orphans until its session is
 * resumed: at whichever bridge its client comes to, which takes over all of its
 * locks then. If each took over what it can, a session could be two bridges',
 * and a client's locks end at the one that it does not come to. So we only
 * remember what is there, and since when; what nobody has resumed within its
 * grace is taken over to be ended. Of two that do so at once one has claimed
 * the session, by a lock in the table: enq-bridge/session:NAME, which has the
 * begin of its name: of what it has adopted no more is known.
 *
 * Locks without a session are taken over at once: they wait for nobody.
 */
#ifndef BRIDGE_LEFT_H
#define BRIDGE_LEFT_H

#include "bridge.h"

/* Before the loops begin: all that is there. False: no memory. */
bool left_begin(struct share *share);
void left_end(struct bridge *b);

/* The session of this name, with its locks, if a bridge that is gone had it. @s
   is NULL: none had, or another bridge has it now. False: that cannot be told
   now, as the table has no room or is damaged. */
bool left_resume(struct bridge *b, const char *name, struct session **s);

/* Looks for what was left, now and then; ends what has not come back. */
void left_tick(struct bridge *b);
/* ms until there is something to do. */
int left_patience(struct bridge *b);

#endif
