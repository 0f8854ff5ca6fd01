/*
 * set_wait.h - wait: a lock set that stands in its queues.
 */
#ifndef WAIT_SET_WAIT_H
#define WAIT_SET_WAIT_H

#include "wait/set.h"
#include "wait/wait.h"

/* As wait_for_grant(): also ENQ_TIMEDOUT, ENQ_CANCELLED, ENQ_DEADLOCK. */
int set_wait(struct set *set);

/* One look, for a set that no thread waits for; as wait_look_started(). */
int set_look(struct set *set, struct wait_plan *plan);

/* A waiting set leaves the queue; ENQ_NOTHELD: it does not wait any more. */
int set_withdraw(struct set *set);

/* Has it been granted, woken or lost a member since it looked? */
bool set_has_moved(const struct set *set);

#endif
