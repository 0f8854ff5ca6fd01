/*
 * bypass.h - lock: which owner may pass a lock set that waits (SEMANTICS R7).
 *
 * A waiter that waits for the asking owner is not in that owner's way: else the
 * owner would wait for itself. Of a single request the latches at hand tell
 * that; a lock set may be waiting for the owner at any other of its keys. So it
 * is asked of the set, key by key, with no latch held, and the asker's next
 * look takes it into account (struct bypass in scope.h). What the owner holds
 * may be gone by then: it has overtaken once more than it should, and nothing
 * else.
 */
#ifndef LOCK_BYPASS_H
#define LOCK_BYPASS_H

#include "lock/pin.h"

void bypass_begin(struct bypass *b, uint64_t asker);
void bypass_end(struct bypass *b);

/* The waiting set, of which `waiter` is a member, was in this owner's way.
   True: the owner may pass it from now on, and might not before. With no latch
   held. */
bool bypass_learn(struct bypass *bypass, struct session *s, struct thread *t,
    enq_handle waiter, uint64_t owner_hash);

/* Does this waiting set wait for a lock of that owner's? Its ticket is told. */
bool bypass_set_wants(struct session *s, struct thread *t, enq_handle waiter,
    uint64_t owner_hash, uint64_t *ticket);

#endif
