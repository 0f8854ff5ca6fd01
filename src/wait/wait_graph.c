/*
 * wait_graph.c - wait: the wait-for graph (see wait_graph.h).
 */
#include "wait/wait_graph.h"

#include <stdlib.h>

#include "lock/bypass.h"
#include "lock/pin.h"
#include "lock/queue.h"
#include "store/owners.h"
#include "store/walk.h"

/* --- what is known, in private memory --- */

/* Room for one more than `n` of `size` bytes. A search that runs short of memory
   goes on with what it has: a cycle among these is one, and others are found
   later, or by others. */
static bool reserve(struct wait_graph *g, void *array, size_t size, uint32_t n,
    uint32_t *room)
{
    uint32_t more = *room == 0 ? 64 : *room * 2;
    void *grown;

    if (n < *room)
        return true;
    if (more <= n)
        more = n + 1;
    grown = realloc(*(void **)array, more * size);
    if (grown == NULL) {
        g->no_memory = true;
        return false;
    }
    *(void **)array = grown;
    *room = more;
    return true;
}

uint32_t wait_graph_node(struct wait_graph *g, enq_handle handle,
    uint64_t owner)
{
    uint32_t number = multimap_find(&g->by_handle, handle);

    if (number != MULTIMAP_NONE)
        return number;
    if (!reserve(g, &g->nodes, sizeof(*g->nodes), g->n_nodes, &g->nodes_room))
        return GRAPH_NONE;
    if (!multimap_add(&g->by_handle, handle) ||
        !multimap_add(&g->by_owner, owner)) {
        g->no_memory = true;
        return GRAPH_NONE;
    }
    g->nodes[g->n_nodes] = (struct node){
        .handle = handle, .sight = GRAPH_NONE, .site = GRAPH_NONE};
    return g->n_nodes++;
}

/* --- one key --- */

struct reading {
    struct wait_graph *g;
    struct scope *s;
    struct key key;
    bool full;
};

enq_handle wait_graph_next(const struct map *map, const struct entry *e)
{
    struct entry *next = entry_is_of_set(e) ? entry_next_of_set(map, e) : NULL;

    return next == NULL ? 0 : entry_handle(map, next);
}

/* Handle and state are of one load: a handle made from a second load could be
   of the entry's next use, with the owner of the former. */
static struct sight sight_of(const struct map *map, struct entry *e)
{
    struct sight s = {.state = shm_load_acquire(&e->state)};

    s.handle = pin_handle(map, e, s.state);
    s.owner = entry_owner_hash(map, e);
    s.delayed = entry_delays(e) && entry_is_delayed(map, e, sys.now());
    s.ticket = e->ticket;
    s.of_set = sight_waits(&s) && entry_is_of_set(e);
    s.next = s.of_set ? wait_graph_next(map, e) : 0;
    return s;
}

/*
 * What is in nobody's way for long is left out:
 *
 *   - what has run out, or ended with its session. A waiter of a dead session
 *     would lead a search through itself, which finds in the end that it has
 *     left, and does not look for another way
 *   - a RELEASE lock of a dying session: it goes when the end of its process
 *     is proved, whatever its owner waited for
 */
static bool see_sight(void *context, struct entry *e)
{
    struct reading *r = context;
    struct wait_graph *g = r->g;
    struct sight *sight;

    enq_assert(scope_is_entered(r->s));
    if (entry_over(r->s->map, e, scope_clock(r->s)) != ENQ_OK ||
        (!entry_is(e, PHASE_WAITING) && entry_is_ending(r->s->map, e)))
        return true;
    r->full = g->n_sights == g->sights_room;
    if (r->full)
        return false;
    sight = &g->sights[g->n_sights++];
    *sight = sight_of(r->s->map, e);
    /* two keys that overlap, and are generic in the same fields, are one */
    sight->here = e->generic == r->key.generic;
    return true;
}

/* All edges that begin here are of one moment. A request that is held or gone by
   now has none; that is no fault, as requests move on while the search does. No
   memory is asked for under the latches: `full`, then there is more to ask for. */
static int read_sights(struct wait_graph *g, enq_handle handle, bool *full)
{
    struct pin pin;
    struct reading r = {.g = g, .s = &pin.scope};
    int rc = pin_take(&pin, g->s, g->t, handle, 0);

    *full = false;
    if (rc != ENQ_OK)
        return rc > 0 ? 0 : rc;
    if (!entry_key(g->s->map, pin.e, &r.key))
        rc = ENQ_ECORRUPT;
    else if (STATE_PHASE(pin.state) == PHASE_WAITING)
        rc = scope_visit(&pin.scope, &r.key, see_sight, &r);
    scope_leave(&pin.scope);
    *full = r.full;
    return rc;
}

/* It waits for whatever is held, of any mode. */
static bool waits_for_all(const struct mode_table *modes, unsigned mode)
{
    for (unsigned held = 1; held < MODES; held++)
        if (!mode_conflicts(modes, held, mode, false))
            return false;
    return mode < MODES;
}

/* In the queue of one key, where nobody is of a set. */
static bool is_plain(struct scope *s, const struct key *key)
{
    struct entry *first, *last;

    enq_assert(scope_is_entered(s));
    if (s->wide)
        return false;
    first = scope_object(s, key);
    last = first == NULL ? NULL : queue_last(s->map, first);
    return last != NULL && (shm_load(&last->queue) & QUEUE_SETS) == 0;
}

/* For a request that waits for whatever is held: its own sight, and what is
   held, unless that has been read, as *site. *plain is false where that is not
   enough. */
static int read_held(struct wait_graph *g, enq_handle handle, struct reading *r,
    uint32_t *site, bool *plain)
{
    struct pin *pin = caa_container_of(r->s, struct pin, scope);
    uint32_t begin = g->n_sights;
    int rc = pin_take(pin, g->s, g->t, handle, 0);

    *plain = true; /* one that has gone has no edges */
    if (rc != ENQ_OK)
        return rc > 0 ? 0 : rc;
    if (!entry_key(g->s->map, pin->e, &r->key)) {
        rc = ENQ_ECORRUPT;
    } else if (STATE_PHASE(pin->state) == PHASE_WAITING) {
        *plain = waits_for_all(g->s->map->modes, STATE_MODE(pin->state)) &&
            is_plain(r->s, &r->key);
        *site = multimap_find(&g->by_key, r->key.hash);
        if (*plain && see_sight(r, pin->e) && g->n_sights > begin &&
            *site == GRAPH_NONE)
            rc = scope_visit_held(r->s, &r->key, see_sight, r);
    }
    scope_leave(r->s);
    return rc;
}

/* The waiters of this key need not be read again. Others that overlap it have
   keys of their own, as have the members of a set. */
static void note_waiters(struct wait_graph *g, uint32_t site)
{
    struct site *p = &g->sites[site];

    p->simple = true;
    for (uint32_t i = p->begin; i < p->end && !g->no_memory; i++) {
        const struct sight *sight = &g->sights[i];
        uint32_t number;

        if (!sight_waits(sight))
            continue;
        p->simple = p->simple && sight->here && !sight->of_set;
        number = wait_graph_node(g, sight->handle, sight->owner);
        if (number != GRAPH_NONE && sight->here &&
            g->nodes[number].sight == GRAPH_NONE) {
            g->nodes[number].read = true;
            g->nodes[number].sight = i;
            g->nodes[number].site = site;
        }
    }
}

/* Room for a site, and for more sights than there are, if those were too few. */
static bool reserve_site(struct wait_graph *g, uint32_t begin, bool full)
{
    g->n_sights = begin;
    return reserve(g, &g->sites, sizeof(*g->sites), g->n_sites,
               &g->sites_room) &&
        reserve(g, &g->sights, sizeof(*g->sights),
            full ? g->sights_room : begin, &g->sights_room);
}

static void add_site(struct wait_graph *g, uint32_t begin, uint64_t hash)
{
    if (!multimap_add(&g->by_key, hash)) {
        g->no_memory = true;
        return;
    }
    g->sites[g->n_sites++] = (struct site){.begin = begin,
        .end = g->n_sights,
        .simple = hash != 0,
        .plain = hash != 0};
}

/* True: that is all that the search needs of this request, so far as its owner
   holds nothing here (edges_begin()). */
static bool read_plain(struct wait_graph *g, uint32_t node)
{
    struct pin pin;
    struct reading r = {.g = g, .s = &pin.scope};
    uint32_t begin = g->n_sights, site = GRAPH_NONE;
    bool plain = true;
    int rc = 0;

    do {
        if (!reserve_site(g, begin, r.full))
            return true;
        r.full = false;
        rc = read_held(g, g->nodes[node].handle, &r, &site, &plain);
    } while (rc == 0 && r.full);
    g->damaged |= rc != 0;
    if (rc != 0 || !plain || g->n_sights == begin) {
        g->n_sights = begin;
        return rc != 0 || plain;
    }
    if (site == GRAPH_NONE) {
        site = g->n_sites;
        add_site(g, begin, r.key.hash);
    }
    if (g->no_memory)
        return true;
    g->nodes[node].sight = begin;
    g->nodes[node].site = site;
    return true;
}

static void read_whole(struct wait_graph *g, enq_handle handle)
{
    uint32_t begin = g->n_sights;
    bool full = false;
    int rc;

    enq_assert(g->t->n_held == 0);
    do {
        if (!reserve_site(g, begin, full))
            return;
        rc = read_sights(g, handle, &full);
    } while (rc == 0 && full);
    if (rc != 0) {
        g->n_sights = begin;
        g->damaged = true;
        return;
    }
    add_site(g, begin, 0);
    if (!g->no_memory)
        note_waiters(g, g->n_sites - 1);
}

bool wait_graph_see(struct wait_graph *g, uint32_t node)
{
    if (!g->nodes[node].read) {
        if (g->t->breathe != NULL)
            g->t->breathe();
        g->nodes[node].read = true;
        if (g->whole || !read_plain(g, node))
            read_whole(g, g->nodes[node].handle);
    }
    return g->nodes[node].sight != GRAPH_NONE;
}

/* --- the requests that wait at all --- */

/* All members of a set that was started are met, each in its page. */
static bool see_waiting(void *context, struct entry *e, uint64_t state)
{
    struct wait_graph *g = context;

    wait_graph_node(g, pin_handle(g->s->map, e, state),
        entry_owner_hash(g->s->map, e));
    return !g->no_memory;
}

/* The entry is not looked at: of thousands each lies in a page of its own. Not
   queued yet, or another request by now: it looks for itself when it is, and
   finds us, as we were queued before we looked. */
static void note_thread(struct wait_graph *g, const struct thread_slot *slot)
{
    enq_handle handle = shm_load_acquire(&slot->waiting);
    uint64_t owner;

    if (handle == 0)
        return;
    owner = shm_load_acquire(&slot->waiting_owner); /* partner: publish() */
    if (shm_load(&slot->waiting) == handle)
        wait_graph_node(g, handle, owner);
}

#define EXPECTED_MOST (1u << 20) /* the counts may be damaged */

static uint32_t count_started(const struct map *map)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < map_sessions(map) && n < EXPECTED_MOST; i++)
        if (shm_load(&map->sessions[i].ref) != 0)
            n += shm_load(&map->sessions[i].started);
    return n;
}

/* Room for all that wait, if each thread does: else half of the time would go
   into moving what was collected. */
static void expect(struct wait_graph *g, uint32_t started)
{
    uint32_t n = map_threads(g->s->map);

    n = started < EXPECTED_MOST ? n + started : EXPECTED_MOST;
    if (n > EXPECTED_MOST)
        n = EXPECTED_MOST;
    g->no_memory =
        !reserve(g, &g->nodes, sizeof(*g->nodes), n, &g->nodes_room) ||
        !multimap_reserve(&g->by_handle, n) ||
        !multimap_reserve(&g->by_owner, n);
}

/*
 * Not of one moment: each slot and each page is read when its turn comes. That
 * is enough. A cycle is closed by its last request, and that one looks after it
 * was queued, when all the others are there to be found: each was published
 * before it was queued; of several that come at once, the fences of publish()
 * in transition.c and of wait_graph_begin() let at least one see all.
 *
 * Started requests have marked their pages (store/mark.h): one thread may have
 * started thousands, and `waiting` is one handle.
 */
void wait_graph_collect(struct wait_graph *g)
{
    const struct map *map = g->s->map;
    uint32_t started = count_started(map);

    enq_assert(g->t->n_held == 0 && !g->collected);
    g->collected = true;
    expect(g, started);
    for (uint32_t i = 0; i < map_threads(map) && !g->no_memory; i++)
        note_thread(g, &map->threads[i]);
    if (!g->no_memory && started > 0)
        slab_each_waiting(map, g->t->ref, see_waiting, g);
}

void wait_graph_begin(struct wait_graph *g)
{
    enq_assert(g->n_nodes == 0);
    shm_fence(); /* partners: publish() in transition.c, mark_page() */
}

/* Nearly no owner of a lock waits; and that one does is counted before its
   request is queued (transition_queue()), so that the fence of wait_graph_begin()
   is for this load, too. */
uint32_t wait_graph_take(struct wait_graph *g, uint64_t owner)
{
    if (!g->collected && owners_wait(g->s->map, owner, 0))
        wait_graph_collect(g);
    return multimap_take(&g->by_owner, owner);
}

void wait_graph_free(struct wait_graph *g)
{
    free(g->sights);
    free(g->sites);
    free(g->nodes);
    multimap_free(&g->by_handle);
    multimap_free(&g->by_owner);
    multimap_free(&g->by_key);
}

/* --- what is in the way of one request --- */

static struct own own_at(const struct wait_graph *g, uint32_t site,
    uint64_t owner)
{
    const struct site *p = &g->sites[site];
    struct own own = {0, 0};

    if (owner == 0)
        return own;
    for (uint32_t i = p->begin; i < p->end; i++) {
        visit(VISIT_EDGE);
        if (g->sights[i].owner == owner) {
            unsigned mode = 1u << STATE_MODE(g->sights[i].state) % MODES;

            *(sight_waits(&g->sights[i]) ? &own.asked : &own.held) |= mode;
        }
    }
    return own;
}

/* What this owner holds where that request waits. */
static unsigned held_where(struct wait_graph *g, const struct sight *waiter,
    uint64_t owner)
{
    uint32_t node = wait_graph_node(g, waiter->handle, waiter->owner);

    return node == GRAPH_NONE || !wait_graph_see(g, node)
        ? 0
        : own_at(g, g->nodes[node].site, owner).held;
}

/* One that waits for this very owner may be overtaken (R7), so there is no
   edge. A lock set may wait for the owner at another of its keys: that is asked
   of the set key by key (bypass.h). */
static bool is_excused(const struct edges *x, const struct sight *waiter)
{
    struct wait_graph *g = x->g;
    const struct sight w = *waiter; /* others may be read, which moves it */
    uint64_t owner = graph_sight(g, x->node)->owner, ticket;
    unsigned held;

    if (owner == 0)
        return false;
    held = w.here ? x->own.held : held_where(g, &w, owner);
    for (unsigned mode = 0; mode < MODES; mode++)
        if ((held >> mode & 1) != 0 &&
            mode_conflicts(g->s->map->modes, mode, STATE_MODE(w.state) % MODES,
                false))
            return true;
    return w.of_set && bypass_set_wants(g->s, g->t, w.handle, owner, &ticket);
}

/*
 * It is conflict_check() without what passes by itself: own locks and requests
 * (that an owner waits for itself is no cycle: SEMANTICS, deadlock), waiters
 * that came later, and the members of the own set, which have one ticket. As own
 * entries are out, modes are compared as of different owners.
 *
 * A waiter within its bypass window does count, though it may be overtaken: the
 * window ends after 5 ms at the latest, and a cycle does not.
 */
static bool is_in_the_way(const struct edges *x, const struct sight *b)
{
    const struct sight *self = graph_sight(x->g, x->node);

    if ((b->owner == self->owner && self->owner != 0) ||
        b->handle == self->handle ||
        (sight_waits(b) && b->ticket >= self->ticket))
        return false;
    return mode_conflicts(x->g->s->map->modes, STATE_MODE(b->state) % MODES,
               STATE_MODE(self->state) % MODES, false) &&
        !(sight_waits(b) && is_excused(x, b));
}

/* The whole queue after all, in which the search has been as far as it was in
   what is held. One that has left it keeps the edges that it had. */
static void read_rest(struct wait_graph *g, uint32_t node)
{
    struct node had = g->nodes[node];

    g->nodes[node].sight = GRAPH_NONE;
    read_whole(g, had.handle);
    if (g->nodes[node].sight == GRAPH_NONE) {
        g->nodes[node].sight = had.sight;
        g->nodes[node].site = had.site;
    } else {
        graph_site(g, node)->reach = g->sites[had.site].reach;
    }
}

/* What its own owner holds is in the way of those ahead of it, and not in its
   own: then these count. Asked here, of what the search goes on from, and not
   of all that it reads: of a queue that is the last. */
void edges_begin(struct edges *x, struct wait_graph *g, uint32_t node)
{
    uint64_t owner = graph_sight(g, node)->owner;
    const struct site *site = graph_site(g, node);
    struct own own = own_at(g, g->nodes[node].site, owner);

    if (own.held != 0 && site->plain) {
        read_rest(g, node);
        site = graph_site(g, node);
        own = own_at(g, g->nodes[node].site, owner);
    }
    *x = (struct edges){g, node, site->begin, site->end, own};
}

uint32_t edges_next(struct edges *x)
{
    while (x->next < x->end) {
        uint32_t number = x->next++;

        visit(VISIT_EDGE);
        if (is_in_the_way(x, &x->g->sights[number]))
            return number;
    }
    return GRAPH_NONE;
}
