/*
 * set.h - api: enq_lock_set() in a table of this host, and for callers that do
 * not wait in it.
 */
#ifndef API_SET_H
#define API_SET_H

#include "async/started.h"

int local_lock_set(struct enq *e, struct thread *t,
    const struct enq_req *const *reqs, size_t n, struct enq_grant *grants);

/*
 * Asks; not granted, the set queues: ENQ_PENDING.
 *
 * @r  its record: set, place (on ENQ_PENDING) and suspicion are set
 */
int lock_set_start(struct enq *e, struct thread *t,
    const struct enq_req *const *reqs, size_t n, struct enq_grant *grants,
    struct started *r);

#endif
