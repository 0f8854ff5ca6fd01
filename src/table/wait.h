/*
 * wait.h - floor 4: standing in the queue.
 */
#ifndef TABLE_WAIT_H
#define TABLE_WAIT_H

#include "table/slab.h"

/*
 * Waits for the grant of a queued entry, until `deadline` and not a moment
 * less; if grant and deadline meet, the grant wins.
 *
 * @ask      what was asked for; its owner's and key's bytes are used.
 * @place    as request_lock() gave it; its token is set on ENQ_OK.
 * @blocker  filled on ENQ_TIMEDOUT; may be NULL.
 *
 * Returns: ENQ_OK, ENQ_TIMEDOUT, ENQ_CANCELLED: then the entry is given back.
 * Faults:  ENQ_ECORRUPT.
 */
int wait_for_grant(struct session *s, struct thread *t, const struct ask *ask,
    struct place *place, mono_t deadline, struct enq_blocker *blocker);

/*
 * One look at the table on behalf of a waiter, as it does whenever it wakes
 * up: serves the queue, and leaves it when `deadline` has come. Never blocks.
 * Returns: as wait_for_grant(), or ENQ_PENDING.
 */
int wait_look(struct session *s, struct thread *t, const struct ask *ask,
    struct place *place, mono_t deadline, struct enq_blocker *blocker);

/* Told by a watcher that a session died: floor 5 has it buried by the helper
   thread, in the background. */
extern void (*wait_report_death)(struct session *s);

#endif
