/*
 * hold.h - lock: what can be done with a lock once there is one.
 *
 * All find the entry by its handle, and say why when it is no longer what the
 * handle meant: ENQ_EXPIRED, ENQ_LOST, ENQ_FORCED, ENQ_OWNERDIED, or
 * ENQ_NOTHELD (R16). Token 0: not compared. Faults: ENQ_ECORRUPT.
 */
#ifndef LOCK_HOLD_H
#define LOCK_HOLD_H

#include "store/watch.h"

int hold_unlock(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token);

/* All of these; the first answer that is not ENQ_OK. A handle 0 is none. */
int hold_unlock_set(struct session *s, struct thread *t,
    const struct enq_grant *grants, size_t n);

/* ENQ_REFUSED, ENQ_LOST: with the blocker. *token is the new one. */
int hold_promote(struct session *s, struct thread *t, enq_handle handle,
    uint64_t *token, struct enq_blocker *blocker);

int hold_demote(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token);

/* ttl_ms as in enq_renew(). */
int hold_renew(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token, int64_t ttl_ms);

/* A waiting request, and nothing else: its waiter gets ENQ_CANCELLED.
   ENQ_NOTHELD: it waits no longer. */
int hold_cancel(struct session *s, struct thread *t, enq_handle handle);

/* The same by whoever asked, who needs not be told. */
int hold_withdraw(struct session *s, struct thread *t, enq_handle handle);

/* Heartbeat: as hold_renew() with the lock's own ttl, but of an own lock only:
   ENQ_NOTHELD when another session has adopted it. */
int hold_beat(struct session *s, struct thread *t, enq_handle handle);

/* Is this token's lock held on this key now? ENQ_OK; ENQ_LOST: not, and one
   with a newer token is; ENQ_NOTHELD: neither. */
int hold_check(struct session *s, struct thread *t, const struct key *key,
    uint64_t token);

int hold_valid_slow(const struct map *map, enq_handle handle);

/* A held lock of our own whose time has not come needs one look at its entry.
   A read-only attachment's session has no reference. */
HOT int hold_valid(const struct map *map, const struct session *own,
    enq_handle handle)
{
    uint64_t state;
    struct entry *e = entry_of_handle(map, handle, &state);

    if (likely(e != NULL && STATE_PHASE(state) == PHASE_HELD &&
            shm_load(&e->session) == own->ref && watch_says_no(own, e)))
        return ENQ_OK;
    return hold_valid_slow(map, handle);
}

/* Finds out whether its holder is over (session_prove). With no word held. */
void hold_prove(const struct map *map, enq_handle handle);

/* ENQ_OK for a lock or a waiting request; else why it is gone. */
int hold_alive(const struct map *map, enq_handle handle);

/* @heir: as in enq_adopt_for(); 0: nobody. */
int hold_adopt(struct session *s, struct thread *t, enq_handle handle,
    uint64_t heir, struct enq_grant *grant);
int hold_break(struct session *s, struct thread *t, enq_handle handle);

/* Everything of a session: RELEASE locks and waiting requests go. */
int hold_release_all(struct session *s, struct thread *t, session_ref_t ref,
    enum gone gone);

/* Drops the locks that outlived their sessions and have run out since: nobody
   else may ever ask for their keys. Walks the table, but only when one is due.
 */
void hold_sweep(struct session *s, struct thread *t);

/* In need of room: the locks of the living as well. */
void hold_sweep_all(struct session *s, struct thread *t);

/* What becomes of a gripped lock that outlives its session. Leaves the grip. */
struct grip;
int hold_leave_behind(struct grip *g);

#endif
