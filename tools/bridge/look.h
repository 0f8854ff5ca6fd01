/*
 * look.h - looking at the table: lists, the graph, statistics, the doctor. A
 * list of 100,000 locks takes a tenth of a second to make and to write down,
 * so that another thread does it, and the loop goes on.
 */
#ifndef BRIDGE_LOOK_H
#define BRIDGE_LOOK_H

#include "bridge.h"
#include "reply.h"

/* Starts the thread; a descriptor that is readable when there is an answer. */
int look_begin(struct bridge *b);
void look_end(struct bridge *b);

void look_ask(struct bridge *b, struct conn *c, const struct ask *ask,
    const struct reply *reply);
/* Those that nobody makes yet: @c is gone. */
void look_drop_all(struct bridge *b, struct conn *c);
/* Answers that are there, to those that asked. */
void look_take(struct bridge *b);

#endif
