/*
 * journal.h - store: a lock set under way, noted for those who find its
 * taker dead.
 *
 * The locks of a set are granted in one step or not at all. For the living one
 * step is what happens while the words of all its keys are held. Of one who is
 * killed in the middle, some locks stand as held and some do not. Those that
 * would go with their process anyway are over, whoever looks; but locks that
 * outlive it (LEASE, KEEP, delayed) would be half a set. So before the first of
 * them is placed the taker notes the set's ticket in its thread slot, and wipes
 * it after the last: that store is the commit of all. Whoever heals the dead's
 * words undoes first what was noted: the words are still the dead's, so that
 * nobody can have seen it.
 */
#ifndef STORE_JOURNAL_H
#define STORE_JOURNAL_H

#include "segment/map.h"
#include "sync/thread.h"

/* Under the words of all keys. The members' `ticket` is this one already. */
void journal_begin(struct thread *t, session_ref_t of, uint64_t ticket);
void journal_end(struct thread *t);

/* Under the recovery word, before the dead's words are given back: what was
   placed of sets whose takers are dead has run out. May be done twice. */
void journal_undo(struct map *map);

#endif
