/*
 * awaited.c - store: which owners are waited for (see awaited.h).
 */
#include "store/awaited.h"

#define WORD_BITS 32u
#define HALVES 2u

static uint32_t *word_of(const struct map *map, unsigned half, uint64_t owner)
{
    return &map->awaited[half * AWAITED_WORDS +
        owner / WORD_BITS % AWAITED_WORDS];
}

static uint32_t bit_of(uint64_t owner)
{
    return UINT32_C(1) << owner % WORD_BITS;
}

/* No shm_store(): a death between any two of these is like one before. */
static void empty(uint32_t *words)
{
    for (unsigned i = 0; i < AWAITED_WORDS; i++)
        __atomic_store_n(&words[i], 0, __ATOMIC_RELAXED);
}

/* Of those who see that it is time one empties the other filter. One that had
   read `awaited_half` before sets its bit in what is the older from then on, and
   stays for as long again. Any time may stand there, in a damaged table. */
static void turn(const struct map *map, mono_t now)
{
    int64_t since = shm_load(&map->h->awaited_since_ns);
    unsigned older = !(shm_load(&map->h->awaited_half) % HALVES);

    if ((uint64_t)now.ns - (uint64_t)since < (uint64_t)AWAITED_NS ||
        !shm_cas(&map->h->awaited_since_ns, &since, now.ns))
        return;
    empty(&map->awaited[older * AWAITED_WORDS]);
    shm_store(&map->h->awaited_all[older], 0);
    shm_store_release(&map->h->awaited_half, older);
}

static unsigned half_now(const struct map *map, mono_t now)
{
    turn(map, now);
    return shm_load(&map->h->awaited_half) % HALVES;
}

/* Many wait for few: mostly the bit is set, and its line stays where it is. */
static void set(uint32_t *word, uint32_t bit)
{
    if ((shm_load_acquire(word) & bit) == 0)
        shm_or(word, bit);
}

void awaited_note(const struct map *map, uint64_t owner, mono_t now)
{
    if (owner != 0)
        set(word_of(map, half_now(map, now), owner), bit_of(owner));
}

void awaited_note_all(const struct map *map, mono_t now)
{
    set(&map->h->awaited_all[half_now(map, now)], 1);
}

bool awaited_has(const struct map *map, uint64_t owner)
{
    uint32_t bits = 0;

    for (unsigned half = 0; half < HALVES; half++) {
        bits |= shm_load(word_of(map, half, owner)) & bit_of(owner);
        bits |= shm_load(&map->h->awaited_all[half]);
    }
    return bits != 0;
}
