/*
 * convert.h - lock: a held lock in another mode: promote and demote (R17).
 *
 * As all of hold.h: the entry is found by its handle, and an answer says why it
 * is no longer what the handle meant. Token 0: not compared.
 */
#ifndef LOCK_CONVERT_H
#define LOCK_CONVERT_H

#include "store/slab.h"

/*
 * ENQ_REFUSED, ENQ_LOST: with the blocker. *token is the new one.
 *
 * The losers go first, the winner's mode changes last, in one scope. Killed in
 * between, some have lost to a promotion that did not live to win: the same to
 * them as if the winner had won and died. The other order would leave two locks
 * held that exclude each other (I5).
 */
int convert_promote(struct session *s, struct thread *t, enq_handle handle,
    uint64_t *token, struct enq_blocker *blocker);

int convert_demote(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token);

#endif
