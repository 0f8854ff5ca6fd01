/*
 * graph.h - api: enq_graph(): which request waits for which.
 */
#ifndef API_GRAPH_H
#define API_GRAPH_H

#include "api/attachment.h"

int local_graph(struct enq *e, struct thread *t, struct enq_edge *out, size_t n,
    size_t *total);

#endif
