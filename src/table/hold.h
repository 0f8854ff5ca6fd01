/*
 * hold.h - floor 4: what can be done with a lock once there is one.
 *
 * All find the entry by its handle, and say why when it is no longer what the
 * handle meant: ENQ_EXPIRED, ENQ_LOST, ENQ_FORCED, ENQ_OWNERDIED, or
 * ENQ_NOTHELD (R16). Token 0: not compared. Faults: ENQ_ECORRUPT.
 */
#ifndef TABLE_HOLD_H
#define TABLE_HOLD_H

#include "table/slab.h"

int hold_unlock(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token);

/* ENQ_REFUSED, ENQ_LOST: with the blocker. *token is the new one. */
int hold_promote(struct session *s, struct thread *t, enq_handle handle,
    uint64_t *token, struct enq_blocker *blocker);

int hold_demote(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token);

/* ttl_ms as in enq_renew(). */
int hold_renew(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token, int64_t ttl_ms);

/* One cache line, and the coarse clock where there is a ttl; more if the lock
   is not of the session `own`. */
int hold_valid(const struct map *map, session_ref_t own, enq_handle handle);

/* ENQ_OK for a lock or a waiting request; else why it is gone. */
int hold_alive(const struct map *map, enq_handle handle);

int hold_adopt(struct session *s, struct thread *t, enq_handle handle,
    struct enq_grant *grant);
int hold_break(struct session *s, struct thread *t, enq_handle handle);

/* Everything of a session: RELEASE locks and waiting requests go. */
int hold_release_all(struct session *s, struct thread *t, session_ref_t ref,
    enum gone gone);

#endif
