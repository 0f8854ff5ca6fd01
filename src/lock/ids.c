/*
 * ids.c - lock: ids that callers brought, and those derived (see ids.h).
 *
 * A derived id is its session's half and the handle, so it leads to its entry
 * by arithmetic, without an index and without a latch; the generation says
 * whether it does still. An id that its caller brought is looked up in the
 * shards of ids, each under a latch of its own (RANK_ID). There it is DERIVED:
 * recovery makes all of that anew from the entries.
 */
#include "lock/ids.h"

#include <string.h>

#include "base/id.h"

static struct entry *find_derived(struct map *map, const char *id,
    uint64_t *state)
{
    uint64_t half, handle;
    struct entry *e;

    if (!id_parse(id, &half, &handle))
        return NULL;
    e = entry_of_handle(map, handle, state);
    if (e == NULL || shm_load(&e->id_half) != half ||
        shm_load(&e->id_bytes) > 0)
        return NULL;
    return e;
}

/* By the exact clock: what has run out has no claim. Mostly there is no entry,
   and no clock is read. */
static bool is_current(const struct map *map, struct entry *e, uint64_t state)
{
    return e != NULL && state_is_live(state) &&
        entry_over(map, e, sys.now()) == ENQ_OK && !entry_used_anew(e, state);
}

/* Both ways, as a caller may bring an id that was derived for another lock;
   that one's entry is guarded by other latches, and may end at any moment. */
struct entry *ids_holder_locked(struct map *map, struct spot *spot,
    const char *id, uint64_t *state)
{
    struct entry *e = index_find_id(map, spot, id);

    enq_assert(spot->shard >= SHARDS && spot->shard < SHARDS_ALL);
    *state = e == NULL ? 0 : shm_load_acquire(&e->state);
    if (is_current(map, e, *state))
        return e;
    e = find_derived(map, id, state);
    return is_current(map, e, *state) ? e : NULL;
}

/* An entry that has run out has no claim to its id any more, though it is
   still linked: the scan that meets it under its own latch will drop it, and
   finds the id another's. */
int ids_claim_locked(struct map *map, struct spot *spot, const char *id,
    struct entry *e)
{
    struct entry *other;
    uint64_t state;

    enq_assert(spot->shard >= SHARDS && spot->shard < SHARDS_ALL);
    if (ids_holder_locked(map, spot, id, &state) != NULL)
        return ENQ_EXISTS;
    other = index_find_id(map, spot, id);
    if (other == NULL)
        return index_add(map, spot, e);
    return index_replace(map, spot, other, e) ? 0 : ENQ_ECORRUPT;
}

static struct entry *find_brought(struct map *map, struct thread *t,
    const char *id, uint64_t *state)
{
    struct spot spot = spot_of_id(map, id, strlen(id) + 1);
    uint32_t *latch = &map->shards[spot.shard].latch;
    struct entry *e;

    /* n_objects says nothing without the latch: somebody may have died under
       it, or be making it anew */
    if (latch_acquire(t, latch, RANK_ID) != 0)
        return NULL;
    e = index_find_id(map, &spot, id);
    if (e != NULL)
        *state = shm_load_acquire(&e->state);
    latch_release(t, latch);
    return e;
}

/* The latch is released before this returns: the entry may be another's by
   then. So the handle is made of the state that was loaded under it, and a
   caller that wants the lock pins that (pin.h), and is told if it is gone. */
struct entry *ids_find(struct map *map, struct thread *t, const char *id,
    enq_handle *handle)
{
    uint64_t state;
    struct entry *e = find_brought(map, t, id, &state);

    enq_assert(t->n_held == 0);
    if (e == NULL)
        e = find_derived(map, id, &state);
    if (e != NULL)
        *handle = (uint64_t)STATE_GENERATION(state) << HANDLE_REF_BITS |
            map_ref(map, e);
    return e;
}

void ids_text(const struct map *map, const struct entry *e, uint64_t state,
    char text[ENQ_ID_BYTES])
{
    struct ask ask;
    enq_handle handle =
        (uint64_t)STATE_GENERATION(state) << HANDLE_REF_BITS | map_ref(map, e);

    if (e->id_bytes > 0 && entry_ask(map, e, &ask) && ask.id_bytes > 0) {
        memcpy(text, ask.id, ask.id_bytes);
        text[ask.id_bytes - 1] = '\0'; /* it may be another's by now */
    } else {
        id_text(shm_load(&e->id_half), handle, text);
    }
}
