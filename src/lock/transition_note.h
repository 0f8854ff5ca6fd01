/*
 * transition_note.h - lock: sessions that are asked for what they hold.
 *
 * A session that listens (enq_fd) hears once of each of its locks that another
 * request waits for it: the event "blocking". The note STATE_ASKED stands in
 * the entry until it has been made an event; the wake-up only says: look. It is
 * set with the latches held, where waiter and lock stand still, and from two
 * sides: a request queues (transition_note_asked()), or a lock is given while
 * others wait (transition_note_waiters()). Just there its owner comes to be
 * waited for, too, which is noted for those that look for cycles.
 *
 * Partner: lock_event_listen() raises `listeners`, stores `listens`, which is a
 * full fence, and then goes through the locks that it has, each under its
 * latches (lock_event_greet()). So one of the two sees the other: the request
 * finds that the session listens, or that walk comes after it and finds the
 * waiter. A thread that dies between note and wake-up leaves the note; the
 * reaper of its session notifies all sessions that listen. One that dies between
 * its grant and the note leaves latches: who recovers tells all waiters there to
 * look, and each of them notes what is in its way (transition_note_held()).
 */
#ifndef LOCK_TRANSITION_NOTE_H
#define LOCK_TRANSITION_NOTE_H

#include "lock/links.h"
#include "store/notify.h"

/* A request has queued: the owners of what is in its way are waited for, and the
   sessions that hold it, and listen, are to hear of it. Under the scope. Partner
   of `listeners` and `listens`: lock_event_listen(). Faults: ENQ_ECORRUPT. */
int transition_note_asked(struct scope *s, const struct ask *ask);

/* Its session is to hear that this held lock is waited for. By a waiter that has
   looked, and stays: whoever granted the lock may have died before it noted that
   others wait, and then all waiters there are told to look (rouse()). */
void transition_note_held(struct scope *s, struct entry *e);

/* The owner of this held lock is waited for (store/owners.h). */
void transition_note_awaited(struct scope *s, struct entry *e);

/* A lock was given while others wait for it: the same for its holder. */
int transition_note_waiters_slow(struct scope *s, struct entry *e);
HOT int transition_note_waiters(struct scope *s, struct entry *e)
{
    enq_assert(scope_is_entered(s));
    if (nobody_waits(s, e))
        return 0;
    transition_note_awaited(s, e);
    return likely(!notify_is_wanted(s->map, e->session))
        ? 0
        : transition_note_waiters_slow(s, e);
}

/* Locks of this concrete key were given, in a narrow scope: the same for all of
   its holders, in two walks over its ring. */
int transition_note_all(struct scope *s, const struct key *key);

/*
 * A waiter with several ahead of it sleeps for long: nothing that it could see
 * makes it the first but that those leave. So whoever takes a waiter out of its
 * queue, by a grant or otherwise, tells the one behind it, which looks then,
 * and is the first perhaps, or watches another from now on (ZooKeeper's
 * predecessor). One that sleeps for a tick at a time is left alone: of two that
 * hand a lock to and fro neither is woken in vain. A started request is told if
 * it is the first now and `granted`, of another session, was before it (else
 * NULL): whose time it has to watch from now on. Of its own session's its helper
 * knows (leave() in async/async.c).
 */
void transition_tell(struct scope *s, struct entry *e,
    const struct entry *granted);

/* The one behind this waiter. Under the latch of their ring; no step if it is a
   generic one, behind which nobody sleeps for long. */
void transition_tell_behind(struct scope *s, struct entry *e, bool granted);

#endif
