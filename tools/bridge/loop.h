/*
 * loop.h - the loops of a bridge, and their time.
 */
#ifndef BRIDGE_LOOP_H
#define BRIDGE_LOOP_H

#include "bridge.h"

int64_t bridge_clock(void);
/* What is done from now has so much time; has it had that? The clock, and
   b->is_late. */
void bridge_begin_time(struct bridge *b, int64_t ns);
int64_t bridge_look_late(struct bridge *b);
/* Serves until it is told to stop, with a thread for each loop but the first.
   By the thread that runs the first; then there is no other. */
void bridge_run(struct share *share);

#endif
