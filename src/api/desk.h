/*
 * desk.h - api: what an attachment does without a thread of the caller's:
 * requests that were started, heartbeats, and events.
 *
 *	application's threads		the helper thread
 *	enq_start   --- fresh --->	looks at the table for them,
 *	enq_cancel			renews what has a heartbeat,
 *	enq_next    <-- events ---	hears what became of held locks
 *	    `- the descriptor is readable while there are events
 *
 * A started request is a waiting entry like any other; only nobody sleeps on
 * it: whoever changes it calls the session (store/call.h). What time brings is
 * kept in a heap. Behind a thousand others of its session a request costs one
 * glance at three words a tick.
 *
 * Nothing of the caller's runs here, and no event can be lost: that of a
 * started request is part of its record, which was allocated before it was
 * asked for; the news of a held lock stays in its entry until there is memory
 * for the event, and room in the queue of them.
 */
#ifndef API_DESK_H
#define API_DESK_H

#include <pthread.h>
#include <urcu/list.h>

#include "base/heap.h"
#include "enq.h"
#include "wait/cycle.h"
#include "wait/set.h"

struct event {
    struct cds_list_head node; /* of desk.events */
    enum enq_event_kind kind;
    int result;
    uint64_t ticket; /* 0: of a held lock; the event is freed when taken */
    enq_handle handle;
    uint64_t token;
    struct enq_blocker *blocker; /* or NULL */
};

enum started_phase {
    STARTED_FREE,
    STARTED_ASKING,  /* its caller is asking the table */
    STARTED_PENDING, /* in the queue */
    STARTED_OVER,    /* its result is an event */
};

struct beat {
    struct heap_node timer;
    struct cds_list_head node; /* of desk.beats */
    enq_handle handle;         /* 0: not begun */
    int64_t every_ms;
};

/* A set of locks that are asked for together. */
struct lock_set {
    struct set set;
    struct enq_blocker blocker;     /* of one that could not be had */
    struct enq_grant *grants;       /* the caller's */
    struct beat *beat[ENQ_SET_MAX]; /* each begins with the grant; or NULL */
};

struct started {
    struct cds_list_head node; /* of desk.free or desk.fresh */
    struct cds_list_head wary; /* of desk.wary or .suspects, while pending */
    struct heap_node timer;
    struct event result;
    struct place place; /* of a set: its first one's */
    struct wait_plan plan;
    mono_t deadline;
    struct suspicion suspicion;
    struct beat *beat;    /* begins with the grant; or NULL */
    struct lock_set *set; /* or NULL: one lock */
    uint32_t number, generation;
    enum started_phase phase;
    bool fresh; /* in desk.fresh */
};

/* `mutex` guards it all. It is held for no look at the table, and for no
   system call but those on the descriptor. */
struct desk {
    pthread_mutex_t mutex;
    struct started **started;
    uint32_t n_started, n_pending, n_notices;
    struct cds_list_head free, fresh, events, beats;
    struct cds_list_head wary;     /* look for circles, by and by */
    struct cds_list_head suspects; /* again soon: see cycle_suspect() */
    mono_t wary_at;
    struct heap requests, heartbeats;
    size_t beats_most; /* so many may there be before those of lost locks go */
    struct beat *beating;
    struct notice_event *spare; /* memory for the next one */
    int fd;                     /* -1: not asked for */
    bool listens;
    uint32_t seen; /* calls */
    mono_t glance; /* at those who wait, next */
    bool all;      /* a call was lost: look at all */
    bool notices_due;
    bool greeted;         /* what was held before it listened */
    bool called, waiting; /* as of the last round: the helper's own */
};

struct enq;

void desk_begin(struct desk *d);
void desk_end(struct desk *d);    /* when the session has ended */
void desk_forget(struct desk *d); /* a parent's: but for its descriptor */

/* --- by the helper thread --- */

/* Does what is due; when to come back. @all: looks at all who wait. */
mono_t desk_round(struct enq *e, struct thread *t, bool all);

/* Nothing was asked, or its result was taken. Under the mutex. */
void started_free(struct desk *d, struct started *r);
void started_drop(struct desk *d, struct started *r);

/* --- heartbeats --- */

/* For a lock that is about to be asked for; NULL, explained: out of memory. */
struct beat *beat_make(struct enq *e, int64_t every_ms);
/* The lock is held since then. Under the mutex; or not, by its holder. */
void beat_start(struct enq *e, struct beat *b, enq_handle handle, mono_t since);
void beat_begin(struct enq *e, struct beat *b, enq_handle handle);
void beat_free(struct desk *d, struct beat *b);
/* The same under the mutex. */
void beat_drop(struct desk *d, struct beat *b);

/* By the helper thread, under the mutex: renews what is due. */
void beat_due(struct enq *e, struct thread *t, mono_t now);

#endif
