/*
 * bell.h - async: how the helper thread is told that there is something to do.
 *
 * By anybody, with or without a mutex: it is rung, or a word is stored that it
 * reads before it sleeps.
 */
#ifndef ASYNC_BELL_H
#define ASYNC_BELL_H

#include "async/attachment.h"
#include "store/watch.h"

struct helper_bell {
    uint32_t rings;   /* futex: rung to get the helper's attention */
    uint32_t death;   /* somebody met a dead session */
    int64_t wakes_ns; /* when the helper means to wake up */
};
extern struct helper_bell helper_bell;

/* There is something for it to do. */
void helper_ring(void);

/* The same at a time that it may not know of. */
void helper_come_at(mono_t at);

/* hooks.report_death: a thread has met a dead session, to be reaped. */
void helper_report_death(struct session *s);

void helper_watch_slow(struct enq *e, const struct entry *entry);

/* A lock of this session has another deadline from now on: see watch.h. */
HOT void helper_watch(struct enq *e, const struct entry *entry)
{
    if (unlikely(watch_is_late_for(&e->session, shm_load(&entry->deadline_ns))))
        helper_watch_slow(e, entry);
}

/* The same of a lock whose deadline is another now. */
void helper_note(struct enq *e, enq_handle handle);

#endif
