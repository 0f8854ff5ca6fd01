/*
 * request.h - lock: asking for a lock.
 */
#ifndef LOCK_REQUEST_H
#define LOCK_REQUEST_H

#include "lock/conflict.h"
#include "store/slab.h"
#include "sync/life.h"

/*
 * Asks once, without blocking. One scope decides and places: between the
 * verdict and the transition the latch that makes the scope is not released, so
 * that nothing is granted twice. It is asked again, in a scope of its own each
 * time, where something was learned with no latch held: that a holder is over
 * (session_prove), or that a lock set may be passed (bypass_learn).
 *
 * @queue    not granted: take a place in the queue (ENQ_PENDING).
 * @place    its entry, taken, with the key in it; given back where the answer
 *           is no other. Where it stands, on ENQ_OK and ENQ_PENDING; the
 *           token on ENQ_OK.
 * @blocker  filled on ENQ_BUSY, ENQ_PENDING and ENQ_EXISTS; may be NULL.
 *
 * Returns: ENQ_OK, ENQ_BUSY, ENQ_PENDING, ENQ_EXISTS.
 * Faults:  ENQ_ECORRUPT.
 */
int request_lock(struct session *s, struct thread *t, const struct ask *ask,
    bool queue, struct place *place, struct enq_blocker *blocker);

/* What request_lock() would answer without @queue, leaving no trace. */
int request_test(struct session *s, struct thread *t, const struct ask *ask,
    struct enq_blocker *blocker);

/* ENQ_EXISTS, with the blocker, where a live lock has the request's id. */
int request_same_id(struct scope *s, const struct ask *ask,
    struct enq_blocker *blocker);

/* A lock of a session that is dying is in the way: s->dying. Whether the
   session is over is found out when the latches have been released, as that
   takes system calls; true, if it is: a request that was refused is to be made
   again. */
static inline bool request_is_free_now(const struct scope *s, int refused)
{
    enq_assert(s->t->n_held == 0);
    return (refused == ENQ_BUSY || refused == ENQ_EXISTS ||
               refused == ENQ_REFUSED) &&
        unlikely(s->dying != 0) && session_prove(s->map, s->dying, true);
}

/* May the new request be granted? By one look, where no entry has the object:
   whether its id is taken is found out when it is placed. Else decides whatever
   the scope needs to know to place it.
   Returns: ENQ_OK, ENQ_BUSY, ENQ_EXISTS. Faults: ENQ_ECORRUPT. */
int request_decide_slowly(struct scope *s, const struct ask *ask,
    struct enq_blocker *blocker);
HOT int request_may(struct scope *s, const struct ask *ask,
    struct enq_blocker *blocker)
{
    enq_assert(scope_is_entered(s));
    if (likely(!s->wide))
        s->vacant = !index_may_have(s->map, &s->spot);
    if (likely(s->vacant))
        return ENQ_OK;
    return request_decide_slowly(s, ask, blocker);
}

/* Buckets for ids are added outside of all latches, as those for keys are by
   scope_leave(). */
void request_grow_ids(struct map *map, struct thread *t, const struct ask *ask);

/* Judges until nothing that overlaps has run out, having dropped that and
   granted what it frees. Under the scope. The verdict is of the state that it
   leaves: the last round dropped nothing. */
int request_decide(struct scope *s, const struct ask *ask,
    const struct entry *self, struct verdict *v);

#endif
