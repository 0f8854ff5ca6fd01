/*
 * cycle.c - wait: cycles of the wait-for graph (see cycle.h).
 *
 * Three steps, each with latches of one key at a time. Is it worth a search?
 * The own key alone tells that nearly always (is_worth_it()). Then the search,
 * over copies (wait_graph.h). Then the look back: only a cycle of which each
 * entry is in the state that it was seen in counts (is_confirmed()).
 *
 * Whose request leaves the queue is decided by the tickets, that is, by the
 * order of arrival; each thread gives up its own request only. So a thread that
 * dies with a cycle found leaves nothing but a waiter of a dead session, which
 * the next grant scan drops (R21), and the cycle with it.
 */
#include "wait/cycle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/why.h"
#include "lock/pin.h"
#include "lock/queue.h"
#include "lock/transition.h"
#include "rules/spec.h"
#include "wait/wait_graph.h"

/* --- the search --- */

#define NO_TICKET UINT64_MAX /* none is drawn so late */

/* The nodes are searched breadth first, each once. */
struct search {
    struct wait_graph g;
    uint64_t owner;  /* whose cycles are looked for */
    uint64_t ticket; /* of the request that asks, or NO_TICKET: any of them */
    uint32_t first, end; /* seen, and not searched yet */
    uint32_t at, last;   /* the cycle: its last request, and what of the owner
                            is in the way of that */
};

static const struct sight *sight_at(const struct search *x, uint32_t node)
{
    return graph_sight(&x->g, node);
}

static struct step *step_at(const struct search *x, uint32_t node)
{
    return &x->g.nodes[node].step;
}

static struct reach *reach_at(const struct search *x, uint32_t node)
{
    return &graph_site(&x->g, node)->reach;
}

static unsigned mode_of(const struct sight *sight)
{
    return STATE_MODE(sight->state) % MODES;
}

static void append(struct search *x, uint32_t node, struct step step)
{
    uint32_t *latest = &reach_at(x, node)->latest[mode_of(sight_at(x, node))];

    *step_at(x, node) = step;
    if (x->first == GRAPH_NONE)
        x->first = node;
    else
        step_at(x, x->end)->next = node;
    x->end = node;
    if (*latest == 0 ||
        sight_at(x, node)->ticket > sight_at(x, *latest - 1)->ticket)
        *latest = node + 1;
}

/* A request, and the other members of its set, which wait at other keys. */
static void enter(struct search *x, uint32_t node, uint32_t from,
    uint32_t blocker)
{
    uint32_t level = from == GRAPH_NONE ? 0 : step_at(x, from)->level + 1;
    enq_handle next = 0;

    for (unsigned left = ENQ_SET_MAX; left > 0; left--) {
        if (node == GRAPH_NONE || step_at(x, node)->seen ||
            !wait_graph_see(&x->g, node))
            break;
        append(x, node,
            (struct step){.parent = from,
                .blocker = blocker,
                .next = GRAPH_NONE,
                .level = level,
                .seen = true});
        next = sight_at(x, node)->next;
        if (next == 0)
            break;
        node = wait_graph_node(&x->g, next, sight_at(x, node)->owner);
    }
}

/* One of the same queue, for which the request that waits behind it stands
   already (see cover()). */
static bool is_covered(const struct search *x, uint32_t from,
    const struct sight *waiter)
{
    return waiter->here &&
        waiter->ticket <= reach_at(x, from)->covered[mode_of(waiter)];
}

/* Where the search goes from what is in the way. From a request to itself, at
   all keys of its set, but not to other requests of its owner: the request in
   the way moves on when what it waits for itself is there. From a lock to all
   requests of its owner: an owner lets go of no lock before it has all that it
   waits for. From a lock that only time ends, or nobody's (R4), nowhere. */
static void follow(struct search *x, uint32_t from, uint32_t blocker)
{
    const struct sight b = x->g.sights[blocker]; /* entering moves them */
    uint32_t node;

    if (sight_waits(&b)) {
        if (!is_covered(x, from, &b))
            enter(x, wait_graph_node(&x->g, b.handle, b.owner), from, blocker);
        return;
    }
    if (b.owner == 0 || b.delayed)
        return;
    while ((node = wait_graph_take(&x->g, b.owner)) != GRAPH_NONE)
        enter(x, node, from, blocker);
}

/* A lock of the owner that asks, or its request itself: the cycle is closed. */
static bool leads_home(const struct search *x, const struct sight *blocker)
{
    if (sight_waits(blocker))
        return blocker->ticket == x->ticket;
    return blocker->owner == x->owner && !blocker->delayed;
}

/* All that conflicts with a request of mode `a` does with one of mode `b`. */
static bool mode_covers(const struct mode_table *modes, unsigned b, unsigned a)
{
    for (unsigned held = 0; held < MODES; held++)
        if (mode_conflicts(modes, held, a, false) &&
            !mode_conflicts(modes, held, b, false))
            return false;
    return true;
}

/*
 * In a queue each waits for all that are ahead, and for what is held: so what is
 * in the way of one is in the way of those behind it, and to look at the last of
 * them is enough. Else a queue would cost its square.
 *
 * Not so for what is left out of the edges of this one and of no other: its
 * owner's own entries. Its locks here: then this request covers nobody (nor
 * does it where some are excused for its owner). Its other requests here: what
 * is in their way must be in the way of this one, by their modes; and the
 * request that asks must not be among them, as its place is what is looked for.
 */
static void cover(struct search *x, uint32_t node, struct own own)
{
    const struct mode_table *modes = x->g.s->map->modes;
    struct reach *reach = reach_at(x, node);
    const struct sight *sight = sight_at(x, node);

    if (!graph_site(&x->g, node)->simple || own.held != 0 ||
        (sight->owner == x->owner && sight->ticket != x->ticket))
        return;
    for (unsigned mode = 0; mode < MODES; mode++)
        if ((own.asked >> mode & 1) != 0 &&
            !mode_covers(modes, mode_of(sight), mode))
            return;
    for (unsigned mode = 0; mode < MODES; mode++)
        if (mode_covers(modes, mode_of(sight), mode) &&
            sight->ticket > reach->covered[mode])
            reach->covered[mode] = sight->ticket;
}

/* One request's edges. True: one leads home. */
static bool expand(struct search *x, uint32_t node)
{
    const struct sight *sight = sight_at(x, node);
    struct edges edges;
    uint32_t blocker;

    enq_assert(x->g.t->n_held == 0);
    if (step_at(x, node)->expanded ||
        sight->ticket <= reach_at(x, node)->covered[mode_of(sight)])
        return false;
    step_at(x, node)->expanded = true;
    edges_begin(&edges, &x->g, node);
    cover(x, node, edges.own);
    while ((blocker = edges_next(&edges)) != GRAPH_NONE) {
        if (leads_home(x, &x->g.sights[blocker])) {
            x->at = node;
            x->last = blocker;
            return true;
        }
        follow(x, node, blocker);
    }
    return false;
}

/* The last that came of those of its queue and mode, if it is as near. */
static uint32_t late_for(const struct search *x, uint32_t node)
{
    uint32_t late = reach_at(x, node)->latest[mode_of(sight_at(x, node))] - 1;

    return step_at(x, late)->level == step_at(x, node)->level ? late : node;
}

/* Breadth first: of several cycles a shortest, which is the one that people can
   read. In one level the order is free: the last of a queue comes first, as it
   covers the others. */
static bool search(struct search *x)
{
    for (; x->first != GRAPH_NONE; x->first = step_at(x, x->first)->next)
        if (expand(x, late_for(x, x->first)) || expand(x, x->first))
            return true;
    return false;
}

/* Whoever calls ends it, too. Where memory is short it goes on with what there
   is, and a later look finds the rest. */
static void search_begin(struct search *x, struct session *s, struct thread *t)
{
    *x = (struct search){.g = {.s = s, .t = t}, .first = GRAPH_NONE};
    wait_graph_begin(&x->g);
}

static void search_end(struct search *x)
{
    wait_graph_free(&x->g);
}

/* A cycle through this request: it starts from all members of its set at once,
   as that waits at all of its keys. */
static bool search_from(struct search *x, enq_handle waiter)
{
    uint32_t home = wait_graph_node(&x->g, waiter, 0);

    if (home == GRAPH_NONE || !wait_graph_see(&x->g, home))
        return false;
    x->owner = sight_at(x, home)->owner;
    x->ticket = sight_at(x, home)->ticket;
    enter(x, home, GRAPH_NONE, GRAPH_NONE);
    return search(x);
}

/* A cycle through any request and any lock of this owner. */
static bool search_from_owner(struct search *x, uint64_t owner)
{
    uint32_t node;

    x->owner = owner;
    x->ticket = NO_TICKET;
    while ((node = wait_graph_take(&x->g, owner)) != GRAPH_NONE)
        enter(x, node, GRAPH_NONE, GRAPH_NONE);
    return search(x);
}

/* --- is it worth a search? --- */

/* What one visit of the own key tells (see_worth()). */
struct worth {
    struct scope *s;
    const struct ask *ask;
    bool yes, own, queue, set;
};

/* In a narrow scope all that wait here wait for locks that are here, and for
   each other. So no way leads back from here unless the owner of a lock here
   waits itself (whether or not that lock is in the way of this request: it may
   be in the way of a waiter ahead), or others wait ahead while the asker's
   owner has a lock here, for which they may wait. In a wide scope, and behind a
   lock set, those ahead may wait at keys that are not seen from here: then it
   is worth a search. */
static bool see_worth(void *context, struct entry *e)
{
    struct worth *w = context;
    bool same = entry_owned_by(w->s->map, e, w->ask);

    enq_assert(scope_is_entered(w->s));
    if (!entry_is(e, PHASE_WAITING)) {
        w->own |= same;
    } else if (e->ticket < w->ask->ticket) {
        w->queue |= !same;
        w->set |= entry_is_of_set(e); /* ours, too: others wait behind it */
    }
    w->yes = w->set || (w->queue && (w->own || w->s->wide)) ||
        (!same && entry_is(e, PHASE_HELD) &&
            owners_wait(w->s->map, entry_owner_hash(w->s->map, e),
                0)); /* a guess: a search tells */
    return !w->yes;
}

/* In a narrow scope, where no lock set waits: of those ahead one of another owner
   is enough. */
static int see_key(struct worth *w, struct entry *self)
{
    const struct map *map = w->s->map;
    struct entry *first, *last, *e = self;
    int rc;

    enq_assert(scope_is_entered(w->s));
    if (w->s->wide)
        return scope_visit(w->s, &w->ask->key, see_worth, w);
    first = scope_object(w->s, &w->ask->key);
    last = first == NULL ? NULL : queue_last(map, first);
    if (last == NULL)
        return ENQ_ECORRUPT;
    if ((shm_load(&last->queue) & QUEUE_SETS) != 0)
        return scope_visit(w->s, &w->ask->key, see_worth, w);
    rc = scope_visit_held(w->s, &w->ask->key, see_worth, w);
    for (uint32_t left = map->entries_max; left > 0 && w->own; left--) {
        e = w->queue || w->yes ? NULL : queue_ahead(map, e);
        if (e == NULL)
            break;
        see_worth(w, e);
    }
    return rc;
}

/* May anybody wait for a lock of its owner? */
static bool is_awaited(const struct map *map, const struct entry *e)
{
    return shm_load(&map->h->generic_waiters) > 0 ||
        owners_wait(map, owner_awaited(entry_owner_hash(map, e)), 0);
}

/* Of one key: does an owner with something in the way wait itself? *waiter
   leads to the next of its lock set, or is 0. A request of nobody (R4) is not
   refused: it has no locks, and where others wait behind its place in the queue,
   they come later, and see it. */
static int look_if_worth_it(struct session *s, struct thread *t,
    enq_handle *waiter, bool newcomer, bool *yes)
{
    struct ask ask;
    struct pin g;
    struct worth w = {.s = &g.scope, .ask = &ask};
    int rc = pin_take(&g, s, t, *waiter, 0);

    *waiter = 0;
    if (rc != ENQ_OK)
        return rc > 0 ? 0 : rc;
    if (!entry_ask(s->map, g.e, &ask))
        rc = ENQ_ECORRUPT;
    else if (STATE_PHASE(g.state) == PHASE_WAITING && ask.owner_bytes > 1 &&
        (!newcomer || is_awaited(s->map, g.e)))
        rc = see_key(&w, g.e);
    *waiter = wait_graph_next(s->map, g.e);
    scope_leave(&g.scope);
    *yes = w.yes;
    return rc;
}

/* For a set: at any of its keys. The ring of a set is links in shared memory,
   which any process may have damaged: so the steps are counted. */
static int is_worth_it(struct session *s, struct thread *t, enq_handle waiter,
    bool newcomer, bool *yes)
{
    enq_handle at = waiter;
    int rc = 0;

    *yes = false;
    for (unsigned left = ENQ_SET_MAX; at != 0 && left > 0; left--) {
        rc = look_if_worth_it(s, t, &at, newcomer, yes);
        if (rc != 0 || *yes || at == waiter)
            break;
    }
    return rc;
}

/* --- a cycle that was found --- */

/* Without latches: the state alone. Within one generation an entry goes forward
   only, from waiting to held to gone, so that one which is in the same state
   twice has been in it all the time between (notes are not compared: they
   change nothing of it). The acquire of entry_of_handle() is the partner of
   each transition's last store. */
static bool is_still(const struct map *map, const struct sight *s)
{
    uint64_t state;
    struct entry *e = entry_of_handle(map, s->handle, &state);

    return e != NULL && state_same(state, s->state) &&
        entry_ended(map, e, sys.now()) == ENQ_OK;
}

/* From the last node back to the first: is each still what it was? Then all of
   these were there together at the moment at which the search ended. Also
   whether the request that asks is the youngest of the cycle: it is if no other
   has a later ticket. */
static bool is_confirmed(const struct search *x, bool *youngest)
{
    const struct map *map = x->g.s->map;
    uint32_t at = x->at, last = x->last;

    *youngest = true;
    for (; is_still(map, &x->g.sights[last]) && is_still(map, sight_at(x, at));
         at = step_at(x, at)->parent) {
        if (step_at(x, at)->parent == GRAPH_NONE)
            return true;
        *youngest &= sight_at(x, at)->ticket < x->ticket;
        last = step_at(x, at)->blocker;
    }
    return false;
}

/* A sentence in a buffer; what does not fit is left out. */
struct words {
    char *text;
    size_t used, room;
};

static void say(struct words *w, const char *before, const char *what)
{
    int n =
        snprintf(w->text + w->used, w->room - w->used, "%s%s", before, what);

    if (n > 0)
        w->used +=
            (size_t)n < w->room - w->used ? (size_t)n : w->room - w->used - 1;
}

static void say_key(struct words *w, const struct key *key)
{
    char spec[SPEC_BYTES];

    spec_write(key, spec, sizeof(spec));
    say(w, "", spec);
}

/* One request after the other; each has what the one before wants. Owner and
   key are read anew, under the latches of each: one that has gone meanwhile is
   left out, as these words are for people. */
static void say_waiter(struct words *w, const struct search *x,
    const struct sight *waiter, bool first)
{
    struct ask ask;
    struct pin g;

    if (pin_take(&g, x->g.s, x->g.t, waiter->handle, 0) != ENQ_OK)
        return;
    if (entry_ask(x->g.s->map, g.e, &ask)) {
        say(w, first ? "" : "; ", ask.owner[0] == '\0' ? "nobody" : ask.owner);
        say(w, first ? "" : " has that and", " waits for ");
        say_key(w, &ask.key);
    }
    scope_leave(&g.scope);
}

/* The path is known backwards. */
static void say_path(struct words *w, const struct search *x, uint32_t at)
{
    bool first = step_at(x, at)->parent == GRAPH_NONE;

    if (!first)
        say_path(w, x, step_at(x, at)->parent);
    say_waiter(w, x, sight_at(x, at), first);
}

#define PATH_MOST 64

/* say_path() calls itself: not for thousands, of which nobody would read more
   than the first few. */
static int explain(const struct search *x)
{
    char text[WHY_BYTES] = "a cycle of many owners";
    struct words w = {text, 0, sizeof(text)};

    if (step_at(x, x->at)->level < PATH_MOST)
        say_path(&w, x, x->at);
    return why(ENQ_DEADLOCK, "deadlock: %s; the first one has that", text);
}

/* The ticket of the youngest request in it, which tells cycles apart: tickets
   are given once, and a request waits for as long as the cycle is there. */
static uint64_t latest_of(const struct search *x)
{
    uint64_t latest = 0;

    for (uint32_t at = x->at; at != GRAPH_NONE; at = step_at(x, at)->parent)
        if (sight_at(x, at)->ticket > latest)
            latest = sight_at(x, at)->ticket;
    return latest;
}

static uint64_t cost_of(const struct search *x)
{
    return (uint64_t)x->g.n_nodes + x->g.n_sights;
}

/* The look at the own key costs what each look of a waiter costs, and nearly
   always ends it. */
int cycle_find(struct session *s, struct thread *t, enq_handle waiter,
    bool newcomer, struct cycle *found)
{
    struct search x;
    bool yes = false;
    int rc = is_worth_it(s, t, waiter, newcomer, &yes);

    enq_assert(t->n_held == 0);
    *found = (struct cycle){.youngest = true};
    if (rc != 0 || !yes)
        return rc;
    search_begin(&x, s, t);
    if (search_from(&x, waiter) && is_confirmed(&x, &found->youngest)) {
        rc = explain(&x);
        found->latest = latest_of(&x);
    }
    found->cost = cost_of(&x);
    search_end(&x);
    return rc;
}

/* --- who waits is told of a cycle --- */

/* The note is part of the word on which the waiter sleeps. */
static void tell(const struct search *x, enq_handle waiter)
{
    struct pin g;

    if (pin_take(&g, x->g.s, x->g.t, waiter, 0) != ENQ_OK)
        return;
    if (STATE_PHASE(g.state) == PHASE_WAITING) {
        shm_or(&g.e->state, STATE_CYCLE);
        scope_wake(&g.scope, g.e);
    }
    scope_leave(&g.scope);
}

#define TOLD_MOST 16

/* Of a long one the youngest is told, and those that the search met last: for
   the case that the youngest does not look. */
static void tell_all(const struct search *x, uint64_t latest)
{
    unsigned left = TOLD_MOST;

    for (uint32_t at = x->at; at != GRAPH_NONE; at = step_at(x, at)->parent)
        if (left > 0 || sight_at(x, at)->ticket == latest) {
            tell(x, sight_at(x, at)->handle);
            left -= left > 0;
        }
}

void cycle_tell(struct session *s, struct thread *t, uint64_t owner,
    struct cycle *found)
{
    struct search x;

    enq_assert(t->n_held == 0);
    *found = (struct cycle){.youngest = false};
    search_begin(&x, s, t);
    if (search_from_owner(&x, owner) && is_confirmed(&x, &found->youngest)) {
        found->latest = latest_of(&x);
        tell_all(&x, found->latest);
    }
    found->cost = cost_of(&x);
    search_end(&x);
}

static void see_edges(struct wait_graph *g, uint32_t node, cycle_see_fn *see,
    void *context)
{
    struct edges edges;
    uint32_t blocker;

    edges_begin(&edges, g, node);
    while ((blocker = edges_next(&edges)) != GRAPH_NONE)
        see(context, g->nodes[node].handle, g->sights[blocker].handle);
}

/* The same edges that the search follows, of all requests; those that leave
   meanwhile show none. */
int cycle_each_edge(struct session *s, struct thread *t, cycle_see_fn *see,
    void *context)
{
    struct wait_graph g = {.s = s, .t = t, .whole = true};

    wait_graph_begin(&g);
    wait_graph_collect(&g);
    for (uint32_t i = 0; i < g.n_nodes && !g.no_memory; i++)
        if (wait_graph_see(&g, i))
            see_edges(&g, i, see, context);
    wait_graph_free(&g);
    return g.no_memory ? -ENOMEM : g.damaged ? ENQ_ECORRUPT : 0;
}
