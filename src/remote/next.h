/*
 * next.h - remote: enq_next(): an event is taken.
 */
#ifndef REMOTE_NEXT_H
#define REMOTE_NEXT_H

#include "enq.h"

struct remote;

int remote_next(struct remote *r, struct enq_event *event);

#endif
