/*
 * forward.h - api: requests for locks of a bridge. What is wrong with a
 * request is found here, as for the table of this host; the bridge is asked for
 * what is sound.
 */
#ifndef API_FORWARD_H
#define API_FORWARD_H

#include "api/attachment.h"

/* @retries: how often it had to ask anew. */
int forward_lock(struct enq *e, const struct enq_req *req,
    struct enq_grant *grant, uint32_t *retries);
int forward_lock_set(struct enq *e, const struct enq_req *const *reqs, size_t n,
    struct enq_grant *grants);

/* One that may wait. */
int forward_start(struct enq *e, const struct enq_req *req,
    struct enq_grant *grant, uint64_t *ticket);
int forward_start_set(struct enq *e, const struct enq_req *const *reqs,
    size_t n, struct enq_grant *grants, uint64_t *ticket);

int forward_promote(struct enq *e, enq_handle handle, uint64_t token,
    struct enq_grant *grant);

/* What only processes of its host can do. */
int forward_refuse(const struct enq *e, const char *what);

#endif
