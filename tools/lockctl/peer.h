/*
 * peer.h - for whom a process holds a lock (struct enq_info), as people are
 * told.
 */
#ifndef PEER_H
#define PEER_H

#include <enq.h>

#define PEER_SESSION_BYTES 17

/* What enq-bridge notes there is taken apart: host or user, and the name of the
   session (which is not what a client goes on with it by), "": without one.
   Anybody else's text is the host as a whole. */
struct peer {
    char host[ENQ_PEER_BYTES];
    char session[PEER_SESSION_BYTES];
};

void peer_read(struct peer *peer, const struct enq_info *info);

#endif
