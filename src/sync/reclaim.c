/*
 * reclaim.c - sync: thread slots of the dead (see reclaim.h).
 */
#include "sync/reclaim.h"

#include "base/point.h"
#include "sync/life.h"
#include "sync/word.h"

LAYOUT_ASSERT(GATES + SHARDS_ALL + 2 < THREADS_MAX / 2);

struct dead {
    struct map *map;
    uint64_t slots[THREADS_MAX / 64];
};

static bool is_noted(const struct dead *d, uint32_t i)
{
    return d->slots[i / 64] >> (i % 64) & 1;
}

static bool is_dead(const struct map *map, thread_ref_t ref)
{
    ENQ_POINT("recover.slot_read");
    return thread_is_dead(map, ref);
}

static unsigned note_dead(struct dead *d)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < map_threads(d->map); i++) {
        const struct thread_slot *slot = &d->map->threads[i];
        thread_ref_t ref = shm_load_acquire(&slot->ref);

        if (ref == 0 || !is_dead(d->map, ref) || shm_load(&slot->set) != 0)
            continue;
        d->slots[i / 64] |= UINT64_C(1) << (i % 64);
        n++;
    }
    return n;
}

static void keep(struct dead *d, thread_ref_t ref)
{
    uint32_t i = ref & THREAD_MASK;

    if (ref != 0 && shm_load(&d->map->threads[i].ref) == ref)
        d->slots[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

/* After they were seen to be dead: since then they have taken no more. */
static void keep_named(struct dead *d)
{
    const struct map *map = d->map;

    for (uint32_t i = 0; i < GATES; i++)
        keep(d, word_owner(shm_load_acquire(&map->gates[i].word)));
    for (uint32_t i = 0; i < SHARDS_ALL; i++)
        keep(d, word_owner(shm_load_acquire(&map->shards[i].word)));
    keep(d, word_owner(shm_load_acquire(&map->h->grow_word)));
    keep(d, word_owner(shm_load_acquire(&map->h->recovery_word)));
}

/* Does it say of another that it is dead, or will? */
static void keep_keepers(struct dead *d)
{
    for (uint32_t i = 0; i < map_threads(d->map); i++) {
        const struct thread_slot *slot = &d->map->threads[i];

        if (shm_load_acquire(&slot->ref) != 0 && !is_noted(d, i))
            keep(d, shm_load(&slot->keeper));
    }
}

/* By a swap: another may have given it up since we have read `ref`, or it
   itself has, and the slot is somebody's by now. What it had counted, the next
   who claims the slot adds up; its life word goes on saying dead until then. */
static bool give_up(struct dead *d, uint32_t i)
{
    struct thread_slot *slot = &d->map->threads[i];
    thread_ref_t ref = shm_load_acquire(&slot->ref);

    if (ref == 0 || !is_dead(d->map, ref) || shm_load(&slot->set) != 0)
        return false;
    return shm_cas(&slot->ref, &ref, 0);
}

unsigned reclaim_threads(struct map *map)
{
    struct dead d = {.map = map};
    unsigned n = 0;

    if (note_dead(&d) == 0)
        return 0;
    keep_named(&d);
    keep_keepers(&d);
    /* keepers last: whoever dies in between leaves none without his */
    for (int keepers = 0; keepers <= 1; keepers++)
        for (uint32_t i = 0; i < map_threads(map); i++)
            if (is_noted(&d, i) &&
                (shm_load(&map->threads[i].keeper) == 0) == keepers)
                n += give_up(&d, i);
    return n;
}
