/*
 * route.h - with several loops: each event goes to the loop that it is for.
 *
 * All loops share one attachment to the space, so that it does not matter which
 * of them took a lock, and which gives it back. Its events come to one, the
 * first, in their order. A result is for the loop of its wait, an event of a
 * held lock for the loop of its session (registry.h).
 *
 * A lock is granted a moment before its loop knows that it is held. Where a
 * wait was granted, the events of the lock follow the result. Otherwise an
 * event that comes in this moment looks like one of a lock that is nobody's:
 * an event without a receiver is kept until all loops have gone through their
 * mailboxes twice. By then a loop whose request was granted has noted it, be it
 * as the result of a wait that came early. An event that has no receiver then
 * is nobody's.
 */
#ifndef BRIDGE_ROUTE_H
#define BRIDGE_ROUTE_H

#include "bridge.h"

/* The first loop's. False: no memory. */
bool route_begin(struct share *share);
void route_end(struct share *share);

/* In place of a loop's own table: a request is pending. */
void route_wait(struct bridge *b, struct wait *w, uint64_t ticket);

/* By the first loop. */
void route_event(struct bridge *b, const struct enq_event *event);
void route_tick(struct bridge *b);
bool route_needs_ticks(const struct bridge *b);

/* A lap: have all loops read their letters since it began? Then another may
   begin. By the first loop. */
bool route_lap_is_over(const struct bridge *b);
void route_lap_begin(struct bridge *b);

#endif
