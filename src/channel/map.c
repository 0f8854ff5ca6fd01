/*
 * map.c - channel: numbers to members of other structures (see map.h).
 */
#include "channel/map.h"

#include <stdlib.h>

#define SLOTS_LEAST 64u

/* Handles and counters: their low bits are not enough (Fibonacci hashing). */
static struct map_node **slot_of(const struct number_map *m, uint64_t key)
{
    return &m->slots[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & m->mask];
}

bool number_map_begin(struct number_map *m)
{
    m->n = 0;
    m->mask = SLOTS_LEAST - 1;
    m->slots = calloc(SLOTS_LEAST, sizeof(struct map_node *));
    return m->slots != NULL;
}

void number_map_end(struct number_map *m)
{
    free(m->slots);
    m->slots = NULL;
}

static void put(const struct number_map *m, struct map_node *node)
{
    struct map_node **slot = slot_of(m, node->key);

    node->next = *slot;
    *slot = node;
}

static void grow(struct number_map *m)
{
    struct number_map bigger = {.n = m->n, .mask = m->mask * 2 + 1};

    bigger.slots = calloc(bigger.mask + 1, sizeof(struct map_node *));
    if (bigger.slots == NULL)
        return;
    for (size_t i = 0; i <= m->mask; i++) {
        struct map_node *node = m->slots[i], *next;

        for (; node != NULL; node = next) {
            next = node->next;
            put(&bigger, node);
        }
    }
    free(m->slots);
    *m = bigger;
}

void number_map_add(struct number_map *m, struct map_node *node, uint64_t key)
{
    if (m->n > m->mask)
        grow(m);
    node->key = key;
    put(m, node);
    m->n++;
}

void number_map_remove(struct number_map *m, struct map_node *node)
{
    struct map_node **at = slot_of(m, node->key);

    while (*at != NULL && *at != node)
        at = &(*at)->next;
    if (*at == NULL)
        return;
    *at = node->next;
    m->n--;
}

struct map_node *number_map_find(const struct number_map *m, uint64_t key)
{
    struct map_node *node = *slot_of(m, key);

    while (node != NULL && node->key != key)
        node = node->next;
    return node;
}
