/*
 * graph.h - who waits for whom, as lockctl graph shows it.
 */
#ifndef GRAPH_H
#define GRAPH_H

#include <stddef.h>

#include "lockctl.h"

struct graph {
    struct enq_edge *edges;
    uint32_t *cycle; /* of each edge: its cycle's number, 0: none */
    bool *names;     /* it is the first of its cycle and its waiter's owner */
    size_t n;
    uint32_t n_cycles;
};

void graph_text(const struct graph *graph);
/* Returns DONE or, said, FAILED. */
int graph_dot(const struct graph *graph);
void graph_json(const struct graph *graph);

/* The owners of a cycle, each once, in the order of its edges: calls `see`
   for each. */
void graph_each_owner(const struct graph *graph, uint32_t cycle,
    void (*see)(const char *owner, bool first));

#endif
