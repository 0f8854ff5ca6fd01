/*
 * mend.h - recovery: one bucket, or one gate's ring, from what its own links
 * still lead to.
 *
 * A thread that died under the latch of one bucket, and that it has noted
 * (thread_slot.inside), costs the others no look at the whole table. For every
 * step under such a latch leaves each live entry of the bucket within reach of
 * its FORWARD links, from a slot or the spill chain by `next`; but for one, the
 * entry IN HAND, which it has noted before (thread_slot.in_hand):
 *
 *	a ring gets one more	its `next` is stored first, then the last's
 *	one leaves a ring	it is in hand; the one before it leads past it
 *	it was the first	the slot leads to it still, and it into the ring,
 *				which does not come back to it: see ring()
 *	one moves up a queue	it is in hand
 *	an object's first is	one store in the slot or in the chain
 *	another
 *	from chain to slot	in the slot before it is out of the chain: it may
 *				be met twice
 *	a split			in the new bucket's slot before it is out of the
 *				old one's; what is chained is in hand, and its
 *				ring with it. Until the number of buckets says
 *				that there is a new one, all is the old one's
 *	several buckets		INSIDE_SEVERAL: one of them after the other is
 *				changed; which they are, their latches tell, of
 *				the shards that were noted (thread_slot.shards)
 *	a gate			its latch tells; so does that of the bucket which
 *				is changed meanwhile. Its ring begins at `head`
 *
 * What is met is taken note of, the bucket cleared, and all of it linked anew,
 * by state: so `prev`, modes, counts and order need not be right. The same
 * holds for an id's bucket, under its shard's latch, but for the rings.
 *
 * A recovering thread that dies in here leaves entries that nothing leads to.
 * The next one finds the recovery latch in a dead thread's name, or the bucket's
 * latch in nobody's, and looks through the whole table (rebuild()). So it does
 * if anything is not as it should be.
 *
 * Notes that are out of date do no harm: a bucket counts if its latch names the
 * very thread, an entry in hand if it is live and of that bucket. It stands
 * still then, whoever made it, and is linked once.
 */
#ifndef RECOVERY_MEND_H
#define RECOVERY_MEND_H

#include "store/index.h"

#define PARTS_FEW (16u + ENQ_SET_MAX)
#define ROUSED_FEW 128u

struct part {
    struct gate *gate; /* or else */
    struct bucket *bucket;
    struct bucket
        *beyond; /* in a split: what may lead to its objects as well */
    uint32_t shard;
    ref_t in_hand;
    uint32_t linked; /* so many were linked anew, once it is mended */
};

/* Whose waiter or session may not have been told. */
struct roused {
    ref_t refs[ROUSED_FEW];
    uint32_t n; /* more than fit: there are others */
};

/* Under the bucket's latch, the gate's, or the id shard's. What a gate's ring has
   to be told is all that waits: nothing is added to @roused. Returns: 0. Faults:
   ENQ_ECORRUPT, the whole table has to be looked through. */
int mend(struct map *map, struct part *part, struct roused *roused);

/* The part that a dead thread has noted, of the ids of `shard`, whose latch it
   holds. False: no entry of it was in hand. */
bool mend_id_part(const struct map *map, uint32_t shard, ref_t in_hand,
    struct part *part);

#endif
