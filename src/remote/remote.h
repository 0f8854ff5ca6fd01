/*
 * remote.h - remote: the calls of enq.h for a bridge on another host, or
 * behind a unix socket: what api/ calls. Arguments have been judged there.
 *
 * Results are those of enq.h, explained; besides, of every call: -ENOTCONN,
 * -ETIMEDOUT, -EMSGSIZE, -EPROTO.
 */
#ifndef REMOTE_REMOTE_H
#define REMOTE_REMOTE_H

#include <stdbool.h>

#include "enq.h"

struct remote;

struct remote_wish {
    uint64_t life; /* of this process */
    const char *address;
    const char *owner;  /* default owner */
    const char *secret; /* or NULL */
    int64_t grace_ms;   /* 0: the default, unless the address says */
};

/* Is that the address of a bridge? */
bool remote_is_named(const char *address);

int remote_open(struct remote **out, const struct remote_wish *wish);
void remote_close(struct remote *r);
/* Of another process: in a child only its memory is freed. */
bool remote_is_ours(const struct remote *r);
const char *remote_name(const struct remote *r);

/* @n > 1, or @set: as one. The first attempt only: no retries. */
int remote_lock(struct remote *r, const struct enq_req *const *reqs, size_t n,
    struct enq_grant *grants, bool set);
int remote_start(struct remote *r, const struct enq_req *const *reqs, size_t n,
    struct enq_grant *grants, bool set, uint64_t *ticket);
int remote_cancel(struct remote *r, uint64_t ticket);

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

int remote_fd(struct remote *r);
int remote_next(struct remote *r, struct enq_event *event);

int remote_list(struct remote *r, const char *name, const char *owner,
    struct enq_info *out, size_t n, size_t *total);
int remote_graph(struct remote *r, struct enq_edge *out, size_t n,
    size_t *total);
int remote_stat(struct remote *r, struct enq_stats *out);
int remote_doctor(struct remote *r, char *report, size_t n);

#endif
