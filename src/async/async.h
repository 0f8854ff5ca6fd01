/*
 * async.h - async: what an attachment does without a thread of the caller's:
 * requests that were started, heartbeats, and events.
 *
 *	application's threads		the helper thread
 *	enq_start   --- fresh --->	looks at the table for them,
 *	enq_cancel			renews what has a heartbeat,
 *	enq_next    <-- events ---	hears what became of held locks
 *	    `- the descriptor is readable while there are events
 *
 * A started request is a waiting entry like any other; only nobody sleeps on
 * it: a change of it notifies the session (store/notify.h). What time brings
 * is kept in a heap. Behind a thousand others of its session a request costs
 * one glance at four words a tick, and far back in its queue not that often.
 *
 * Nothing of the caller's runs here, and no event can be lost: that of a
 * started request is part of its record, which was allocated before it was
 * asked for; what is told of a held lock stays in its entry until there is
 * memory for the event, and room in the queue of them.
 */
#ifndef ASYNC_ASYNC_H
#define ASYNC_ASYNC_H

#include <pthread.h>
#include <urcu/list.h>

#include "base/heap.h"
#include "store/slab.h"

struct started;
struct heartbeat;
struct queued_event;

/* `mutex` guards it all. It is held for no look at the table, and for no
   system call but those on the descriptor. */
struct async {
    pthread_mutex_t mutex;
    struct started **started;
    uint32_t n_started, n_pending, n_lock_events;
    struct cds_list_head free, fresh, events, heartbeats;
    struct cds_list_head wary;     /* look for cycles, by and by */
    struct cds_list_head suspects; /* again soon: see cycle_suspect() */
    mono_t wary_at;
    struct heap requests, heartbeats_due;
    size_t heartbeats_most; /* before those of lost locks go */
    struct heartbeat *beating;
    struct queued_event *spare; /* memory for the next one */
    int fd;                     /* -1: not asked for */
    bool listens;
    uint32_t seen; /* notifications */
    mono_t glance; /* the next one, at all that wait */
    mono_t rested; /* and not before */
    bool all;      /* a notification was lost: look at all */
    bool lock_events_due;
    bool greeted; /* what was held before it listened */
    bool called;  /* as of the last round: the helper's own */
    bool deaf;    /* it is being closed: no notification is answered */
};

struct enq;

void async_begin(struct async *d);
void async_end(struct async *d);    /* when the session has ended */
void async_forget(struct async *d); /* a parent's: but for its descriptor */

/* Does what is due; returns when to come back. @all: looks at all that wait. */
mono_t async_round(struct enq *e, struct thread *t, bool all);

#endif
