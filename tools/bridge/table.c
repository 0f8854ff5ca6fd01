/*
 * table.c - a hash table of members of other structures (see table.h).
 */
#include "table.h"

#include <stdlib.h>

#define SLOTS_LEAST 64u

/* Keys are handles, tickets and counters: their low bits are not enough
   (Fibonacci hashing; Knuth, vol. 3, 6.4). */
static size_t slot_of(const struct table *t, uint64_t key)
{
    return (key * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & t->mask;
}

bool table_begin(struct table *t)
{
    *t = (struct table){.mask = SLOTS_LEAST - 1};
    t->slots = calloc(SLOTS_LEAST, sizeof(struct table_node *));
    return t->slots != NULL;
}

void table_end(struct table *t)
{
    free(t->slots);
    t->slots = NULL;
}

static void grow(struct table *t)
{
    struct table bigger = {.n = t->n, .mask = t->mask * 2 + 1};

    bigger.slots = calloc(bigger.mask + 1, sizeof(struct table_node *));
    if (bigger.slots == NULL)
        return;
    for (size_t i = 0; i <= t->mask; i++) {
        struct table_node *node = t->slots[i], *next;

        for (; node != NULL; node = next) {
            struct table_node **slot =
                &bigger.slots[slot_of(&bigger, node->key)];

            next = node->next;
            node->next = *slot;
            *slot = node;
        }
    }
    free(t->slots);
    *t = bigger;
}

void table_add(struct table *t, struct table_node *node, uint64_t key)
{
    struct table_node **slot;

    if (t->n > t->mask)
        grow(t);
    slot = &t->slots[slot_of(t, key)];
    node->key = key;
    node->next = *slot;
    *slot = node;
    t->n++;
}

static struct table_node *first_of(struct table_node *node, uint64_t key)
{
    while (node != NULL && node->key != key)
        node = node->next;
    return node;
}

struct table_node *table_find(const struct table *t, uint64_t key)
{
    return first_of(t->slots[slot_of(t, key)], key);
}

struct table_node *table_next(struct table_node *node)
{
    return first_of(node->next, node->key);
}

struct table_node *table_any(const struct table *t)
{
    for (size_t i = 0; t->n > 0 && i <= t->mask; i++)
        if (t->slots[i] != NULL)
            return t->slots[i];
    return NULL;
}

void table_remove(struct table *t, struct table_node *node)
{
    struct table_node **at = &t->slots[slot_of(t, node->key)];

    while (*at != NULL && *at != node)
        at = &(*at)->next;
    if (*at == NULL)
        return;
    *at = node->next;
    t->n--;
}

/* FNV-1a: what it hashes are session ids that we made, and a client's own
   request ids, compared within its session only. */
uint64_t table_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}
