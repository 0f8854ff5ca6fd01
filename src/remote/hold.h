/*
 * hold.h - remote: what can be done at a bridge with a lock once there is one.
 */
#ifndef REMOTE_HOLD_H
#define REMOTE_HOLD_H

#include "enq.h"

struct remote;

int remote_unlock(struct remote *r, enq_handle handle, uint64_t token);
int remote_unlock_set(struct remote *r, const struct enq_grant *grants,
    size_t n);
int remote_promote(struct remote *r, enq_handle handle, uint64_t token,
    struct enq_grant *grant);
int remote_demote(struct remote *r, enq_handle handle, uint64_t token);
int remote_renew(struct remote *r, enq_handle handle, uint64_t token,
    int64_t ttl_ms);
int remote_valid(struct remote *r, enq_handle handle);
int remote_find(struct remote *r, const char *id, enq_handle *handle);
int remote_id(struct remote *r, enq_handle handle, char *id);
int remote_adopt(struct remote *r, const char *id, struct enq_grant *grant);
int remote_break(struct remote *r, const char *id);
int remote_check(struct remote *r, const char *name, const char *const *key,
    uint64_t token);

#endif
