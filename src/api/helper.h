/*
 * helper.h - api: the library's one thread in a process.
 *
 * It holds the life mutexes of the process's sessions, so that a session ends
 * with its process and not with some thread; buries dead sessions that others
 * have noticed; and looks once a second for dead sessions that nobody waits
 * for, and whether a segment has lost its name. All signals blocked, small
 * stack, asleep otherwise. It ends with the last attachment.
 */
#ifndef API_HELPER_H
#define API_HELPER_H

#include "api/attachment.h"
#include "store/watch.h"

/* Begins e->session, starting the helper if need be. Faults, explained. */
int helper_begin(struct enq *e);

/* Ends it: its locks are released by the calling thread first. */
void helper_end(struct enq *e);

/* There is something for it to do. */
void helper_ring(void);

/* The same at a time that it may not know of. */
void helper_come_at(mono_t at);

void helper_watch_slow(struct enq *e, const struct entry *entry);

/* A lock of this session has another deadline from now on: see watch.h. */
HOT void helper_watch(struct enq *e, const struct entry *entry)
{
    if (unlikely(watch_is_late_for(&e->session, shm_load(&entry->deadline_ns))))
        helper_watch_slow(e, entry);
}

/* The same of a lock whose deadline is another now. */
void helper_note(struct enq *e, enq_handle handle);

/* In a child of fork: forget the parent's helper. */
void helper_forget(void);

#endif
