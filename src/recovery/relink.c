/*
 * relink.c - recovery: one entry's links (see relink.h).
 */
#include "recovery/relink.h"

#include "lock/ids.h"
#include "lock/queue.h"
#include "lock/transition.h"
#include "store/mark.h"

/* Keeps a ring in order (I2): what is held, and then who waits, by arrival. */
static bool comes_before(const struct entry *a, const struct entry *b)
{
    bool waits = entry_is(a, PHASE_WAITING);

    if (waits != entry_is(b, PHASE_WAITING))
        return !waits;
    if (a->ticket != b->ticket)
        return a->ticket < b->ticket;
    return a->token < b->token;
}

/* Into the ring that begins with `first`; returns what it begins with now. From
   the end: an entry that came later than all before it is in its place at once.
   The ring was made by this very recovery and is sound; its links are bytes
   that any process can write, so that the steps are counted nevertheless. */
struct entry *ring_insert(const struct map *map, struct entry *first,
    struct entry *e)
{
    struct entry *at = at_entry(map, first->prev);
    uint32_t left = map->entries_max;

    if (entry_is(e, PHASE_HELD) && !entry_is_generic(e))
        return queue_join_held(map, first, e);
    while (at != NULL && comes_before(e, at)) {
        if (at == first) {
            ring_append(map, first, e); /* before the first: the last's next */
            return e;
        }
        at = left-- == 0 ? NULL : at_entry(map, at->prev);
    }
    if (at == NULL)
        at = at_entry(map, first->prev);
    if (at != NULL)
        ring_append(map, at_entry(map, at->next), e);
    return first;
}

/* R7 and I8, after a death in transition_grant(): the end of the ttl was stored,
   the state was not, and both are one word (window_ns, deadline_ns). So the
   bypass window may be any. One that is longer than any is has ended now; the
   others are what they were, or 0, or, of one end in a thousand, so long that it
   may be overtaken for 5 ms more. I9, after a death in transition_queue(): it
   waits, and its page was not marked. Under the latch of its bucket or gate. */
void relink_waiter(const struct map *map, struct entry *e)
{
    if (!entry_is(e, PHASE_WAITING))
        return;
    if (!transition_window_is_sound(map, e))
        shm_store(&e->window_ns, 0);
    if (mark_is_wanted(e) && !mark_is_there(map, e))
        mark_page(map, e);
}

/* `raised` is counted by the caller, and stored once all are linked. Requests
   that were under way in a wide scope had raised the gate as well; their threads
   are dead, or wait for the gate's latch and have not raised it yet. */
uint32_t relink_generic(struct map *map, struct entry *e)
{
    struct gate *gate = &map->gates[gate_of_hash(e->name_hash)];
    struct entry *first = at_entry(map, gate->head);
    struct key key;

    relink_waiter(map, e);
    if (entry_key(map, e, &key))
        shm_store(&e->hash, key_digest(&key, map->hash_seed));
    shm_store(&gate->n_waiting, gate->n_waiting + entry_is(e, PHASE_WAITING));
    if (first == NULL || first == e)
        ring_append(map, NULL, e);
    else
        e = ring_insert(map, first, e);
    shm_store(&gate->head, map_ref(map, e));
    return (uint32_t)(gate - map->gates);
}

/* The first entry of an object that is met founds its ring and is put into the
   index; the index has to lead to the ring's first, which may be another one
   after each insertion. */
int relink_concrete(struct map *map, struct entry *e)
{
    struct spot spot = spot_of(e->name_hash, e->hash);
    struct entry *first, *now, *last;
    struct key key;

    relink_waiter(map, e);
    if (!entry_key(map, e, &key))
        return ENQ_ECORRUPT;
    if (e->ring_modes != 0)
        shm_store(&e->ring_modes, 0);
    first = index_find(map, &spot, &key);
    if (first == NULL) {
        ring_append(map, NULL, e);
        if (entry_is(e, PHASE_WAITING))
            queue_count_in(map, NULL, e, e);
        return index_add(map, &spot, e);
    }
    if (first == e)
        return ENQ_ECORRUPT;
    last = at_entry(map, first->prev);
    now = ring_insert(map, first, e);
    if (entry_is(e, PHASE_WAITING))
        queue_count_in(map, last, now, e);
    if (now != first && !index_replace(map, &spot, first, now))
        return ENQ_ECORRUPT;
    return 0;
}

/*
 * Of two with one id, one has run out, and the other came after it.
 *
 * An entry with an id stands still, as all id latches are held. One without may
 * be given back while we look, and be filled for a request with an id.
 */
int relink_id(struct map *map, struct entry *e, uint64_t state)
{
    struct entry *other;
    struct spot spot;
    struct ask ask;
    bool sound;

    if (e->id_bytes == 0)
        return 0;
    sound = entry_ask(map, e, &ask) && spot_of_entry_id(map, e, &spot);
    if (entry_used_anew(e, state))
        return 0;
    if (!sound)
        return ENQ_ECORRUPT;
    other = index_find_id(map, &spot, ask.id);
    if (other == NULL)
        return index_add(map, &spot, e);
    if (entry_over(map, other, sys.now()) == ENQ_OK)
        return 0;
    return index_replace(map, &spot, other, e) ? 0 : ENQ_ECORRUPT;
}
