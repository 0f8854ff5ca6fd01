/*
 * request.h - floor 4: asking for a lock.
 */
#ifndef TABLE_REQUEST_H
#define TABLE_REQUEST_H

#include "table/judge.h"
#include "table/slab.h"

/*
 * Asks once, without blocking.
 *
 * @queue    not granted: take a place in the queue (ENQ_PENDING).
 * @out      where it stands, on ENQ_OK and ENQ_PENDING; the token on ENQ_OK.
 * @blocker  filled on ENQ_BUSY, ENQ_PENDING and ENQ_EXISTS; may be NULL.
 *
 * Returns: ENQ_OK, ENQ_BUSY, ENQ_PENDING, ENQ_EXISTS.
 * Faults:  ENQ_EFULL and those of slab_take(); ENQ_ECORRUPT.
 */
int request_lock(struct session *s, struct thread *t, const struct ask *ask,
    bool queue, struct place *out, struct enq_blocker *blocker);

/* What request_lock() would answer without @queue, leaving no trace. */
int request_test(struct session *s, struct thread *t, const struct ask *ask,
    struct enq_blocker *blocker);

/* Judges until nothing that overlaps has run out, having dropped that and
   served whom it frees. Under the scope. */
int request_decide(struct scope *s, const struct ask *ask,
    const struct entry *self, struct verdict *v);

#endif
