/*
 * cycle.c - see cycle.h: strongly connected components, after Tarjan.
 *
 * A node is a request that waits or an owner of some. A request leads to the
 * request, or to the owner of the lock, that is in its way; an owner to each of
 * its requests: that keeps the arcs as few as the edges. An edge is part of a
 * cycle when both its ends are in the same component. The walk keeps its path
 * in the nodes, as chains may be longer than the stack is deep.
 */
#include "cycle.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

struct arc {
    uint32_t from, to;
};

struct node {
    size_t next, end; /* arcs still to be followed */
    uint32_t parent;
    uint32_t index, low; /* index 0: not seen yet */
    uint32_t component;  /* 0: none yet */
    uint32_t cycle;      /* of component i + 1, in node i; 0: it is none */
};

struct web {
    const struct enq_edge *edges;
    size_t n_edges;
    enq_handle *request; /* sorted, each once; node i is request[i] */
    const char **owner;  /* likewise; node n_requests + i */
    size_t n_requests, n_owners;
    struct arc *arcs;
    size_t n_arcs;
    struct node *nodes;
    uint32_t *stack;
    size_t height;
    uint32_t n_seen, n_components;
};

/* Nodes ------------------------------------------------------------------- */

static int handle_order(const void *a, const void *b)
{
    enq_handle x = *(const enq_handle *)a, y = *(const enq_handle *)b;

    return (x > y) - (x < y);
}

static int owner_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted; the number of those that differ. */
static size_t sort_unique(void *base, size_t n, size_t size,
    int (*order)(const void *a, const void *b))
{
    char *at = base;
    size_t kept = 0;

    qsort(base, n, size, order);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && order(at + (kept - 1) * size, at + i * size) == 0)
            continue;
        memmove(at + kept * size, at + i * size, size);
        kept++;
    }
    return kept;
}

static uint32_t node_of_request(const struct web *w, enq_handle handle)
{
    const enq_handle *at = bsearch(&handle, w->request, w->n_requests,
        sizeof(w->request[0]), handle_order);

    return at == NULL ? NONE : (uint32_t)(at - w->request);
}

static uint32_t node_of_owner(const struct web *w, const char *owner)
{
    const char **at = bsearch(&owner, w->owner, w->n_owners,
        sizeof(w->owner[0]), owner_order);

    return at == NULL || owner[0] == '\0'
        ? NONE
        : (uint32_t)(w->n_requests + (size_t)(at - w->owner));
}

static uint32_t target(const struct web *w, const struct enq_edge *edge)
{
    const struct enq_info *blocker = &edge->blocker;

    if (strcmp(edge->waiter.owner, blocker->owner) == 0)
        return NONE;
    return blocker->waiting ? node_of_request(w, blocker->handle)
                            : node_of_owner(w, blocker->owner);
}

/* Arcs -------------------------------------------------------------------- */

static int arc_order(const void *a, const void *b)
{
    const struct arc *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

static void add_arc(struct web *w, uint32_t from, uint32_t to)
{
    if (from != NONE && to != NONE)
        w->arcs[w->n_arcs++] = (struct arc){from, to};
}

static void add_arcs(struct web *w)
{
    for (size_t i = 0; i < w->n_edges; i++) {
        const struct enq_edge *edge = &w->edges[i];
        uint32_t request = node_of_request(w, edge->waiter.handle);
        add_arc(w, request, target(w, edge));
        add_arc(w, node_of_owner(w, edge->waiter.owner), request);
    }
    w->n_arcs = sort_unique(w->arcs, w->n_arcs, sizeof(w->arcs[0]), arc_order);
    for (size_t i = w->n_arcs; i-- > 0;) {
        struct node *node = &w->nodes[w->arcs[i].from];
        if (node->end == 0)
            node->end = i + 1;
        node->next = i;
    }
}

/* The walk ---------------------------------------------------------------- */

static void enter(struct web *w, uint32_t at, uint32_t parent)
{
    struct node *node = &w->nodes[at];

    node->index = node->low = ++w->n_seen;
    node->parent = parent;
    w->stack[w->height++] = at;
}

static void lower(struct node *node, uint32_t low)
{
    if (low < node->low)
        node->low = low;
}

/* Nothing below leads back to a node before this one: a component. */
static void cut(struct web *w, uint32_t at)
{
    uint32_t top;

    w->n_components++;
    do {
        top = w->stack[--w->height];
        w->nodes[top].component = w->n_components;
    } while (top != at);
}

/* An arc further, or back to where we came from. */
static uint32_t step(struct web *w, uint32_t at)
{
    struct node *node = &w->nodes[at];

    if (node->next < node->end) {
        uint32_t to = w->arcs[node->next++].to;
        if (w->nodes[to].index == 0) {
            enter(w, to, at);
            return to;
        }
        if (w->nodes[to].component == 0)
            lower(node, w->nodes[to].index);
        return at;
    }
    if (node->low == node->index)
        cut(w, at);
    if (node->parent != NONE)
        lower(&w->nodes[node->parent], node->low);
    return node->parent;
}

static void walk(struct web *w)
{
    for (uint32_t i = 0; i < w->n_requests; i++) {
        if (w->nodes[i].index != 0)
            continue;
        enter(w, i, NONE);
        for (uint32_t at = i; at != NONE;)
            at = step(w, at);
    }
}

/* The answer -------------------------------------------------------------- */

/* Components that are cycles get their numbers as their edges come. */
static uint32_t number_edges(struct web *w, uint32_t *of)
{
    uint32_t n = 0;

    for (size_t i = 0; i < w->n_edges; i++) {
        uint32_t from = node_of_request(w, w->edges[i].waiter.handle);
        uint32_t to = target(w, &w->edges[i]);
        of[i] = 0;
        if (to == NONE || w->nodes[from].component != w->nodes[to].component)
            continue;
        uint32_t *cycle = &w->nodes[w->nodes[from].component - 1].cycle;
        if (*cycle == 0)
            *cycle = ++n;
        of[i] = *cycle;
    }
    return n;
}

static bool make_room(struct web *w)
{
    size_t n = w->n_edges + 1;

    w->request = calloc(n, sizeof(w->request[0]));
    w->owner = calloc(n, sizeof(w->owner[0]));
    w->arcs = calloc(2 * n, sizeof(w->arcs[0]));
    w->nodes = calloc(2 * n, sizeof(w->nodes[0]));
    w->stack = calloc(2 * n, sizeof(w->stack[0]));
    return w->request != NULL && w->owner != NULL && w->arcs != NULL &&
        w->nodes != NULL && w->stack != NULL;
}

static void free_room(struct web *w)
{
    free(w->stack);
    free(w->nodes);
    free(w->arcs);
    free(w->owner);
    free(w->request);
}

bool cycles_find(const struct enq_edge *edges, size_t n, uint32_t *of,
    uint32_t *n_cycles)
{
    struct web w = {.edges = edges, .n_edges = n};
    bool ok = make_room(&w);

    for (size_t i = 0; ok && i < n; i++) {
        w.request[i] = edges[i].waiter.handle;
        w.owner[i] = edges[i].waiter.owner;
    }
    if (ok) {
        w.n_requests =
            sort_unique(w.request, n, sizeof(w.request[0]), handle_order);
        w.n_owners = sort_unique(w.owner, n, sizeof(w.owner[0]), owner_order);
        add_arcs(&w);
        walk(&w);
        *n_cycles = number_edges(&w, of);
    }
    free_room(&w);
    return ok;
}
