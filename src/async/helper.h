/*
 * helper.h - async: the library's one thread in a process.
 *
 * It holds the life mutexes of the process's sessions, so that a session ends
 * with its process and not with some thread; reaps dead sessions that others
 * have noticed; and looks once a second for dead sessions that nobody waits
 * for, and whether a segment has lost its name. All signals blocked, small
 * stack, asleep otherwise. It ends with the last attachment.
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
