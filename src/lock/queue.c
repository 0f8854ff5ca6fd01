/*
 * queue.c - lock: who waits for an object (see queue.h).
 */
#include "lock/queue.h"

/* Both ways at once, as one of the two may be ten thousand long. The links are
   bytes that any process can write: hence the count. */
struct entry *queue_first(const struct map *map, struct entry *first,
    struct entry *e)
{
    struct entry *held = first, *ahead;

    for (uint32_t left = map->entries_max; left > 0 && held != NULL; left--) {
        if (entry_is(held, PHASE_WAITING))
            return held;
        ahead = queue_ahead(map, e);
        if (ahead == NULL)
            return e;
        held = at_entry(map, held->next);
        e = ahead;
    }
    return NULL;
}

/* Before the first waiter stands what is held; or, if nothing is, the ring
   closes, and the last is no older. Those of one lock set have one ticket. */
struct entry *queue_ahead(const struct map *map, const struct entry *e)
{
    struct entry *ahead = at_entry(map, e->prev);

    return ahead != NULL && ahead != e && entry_is(ahead, PHASE_WAITING) &&
            ahead->ticket <= e->ticket
        ? ahead
        : NULL;
}

void queue_count_in(const struct map *map, struct entry *last,
    struct entry *first, struct entry *e)
{
    struct entry *now = at_entry(map, first->prev);
    bool others = last != NULL && entry_is(last, PHASE_WAITING);
    uint32_t n = others ? shm_load(&last->queue) : 0;

    if (now == NULL)
        return;
    if (entry_is_of_set(e))
        n |= QUEUE_SETS;
    shm_store(&now->queue, n + 1);
}

/* Where the last goes, the one before it says what it said. */
void queue_count_out(const struct map *map, struct entry *first,
    struct entry *e)
{
    struct entry *last = queue_last(map, first);
    uint32_t n = last == NULL ? 0 : shm_load(&last->queue);

    if (last == e)
        last = queue_ahead(map, e);
    if (last != NULL)
        shm_store(&last->queue, n - 1);
}

struct entry *queue_join_held(const struct map *map, struct entry *first,
    struct entry *e)
{
    struct entry *last = queue_last(map, first), *waiter = NULL;

    if (last != NULL)
        waiter = queue_first(map, first, last);
    ring_append(map, waiter == NULL ? first : waiter, e);
    return waiter == first ? e : first;
}

struct entry *queue_move_up(const struct map *map, struct entry *first,
    struct entry *e)
{
    struct entry *waiter;

    if (queue_ahead(map, e) == NULL)
        return first;
    waiter = queue_first(map, first, e);
    if (waiter == NULL || waiter == e)
        return first;
    ring_remove(map, e, map_ref(map, e));
    ENQ_POINT("queue.moving");
    ring_append(map, waiter, e);
    return waiter == first ? e : first;
}

int queue_visit(struct scope *s, const struct key *key, entry_see_fn *see,
    void *context)
{
    struct entry *first, *last, *e;

    enq_assert(scope_is_entered(s));
    if (s->wide)
        return scope_visit(s, key, see, context);
    first = scope_object(s, key);
    last = first == NULL ? NULL : queue_last(s->map, first);
    if (last == NULL)
        return 0;
    e = queue_first(s->map, first, last);
    for (uint32_t left = s->map->entries_max; left > 0 && e != NULL; left--) {
        visit(VISIT_ENTRY);
        if (!see(context, e) || e == last)
            return 0;
        e = at_entry(s->map, e->next);
    }
    return ENQ_ECORRUPT;
}

/* Behind the last waiter the ring begins anew, perhaps with one that was moved
   there as it was granted. */
struct entry *queue_next(struct ring *ring)
{
    struct entry *e = ring_next(ring);

    return e != NULL && entry_is(e, PHASE_WAITING) ? e : NULL;
}

struct entry *queue_begin(struct ring *ring, struct entry *first)
{
    struct entry *e, *last = queue_last(ring->map, first);

    *ring = ring_from(ring->map, first);
    if (last == NULL)
        return NULL;
    e = queue_first(ring->map, first, last);
    ring->at = e == NULL ? 0 : map_ref(ring->map, e);
    ring->damaged = e == NULL;
    return queue_next(ring);
}
