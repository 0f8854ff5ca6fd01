/*
 * links.h - lock: where an entry is linked, and the latch that guards it there.
 *
 *	concrete	in the ring of its object; the index leads to the first
 *			entry of the object
 *	generic		in the ring of its gate; gate.head leads to the first,
 *			and each raises the gate by one
 *
 * All of this is DERIVED, and so are the counts (I1 to I4). A thread that dies
 * between two of these stores leaves the latch in its name, and recover() makes
 * index, rings and counts anew from the states. So the stores in here need no
 * order among themselves. What counts is their order to the store of `state`:
 *
 *	in	links, then state: linking may fail, and until the state is
 *		stored the entry is private and there is nothing to undo
 *	out	links, then state: a free entry is taken by a thread of the
 *		slab's session, which acquires none of these latches; no ring
 *		may lead to it any more
 *
 * Guards: a concrete entry's bucket, a generic one's gate. A narrow scope holds
 * the bucket's latch from begin to end. A wide one holds the gate's, and
 * acquires the bucket's for each single step: the gate keeps out all requests
 * for its own names, but other names have objects in the same bucket.
 */
#ifndef LOCK_LINKS_H
#define LOCK_LINKS_H

#include "lock/queue.h"

/* --- the latch that guards an entry --- */

int guard_enter_slow(struct scope *s, uint64_t hash);

/* A generic entry's gate is held in every wide scope, and a narrow scope has no
   generic entry: so only a concrete one in a wide scope needs more. Gate before
   bucket is the order of ranks. A fault: the bucket cannot be repaired; each
   caller asks before its first store, so that its step has not begun. */
static inline int guard_enter(struct scope *s, uint64_t hash, bool generic)
{
    enq_assert(scope_is_entered(s));
    if (likely(!s->wide) || generic)
        return 0;
    return guard_enter_slow(s, hash);
}

static inline void guard_leave(struct scope *s, bool generic)
{
    enq_assert(scope_is_entered(s));
    if (unlikely(s->wide) && !generic)
        latch_release(s->t, &s->guarded->latch);
}

/* In a wide scope, behind a store of one word for which no guard was acquired: a
   list of the name comes by once more. The gate's latch keeps it from its
   moment until then, and if we die before it is told, a recovery of the gate
   tells it (listing_is_whole()). */
void guard_told_slow(struct scope *s, const struct entry *e);

static inline void guard_told(struct scope *s, const struct entry *e)
{
    enq_assert(scope_is_entered(s));
    if (unlikely(s->wide))
        guard_told_slow(s, e);
}

/* --- links --- */

/* Of the gate's count nothing depends: the table check compares it (I4). One
   waiter less, for whatever reason: the queue has moved. */
static inline void count_waiting(struct scope *s, struct entry *e, int by)
{
    enq_assert((by == 1 || by == -1) && scope_is_entered(s));
    if (entry_is_generic(e))
        shm_store(&s->gate->n_waiting, s->gate->n_waiting + (uint32_t)by);
    if (by < 0)
        s->marks |= SCOPE_MOVED;
}

/* For what `e`, a live entry of this scope, is one of. True is sure, false means
   look. */
bool nobody_waits_slow(struct scope *s, struct entry *e);

static inline bool is_held_at(const struct map *map, ref_t ref)
{
    const struct entry *e = at_entry(map, ref);

    return e != NULL && entry_is(e, PHASE_HELD);
}

static inline bool nobody_waits(struct scope *s, struct entry *e)
{
    enq_assert(scope_is_entered(s));
    if (likely(!s->wide && e->next == map_ref(s->map, e)))
        return entry_is(e, PHASE_HELD);
    if (!s->wide && e->next == e->prev)
        return entry_is(e, PHASE_HELD) && is_held_at(s->map, e->next);
    return nobody_waits_slow(s, e);
}

/* A generic entry into the ring of its gate, and out of it; under the gate's
   latch. */
void links_add_generic(struct scope *s, struct entry *e);
void links_remove_generic(struct scope *s, struct entry *e);

/*
 * What a ring holds, without a walk over it: the first entry of a ring may say
 * which modes its locks have, and whether they are of several owners
 * (`ring_modes`; PostgreSQL's grantMask, with owners). It may say too much, as
 * nothing is taken away when a lock goes, but never too little; and it says
 * nothing where somebody waits. Looked for by one grant in so many, and only in
 * rings of more than two: a walk is as quick there; and by a grant that should
 * not have been, as it was granted by a walk. Under the ring's guard, and checked
 * by the table check (I4).
 */
#ifdef ENQ_POINTS
#define RING_LOOK_EVERY 1u /* all that tests do, they do with it */
#define RING_LOOK_LONG 1u
#else
#define RING_LOOK_EVERY 16u
#define RING_LOOK_LONG 0u
#endif

/* Into the ring that begins with `first`: what is held before who waits. */
int links_append(struct scope *s, struct entry *first, struct entry *e,
    const struct ask *ask, enum phase phase);
/* A waiter of a ring with others is about to be granted: its place is with what
   is held, and it is counted no more. And one that leaves. Faults:
   ENQ_ECORRUPT. */
int links_grant(struct scope *s, struct entry *e);
int links_leave_queue(struct scope *s, struct entry *e);
/* By what `first` says, which is something: may this be held beside it? */
bool links_has_room(struct scope *s, const struct entry *first,
    const struct ask *ask);
/* The mode of a held lock is about to change: what its ring holds is not known
   any more. */
void links_forget_modes(struct scope *s, const struct entry *e);

/* A narrow scope is that of one object; in a wide one there are many, and each
   step has a spot of its own, of the bucket that it guards. */
HOT struct spot *spot_in(struct scope *s, const struct entry *e,
    struct spot *wide)
{
    if (likely(!s->wide))
        return &s->spot;
    *wide = spot_of(e->name_hash, e->hash);
    wide->bucket = s->guarded;
    return wide;
}

/*
 * A waiter at the end of the ring: that is the order of arrival (I2), as tickets
 * are drawn under the latches that keep others from this ring.
 *
 * `vacant` is request_may()'s look at the bucket under this same latch: nothing
 * there has the key's tag, so that the index need not be asked again. It is the
 * usual case, and link_entry() then is ring_begin() and index_add(), inlined.
 */
HOT int link_entry(struct scope *s, const struct ask *ask, struct entry *e,
    enum phase phase)
{
    const struct key *key = &ask->key;
    struct spot wide, *spot;
    struct entry *first;
    int rc = 0;

    if (unlikely(key->generic != 0)) {
        links_add_generic(s, e);
        return 0;
    }
    spot = spot_in(s, e, &wide);
    if (likely(s->vacant))
        first = NULL;
    else
        first = s->wide ? index_find(s->map, spot, key) : scope_object(s, key);
    scope_changed(s);
    if (likely(first == NULL)) {
        ring_begin(s->map, e);
        rc = index_add(s->map, spot, e);
    } else {
        rc = links_append(s, first, e, ask, phase);
    }
    ENQ_POINT("lock.linked");
    return rc;
}

/* The index is asked for the object's first entry by reference: the entry taken
   out is it exactly when the index finds it. Not found is right where others
   remain, as the entry was not the first; where it was alone, index or ring are
   damaged. */
HOT int unlink_concrete(struct scope *s, struct entry *e)
{
    struct spot wide, *spot = spot_in(s, e, &wide);
    ref_t ref = map_ref(s->map, e);
    struct entry *next;

    enq_assert(scope_is_entered(s));
    thread_note_in_hand(s->t, ref);
    next = ring_remove(s->map, e, ref);
    scope_changed(s);
    if (index_replace_at(s->map, spot, e, ref, next) || next != NULL)
        return 0;
    return ENQ_ECORRUPT;
}

/* The way out for all but give_back(), which knows that its entry is held and
   concrete. */
static inline int unlink_entry(struct scope *s, struct entry *e)
{
    int rc = 0;

    if (entry_is(e, PHASE_WAITING)) {
        count_waiting(s, e, -1);
        rc = links_leave_queue(s, e);
    }
    if (entry_is_generic(e))
        links_remove_generic(s, e);
    else if (rc == 0)
        rc = unlink_concrete(s, e);
    ENQ_POINT("unlock.unlinked");
    return rc;
}

#endif
