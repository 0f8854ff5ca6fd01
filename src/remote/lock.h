/*
 * lock.h - remote: asking a bridge for locks.
 */
#ifndef REMOTE_LOCK_H
#define REMOTE_LOCK_H

#include <stdbool.h>

#include "enq.h"

struct remote;

/* @n > 1, or @set: as one. The first attempt only: no retries. */
int remote_lock(struct remote *r, const struct enq_req *const *reqs, size_t n,
    struct enq_grant *grants, bool set);
int remote_start(struct remote *r, const struct enq_req *const *reqs, size_t n,
    struct enq_grant *grants, bool set, uint64_t *ticket);
int remote_cancel(struct remote *r, uint64_t ticket);

#endif
