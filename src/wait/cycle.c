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

/* Of a request: how the search came to it. */
struct step {
    uint32_t parent;  /* a request; GRAPH_NONE: it is the one that asks */
    uint32_t blocker; /* what is in the parent's way, and led here */
    uint32_t level;
    bool seen, expanded;
};

/* Of a site, and there of each mode. */
struct reach {
    uint64_t covered[MODES]; /* requests up to this ticket add nothing more */
    uint32_t latest[MODES];  /* of those seen, the last that came */
};

/* The nodes are searched breadth first, each once. */
struct search {
    struct wait_graph g;
    uint64_t owner, ticket; /* of the request that asks */
    struct step *steps;     /* one for each node */
    struct reach *reaches;  /* one for each site */
    uint32_t *queue, begin, end;
    uint32_t at, last; /* the cycle: its last request, and what of the asking
                          owner is in the way of that */
};

static const struct sight *sight_at(const struct search *x, uint32_t node)
{
    return graph_sight(&x->g, &x->g.nodes[node]);
}

static unsigned mode_at(const struct search *x, uint32_t node)
{
    return STATE_MODE(sight_at(x, node)->state) % MODES;
}

static void enter(struct search *x, uint32_t node, uint32_t from,
    uint32_t blocker)
{
    uint32_t *latest =
        &x->reaches[x->g.nodes[node].site].latest[mode_at(x, node)];

    if (x->steps[node].seen)
        return;
    x->steps[node] = (struct step){from, blocker,
        from == GRAPH_NONE ? 0 : x->steps[from].level + 1, true, false};
    x->queue[x->end++] = node;
    if (*latest == 0 ||
        sight_at(x, node)->ticket > sight_at(x, *latest - 1)->ticket)
        *latest = node + 1;
}

/* Where the search goes from what is in the way. From a request to itself, at
   all keys of its set, but not to other requests of its owner: the request in
   the way moves on when what it waits for itself is there. From a lock to all
   requests of its owner: an owner lets go of no lock before it has all that it
   waits for. From a lock that only time ends, or nobody's (R4), nowhere. */
static void follow(struct search *x, uint32_t from, uint32_t blocker)
{
    const struct sight *b = &x->g.sights[blocker];
    bool waits = sight_waits(b);
    uint32_t node;

    if (!waits && (b->owner == 0 || b->delayed))
        return;
    while ((node = multimap_take(waits ? &x->g.by_ticket : &x->g.by_owner,
                waits ? b->ticket : b->owner)) != GRAPH_NONE)
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
    const struct site *site = &x->g.sites[x->g.nodes[node].site];
    struct reach *reach = &x->reaches[x->g.nodes[node].site];
    const struct sight *sight = sight_at(x, node);

    if (!site->simple || own.held != 0 ||
        (sight->owner == x->owner && sight->ticket != x->ticket))
        return;
    for (unsigned mode = 0; mode < MODES; mode++)
        if ((own.asked >> mode & 1) != 0 &&
            !mode_covers(modes, mode_at(x, node), mode))
            return;
    for (unsigned mode = 0; mode < MODES; mode++)
        if (mode_covers(modes, mode_at(x, node), mode) &&
            sight->ticket > reach->covered[mode])
            reach->covered[mode] = sight->ticket;
}

/* One request's edges. True: one leads home. */
static bool expand(struct search *x, uint32_t node)
{
    struct edges edges;
    uint32_t blocker;

    enq_assert(x->g.t->n_held == 0);
    if (x->steps[node].expanded ||
        sight_at(x, node)->ticket <=
            x->reaches[x->g.nodes[node].site].covered[mode_at(x, node)])
        return false;
    x->steps[node].expanded = true;
    edges_begin(&edges, &x->g, &x->g.nodes[node]);
    while ((blocker = edges_next(&edges)) != GRAPH_NONE) {
        if (leads_home(x, &x->g.sights[blocker])) {
            x->at = node;
            x->last = blocker;
            return true;
        }
        follow(x, node, blocker);
    }
    cover(x, node, edges.own);
    return false;
}

/* Breadth first: of several cycles a shortest, which is the one that people can
   read. It starts from all members of the asking set at once, as that waits at
   all of its keys. In one level the order is free: the last of a queue comes
   first, as it covers the others. */
static bool search(struct search *x)
{
    uint32_t node, late;

    while ((node = multimap_take(&x->g.by_ticket, x->ticket)) != GRAPH_NONE)
        enter(x, node, GRAPH_NONE, GRAPH_NONE);
    while (x->begin < x->end) {
        node = x->queue[x->begin++];
        late = x->reaches[x->g.nodes[node].site].latest[mode_at(x, node)] - 1;
        if ((x->steps[late].level == x->steps[node].level && expand(x, late)) ||
            expand(x, node))
            return true;
    }
    return false;
}

/* Reads the graph. False: there is nothing to search. Where memory is short
   nothing is found, and a later look does. */
static bool search_begin(struct search *x, enq_handle waiter)
{
    const struct node *home;

    wait_graph_read(&x->g, waiter); /* a key that is damaged waits for others */
    home = x->g.nodes;
    if (x->g.n_nodes == 0 || x->g.no_memory || home->sight == GRAPH_NONE)
        return false;
    x->owner = graph_sight(&x->g, home)->owner;
    x->ticket = graph_sight(&x->g, home)->ticket;
    x->steps = calloc(x->g.n_nodes, sizeof(*x->steps));
    x->reaches = calloc(x->g.n_sites, sizeof(*x->reaches));
    x->queue = calloc(x->g.n_nodes, sizeof(*x->queue));
    return x->steps != NULL && x->reaches != NULL && x->queue != NULL;
}

static void search_end(struct search *x)
{
    wait_graph_free(&x->g);
    free(x->steps);
    free(x->reaches);
    free(x->queue);
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

/* Of one key: does an owner with something in the way wait itself? *waiter
   leads to the next of its lock set, or is 0. A request of nobody (R4) is not
   refused: it has no locks, and where others wait behind its place in the queue,
   they come later, and see it. */
static int look_if_worth_it(struct session *s, struct thread *t,
    enq_handle *waiter, bool *yes)
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
    else if (STATE_PHASE(g.state) == PHASE_WAITING && ask.owner_bytes > 1)
        rc = see_key(&w, g.e);
    *waiter = wait_graph_next(s->map, g.e);
    scope_leave(&g.scope);
    *yes = w.yes;
    return rc;
}

/* For a set: at any of its keys. The ring of a set is links in shared memory,
   which any process may have damaged: so the steps are counted. */
static int is_worth_it(struct session *s, struct thread *t, enq_handle waiter,
    bool *yes)
{
    enq_handle at = waiter;
    int rc = 0;

    *yes = false;
    for (unsigned left = ENQ_SET_MAX; at != 0 && left > 0; left--) {
        rc = look_if_worth_it(s, t, &at, yes);
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
         at = x->steps[at].parent) {
        if (x->steps[at].parent == GRAPH_NONE)
            return true;
        *youngest &= sight_at(x, at)->ticket < x->ticket;
        last = x->steps[at].blocker;
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
    bool first = x->steps[at].parent == GRAPH_NONE;

    if (!first)
        say_path(w, x, x->steps[at].parent);
    say_waiter(w, x, sight_at(x, at), first);
}

#define PATH_MOST 64

/* say_path() calls itself: not for thousands, of which nobody would read more
   than the first few. */
static int explain(const struct search *x)
{
    char text[WHY_BYTES] = "a cycle of many owners";
    struct words w = {text, 0, sizeof(text)};

    if (x->steps[x->at].level < PATH_MOST)
        say_path(&w, x, x->at);
    return why(ENQ_DEADLOCK, "deadlock: %s; the first one has that", text);
}

/* The ticket of the youngest request in it, which tells cycles apart: tickets
   are given once, and a request waits for as long as the cycle is there. */
static uint64_t latest_of(const struct search *x)
{
    uint64_t latest = 0;

    for (uint32_t at = x->at; at != GRAPH_NONE; at = x->steps[at].parent)
        if (sight_at(x, at)->ticket > latest)
            latest = sight_at(x, at)->ticket;
    return latest;
}

/* The look at the own key costs what each look of a waiter costs, and nearly
   always ends it. */
static int find(struct session *s, struct thread *t, enq_handle waiter,
    bool *youngest, uint64_t *latest)
{
    struct search x = {.g = {.s = s, .t = t}};
    bool yes = false;
    int rc = is_worth_it(s, t, waiter, &yes);

    enq_assert(t->n_held == 0);
    if (rc != 0 || !yes)
        return rc;
    if (search_begin(&x, waiter) && search(&x) && is_confirmed(&x, youngest)) {
        rc = explain(&x);
        *latest = latest_of(&x);
    }
    search_end(&x);
    return rc;
}

int cycle_find(struct session *s, struct thread *t, enq_handle waiter,
    bool *youngest)
{
    uint64_t latest;

    return find(s, t, waiter, youngest, &latest);
}

#define SUSPECT_NS (20 * NS_PER_MS)
#define AGAIN_NS sys_look_every(NS_PER_S)
#define AHEAD_FEW 8
#define AHEAD_MANY 160

static int64_t again_ns(unsigned ahead)
{
    if (ahead <= AHEAD_FEW)
        return AGAIN_NS;
    return AGAIN_NS * (ahead < AHEAD_MANY ? ahead : AHEAD_MANY) / AHEAD_FEW;
}

/*
 * Which gives up? The youngest does at once; so one of each cycle does, and not
 * all of those that see it at the same time. An older one that finds it waits
 * for SUSPECT_NS, in which the youngest has its turn, and gives up if the very
 * same cycle is there again: its youngest may be stopped, may not look for
 * cycles at all (`wanted`), or be an async request whose turn is far off.
 *
 * The search is done again each second, though this request has not changed: a
 * grant to another may close a cycle, and nobody looks then (SEMANTICS: such a
 * cycle is found within a second). Each looks at all that is before it, so that
 * a thousand would keep a CPU busy: those with more than a few ahead look less
 * often. One is enough of each cycle, and a grant that closes one is to an owner
 * that waits elsewhere: that request looks, too.
 */
int cycle_suspect(struct suspicion *x, struct session *s, struct thread *t,
    enq_handle waiter, unsigned ahead, mono_t *until)
{
    bool youngest = true;
    uint64_t latest = 0;
    mono_t now;
    int rc;

    if (!x->wanted)
        return ENQ_PENDING;
    now = sys.now();
    if (!mono_reached(x->next, now)) {
        /* also where the rest is left to the waiter ahead */
        *until = mono_min(*until, x->next);
        return ENQ_PENDING;
    }
    rc = find(s, t, waiter, &youngest, &latest);
    if (rc == ENQ_DEADLOCK && (youngest || (x->old && x->latest == latest)))
        return rc;
    x->latest = latest;
    x->old = rc == ENQ_DEADLOCK;
    x->next = mono_add_ns(now, x->old ? SUSPECT_NS : again_ns(ahead));
    *until = mono_min(*until, x->next);
    return rc == 0 || rc == ENQ_DEADLOCK ? ENQ_PENDING : rc;
}

/* The same edges that the search follows, of all requests; those that leave
   meanwhile show none. */
int cycle_each_edge(struct session *s, struct thread *t, cycle_see_fn *see,
    void *context)
{
    struct wait_graph g = {.s = s, .t = t};
    int rc = wait_graph_read(&g, 0);

    for (uint32_t i = 0; rc == 0 && i < g.n_nodes && !g.no_memory; i++) {
        struct edges edges;
        uint32_t blocker;

        if (g.nodes[i].sight == GRAPH_NONE)
            continue;
        edges_begin(&edges, &g, &g.nodes[i]);
        while ((blocker = edges_next(&edges)) != GRAPH_NONE)
            see(context, g.nodes[i].handle, g.sights[blocker].handle);
    }
    wait_graph_free(&g);
    return g.no_memory ? -ENOMEM : rc;
}
