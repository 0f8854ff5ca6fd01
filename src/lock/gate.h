/*
 * gate.h - lock: the generic entries of a gate.
 *
 * A gate is one of many names, by hash, so that its ring has entries of others,
 * too; and of its own name some leave a key alone. There may be thousands that
 * do not overlap: of these the texts are not read.
 *
 * Under the gate's latch.
 */
#ifndef LOCK_GATE_H
#define LOCK_GATE_H

#include "store/index.h"

/* Shows those that overlap the key, until `see` has enough: then *more is false.
   Faults: ENQ_ECORRUPT, the ring does not close. */
int gate_visit(const struct map *map, const struct gate *gate,
    const struct key *key, entry_see_fn *see, void *context, bool *more);

/* Is there one? Of a ring that does not close, yes: whoever visits it says so. */
bool gate_overlaps(const struct map *map, const struct gate *gate,
    const struct key *key);

#endif
