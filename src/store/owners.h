/*
 * owners.h - store: which owners wait for something, and which are waited for.
 *
 * Asked in each search for a cycle, and by each scan for grants, of the owners of
 * what is held: nearly none of them waits. Who does has a word, 16 bits of its
 * hash above the number of its requests that wait. Two lines of 16 words are its
 * choice, and the word is taken in the emptier of them. So an owner is
 * taken for another by chance once in 65,536 for each word that stands there, 32
 * at most (fingerprints in place of keys, in two lines: Fan et al., Cuckoo
 * Filter, 2014; the emptier of two: Azar et al., Balanced Allocations).
 *
 * A number is raised before its request waits, and lowered when it waits no longer:
 * a death in between leaves one too many, which costs others a look (cycle.c) and
 * no more. Words change by a compare-and-swap, and that is all that guards them, as
 * one owner's requests stand in many buckets. Where two of one owner come at
 * once, it may get two words: their sum counts.
 *
 * An owner is waited for while it holds something that was in somebody's way.
 * Such locks are counted likewise, under another number made of the owner. Nearly
 * no request is of one that is waited for, so that it closes no cycle by coming
 * (cycle.c). A lock is counted once, by whoever makes it one: a request that
 * queues, a grant or a new mode while others wait; and until it goes
 * (STATE_AWAITED), though who waited may have left before.
 *
 * Requests for which both lines are full are in `owners_untold`: as long as there
 * are any, each owner may be one of them.
 */
#ifndef STORE_OWNERS_H
#define STORE_OWNERS_H

#include "segment/map.h"

/* One request of this owner waits more, or one less. Of nobody (0) none is
   counted. Never waits. */
void owners_count_in(const struct map *map, uint64_t owner);
void owners_count_out(const struct map *map, uint64_t owner);

/* May more of this owner's wait than so many? False is sure. Of nobody none
   do. */
bool owners_wait(const struct map *map, uint64_t owner, uint32_t besides);

#define OWNER_AWAITED UINT64_C(0x5c9e8a3d71f0b264) /* random bits; even */

/* As a number that stands for it in the same table: nobody is nobody, and an
   owner's number is odd. */
static inline uint64_t owner_awaited(uint64_t owner)
{
    return owner == 0 ? 0 : owner ^ OWNER_AWAITED;
}

#endif
