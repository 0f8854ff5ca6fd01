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
    free(t->old);
    t->slots = t->old = NULL;
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

/* What was in one slot is in these two now, in the same order. Both are empty
   still: whoever comes for one of them takes the old one along first. */
static void take_along(struct table *t, size_t i)
{
    struct table_node *node = t->old[i], *next;
    struct table_node **end[2] = {&t->slots[i], &t->slots[i + t->old_mask + 1]};

    for (; node != NULL; node = next) {
        bool second = slot_of(t, node->key) != i;

        next = node->next;
        node->next = NULL;
        node->at = end[second];
        *end[second] = node;
        end[second] = &node->next;
    }
    t->old[i] = NULL;
}

static void take_along_for(struct table *t, uint64_t key)
{
    if (t->old != NULL)
        take_along(t, slot_of(t, key) & t->old_mask);
}

/* With so many for each that is added, all are long before it grows again. */
#define OLD_AT_ONCE 4u

static void take_some_along(struct table *t)
{
    if (t->old == NULL)
        return;
    for (unsigned n = 0; n < OLD_AT_ONCE && t->taken <= t->old_mask; n++)
        take_along(t, t->taken++);
    if (t->taken <= t->old_mask)
        return;
    free(t->old);
    t->old = NULL;
}

/* Of a million nobody waits for all. */
static void grow(struct table *t)
{
    size_t mask = t->mask * 2 + 1;
    struct table_node **slots = calloc(mask + 1, sizeof(*slots));

    if (slots == NULL)
        return;
    t->old = t->slots;
    t->old_mask = t->mask;
    t->slots = slots;
    t->mask = mask;
    t->taken = t->empty = 0;
}

void table_add(struct table *t, struct table_node *node, uint64_t key)
{
    size_t i;

    take_some_along(t);
    if (t->n > t->mask && t->old == NULL)
        grow(t);
    take_along_for(t, key);
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

struct table_node *table_find(struct table *t, uint64_t key)
{
    take_along_for(t, key);
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
    while (t->old != NULL)
        take_some_along(t);
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
