/*
 * owners.c - store: which owners wait for something (see owners.h).
 */
#include "store/owners.h"

#define COUNT_MOST 0xffffu /* then the owner takes another word */
#define OWNER_LINES (OWNER_WORDS / OWNER_LINE)
#define SIDES 2u

static uint32_t print_of(uint64_t owner)
{
    return (uint32_t)(owner >> 48) << 16;
}

/* The second line follows from the first and the print, and the first likewise
   from the second. So owners that are taken for each other in one line have both in
   common, and any word of theirs may count for any of them. (Were the second of
   its own bits, one that leaves could take the word of another, which would be
   found no more.) */
static uint32_t *line_of(const struct map *map, uint64_t owner, unsigned side)
{
    uint64_t line = owner >> 1;

    if (side > 0)
        line ^=
            (print_of(owner) >> 16 | 1) * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    return &map->owners[line % OWNER_LINES * OWNER_LINE];
}

static uint32_t count_of(uint32_t word)
{
    return word & COUNT_MOST;
}

static bool is_of(uint32_t word, uint64_t owner)
{
    return count_of(word) > 0 && (word & ~COUNT_MOST) == print_of(owner);
}

/* Words that are free, and one of them. */
struct vacant {
    uint32_t *word;
    unsigned n;
};

/* The owner's word in this line, if it counts `most` at most: *word and what it
   is. Or else notes what is free there. */
static bool look_in_line(uint32_t *line, uint64_t owner, uint32_t most,
    uint32_t **word, uint32_t *old, struct vacant *vacant)
{
    vacant->n = 0;
    for (unsigned i = 0; i < OWNER_LINE; i++) {
        *old = shm_load(&line[i]);
        if (is_of(*old, owner) && count_of(*old) <= most) {
            *word = &line[i];
            return true;
        }
        if (*old == 0) {
            vacant->word = &line[i];
            vacant->n++;
        }
    }
    return false;
}

static uint32_t *find(const struct map *map, uint64_t owner, uint32_t most,
    uint32_t *old, struct vacant *vacant)
{
    struct vacant line;
    uint32_t *word;

    *vacant = (struct vacant){NULL, 0};
    for (unsigned side = 0; side < SIDES; side++) {
        if (look_in_line(line_of(map, owner, side), owner, most, &word, old,
                &line))
            return word;
        if (line.n > vacant->n)
            *vacant = line;
    }
    return NULL;
}

void owners_count_in(const struct map *map, uint64_t owner)
{
    struct vacant vacant;
    uint32_t *word, old;

    if (owner == 0)
        return;
    do {
        word = find(map, owner, COUNT_MOST - 1, &old, &vacant);
        if (word == NULL) {
            word = vacant.word;
            old = 0;
        }
        if (word == NULL) {
            shm_add(&map->h->owners_untold, 1);
            return;
        }
    } while (!shm_cas(word, &old, (print_of(owner) | count_of(old)) + 1));
}

void owners_count_out(const struct map *map, uint64_t owner)
{
    struct vacant vacant;
    uint32_t *word, old;

    if (owner == 0)
        return;
    do {
        word = find(map, owner, COUNT_MOST, &old, &vacant);
        if (word == NULL) {
            if (shm_load(&map->h->owners_untold) > 0) /* not if damaged */
                shm_add(&map->h->owners_untold, -1);
            return;
        }
    } while (!shm_cas(word, &old, count_of(old) == 1 ? 0 : old - 1));
}

bool owners_wait(const struct map *map, uint64_t owner, uint32_t besides)
{
    uint32_t n = 0;

    if (owner == 0)
        return false;
    for (unsigned side = 0; side < SIDES; side++) {
        const uint32_t *line = line_of(map, owner, side);

        for (unsigned i = 0; i < OWNER_LINE; i++) {
            uint32_t word = shm_load(&line[i]);

            if (is_of(word, owner))
                n += count_of(word);
        }
        if (n > besides)
            return true;
    }
    return shm_load(&map->h->owners_untold) > 0;
}
