/*
 * populate.h - what is in a segment before it is damaged.
 */
#ifndef POPULATE_H
#define POPULATE_H

#include "fuzz.h"

/* The session has taken a lock and given it back: it has a page. */
void populate_touch(struct arena *a, unsigned session);

/* The texts of one of a set, in the entry that it has taken. */
void populate_member(struct set *set, struct member *m,
    const struct enq_req *req);

/* Locks of every mode, concrete, generic and large; waiters, a lock set among
   them; ids; the last session is dead, and a thread as well. */
void populate(struct arena *a);

#endif
