/*
 * set.h - api: enq_lock_set() for those who do not wait in it.
 */
#ifndef API_SET_H
#define API_SET_H

#include "api/desk.h"

/* May there be such a set at all? 0, or the fault, explained. */
int lock_set_check(const struct enq_req *const *reqs, size_t n,
    const struct enq_grant *grants);

/*
 * Asks; not granted, the set queues: ENQ_PENDING.
 *
 * @r  its record: set, place (on ENQ_PENDING) and suspicion are set
 */
int lock_set_start(struct enq *e, struct thread *t,
    const struct enq_req *const *reqs, size_t n, struct enq_grant *grants,
    struct started *r);

/* Of who judges its members himself: has it the owner and the patience of the
   first? And whose fault it was. */
struct ask;
int lock_set_unity(const struct enq_req *first, const struct ask *lead,
    const struct enq_req *req, const struct ask *ask);
int lock_set_explain(int rc, unsigned i);

#endif
