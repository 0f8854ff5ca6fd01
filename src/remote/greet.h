/*
 * greet.h - remote: the first request of a connection, and why there is none.
 */
#ifndef REMOTE_GREET_H
#define REMOTE_GREET_H

struct answer;
struct remote;

/* Note why there is no connection: the first under the mutex; the second takes
   it, and returns @rc. */
void remote_note(struct remote *r, int rc, const char *text);
int remote_broken(struct remote *r, int rc, const char *text);
/* The answer to its hello. */
int remote_greeted(struct remote *r, const struct answer *a);

#endif
