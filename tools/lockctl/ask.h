/*
 * ask.h - asking for a lock so that signals are honoured while it waits.
 */
#ifndef ASK_H
#define ASK_H

#include "object.h"
#include "signals.h"

#define ASK_ID_BYTES 37 /* a uuid's text */

struct ask {
    const struct cli *cli;
    const struct object *object;
    enum enq_death on_death;
    int64_t ttl_ms;

    /* The answer. */
    struct enq *e;
    char id[ASK_ID_BYTES];
    struct enq_grant grant;
    int result;
    char why[512];
    int signal; /* > 0: this one ended the wait; nothing is held */
};

/*
 * ask_lock - attach to the space, ask, wait as long as the user said.
 *
 * Returns DONE when the lock is held; else, said, an exit code, 128 + n after
 * a signal. ask_end() in any case.
 */
int ask_lock(struct ask *ask, const struct signals *signals);
void ask_end(struct ask *ask);

#endif
