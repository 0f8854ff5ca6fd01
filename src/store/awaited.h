/*
 * awaited.h - store: which owners are waited for, as far as anybody knows.
 *
 * Of an owner for whose locks nobody waits no request closes a cycle: so most
 * that are queued need no search, however many wait around them, and for whatever
 * (wait/cycle.c). A filter of bits, by the owner's hash (Bloom, Space/Time
 * Trade-offs in Hash Coding, 1970). Bits are set, never taken away one by one:
 * there are two filters, one of which is emptied every AWAITED_NS, and the other
 * used from then on. An owner is in one of them for that long at least, and who
 * waits sets the bits anew at each of its looks.
 *
 * Whoever makes an owner awaited says so under the latches by which that comes
 * about: a request that is queued, of all that is in its way; who is granted, or
 * changes its mode, while others wait, of itself. So of the requests in a cycle
 * the last to be queued finds its own owner's bit. The swap that sets a bit, or
 * the acquire that finds it set, stands before that request's own search: partner
 * of the load in awaited_has().
 *
 * A hint, in the segment: a bit too many costs a search, one too few hides a
 * cycle from the first look, and not from the second.
 */
#ifndef STORE_AWAITED_H
#define STORE_AWAITED_H

#include "segment/map.h"
#include "sync/sys.h"

#define AWAITED_NS sys_look_every(4 * NS_PER_S)

/* This owner is waited for; of nobody (0) nothing is noted. Never waits. */
void awaited_note(const struct map *map, uint64_t owner, mono_t now);

/* Any owner may be: a request of many objects waits. */
void awaited_note_all(const struct map *map, mono_t now);

/* May this owner be waited for? False is sure, if all was noted. */
bool awaited_has(const struct map *map, uint64_t owner);

#endif
