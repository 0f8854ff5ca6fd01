/*
 * bypass.h - lock: who may pass a lock set that waits (SEMANTICS R7).
 *
 * A waiter that waits for the asker himself is not in his way: else he would
 * wait for himself. Of a single request the words at hand tell that; a lock
 * set may be waiting for him at any other of its keys. So it is asked of the
 * set, key by key, with no word held, and the asker's next look takes it into
 * account (struct bypass in scope.h). What he holds may be gone by then: he has
 * overtaken once more than he should, and nothing else.
 */
#ifndef LOCK_BYPASS_H
#define LOCK_BYPASS_H

#include "lock/grip.h"

void bypass_begin(struct bypass *b, uint64_t asker);
void bypass_end(struct bypass *b);

/* The waiting set, of which `waiter` is a member, was in the way of somebody.
   True: he may pass it from now on, and might not before. With no word held.
   */
bool bypass_learn(struct bypass *bypass, struct session *s, struct thread *t,
    enq_handle waiter, uint64_t owner_hash);

/* Does this waiting set wait for a lock of that owner's? Its ticket is told. */
bool bypass_set_wants(struct session *s, struct thread *t, enq_handle waiter,
    uint64_t owner_hash, uint64_t *ticket);

#endif
