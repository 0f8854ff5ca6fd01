/*
 * unread.h - connections with bytes of ours on their way: does anybody take
 * them?
 *
 * A client that reads, however slowly, is served. One that takes nothing for
 * --read-time is cut off; and within 4 s one whose host has vanished, so that
 * what we send is not acknowledged. The kernel's own TCP_USER_TIMEOUT cannot
 * tell these two apart: it also counts while a living host's window is closed.
 */
#ifndef BRIDGE_UNREAD_H
#define BRIDGE_UNREAD_H

#include "bridge.h"

void unread_join(struct bridge *b, struct conn *c);

/* So many bytes have been written to it. */
static inline void unread_note(struct bridge *b, struct conn *c, size_t n)
{
    c->sent += n;
    if (n > 0 && !c->is_unread)
        unread_join(b, c);
}

void unread_forget(struct conn *c);

/* Now and then: which has come further, and which is cut off. */
void unread_tick(struct bridge *b);

/* What all clients have not read is more than may be: a client that has more of
   it than its part is cut off. */
void unread_limit(struct bridge *b);

#endif
