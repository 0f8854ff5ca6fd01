/*
 * wait_graph.h - wait: the wait-for graph, as it is read from the table.
 *
 * Its nodes are the requests that wait; its edges lead from a request to what
 * is in its way: held locks, and requests that came before it (R7). The graph
 * is stored nowhere. Each key that somebody waits for is read once, under its
 * latches: all that overlaps it is copied, which is one site. So a look costs
 * what waits and what is held at these keys, and not the edges, which are the
 * square of a queue. What the search keeps is a private copy: nothing here is
 * derived, and a thread that dies in a search leaves nothing to recover but a
 * published handle (thread_slot.waiting), which names nothing as soon as its
 * request is gone.
 *
 * A handle has the entry's generation in it. So what was copied is looked up
 * again by pin_take(), which refuses an entry that is in another use by then.
 * The texts of owner and key are not copied, but for the owner's hash: an edge
 * is a comparison of numbers.
 *
 * Here the graph is read; cycle.c searches it.
 */
#ifndef WAIT_WAIT_GRAPH_H
#define WAIT_WAIT_GRAPH_H

#include "base/multimap.h"
#include "lock/conflict.h"

#define GRAPH_NONE MULTIMAP_NONE

/* An entry as it was when we looked, under latches that guarded it. Owners are
   compared by these hashes alone; 64 bits are enough for that. */
struct sight {
    enq_handle handle;
    enq_handle next; /* of its set, the next member that waits; or 0 */
    uint64_t state;
    uint64_t owner;  /* hash; 0: nobody's */
    uint64_t ticket; /* one for all of a lock set */
    bool of_set;     /* that waits */
    bool delayed;    /* time lets go of it, and no owner */
    bool here;       /* of the very key that was read, which it overlaps */
};

/* What overlaps one key, of one moment: sights, in the order of the visit. */
struct site {
    uint32_t begin, end;
    bool simple; /* what waits here has this key, and is of no lock set */
};

/* A request; `sight` is GRAPH_NONE where it was found not to wait. */
struct node {
    enq_handle handle;
    uint32_t sight, site;
};

/* Made by {0} but for session and thread; freed by wait_graph_free(). */
struct wait_graph {
    struct session *s;
    struct thread *t;
    struct sight *sights;
    struct site *sites;
    struct node *nodes;
    uint32_t n_sights, n_sites, n_nodes;
    uint32_t sights_room, sites_room, nodes_room;
    struct multimap by_handle, by_owner, by_ticket; /* numbers of nodes */
    bool no_memory;                                 /* it is not whole */
};

/*
 * Reads the sites of all that threads and sessions wait for. A request that
 * means to wait and does not yet takes a later ticket than those who look
 * before: it will look for itself.
 *
 * @first  a request that is read as well, published or not; or 0
 *
 * With no latch held; holds those of one key at a time. Where memory is short
 * the graph is not whole. Faults: ENQ_ECORRUPT, a key could not be read; the
 * others were.
 */
int wait_graph_read(struct wait_graph *g, enq_handle first);
void wait_graph_free(struct wait_graph *g);

/* The next member of a lock set that waits; 0: there is none. Under the latches
   of `e`; the other member is read without its own, so that its handle is a
   guess until it is pinned. */
enq_handle wait_graph_next(const struct map *map, const struct entry *e);

static inline bool sight_waits(const struct sight *s)
{
    return STATE_PHASE(s->state) == PHASE_WAITING;
}

static inline const struct sight *graph_sight(const struct wait_graph *g,
    const struct node *node)
{
    enq_assert(node->sight < g->n_sights);
    return &g->sights[node->sight];
}

/* Which modes an owner has at one site: a bit for each. */
struct own {
    unsigned held, asked;
};

/* What is in the way of one request, one after the other. */
struct edges {
    struct wait_graph *g;
    const struct node *node;
    uint32_t next;
    struct own own; /* of the request's owner, at its site */
};

void edges_begin(struct edges *x, struct wait_graph *g,
    const struct node *node);
/* The number of its sight, or GRAPH_NONE: there are no more. Asks the table
   about lock sets: with no latch held. */
uint32_t edges_next(struct edges *x);

#endif
