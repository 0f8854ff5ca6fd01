/*
 * inherit.h - lock: to go on for a dead process that held locks for others,
 * and to leave locks to others.
 */
#ifndef LOCK_INHERIT_H
#define LOCK_INHERIT_H

#include "lock/hold.h"

/*
 * Makes up to n held locks of dead sessions, with a peer or heir, those of this
 * one: nothing else about them changes, but that a KEEP lock without a ttl has
 * its own again. Not those that were abandoned.
 *
 * @got  how many, told of in `out`; also on a fault.
 *
 * Returns: ENQ_OK. Faults: ENQ_ECORRUPT.
 */
int inherit(struct session *s, struct thread *t, struct enq_info *out, size_t n,
    size_t *got);

/*
 * The same for one, as by enq_inherit_lock(). Returns: ENQ_OK; ENQ_REFUSED: it
 * is none that was left; as hold_unlock() when it is gone. Faults:
 * ENQ_ECORRUPT.
 */
int inherit_lock(struct session *s, struct thread *t, enq_handle handle,
    uint64_t heir, struct enq_info *out);

/*
 * What inherit() would find, told only, some pages at a time.
 *
 * @at   where the walk is: the number of seg_header.left when it began << 32 |
 *       the next page; 0 is before the first.
 * @n    at least ENQ_ORPHANS_LEAST: a page is told of as a whole.
 *
 * Returns: ENQ_OK: the walk is over, or nothing was left since the last one;
 * ENQ_PENDING: it goes on.
 */
int orphans(const struct map *map, uint64_t *at, struct enq_orphan *out,
    size_t n, size_t *got);

/*
 * The other way round: a held LEASE or KEEP lock of this session goes on
 * without it, as if the session were dead.
 *
 * Returns: ENQ_OK; ENQ_REFUSED: it is RELEASE, another's, or waits; as
 * hold_unlock() when it is gone. Faults: ENQ_ECORRUPT.
 */
int abandon(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token);

#endif
