/*
 * heap.c - base: whose time comes first (see heap.h).
 */
#include "base/heap.h"

#include <errno.h>
#include <stdlib.h>

int heap_reserve(struct heap *h)
{
    size_t room = h->room == 0 ? 16 : h->room * 2;
    struct heap_node **nodes;

    if (h->owners == h->room) {
        nodes = realloc(h->nodes, room * sizeof(struct heap_node *));
        if (nodes == NULL)
            return -ENOMEM;
        h->nodes = nodes;
        h->room = room;
    }
    h->owners++;
    return 0;
}

void heap_unreserve(struct heap *h)
{
    h->owners--;
}

void heap_free(struct heap *h)
{
    free(h->nodes);
}

static void put(struct heap *h, size_t place, struct heap_node *node)
{
    h->nodes[place - 1] = node;
    node->place = place;
}

static mono_t at(const struct heap *h, size_t place)
{
    return h->nodes[place - 1]->at;
}

static void rise(struct heap *h, struct heap_node *node)
{
    size_t place = node->place;

    for (; place > 1 && at(h, place / 2).ns > node->at.ns; place /= 2)
        put(h, place, h->nodes[place / 2 - 1]);
    put(h, place, node);
}

static void sink(struct heap *h, struct heap_node *node)
{
    size_t place = node->place, child;

    for (; (child = place * 2) <= h->n; place = child) {
        if (child < h->n && at(h, child + 1).ns < at(h, child).ns)
            child++;
        if (at(h, child).ns >= node->at.ns)
            break;
        put(h, place, h->nodes[child - 1]);
    }
    put(h, place, node);
}

void heap_set(struct heap *h, struct heap_node *node, mono_t when)
{
    node->at = when;
    if (node->place == 0)
        put(h, ++h->n, node);
    rise(h, node);
    sink(h, node);
}

void heap_remove(struct heap *h, struct heap_node *node)
{
    size_t place = node->place;
    struct heap_node *last;

    if (place == 0)
        return;
    last = h->nodes[h->n - 1];
    h->n--;
    node->place = 0;
    if (last != node) {
        put(h, place, last);
        heap_set(h, last, last->at);
    }
}
