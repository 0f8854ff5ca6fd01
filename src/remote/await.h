/*
 * await.h - remote: a caller that waits for its answer.
 */
#ifndef REMOTE_AWAIT_H
#define REMOTE_AWAIT_H

#include <stdint.h>

struct pending;
struct remote;

/* How much longer a call waits for its answer than it may at the bridge. */
#define SLACK_MS 5000
/* ... and one that looks at the whole table. */
#define SLACK_LOOK_MS 60000

/*
 * Sends a request, and waits for the answer: its result, explained. When the
 * answer does not come in time the caller goes on, and a copy of the request is
 * left behind, which takes the answer.
 *
 * @wait_ms   how long the request may wait at the bridge; ENQ_FOREVER
 * @slack_ms  how much longer the answer may take
 */
int pending_ask(struct remote *r, struct pending *c, int64_t wait_ms,
    int64_t slack_ms);

/* The same of a started one: its ticket on ENQ_PENDING. */
int pending_start(struct remote *r, struct pending *c, int64_t wait_ms,
    uint64_t *ticket);

#endif
