/*
 * ask.h - asking for a lock, or several as one set, so that signals are
 * honoured while it waits.
 */
#ifndef ASK_H
#define ASK_H

#include "object.h"
#include "signals.h"

#define ASK_ID_BYTES 37 /* a uuid's text */

struct ask {
    const struct cli *cli;
    const struct object *object; /* of the first, or only, lock */
    unsigned n;                  /* so many, one after the other */
    enum enq_mode mode;          /* 0 = E */
    enum enq_death on_death;
    int64_t wait_ms, ttl_ms, heartbeat_ms;

    /* ask_open() */
    struct enq *e;
    int events_fd;

    /* The answer. */
    char id[ENQ_SET_MAX][ASK_ID_BYTES];
    struct enq_grant grant[ENQ_SET_MAX];
    unsigned at; /* which lock it was that could not be had, or is gone */
    int result;
    char why[4096];
    int signal; /* > 0: this one ended the wait; nothing is held */
};

/*
 * ask_lease - what -t and --heartbeat mean together, into ask->ttl_ms and
 * ask->heartbeat_ms.
 *
 * @ttl_ms     where neither of them is given.
 * @by_itself  a ttl is renewed also when --heartbeat is not given.
 *
 * Returns DONE or, said, USAGE.
 */
int ask_lease(struct ask *ask, int64_t ttl_ms, bool by_itself);

/* Attaches to the space, and listens. @flags: enum enq_open_flags. Returns
   DONE or, said, an exit code. ask_end() in any case. */
int ask_open(struct ask *ask, uint32_t flags);
void ask_end(struct ask *ask);

/*
 * ask_lock - ask, wait as long as wait_ms says.
 *
 * Returns DONE when the lock is held, or all are; else, said, an exit code, 128
 * + n after a signal.
 */
int ask_lock(struct ask *ask, const struct signals *signals);

/*
 * ask_events - what has happened to the lock since the last time, once
 * events_fd is readable: told as the user has asked for it (-v, --json).
 *
 * Returns ENQ_OK while all are held, else why one (ask->at) is gone, in words
 * in ask->why.
 */
int ask_events(struct ask *ask);

/* Gives back what is held: ENQ_OK, or what it was that was not (enq_why()). */
int ask_unlock(struct ask *ask);

/* As the user wrote it; of a set the first, and how many more. */
const char *ask_text(const struct ask *ask, char *out, size_t n);

#endif
