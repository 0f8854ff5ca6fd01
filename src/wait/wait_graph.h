/*
 * wait_graph.h - wait: the wait-for graph, as it is read from the table.
 *
 * Its nodes are the requests that wait; its edges lead from a request to what
 * is in its way: held locks, and requests that came before it (R7). The graph
 * is stored nowhere. Each look reads a part of it from the entries, under the
 * latches of one key, and what the search keeps is a private copy: nothing here
 * is derived, and a thread that dies in a search leaves nothing to recover but
 * a published handle (thread_slot.waiting), which names nothing as soon as its
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

#include "lock/conflict.h"

/* An entry as it was when we looked, under latches that guarded it. Owners are
   compared by these hashes alone; 64 bits are enough for that. */
struct sight {
    enq_handle handle;
    uint64_t state;
    uint64_t owner;  /* hash; 0: nobody's */
    uint64_t ticket; /* one for all of a lock set */
    bool of_set;     /* that waits */
};
/* A request that waits. `seen`, `parent` and `blocker` are the search's: which
   request it came from, and by which lock or request in the way of that one. */
struct node {
    struct sight waiter;
    struct sight blocker; /* how the search came here: the parent's */
    uint32_t parent;
    bool seen;
};

/* The nodes that were found. First those of the request that asks (a lock set
   has one for each member): `home` of them. That request may be found once more
   behind them, as it is published like any other. */
struct search {
    struct session *s;
    struct thread *t;
    struct node *nodes; /* the first are of the request that asks */
    uint32_t n, room, home;
    bool no_memory;
};
/* As many of one request's are copied at once, to the stack; where there are
   more, it is looked at again for the next ones. */
#define BLOCKERS 64

/* What is in the way of one request, as struct sight: up to BLOCKERS, after the
   first `skip`. True in *more: ask again. None, if it does not wait any more.
   With no latch held. Faults: ENQ_ECORRUPT. */
int wait_graph_look(struct session *s, struct thread *t, enq_handle waiter,
    unsigned skip, struct sight *out, unsigned *n, bool *more);

/* The next member of a lock set that waits; 0: there is none. Under the latches
   of `e`; the other member is read without its own, so that its handle is a
   guess until it is pinned. */
enq_handle wait_graph_next(const struct map *map, const struct entry *e);

/* Adds a request, if it waits; of a lock set all members, as a set waits at
   each of its keys. Where memory is short: x->no_memory. */
void wait_graph_add(struct search *x, enq_handle handle);

/* Adds those that threads wait for, and async requests. A request that means to
   wait and does not yet takes a later ticket than ours: it will look for
   itself. */
void wait_graph_collect(struct search *x);

#endif
