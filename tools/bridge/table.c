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

static void put(struct table *t, struct table_node *node, size_t i)
{
    struct table_node **slot = &t->slots[i];

    node->next = *slot;
    node->at = slot;
    if (*slot != NULL)
        (*slot)->at = &node->next;
    *slot = node;
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
            next = node->next;
            put(&bigger, node, slot_of(&bigger, node->key));
        }
    }
    free(t->slots);
    *t = bigger;
}

void table_add(struct table *t, struct table_node *node, uint64_t key)
{
    size_t i;

    if (t->n > t->mask)
        grow(t);
    i = slot_of(t, key);
    node->key = key;
    put(t, node, i);
    if (i < t->empty)
        t->empty = i;
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

/* Who takes one after the other looks at each slot once. */
struct table_node *table_any(struct table *t)
{
    if (t->n == 0)
        return NULL;
    while (t->slots[t->empty] == NULL)
        t->empty++;
    return t->slots[t->empty];
}

void table_remove(struct table *t, struct table_node *node)
{
    if (node->at == NULL)
        return;
    *node->at = node->next;
    if (node->next != NULL)
        node->next->at = node->at;
    node->at = NULL;
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
