/*
 * route.h - with several loops: news to the loop that it is for.
 *
 * All loops share one attachment to the space, so that it does not matter which
 * of them took a lock, and which gives it back. Its events come to one, the
 * first, in their order. A result is its wait's loop's, news of a held lock its
 * session's loop's (roll.h).
 *
 * A lock is granted a moment before its loop knows it for held. Where a wait
 * was granted its news follows the result. Else news that comes in this moment,
 * and news of locks of nobody, are not to be told apart: what has no receiver
 * is kept until all loops have gone through their letters twice. Who has been
 * granted a lock has then noted it, be it as the result of a wait that came
 * early. What has none then is nobody's.
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
