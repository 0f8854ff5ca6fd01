/*
 * fork.h - remote: children of fork(), and the descriptors that they have.
 */
#ifndef REMOTE_FORK_H
#define REMOTE_FORK_H

struct remote;

/* A child of fork closes the descriptors of all attachments: else the bridge
   would take the child for the dead parent. */
int fork_begin(struct remote *r);
void fork_end(struct remote *r);
void fork_forget(struct remote *r);
void fork_opened(struct remote *r, int fd);
void fork_close(struct remote *r);

#endif
