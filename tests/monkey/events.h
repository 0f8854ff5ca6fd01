/*
 * events.h - what a process is told of its locks and of the requests that it
 * has started: can that be, and is it all?
 */
#ifndef MONKEY_EVENTS_H
#define MONKEY_EVENTS_H

#include "result.h"

/* An event that says that the lock is gone? */
bool event_is_end(const struct op *op);

/* An event, or a cancel, about a lock. */
void event_check(struct story *s, const struct hold *h, const struct op *op,
    const struct deeds *all);

/* Of a started request: has it had its result in time? */
void event_check_started(struct story *s, const struct op *op,
    const struct deeds *all);

/* The lock was gone by then for certain: was its process told? */
void event_check_told(struct story *s, const struct hold *h, int64_t gone_ns,
    const struct deeds *all);

/* Has each started request a ticket of its own? */
void event_check_tickets(struct story *s);

#endif
