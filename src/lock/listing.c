/*
 * listing.c - lock: who changes a lock of a name tells the list of that name (see
 * listing.h).
 */
#include "lock/listing.h"

#include "base/point.h"
#include "sync/life.h"

/* Set already: another has been there since the list looked. The barrier is
   that of the swap then. Partner: listing_take(), which takes it away before it
   looks at the bucket, of which the latch is held here. */
static void mark(struct listing *l, uint32_t cell)
{
    uint64_t bit = UINT64_C(1) << cell % 64;

    if ((shm_load_fence(&l->cells[cell / 64]) & bit) == 0)
        shm_or(&l->cells[cell / 64], bit);
}

__attribute__((noinline)) void listing_mark_slow(const struct map *map,
    uint32_t raised, uint64_t hash)
{
    for (unsigned i = 0; i < LISTINGS; i++)
        if (raised & GATE_LISTED(i))
            mark(&map->listings[i], listing_cell(hash));
    ENQ_POINT("list.marked");
}

/* Free, or its list has died in the middle. What it was set for goes with it:
   first, as a second death would leave the bit to nobody. */
static bool claim(struct map *map, struct thread *t, unsigned i)
{
    struct listing *l = &map->listings[i];
    thread_ref_t by = shm_load_acquire(&l->by);

    if ((by != 0 && !thread_is_dead(map, by)) || !shm_cas(&l->by, &by, t->ref))
        return false;
    ENQ_POINT("list.claimed");
    shm_and(&map->gates[shm_load(&l->gate) % GATES].raised, ~GATE_LISTED(i));
    for (unsigned k = 0; k < LIST_CELLS / 64; k++)
        if (shm_load(&l->cells[k]) != 0)
            shm_store(&l->cells[k], 0);
    return true;
}

void listing_begin(struct listing_use *u, struct map *map, struct thread *t,
    struct gate *gate)
{
    unsigned i = 0;

    *u = (struct listing_use){.map = map, .gate = gate};
    u->remade = shm_load_acquire(&map->h->remade);
    while (i < LISTINGS && !claim(map, t, i))
        i++;
    if (i == LISTINGS)
        return;
    u->listing = &map->listings[i];
    u->bit = GATE_LISTED(i);
    shm_store(&u->listing->gate, (uint32_t)(gate - map->gates));
    /* Partners: the loads in scope_enter_at_once(), enter_concrete(), and
       guard_enter_slow(). */
    shm_or(&gate->raised, u->bit);
    ENQ_POINT("list.told");
}

void listing_end(struct listing_use *u)
{
    if (u->listing == NULL)
        return;
    shm_and(&u->gate->raised, ~u->bit);
    ENQ_POINT("list.untold");
    shm_store_release(&u->listing->by, 0); /* partner: claim() */
}

/* A recovery stores `raised` anew (set_gates()), and changes what nobody has
   marked. */
bool listing_is_whole(const struct listing_use *u)
{
    return u->listing != NULL &&
        (shm_load_fence(&u->gate->raised) & u->bit) != 0 &&
        shm_load(&u->map->h->remade) == u->remade;
}

/* Partner: mark(). A full barrier, before the loads of latches. */
void listing_take(struct listing_use *u, uint64_t cells[LIST_CELLS / 64])
{
    for (unsigned k = 0; u->listing != NULL && k < LIST_CELLS / 64; k++)
        if (k == 0 || shm_load_fence(&u->listing->cells[k]) != 0)
            cells[k] |= shm_swap(&u->listing->cells[k], 0);
    shm_fence();
}
