/*
 * leader.h - remote: which thread reads the socket. All but remote_ring() under
 * the mutex.
 */
#ifndef REMOTE_LEADER_H
#define REMOTE_LEADER_H

#include <stdbool.h>

struct remote;

/* There is something for the reader to do. */
void remote_ring(struct remote *r);
/* By a caller that waits: becomes the leader. False: there is one already, or
   no connection. */
bool leader_take(struct remote *r);
void leader_put(struct remote *r);
/* By a caller that goes on: wakes another one to become the leader, so that the
   socket is read. */
void leader_offer(struct remote *r);
/* By the leader, which has seen the end of the connection: tells the reader. */
void leader_lost(struct remote *r);
/* By the reader: there is no leader until the next connection. */
void leader_withdraw(struct remote *r);

#endif
