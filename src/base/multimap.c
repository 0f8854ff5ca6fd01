/*
 * multimap.c - base: numbers found by 64-bit keys (see multimap.h).
 */
#include "base/multimap.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 64u
#define TAKEN (MULTIMAP_NONE - 1)
#define SCATTER UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / the golden ratio */

/* Keys that follow each other, as tickets do, come into chains of their own
   (Knuth, The Art of Computer Programming, 6.4: multiplicative hashing). */
static uint32_t *chain_of(const struct multimap *m, uint64_t key)
{
    return &m->chains[(key * SCATTER >> 32) & (m->room - 1)];
}

static void link_in(struct multimap *m, uint32_t number)
{
    uint32_t *chain = chain_of(m, m->links[number].key);

    m->links[number].next = *chain;
    *chain = number;
}

static bool grow(struct multimap *m, uint32_t room)
{
    struct multimap_link *links = realloc(m->links, room * sizeof(*links));
    uint32_t *chains;

    if (links == NULL)
        return false;
    m->links = links;
    chains = realloc(m->chains, room * sizeof(*chains));
    if (chains == NULL)
        return false;
    m->chains = chains;
    m->room = room;
    memset(chains, 0xff, room * sizeof(*chains)); /* MULTIMAP_NONE */
    for (uint32_t i = 0; i < m->n; i++)
        if (m->links[i].next != TAKEN)
            link_in(m, i);
    return true;
}

bool multimap_reserve(struct multimap *m, uint32_t n)
{
    uint32_t room = m->room == 0 ? ROOM_FIRST : m->room;

    while (room < n && room <= UINT32_MAX / 4)
        room *= 2;
    return room == m->room || grow(m, room);
}

bool multimap_add(struct multimap *m, uint64_t key)
{
    if (m->n == m->room && !multimap_reserve(m, m->n + 1))
        return false;
    m->links[m->n].key = key;
    link_in(m, m->n++);
    return true;
}

/* The place that leads to the key's first number, or to none. */
static uint32_t *seek(const struct multimap *m, uint64_t key)
{
    uint32_t *at = chain_of(m, key);

    while (*at != MULTIMAP_NONE && m->links[*at].key != key)
        at = &m->links[*at].next;
    return at;
}

uint32_t multimap_find(const struct multimap *m, uint64_t key)
{
    return m->n == 0 ? MULTIMAP_NONE : *seek(m, key);
}

uint32_t multimap_take(struct multimap *m, uint64_t key)
{
    uint32_t *at, number;

    if (m->n == 0)
        return MULTIMAP_NONE;
    at = seek(m, key);
    number = *at;
    if (number != MULTIMAP_NONE) {
        *at = m->links[number].next;
        m->links[number].next = TAKEN;
    }
    return number;
}

void multimap_free(struct multimap *m)
{
    free(m->links);
    free(m->chains);
    *m = (struct multimap){0};
}
