/*
 * event.h - what has become of started requests and held locks.
 */
#ifndef BRIDGE_EVENT_H
#define BRIDGE_EVENT_H

#include "bridge.h"

/* What has become of started requests and held locks. By the first loop. */
void event_take(struct bridge *b);
/* The same of one that is ours; @w: NULL, or whose result it is. */
void event_tell(struct bridge *b, struct wait *w,
    const struct enq_event *event);

#endif
