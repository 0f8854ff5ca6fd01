/*
 * circle.h - owners that wait for each other in a circle, as the edges of
 * enq_graph() show it.
 *
 * The rule is the library's: a lock that is held may be let go when its owner
 * has got all that he waits for, so that it leads to all requests of its
 * owner; a request that waits leads to what that one waits for. Whoever has no
 * name is nobody twice, and nobody waits for himself.
 */
#ifndef CIRCLE_H
#define CIRCLE_H

#include <enq.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * circles_find - which edges are part of a circle?
 *
 * @of  n of them: the number of the edge's circle, from 1 in order of the
 *      edges; 0: it is in none. Circles that share a request or an owner are
 *      one.
 * @n_circles  how many there are
 *
 * False: no memory.
 */
bool circles_find(const struct enq_edge *edges, size_t n, uint32_t *of,
    uint32_t *n_circles);

#endif
