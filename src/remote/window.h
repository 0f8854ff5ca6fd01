/*
 * window.h - remote: which requests are sent, and when. All under the mutex.
 */
#ifndef REMOTE_WINDOW_H
#define REMOTE_WINDOW_H

#include "remote/pending.h"

/* Most requests, not counting waits, that are unanswered at once: the bridge
   remembers the last 64 that it has done. */
#define WINDOW 64u

void pending_queue(struct remote *r, struct pending *c);
void pending_remove(struct remote *r, struct pending *c);
void pending_free(struct pending *c);
/* It gets no answer any more: it is done, with this result. */
void pending_fail(struct remote *r, struct pending *c, int result,
    const char *why);
/* Sends what may be sent. */
void pending_push(struct remote *r);
/* A moment at which it was not granted yet: requests that were sent behind it
   were answered before it, the last of them sent at @sure_at. */
mono_t pending_waited_at(const struct pending *c, mono_t sure_at);
/* On a new connection, in the old session: sends all again, in order. */
void pending_send_again(struct remote *r);
/* A started one was cancelled: its result is on its way, or lost with the
   bridge. */
void pending_cancelled(struct remote *r, uint64_t number);
/* The session is a new one too: waits go on in it, the rest is dropped. */
void pending_forget_session(struct remote *r);
/* Writes what the socket takes. False: the connection is broken. */
bool pending_flush(struct remote *r);

#endif
