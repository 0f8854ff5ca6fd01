/*
 * request.h - lock: asking for a lock.
 */
#ifndef LOCK_REQUEST_H
#define LOCK_REQUEST_H

#include "lock/judge.h"
#include "store/slab.h"
#include "sync/life.h"

/*
 * Asks once, without blocking.
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

/* The lock of one who is dying is in the way: s->dying. Whether he is over is
   found out when the words have been let go; true, if he is, so that a request
   that was refused is to be made again. */
static inline bool request_is_free_now(const struct scope *s, int refused)
{
    return (refused == ENQ_BUSY || refused == ENQ_EXISTS ||
               refused == ENQ_REFUSED) &&
        unlikely(s->dying != 0) && session_prove(s->map, s->dying, true);
}

/* May the new request be granted? By one look, where nobody has the object:
   whether its id is taken is found out when it is placed. Else decides whatever
   the scope needs to know to place it.
   Returns: ENQ_OK, ENQ_BUSY, ENQ_EXISTS. Faults: ENQ_ECORRUPT. */
int request_decide_slowly(struct scope *s, const struct ask *ask,
    struct enq_blocker *blocker);
HOT int request_may(struct scope *s, const struct ask *ask,
    struct enq_blocker *blocker)
{
    if (likely(!s->wide))
        s->vacant = !index_may_have(s->map, &s->spot);
    if (likely(s->vacant))
        return ENQ_OK;
    return request_decide_slowly(s, ask, blocker);
}

/* Lines for ids are added outside of all words, as those for keys are by
   scope_leave(). */
void request_grow_ids(struct map *map, struct thread *t, const struct ask *ask);

/* Judges until nothing that overlaps has run out, having dropped that and
   served whom it frees. Under the scope. */
int request_decide(struct scope *s, const struct ask *ask,
    const struct entry *self, struct verdict *v);

#endif
