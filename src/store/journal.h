/*
 * journal.h - store: a lock set under way, noted for the thread that finds its
 * taker dead.
 *
 * The locks of a set are granted in one step or not at all. Among the living,
 * one step is what happens while the latches of all its keys are held. A taker
 * that is killed in the middle leaves some locks held and some not. Those that
 * would go with their process anyway are over for every reader; but locks that
 * outlive it (LEASE, KEEP, delayed) would be half a set.
 *
 * So this is an undo log of one number, as the entries themselves say the rest.
 * The taker notes the set's ticket in its thread slot before it places the
 * first lock, and wipes it after the last: that store is the commit of all. The
 * recovering thread first undoes what is noted, and then frees the latches: as
 * they were still the dead taker's, nobody can have seen half a set.
 *
 *	all latches | set = ticket | HELD ... HELD | set = 0 | latches released
 *	             death in here: all is undone  |  in here: all is held
 */
#ifndef STORE_JOURNAL_H
#define STORE_JOURNAL_H

#include "segment/map.h"
#include "sync/thread.h"

/* Under the latches of all keys. Each member's `ticket` is this one already: by
   it undo finds them. The partner of both stores is journal_undo(). */
void journal_begin(struct thread *t, session_ref_t of, uint64_t ticket);
void journal_end(struct thread *t);

/* Under the recovery latch, before the latches of the dead are freed: lets all
   locks run out that were placed of sets whose takers are dead. May be done
   twice, as the recovering thread may die too. */
void journal_undo(struct map *map);

#endif
