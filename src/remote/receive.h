/*
 * receive.h - remote: reading the socket, as the leader.
 */
#ifndef REMOTE_RECEIVE_H
#define REMOTE_RECEIVE_H

#include <stdbool.h>

struct remote;

/*
 * Reads once, as the leader. 0; -EAGAIN: nothing came; else why the connection
 * is over. @wait: if there is nothing, waits for HEAR_MS (link.h) at most.
 */
int remote_receive(struct remote *r, bool wait);

#endif
