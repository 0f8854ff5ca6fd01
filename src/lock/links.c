/*
 * links.c - lock: generic entries in the ring of their gate, and what a ring
 * holds (see links.h).
 */
#include "lock/links.h"

#include "base/point.h"
#include "lock/listing.h"

/* The bucket is kept: it is the key's as long as its latch is held. */
int guard_enter_slow(struct scope *s, uint64_t hash)
{
    struct spot spot = {.shard = (uint16_t)shard_of_hash(hash), .hash = hash};
    int rc = spot_latch(s->map, s->t, &spot);

    enq_assert(s->wide);
    s->guarded = spot.bucket;
    if (rc == 0) /* under the latch, before it is changed */
        listing_mark(s->map, shm_load_fence(&s->gate->raised), hash);
    return rc;
}

void guard_told_slow(struct scope *s, const struct entry *e)
{
    enq_assert(s->wide);
    if (!entry_is_generic(e))
        listing_mark(s->map, shm_load_fence(&s->gate->raised), e->hash);
}

/* The gate is raised already, by the scope itself (scope_raise()): so no narrow
   request can come between ring and count. This + 1 is the entry's own, and
   keeps the gate raised when the scope is left. Changed under the gate's latch
   only, but read without it, under a bucket's: partner of the addition is the
   load in scope_enter_at_once() and enter_concrete(). A death in here: recover()
   makes the ring anew, and then stores `raised` once, from it (set_gates()). */
void links_add_generic(struct scope *s, struct entry *e)
{
    struct entry *first = at_entry(s->map, s->gate->head);

    enq_assert(s->wide && scope_is_entered(s));
    ring_append(s->map, first, e);
    if (first == NULL)
        shm_store(&s->gate->head, map_ref(s->map, e));
    shm_add(&s->gate->raised, 1);
    ENQ_POINT("gate.linked");
}

/* The entry's own count goes; the scope's keeps the gate raised until
   scope_lower(). */
void links_remove_generic(struct scope *s, struct entry *e)
{
    ref_t ref = map_ref(s->map, e);
    struct entry *next = ring_remove(s->map, e, ref);

    if (s->gate->head == ref)
        shm_store(&s->gate->head, next == NULL ? 0 : map_ref(s->map, next));
    shm_add(&s->gate->raised, -1);
}

/* --- what a ring holds --- */

/* 0: somebody waits. All but `e`, which has no state yet. */
static unsigned modes_of_ring(struct scope *s, struct entry *first,
    const struct entry *e, const struct ask *ask)
{
    struct ring ring = ring_from(s->map, first);
    unsigned modes = RING_HOLDS(ask->mode);
    struct entry *other;

    enq_assert(scope_is_entered(s));
    while ((other = ring_next(&ring)) != NULL) {
        if (other == e)
            continue;
        if (!entry_is(other, PHASE_HELD))
            return 0;
        modes |= RING_HOLDS(STATE_MODE(shm_load(&other->state)) % MODES);
        if (!entry_owned_by(s->map, other, ask))
            modes |= RING_MIXED;
    }
    return ring.damaged ? 0 : modes;
}

bool links_has_room(struct scope *s, const struct entry *first,
    const struct ask *ask)
{
    unsigned modes = shm_load(&first->ring_modes);
    bool same;

    enq_assert(scope_is_entered(s) && modes != 0);
    same = (modes & RING_MIXED) == 0 && entry_owned_by(s->map, first, ask);
    for (unsigned mode = 1; mode < MODES; mode++)
        if ((modes & RING_HOLDS(mode)) != 0 &&
            mode_conflicts(s->map->modes, mode, ask->mode, same))
            return false;
    return true;
}

static void note_modes(struct scope *s, struct entry *first,
    const struct entry *e, const struct ask *ask, enum phase phase)
{
    unsigned was = first->ring_modes, modes = was | RING_HOLDS(ask->mode);

    enq_assert(scope_is_entered(s));
    if (phase == PHASE_WAITING)
        modes = 0;
    else if (was == 0 || !links_has_room(s, first, ask))
        modes = modes_of_ring(s, first, e, ask);
    else if (!entry_owned_by(s->map, first, ask))
        modes |= RING_MIXED;
    if (modes != was)
        shm_store(&first->ring_modes, (uint8_t)modes);
}

/* Past a queue. */
static int join_held(struct scope *s, struct entry *first, struct entry *e)
{
    struct spot wide, *spot = spot_in(s, e, &wide);
    struct entry *now = queue_join_held(s->map, first, e);

    enq_assert(scope_is_entered(s));
    return now == first || index_replace(s->map, spot, first, now)
        ? 0
        : ENQ_ECORRUPT;
}

int links_append(struct scope *s, struct entry *first, struct entry *e,
    const struct ask *ask, enum phase phase)
{
    struct entry *last =
        first->ring_modes != 0 ? NULL : queue_last(s->map, first);

    enq_assert(scope_is_entered(s));
    if (first == e)
        return ENQ_ECORRUPT; /* the index led to what nobody had linked */
    if (phase == PHASE_HELD && last != NULL)
        return join_held(s, first, e);
    ring_append(s->map, first, e);
    if (phase == PHASE_WAITING)
        queue_count_in(s->map, last, first, e);
    if (first->ring_modes != 0 ||
        ((RING_LOOK_LONG || first->next != first->prev) &&
            e->token % RING_LOOK_EVERY == 0))
        note_modes(s, first, e, ask, phase);
    return 0;
}

/* The first of the ring that `e`, a concrete entry, is linked in. */
static struct entry *first_of(struct scope *s, const struct entry *e)
{
    struct spot wide, *spot = spot_in(s, e, &wide);
    struct key key;

    enq_assert(scope_is_entered(s));
    if (!entry_key(s->map, e, &key))
        return NULL;
    return s->wide ? index_find(s->map, spot, &key) : scope_object(s, &key);
}

int links_leave_queue(struct scope *s, struct entry *e)
{
    struct entry *first;

    enq_assert(scope_is_entered(s));
    if (!entry_is(e, PHASE_WAITING))
        return ENQ_ECORRUPT; /* no longer: its state is anybody's to write */
    if (entry_is_generic(e))
        return 0;
    first = first_of(s, e);
    if (first == NULL)
        return ENQ_ECORRUPT;
    queue_count_out(s->map, first, e);
    return 0;
}

int links_grant(struct scope *s, struct entry *e)
{
    struct spot wide, *spot = spot_in(s, e, &wide);
    struct entry *first, *now;
    int rc = links_leave_queue(s, e);

    if (rc != 0 || entry_is_generic(e))
        return rc;
    first = first_of(s, e);
    now = queue_move_up(s->map, first, e);
    ENQ_POINT("grant.moved");
    if (now == first)
        return 0;
    scope_changed(s);
    return index_replace(s->map, spot, first, now) ? 0 : ENQ_ECORRUPT;
}

/*
 * Of a concrete lock the end of its ring tells; in a wide scope it may wait for
 * others than are there.
 *
 * Of a generic lock: who waits for it has queued under the gate's latch, which
 * this scope holds; or in a narrow scope, before the gate was raised, and that
 * one had ended when all buckets were looked at for this lock. (A concrete one
 * that is in a wide scope for another's sake has not looked at any.) The count
 * goes up before there is anything to be found.
 */
bool nobody_waits_slow(struct scope *s, struct entry *e)
{
    struct entry *first;

    enq_assert(scope_is_entered(s));
    if (s->wide)
        return entry_is_generic(e) && entry_is(e, PHASE_HELD) &&
            shm_load(&s->gate->n_queued) == 0;
    first = first_of(s, e);
    return first != NULL &&
        (first->ring_modes != 0 || is_held_at(s->map, first->prev));
}

void links_forget_modes(struct scope *s, const struct entry *e)
{
    struct entry *first;

    enq_assert(scope_is_entered(s));
    if (entry_is_generic(e))
        return;
    first = first_of(s, e);
    if (first != NULL && first->ring_modes != 0)
        shm_store(&first->ring_modes, 0);
}
