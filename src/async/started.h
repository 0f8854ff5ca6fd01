/*
 * started.h - async: the records of started requests, from before the table is
 * asked until the result was taken.
 */
#ifndef ASYNC_STARTED_H
#define ASYNC_STARTED_H

#include "async/event.h"
#include "async/heartbeat.h"
#include "wait/set.h"
#include "wait/suspicion.h"

enum started_phase {
    STARTED_FREE,
    STARTED_ASKING,  /* its caller is asking the table */
    STARTED_PENDING, /* in the queue */
    STARTED_OVER,    /* its result is an event */
};

/* A set of locks that are asked for together. */
struct lock_set {
    struct set set;
    struct enq_blocker blocker; /* of one that could not be had */
    struct enq_grant *grants;   /* the caller's */
    struct heartbeat
        *heartbeat[ENQ_SET_MAX]; /* each begins with the grant; or NULL */
};

struct started {
    struct cds_list_head node; /* of async.free or async.fresh */
    struct cds_list_head wary; /* of async.wary or .suspects, while pending */
    struct heap_node timer;
    struct event result;
    struct place place; /* of a set: its first one's */
    struct wait_plan plan;
    mono_t deadline;
    struct suspicion suspicion;
    struct heartbeat *heartbeat; /* begins with the grant; or NULL */
    struct lock_set *set;        /* or NULL: one lock */
    uint32_t number, generation;
    mono_t glance;   /* when it is to be glanced at */
    uint32_t behind; /* hint: number + 1 of one that stands behind it; or 0 */
    uint8_t phase;   /* enum started_phase */
    bool fresh;      /* in async.fresh */
};

/* One to ask with, or why there is none. */
int started_take(struct async *d, struct started **out);
/* It was not needed. */
void started_give(struct async *d, struct started *r);
/* It is in the queue: the helper looks after it from now on. */
void started_hand_over(struct enq *e, struct started *r, const mono_t deadline);
/* It is pending, and is looked at in the next turn. Under the mutex. */
void started_look_soon(struct async *d, struct started *r);
/* One that is pending, or NULL. Under the mutex. */
struct started *started_find(struct async *d, uint64_t ticket);

/* Nothing was asked, or its result was taken. Under the mutex. */
void started_free(struct async *d, struct started *r);
void started_drop(struct async *d, struct started *r);
/* Its memory; NULL: nothing. */
void lock_set_free(struct lock_set *l);

#endif
