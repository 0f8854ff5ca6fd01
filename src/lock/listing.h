/*
 * listing.h - lock: who changes a lock of a name tells the list of that name.
 *
 * A list of one name is of one moment (SEMANTICS.md). To keep the name's
 * requests waiting while the table is walked would cost them what others hold.
 * So the list walks while they go on, and they mark where they have been: the
 * CELL of their key, a bit. Then it looks at those cells again, and so on,
 * until there are few; and only for these few are requests kept waiting
 * (moment.c). What was not marked is as it was seen. (Memory is moved to another
 * host in the same way: pre-copy, Clark et al., Live Migration of Virtual
 * Machines.)
 *
 * That a gate is listed stands in `raised`, which each request reads under its
 * bucket's latch; so nobody pays for it but requests of that gate, while it
 * lasts. The list
 *
 *	sets GATE_LISTED	full barrier
 *	looks at a bucket	waits for its latch, or sees it free
 *
 * and a request
 *
 *	latches its bucket	full barrier
 *	reads `raised`, marks	full barrier
 *	changes what it came for
 *
 * so that at least one sees the other, as with a raised gate (scope.h): the
 * request marks, or the list waits for it. It is the same between two looks: a
 * mark is taken away before the look at its cell, behind a full barrier. In a
 * wide scope it is guard_enter() that marks.
 *
 * A death: of a request, its mark stands before what it has changed. Of a list,
 * its listing is free for the next, which takes the gate's bit back; until then
 * requests of that gate set marks that nobody reads. A recovery may take away
 * the bit of a list that lives: listing_is_whole() tells.
 */
#ifndef LOCK_LISTING_H
#define LOCK_LISTING_H

#include "store/entry.h"
#include "sync/thread.h"

struct listing_use {
    struct map *map;
    struct gate *gate;
    struct listing *listing; /* NULL: none is free */
    uint32_t bit;            /* GATE_LISTED() */
    uint32_t remade;         /* before */
};

/* The cell of a concrete key. All keys of a bucket that has a number from
   LIST_CELLS_A_SHARD on are of one cell. */
static inline uint32_t listing_cell(uint64_t hash)
{
    return shard_of_hash(hash) * LIST_CELLS_A_SHARD +
        (uint32_t)(hash >> 8) % LIST_CELLS_A_SHARD;
}

void listing_mark_slow(const struct map *map, uint32_t raised, uint64_t hash);

/* By a request, under the latch of the key's bucket, before it changes anything;
   or under the gate's, behind what it has changed (guard_told()).
   @raised  of its gate, loaded under that latch */
static inline void listing_mark(const struct map *map, uint32_t raised,
    uint64_t hash)
{
    if (unlikely((raised & ~GATE_COUNT) != 0))
        listing_mark_slow(map, raised, hash);
}

/* From now on marks are set. Without a free listing none are: then nothing is
   known of any cell (listing_is_whole()). */
void listing_begin(struct listing_use *u, struct map *map, struct thread *t,
    struct gate *gate);
void listing_end(struct listing_use *u);

/* Have all been marked that have changed since it began? */
bool listing_is_whole(const struct listing_use *u);

/* Adds the marks to `cells`, and takes them away; what they are of is looked at
   afterwards. */
void listing_take(struct listing_use *u, uint64_t cells[LIST_CELLS / 64]);

#endif
