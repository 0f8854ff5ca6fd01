/*
 * wait_graph.h - wait: the wait-for graph, as it is read from the table.
 *
 * Its nodes are the requests that wait; its edges lead from a request to what
 * is in its way: held locks, and requests that came before it (R7). The graph
 * is stored nowhere. A key that one waits for is read when the search comes to
 * it, under its latches, and once: all that overlaps it is copied, which is one
 * site, or, where that is enough, what is held. So a search costs what it comes
 * to, and not what waits elsewhere; and a site costs what waits and what is held
 * there, and not the edges, which are the square of a queue.
 *
 * Only where it comes to a lock whose owner waits, all that wait in the space
 * are collected, once, to know that owner's requests (wait_graph_take()).
 *
 * What the search keeps is a private copy: nothing here is derived, and a thread
 * that dies in a search leaves nothing to recover but a published handle
 * (thread_slot.waiting), which names nothing as soon as its request is gone.
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

/* Of a site, and there of each mode: where the search has been. */
struct reach {
    uint64_t covered[MODES]; /* requests up to this ticket add nothing more */
    uint32_t latest[MODES];  /* of those seen, the last that came, plus 1 */
};

/*
 * What overlaps one key, of one moment: sights, in the order of the visit.
 *
 * Or of a queue in which nobody waits elsewhere what is held, and the request
 * that came first of the search: enough for all that wait there for whatever is
 * held. What the requests ahead of one wait for is in its own way too; none of
 * them leads anywhere else.
 */
struct site {
    uint32_t begin, end;
    bool simple; /* what waits here has this key, and is of no lock set */
    bool plain;  /* of a queue, what is held */
    struct reach reach;
};

/* How the search came to a request. */
struct step {
    uint32_t parent;  /* a request; GRAPH_NONE: the search began here */
    uint32_t blocker; /* what is in the parent's way, and led here */
    uint32_t next;    /* of those to be searched */
    uint32_t level;
    bool seen, expanded;
};

/* A request. Once read, `sight` is GRAPH_NONE where it was found not to wait. */
struct node {
    enq_handle handle;
    uint32_t sight, site;
    bool read;
    struct step step;
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
    struct multimap by_handle, by_owner; /* numbers of nodes */
    struct multimap by_key; /* and of sites, by the key's hash, of which what is
                               held was read; 0: all of it */
    bool whole;             /* all edges are wanted: no such sites */
    bool collected;         /* all that wait have nodes */
    bool no_memory;         /* it is not whole */
    bool damaged;           /* a key could not be read */
};

/* Before anything is read: of two requests that are queued at once, the search
   of one at least sees the other. */
void wait_graph_begin(struct wait_graph *g);
void wait_graph_free(struct wait_graph *g);

/*
 * Collects what threads and sessions wait for. A request that means to wait and
 * does not yet takes a later ticket than those who look before: it will look
 * for itself.
 *
 * With no latch held. Where memory is short the graph is not whole.
 */
void wait_graph_collect(struct wait_graph *g);

/* A request of this owner that was not taken before, or GRAPH_NONE. Collects, if
   the owner may wait. */
uint32_t wait_graph_take(struct wait_graph *g, uint64_t owner);

/* The node of this request, collected or not; GRAPH_NONE: no memory. Moves
   nodes. */
uint32_t wait_graph_node(struct wait_graph *g, enq_handle handle,
    uint64_t owner);

/* Does it wait? Reads its site, if nobody has: with no latch held; holds those
   of one key. Moves sights, sites and nodes. */
bool wait_graph_see(struct wait_graph *g, uint32_t node);

/* The next member of a lock set that waits; 0: there is none. Under the latches
   of `e`; the other member is read without its own, so that its handle is a
   guess until it is pinned. */
enq_handle wait_graph_next(const struct map *map, const struct entry *e);

static inline bool sight_waits(const struct sight *s)
{
    return STATE_PHASE(s->state) == PHASE_WAITING;
}

/* Of a request that was seen to wait. */
static inline const struct sight *graph_sight(const struct wait_graph *g,
    uint32_t node)
{
    enq_assert(g->nodes[node].sight < g->n_sights);
    return &g->sights[g->nodes[node].sight];
}

static inline struct site *graph_site(const struct wait_graph *g, uint32_t node)
{
    enq_assert(g->nodes[node].site < g->n_sites);
    return &g->sites[g->nodes[node].site];
}

/* Which modes an owner has at one site: a bit for each. */
struct own {
    unsigned held, asked;
};

/* What is in the way of one request that was seen to wait, one after the
   other. */
struct edges {
    struct wait_graph *g;
    uint32_t node, next, end;
    struct own own; /* of the request's owner, at its site */
};

void edges_begin(struct edges *x, struct wait_graph *g, uint32_t node);
/* The number of its sight, or GRAPH_NONE: there are no more. Asks the table
   about lock sets, and reads the sites of requests for overlapping keys: with
   no latch held; moves what wait_graph_see() moves. */
uint32_t edges_next(struct edges *x);

#endif
