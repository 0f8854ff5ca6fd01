/*
 * queue.h - lock: who waits for an object.
 *
 *	ring of an object:  held, held, ... | waiting, waiting, ...
 *
 * What is held stands first, and behind it who waits, in order of arrival (I2).
 * So a look at what is held, or at who comes first, goes no further than that,
 * however long the queue is; the `prev` of the first entry tells whether anybody
 * waits; and the last of the queue says how many do (`queue`; I4). For this a
 * waiter that is granted past others is moved to the end of what is held.
 *
 * All of it is DERIVED and guarded like the links (links.h). Of the count no
 * lock depends: it is what the loser is told, and how far off its turn is. The
 * rings of gates, of generic entries, have no such order.
 */
#ifndef LOCK_QUEUE_H
#define LOCK_QUEUE_H

#include "lock/scope.h"

static inline uint32_t queue_length(const struct entry *last)
{
    return last == NULL ? 0 : shm_load(&last->queue) & ~QUEUE_SETS;
}

/* The last waiter of the ring that begins with `first`; NULL: nobody waits, or
   the ring is damaged. */
static inline struct entry *queue_last(const struct map *map,
    struct entry *first)
{
    struct entry *last =
        first->prev == map_ref(map, first) ? first : at_entry(map, first->prev);

    return last != NULL && entry_is(last, PHASE_WAITING) ? last : NULL;
}

/* The first. As far as there is less to go: behind what is held, or back from
   `e`, which waits in it. NULL: damaged. */
struct entry *queue_first(const struct map *map, struct entry *first,
    struct entry *e);

/* Shows those who wait, as scope_visit() does, without a step over what is held
   before them in a narrow scope; a wide one shows what is held as well.
   Faults: ENQ_ECORRUPT. */
int queue_visit(struct scope *s, const struct key *key, entry_see_fn *see,
    void *context);

/* Each waiter of the ring that begins with `first`, in order; NULL: no more, or
   it is damaged. The one just returned may be granted, or removed. */
struct entry *queue_begin(struct ring *ring, struct entry *first);
struct entry *queue_next(struct ring *ring);

/* The waiters before `e`, the nearest first. */
struct entry *queue_ahead(const struct map *map, const struct entry *e);

/* `e`, which waits, was linked; `last` was the last of its ring before, or is
   NULL. */
void queue_count_in(const struct map *map, struct entry *last,
    struct entry *first, struct entry *e);

/* `e`, of the ring that begins with `first`, is about to be unlinked or
   granted. */
void queue_count_out(const struct map *map, struct entry *first,
    struct entry *e);

/* `e`, which is or will be held, into the ring that begins with `first`, however
   many wait there. Returns the ring's first entry from now on. */
struct entry *queue_join_held(const struct map *map, struct entry *first,
    struct entry *e);

/* For `e`, which waits, linked in the ring that begins with `first`: to the end
   of what is held, as it will be. Returns the ring's first entry from now on. */
struct entry *queue_move_up(const struct map *map, struct entry *first,
    struct entry *e);

#endif
