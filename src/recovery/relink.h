/*
 * relink.h - recovery: one entry's links made anew, in parts whose latches are
 * held.
 */
#ifndef RECOVERY_RELINK_H
#define RECOVERY_RELINK_H

#include "store/index.h"

/* A live entry, into the ring of its object and the index. Returns: 0. Faults:
   ENQ_ECORRUPT. */
int relink_concrete(struct map *map, struct entry *e);

/* The same of a generic one, into the ring of its gate; returns which that is. */
uint32_t relink_generic(struct map *map, struct entry *e);

/* What a waiter says of itself beside its links, made true; of others nothing.
   Whoever links an entry anew, in a ring of whatever kind, begins with it. */
void relink_waiter(const struct map *map, struct entry *e);

/* One that has an id, into the index of ids; @state is what it was when it was
   met. Returns: 0. Faults: ENQ_ECORRUPT. */
int relink_id(struct map *map, struct entry *e, uint64_t state);

/* Into the ring that begins with `first`, in its order (I2); returns what the
   ring begins with now. */
struct entry *ring_insert(const struct map *map, struct entry *first,
    struct entry *e);

#endif
