/*
 * heap.h - base: which time comes first: a binary heap of nodes that lie in
 * their owners. Room is reserved when an owner is made, so that heap_set()
 * cannot fail later. No lock of its own: its owner's mutex guards it.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stddef.h>

#include "base/time.h"

struct heap_node {
    mono_t at;
    size_t place; /* from 1; 0: not in the heap */
};

struct heap {
    struct heap_node **nodes;
    size_t n, room, owners;
};

/* Room for one more owner's node. 0, or -ENOMEM. */
int heap_reserve(struct heap *h);
void heap_unreserve(struct heap *h);
void heap_free(struct heap *h);

/* Puts a node in, or moves it. */
void heap_set(struct heap *h, struct heap_node *node, mono_t at);
void heap_remove(struct heap *h, struct heap_node *node);

static inline struct heap_node *heap_first(const struct heap *h)
{
    return h->n == 0 ? NULL : h->nodes[0];
}

#endif
