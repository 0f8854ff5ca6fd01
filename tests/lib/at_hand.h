/*
 * at_hand.h - the free entries that a process keeps: those of a thread's
 * magazine, and those of its session's depot.
 */
#ifndef LIB_AT_HAND_H
#define LIB_AT_HAND_H

#include "store/slab.h"

static inline unsigned in_magazine(const struct session *s,
    const struct thread *t)
{
    return t->magazine_of != s->serial
        ? 0
        : t->magazine->small.n - t->magazine->small.base +
            t->magazine->large.n - t->magazine->large.base;
}

/* No other thread may use the session meanwhile. */
static inline unsigned in_depot(const struct session *s)
{
    return s->small.n + s->large.n;
}

#endif
