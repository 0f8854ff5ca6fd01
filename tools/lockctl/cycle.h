/*
 * cycle.h - owners that wait for each other in a cycle, as the edges of
 * enq_graph() show it.
 *
 * The rule is the library's: a lock that is held may be let go when its owner
 * has got all that it waits for, so that it leads to all requests of its
 * owner; a request that waits leads to what that one waits for. An owner
 * without a name is never the same owner twice, and none waits for itself.
 */
#ifndef CYCLE_H
#define CYCLE_H

#include <enq.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * cycles_find - which edges are part of a cycle?
 *
 * @of  n of them: the number of the edge's cycle, from 1 in order of the
 *      edges; 0: it is in none. Cycles that share a request or an owner are
 *      one.
 * @n_cycles  how many there are
 *
 * False: no memory.
 */
bool cycles_find(const struct enq_edge *edges, size_t n, uint32_t *of,
    uint32_t *n_cycles);

#endif
