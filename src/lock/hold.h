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

/* The caller is about to answer @rc, which is returned: a held lock of this
   session is gone, and why. An event for the same is not needed then. With no
   latch held. */
int hold_note_told(struct session *s, enq_handle handle, int rc);

/* Gives back a lock, or cancels a waiting request (R13), of this session or of
   another. By the coarse clock: what has run out within a tick, and was not
   taken yet, is given back. */
int hold_unlock(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token);

/* All of these; the first answer that is not ENQ_OK. A handle 0 is none. */
int hold_unlock_set(struct session *s, struct thread *t,
    const struct enq_grant *grants, size_t n);

/* ttl_ms as in enq_renew(). */
int hold_renew(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token, int64_t ttl_ms);

/* The deadline of a pinned lock comes sooner than its waiters saw. Under the
   scope. Faults: ENQ_ECORRUPT. */
struct pin;
int hold_tell_shortened(struct pin *g);

/* A waiting request, and nothing else: its waiter gets ENQ_CANCELLED.
   ENQ_NOTHELD: it waits no longer. */
int hold_cancel(struct session *s, struct thread *t, enq_handle handle);

/* The same by the thread that asked, which need not be told. */
int hold_withdraw(struct session *s, struct thread *t, enq_handle handle);

/* Heartbeat: as hold_renew() with the lock's own ttl, but of an own lock only:
   ENQ_NOTHELD when another session has adopted it. */
int hold_heartbeat(struct session *s, struct thread *t, enq_handle handle);

/* Is this token's lock held on this key now? ENQ_OK; ENQ_LOST: not, and one
   with a newer token is; ENQ_NOTHELD: neither. */
int hold_check(struct session *s, struct thread *t, const struct key *key,
    uint64_t token);

/* What enq_valid() answers where the fast look does not say yes: ENQ_OK, or why
   not. Without a latch, and of one moment. */
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

/* Finds out whether its holder is over (session_prove). With no latch held. */
void hold_prove(const struct map *map, enq_handle handle);

/* ENQ_OK for a lock or a waiting request; else why it is gone. */
int hold_alive(const struct map *map, enq_handle handle);

/*
 * @heir: as in enq_adopt_for(); 0: nobody.
 *
 * The session is stored first, the deadline after it: killed in between, a KEEP
 * lock has no ttl still, or is a lock of a session that died, which the next
 * reaper treats as any. The other way round an orphan would have a ttl.
 */
int hold_adopt(struct session *s, struct thread *t, enq_handle handle,
    uint64_t heir, struct enq_grant *grant);

/* Any lock or waiting request: its holder is told ENQ_FORCED, its waiter
   ENQ_CANCELLED. A lock delay ends with it. */
int hold_break(struct session *s, struct thread *t, enq_handle handle);

/* Under its latches: a lock that its session left behind, or may have, ends at
   @deadline_ns. The sweep comes by then. */
void hold_note_lease(struct map *map, int64_t deadline_ns);

#endif
