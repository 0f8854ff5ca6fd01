/*
 * wait_graph.c - wait: the wait-for graph (see wait_graph.h).
 */
#include "wait/wait_graph.h"

#include <stdlib.h>

#include "lock/pin.h"
#include "store/walk.h"

/* --- what is in the way of one request --- */

/* Of one visit. It keeps entries, not copies: until the scope is left they
   stand still, and drop_excused() needs them. */
struct rivals {
    struct scope *s;
    const struct ask *ask;
    const struct entry *self;
    unsigned skip; /* so many were seen before */
    unsigned n;
    struct entry *entry[BLOCKERS];
    bool more;
};

/*
 * Whether this is an edge. It is conflict_check() without what passes by
 * itself:
 *
 *   - the asking owner's own locks and requests: that an owner waits for itself
 *     is no cycle (SEMANTICS, deadlock)
 *   - what has run out, or ended with its session
 *   - a RELEASE lock of a dying session: it goes when the end of its process
 *     is proved, whatever its owner waited for
 *   - waiters that came later, and the members of the own set, which have one
 *     ticket
 *
 * A waiter within its bypass window does count, though it may be overtaken: the
 * window ends after 5 ms at the latest, and a cycle does not. As own entries
 * are out, modes are compared as of different owners.
 */
static bool is_in_the_way(const struct rivals *b, const struct entry *e,
    uint64_t state)
{
    bool same = entry_owned_by(b->s->map, e, b->ask);

    enq_assert(scope_is_entered(b->s));
    if (e == b->self || same ||
        entry_over(b->s->map, e, scope_clock(b->s)) != ENQ_OK ||
        (STATE_PHASE(state) == PHASE_WAITING ? e->ticket >= b->ask->ticket
                                             : entry_is_ending(b->s->map, e)))
        return false;
    return mode_conflicts(b->s->map->modes, STATE_MODE(state) % MODES,
        b->ask->mode, false);
}

/* Those that were copied by an earlier look are counted off, in the order of
   the visit. No latch was held in between: if one of them has gone since, one
   that is still there is passed over, and the look a second later sees it. */
static bool see_blocker(void *context, struct entry *e)
{
    struct rivals *b = context;

    if (!is_in_the_way(b, e, shm_load_acquire(&e->state)))
        return true;
    if (b->skip > 0) {
        b->skip--;
        return true;
    }
    b->more = b->n == BLOCKERS;
    if (!b->more)
        b->entry[b->n++] = e;
    return !b->more;
}

/* Not a waiter that waits for this very owner: it may be overtaken (R7), so
   there is no edge. After the visit, not in it: to find out is a visit of its
   own, and in a wide scope that acquires a bucket's latch, which the first one
   holds. Of a lock set only what overlaps this key is known here; is_passed()
   in cycle.c asks for its other keys. */
static int drop_excused(struct rivals *b)
{
    unsigned kept = 0;
    bool excused;
    int rc = 0;

    for (unsigned i = 0; i < b->n && rc == 0; i++) {
        excused = false;
        if (entry_is(b->entry[i], PHASE_WAITING))
            rc = conflict_excuses(b->s, b->ask, b->entry[i], &excused);
        if (!excused)
            b->entry[kept++] = b->entry[i];
    }
    b->n = kept;
    return rc;
}

/* Handle and state are of one load: a handle made from a second load could be
   of the entry's next use, with the owner of the former. */
static struct sight sight_of(const struct map *map, struct entry *e)
{
    struct sight s = {.state = shm_load_acquire(&e->state)};

    s.handle = pin_handle(map, e, s.state);
    /* a delayed lock has no owner that could let go of it: time does */
    if (!entry_delays(e) || !entry_is_delayed(map, e, sys.now()))
        s.owner = entry_owner_hash(map, e);
    s.ticket = e->ticket;
    s.of_set = STATE_PHASE(s.state) == PHASE_WAITING && entry_is_of_set(e);
    return s;
}

/* In one scope, so that the edges of one request are of one moment. A request
   that is held or gone by now has none; that is no fault, as requests move on
   while the search does. `skip` counts those before the excused are dropped, as
   see_blocker() does. */
int wait_graph_look(struct session *s, struct thread *t, enq_handle waiter,
    unsigned skip, struct sight *out, unsigned *n, bool *more)
{
    struct rivals b = {.skip = skip};
    struct ask ask;
    struct pin g;
    int rc = pin_take(&g, s, t, waiter, 0);

    *n = 0;
    *more = false;
    if (rc != ENQ_OK)
        return rc > 0 ? 0 : rc; /* it waits no longer */
    b.s = &g.scope;
    b.self = g.e;
    b.ask = &ask;
    if (!entry_ask(s->map, g.e, &ask))
        rc = ENQ_ECORRUPT;
    else if (STATE_PHASE(g.state) == PHASE_WAITING)
        rc = scope_visit(&g.scope, &ask.key, see_blocker, &b);
    *more = b.more;
    if (rc == 0)
        rc = drop_excused(&b);
    for (unsigned i = 0; rc == 0 && i < b.n; i++)
        out[(*n)++] = sight_of(s->map, b.entry[i]);
    scope_leave(&g.scope);
    return rc;
}

/* --- the requests that wait at all --- */

/* Private memory, with no latch held. A search that runs short of it goes on
   with what it has: a cycle among these is one, and others are found later, or
   by others. */
static void add_node(struct search *x, const struct node *node)
{
    uint32_t room = x->room == 0 ? 64 : x->room * 2;
    struct node *nodes;

    enq_assert(x->n <= x->room);
    if (x->n == x->room) {
        nodes = realloc(x->nodes, room * sizeof(*nodes));
        x->no_memory = nodes == NULL;
        if (nodes == NULL)
            return;
        x->nodes = nodes;
        x->room = room;
    }
    x->nodes[x->n++] = *node;
}

enq_handle wait_graph_next(const struct map *map, const struct entry *e)
{
    struct entry *next = entry_is_of_set(e) ? entry_next_of_set(map, e) : NULL;

    return next == NULL ? 0 : entry_handle(map, next);
}

/* Under the latches of its key: without them its texts may be another's, and
   the owner's hash be of those. *handle leads to the next of its lock set, or
   is 0. Not a waiter of a dead session: the search would go through it first,
   find in the end that it has left (is_confirmed()), and not look for another
   way. */
static void add_waiter(struct search *x, enq_handle *handle)
{
    struct node node = {.parent = 0};
    struct pin g;
    bool waits;

    if (pin_take(&g, x->s, x->t, *handle, 0) != ENQ_OK) {
        *handle = 0;
        return;
    }
    waits = STATE_PHASE(g.state) == PHASE_WAITING &&
        entry_over(x->s->map, g.e, scope_clock(&g.scope)) == ENQ_OK;
    node.waiter = sight_of(x->s->map, g.e);
    *handle = waits ? wait_graph_next(x->s->map, g.e) : 0;
    scope_leave(&g.scope);
    if (waits)
        add_node(x, &node);
}

/* The ring of a set is links in shared memory, which any process may have
   damaged: so the steps are counted. */
void wait_graph_add(struct search *x, enq_handle handle)
{
    enq_handle at = handle;

    for (unsigned left = ENQ_SET_MAX; at != 0 && left > 0; left--) {
        add_waiter(x, &at);
        if (x->no_memory || at == handle)
            return;
    }
}

/* All members of a set lie in their session's slabs, so that the walk meets
   each of them. */
static bool see_waiting(void *context, struct entry *e, uint64_t state)
{
    struct search *x = context;
    enq_handle handle = pin_handle(x->s->map, e, state);

    if (STATE_PHASE(state) == PHASE_WAITING)
        add_waiter(x, &handle);
    return !x->no_memory;
}

/*
 * Not of one moment: each slot and each page is read when its turn comes. That
 * is enough. A cycle is closed by its last request, and that one looks after it
 * was queued, when all the others are there to be found: each was published
 * before it was queued; of several that come at once, the fences of publish()
 * in transition.c and of this function let at least one see all.
 *
 * Async requests are found by a walk over their session's slabs: one thread may
 * have started thousands, and `waiting` is one handle. Such a walk goes through
 * the page directory, so that it is made for sessions that have some.
 */
void wait_graph_collect(struct search *x)
{
    const struct map *map = x->s->map;

    enq_assert(x->t->n_held == 0);
    shm_fence(); /* partner: publish() in transition.c */
    for (uint32_t i = 0; i < map_threads(map) && !x->no_memory; i++) {
        enq_handle handle = shm_load(&map->threads[i].waiting);

        if (handle != 0)
            wait_graph_add(x, handle);
    }
    for (uint32_t i = 0; i < map_sessions(map) && !x->no_memory; i++) {
        session_ref_t ref = shm_load(&map->sessions[i].ref);
        if (ref != 0 && shm_load(&map->sessions[i].started) > 0)
            slab_each_of(map, ref, see_waiting, x);
    }
}
