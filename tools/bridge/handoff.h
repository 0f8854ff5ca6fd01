/*
 * handoff.h - connections that go to another loop: when they are accepted, so
 * that all loops have as many; and when they resume a session that is
 * another's.
 */
#ifndef BRIDGE_HANDOFF_H
#define BRIDGE_HANDOFF_H

#include "serve.h"

/* The loop that a session is, or was, served by; @heir: see tag_heir(). */
unsigned handoff_home(const struct bridge *b, uint64_t heir);

/* Does it resume a session of another loop? Then its hello, and what it has
   said besides, is served there: after handoff_go(), when the caller is done
   with what was read. */
bool handoff_is_due(const struct serving *s);
void handoff_begin(const struct serving *s);
void handoff_go(struct bridge *b, struct conn *c);
/* It has come to its end before it could go. */
void handoff_forget(struct conn *c);

/* One that has just been accepted. */
void handoff_in(struct bridge *b, int fd, const char *peer, struct peer *from);

#endif
