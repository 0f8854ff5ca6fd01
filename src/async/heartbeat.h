/*
 * heartbeat.h - async: locks that the helper thread renews, each in its time.
 */
#ifndef ASYNC_HEARTBEAT_H
#define ASYNC_HEARTBEAT_H

#include "async/async.h"

struct heartbeat {
    struct heap_node timer;
    struct cds_list_head node; /* of async.heartbeats */
    enq_handle handle;         /* 0: not begun */
    int64_t every_ms;
};

/* For a lock that is about to be asked for; NULL, explained: out of memory. */
struct heartbeat *heartbeat_make(struct enq *e, int64_t every_ms);
/* The lock is held since then. Under the mutex; or not, by its holder. */
void heartbeat_start(struct enq *e, struct heartbeat *b, enq_handle handle,
    mono_t since);
void heartbeat_begin(struct enq *e, struct heartbeat *b, enq_handle handle);
void heartbeat_free(struct async *d, struct heartbeat *b);
/* The same under the mutex. */
void heartbeat_drop(struct async *d, struct heartbeat *b);

/* By the helper thread, under the mutex: renews what is due. */
void heartbeat_due(struct enq *e, struct thread *t, mono_t now);

#endif
