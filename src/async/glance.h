/*
 * glance.h - async: a glance at what started requests wait for.
 *
 * It looks at no latch: at the states of their own entries, of the waiters that
 * they stand behind and of a lock in their way, and at one liveness word. What
 * has changed is looked at like a fresh one. It finds what nobody notified of:
 * mostly a sender that died before it did. By the helper thread, under the
 * mutex, which is let go of between slices.
 */
#ifndef ASYNC_GLANCE_H
#define ASYNC_GLANCE_H

#include "async/attachment.h"

/* This one's plan is new. */
void glance_note(struct async *d, struct started *r, mono_t now);

/* When the next one is due. */
mono_t glance_due(const struct async *d);

/* If it is due, or all are to be looked at. */
void glance(struct enq *e, mono_t now);

/* The liveness words of sessions whose death its pending requests wait for:
   some of them, as far as there is room. *dead: one is dead already. Takes the
   mutex. */
unsigned glance_watch_lives(struct enq *e, struct sys_watch *watches,
    unsigned most, bool *dead);

#endif
