/*
 * event.h - async: the events of an attachment, in order.
 *
 * Under the mutex of `struct async`, but for what enq_fd() and enq_next() do.
 */
#ifndef ASYNC_EVENT_H
#define ASYNC_EVENT_H

#include "async/async.h"
#include "enq.h"
#include "wait/lock_event.h"

struct event {
    struct cds_list_head node; /* of async.events */
    enum enq_event_kind kind;
    int result;
    uint64_t ticket; /* 0: of a held lock; the event is freed when taken */
    enq_handle handle;
    uint64_t token;
    struct enq_blocker *blocker; /* or NULL */
};

/* Adds at the end; makes the descriptor readable. */
void event_add(struct async *d, struct event *event);

/* Is there memory for one more of a held lock, and are not too many unread?
   Then event_add_of_lock() cannot fail. */
bool event_has_room(struct async *d);
void event_add_of_lock(struct async *d, const struct lock_event *n);

void event_drop_all(struct async *d);

/* The descriptor of the events; from the first time on it listens. */
int event_fd(struct enq *e);

/* Takes the first. ENQ_PENDING: there is none. */
int event_next(struct enq *e, struct enq_event *event);

#endif
