/*
 * hold.h - api: what can be done with a lock of this host's table: local_*().
 */
#ifndef API_HOLD_H
#define API_HOLD_H

#include "api/attachment.h"
#include "api/audit.h"
#include "lock/hold.h"

/* Results of the table that need no more words than their own. */
int local_explain(int rc, const char *verb);

HOT int local_unlock(struct enq *e, struct thread *t, enq_handle handle,
    uint64_t token)
{
    int rc = audit(e, t, hold_unlock(&e->session, t, handle, token));

    return likely(rc == ENQ_OK) ? rc : local_explain(rc, "unlock");
}

HOT int local_valid(struct enq *e, enq_handle handle)
{
    int rc = hold_valid(e->map, &e->session, handle);

    return likely(rc == ENQ_OK) ? rc : local_explain(rc, "rely on the lock");
}

int local_unlock_set(struct enq *e, struct thread *t,
    const struct enq_grant *grants, size_t n);
int local_promote(struct enq *e, struct thread *t, enq_handle handle,
    uint64_t token, struct enq_grant *grant);
int local_demote(struct enq *e, struct thread *t, enq_handle handle,
    uint64_t token);
int local_renew(struct enq *e, struct thread *t, enq_handle handle,
    uint64_t token, int64_t ttl_ms);
int local_find(struct enq *e, const char *id, enq_handle *handle);
int local_id(struct enq *e, enq_handle handle, char *id);
int local_break(struct enq *e, struct thread *t, const char *id);

/* @heir 0: enq_adopt(). */
int local_adopt(struct enq *e, struct thread *t, const char *id, uint64_t heir,
    struct enq_grant *grant);
int local_inherit(struct enq *e, struct thread *t, struct enq_info *out,
    size_t n, size_t *got);
int local_inherit_lock(struct enq *e, struct thread *t, enq_handle handle,
    uint64_t heir, struct enq_info *out);
int local_abandon(struct enq *e, struct thread *t, enq_handle handle,
    uint64_t token);

#endif
