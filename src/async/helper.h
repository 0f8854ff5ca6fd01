/*
 * helper.h - async: the library's one thread in a process.
 *
 * It holds the life mutexes of the process's sessions, so that a session ends
 * with its process and not with some thread; reaps dead sessions that others
 * have noticed, and the one before its own in the ring (session_watch_before),
 * whose death wakes it. All signals blocked, small stack, asleep otherwise. It
 * ends with the last attachment.
 *
 * The first of a ring makes a round each second for all of its table: for what
 * nobody is told of, as leases that have run out, heirs that have ended, dead
 * threads, a name that is gone. So an idle process does not wake up, however
 * many there are.
 */
#ifndef ASYNC_HELPER_H
#define ASYNC_HELPER_H

#include "async/attachment.h"

/* Begins e->session, starting the helper if need be. Faults, explained. */
int helper_begin(struct enq *e);

/* Ends it: its locks are released by the calling thread first. */
void helper_end(struct enq *e);

/* In a child of fork: forget the parent's helper. */
void helper_forget(void);

#endif
