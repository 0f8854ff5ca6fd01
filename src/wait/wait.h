/*
 * wait.h - wait: standing in the queue.
 */
#ifndef WAIT_WAIT_H
#define WAIT_WAIT_H

#include "wait/waiter.h"

/*
 * Waits for the grant of a queued entry, until `deadline` and not a moment
 * less; if grant and deadline meet, the grant wins.
 *
 * @ask      what was asked for; its owner's and key's bytes are used.
 * @place    as request_lock() gave it; its token is set on ENQ_OK.
 * @blocker  filled on ENQ_TIMEDOUT; may be NULL.
 *
 * Returns: ENQ_OK, ENQ_TIMEDOUT, ENQ_CANCELLED, ENQ_DEADLOCK (if ask->cycles;
 *          explained): then the entry is given back.
 * Faults:  ENQ_ECORRUPT.
 */
int wait_for_grant(struct session *s, struct thread *t, const struct ask *ask,
    struct place *place, mono_t deadline, struct enq_blocker *blocker);

/*
 * One look at the table for a request that no thread waits for: serves the
 * queue, and leaves it when `deadline` has come. Never blocks.
 * Returns: as wait_for_grant(), or ENQ_PENDING, and *plan.
 */
int wait_look_started(struct session *s, struct thread *t, struct place *place,
    mono_t deadline, struct enq_blocker *blocker, struct wait_plan *plan);

#endif
