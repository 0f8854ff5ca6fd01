/*
 * queue.h - many threads of one process that wait for one key, and hand it from
 * one to the next: the same queue and the same count for every subject.
 *
 * A pass of it: its worker has the key, all threads fall asleep (queue_fill),
 * the worker gives the key back, and each of them takes it, gives it back and
 * joins the queue again until the pass is over (queue_run). What is handed over
 * after that, while the queue gets shorter, is no figure.
 */
#ifndef BENCH_LOAD_QUEUE_H
#define BENCH_LOAD_QUEUE_H

#include "harness/bench.h"

/* All return 0, or -1 after seat_fail(). A thread has a seat of its own, in
   which s->index is its number, from 0. */
struct queue_calls {
    int (*join)(struct seat *s); /* s->mine is the worker's; it sets its own */
    int (*take)(struct seat *s); /* waits; guard_visit() when it has the lock */
    int (*give)(struct seat *s);
    void (*leave)(struct seat *s); /* undoes join(); s->mine may be NULL */
    int (*waiting)(struct seat *s, uint64_t *n); /* the worker's: so many do */
};

/* Starts @n threads, and returns when all wait. */
int queue_fill(struct seat *s, const struct queue_calls *calls, unsigned n);

/* For act.aside: @give of the worker's own, until *stop, and until all have
   ended. Counts pairs, hand-overs and their times in the slot. */
int queue_run(struct seat *s, int (*give)(struct seat *s));

#endif
