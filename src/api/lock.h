/*
 * lock.h - api: enq_lock() for those who do not wait in it.
 */
#ifndef API_LOCK_H
#define API_LOCK_H

#include "api/attachment.h"

/* A request of another version of the header becomes one of this. 0, or the
   fault, explained. */
int lock_copy_request(const struct enq_req **req, struct enq_req *copy);

/*
 * Asks; not granted, the request queues: ENQ_PENDING. Its session is called by
 * the record's number (store/call.h).
 *
 * @r  its record: place, beat (on ENQ_PENDING) and suspicion are set
 */
int lock_start(struct enq *e, struct thread *t, const struct enq_req *req,
    struct enq_grant *grant, struct started *r);

/* enq_lock(), which also says how often it had to ask anew. */
int lock_counting(struct enq *e, const struct enq_req *req,
    struct enq_grant *grant, uint32_t *retries);

#endif
