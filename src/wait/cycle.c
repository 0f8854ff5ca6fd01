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
#include "lock/bypass.h"
#include "lock/pin.h"
#include "rules/spec.h"
#include "wait/wait_graph.h"

/* --- the search --- */

/* May an owner with this hash wait? Many owners share a count, and a death can
   leave it too high (transition_waits_of()): so true is a guess that costs a
   search. A request is counted before it is in the queue. */
static bool waits(const struct map *map, uint64_t owner)
{
    return owner != 0 &&
        shm_load(&map->owners[owner >> 1 & (OWNER_HASHES - 1)]) > 0;
}

/* Where the search goes from what is in the way. From a request to itself, at
   all keys of its set, but not to other requests of its owner: the request in
   the way moves on when what it waits for itself is there. From a lock to all
   requests of its owner: an owner lets go of no lock before it has all that it
   waits for. From a lock that only time ends, or nobody's (R4), nowhere. */
static bool leads_to(const struct sight *blocker, const struct node *node)
{
    if (STATE_PHASE(blocker->state) == PHASE_WAITING)
        return node->waiter.ticket == blocker->ticket;
    return blocker->owner != 0 && node->waiter.owner == blocker->owner;
}

/* Each node once, so that the queue has room and the way back by `parent` ends.
   From `home` on: the request that asks is no step of a way, but its end, and
   so is its copy behind them, as leads_home() is asked first. */
static void follow(struct search *x, uint32_t from, const struct sight *blocker,
    uint32_t *queue, uint32_t *end)
{
    for (uint32_t i = x->home; i < x->n; i++) {
        struct node *node = &x->nodes[i];

        if (node->seen || !leads_to(blocker, node))
            continue;
        node->seen = true;
        node->parent = from;
        node->blocker = *blocker;
        queue[(*end)++] = i;
    }
}

/* A lock of the owner that asks, or its request itself: the cycle is closed. */
static bool leads_home(const struct search *x, const struct sight *blocker)
{
    const struct sight *home = &x->nodes[0].waiter;

    if (STATE_PHASE(blocker->state) == PHASE_WAITING)
        return blocker->ticket == home->ticket;
    return blocker->owner == home->owner;
}

/* R7 for a lock set that waits in the way: it may wait for the waiter's owner
   at another of its keys, and then the waiter may pass it. So the edge is none.
   Asked of the set key by key, with no latch held (bypass.h). */
static bool is_passed(const struct search *x, const struct sight *waiter,
    const struct sight *blocker)
{
    uint64_t ticket;

    return blocker->of_set && waiter->owner != 0 &&
        bypass_set_wants(x->s, x->t, blocker->handle, waiter->owner, &ticket);
}

/* One request's edges; *last is the edge that leads home, if one does. What is
   found is copied, and the latches of that key are released, before anything is
   asked about it: the next key's are of the same rank. */
static int expand(struct search *x, uint32_t from, uint32_t *queue,
    uint32_t *end, struct sight *last)
{
    struct sight found[BLOCKERS];
    unsigned n, skip = 0;
    bool more = true;
    int rc = 0;

    enq_assert(from < x->n && x->t->n_held == 0);
    for (; rc == 0 && more; skip += BLOCKERS) {
        rc = wait_graph_look(x->s, x->t, x->nodes[from].waiter.handle, skip,
            found, &n, &more);
        for (unsigned i = 0; rc == 0 && i < n; i++) {
            if (is_passed(x, &x->nodes[from].waiter, &found[i]))
                continue;
            if (leads_home(x, &found[i])) {
                *last = found[i];
                return ENQ_DEADLOCK;
            }
            follow(x, from, &found[i], queue, end);
        }
    }
    return rc;
}

/* Breadth first: of several cycles a shortest, which is the one that people can
   read. It starts from all members of the asking set at once, as that waits at
   all of its keys. Where memory is short it finds nothing, and a later look
   does. */
static int search(struct search *x, uint32_t *at, struct sight *last)
{
    uint32_t *queue = calloc(x->n, sizeof(*queue)), begin = 0, end = 0;
    int rc = 0;

    enq_assert(x->home <= x->n);
    if (queue == NULL)
        return 0;
    for (; end < x->home; end++)
        queue[end] = end;
    while (rc == 0 && begin < end) {
        *at = queue[begin++];
        rc = expand(x, *at, queue, &end, last);
    }
    free(queue);
    return rc;
}

/* What one visit of the own key tells (see_worth()). */
struct worth {
    struct scope *s;
    const struct ask *ask;
    const struct search *x; /* NULL: waiters are known by their hashes only */
    bool yes, own, queue, set;
};

/* Does the owner of this lock wait? `x` NULL: by the counts of hashes. Else by
   the requests that were collected: but not by the one that has become this
   very lock since. */
static bool holder_waits(const struct worth *w, struct entry *e)
{
    uint64_t owner = entry_owner_hash(w->s->map, e);
    enq_handle this = entry_handle(w->s->map, e);
    bool found = w->x == NULL;

    if (!waits(w->s->map, owner))
        return false;
    for (uint32_t i = 0; !found && i < w->x->n; i++)
        found = w->x->nodes[i].waiter.owner == owner &&
            w->x->nodes[i].waiter.handle != this;
    return found;
}

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
        (!same && entry_is(e, PHASE_HELD) && holder_waits(w, e));
    return !w->yes;
}

/* Of one key: does an owner with something in the way wait itself? *waiter
   leads to the next of its lock set, or is 0. */
static int look_if_worth_it(const struct search *x, enq_handle *waiter,
    const struct search *known, bool *yes)
{
    const struct map *map = x->s->map;
    struct ask ask;
    struct pin g;
    struct worth w = {.s = &g.scope, .ask = &ask, .x = known};
    int rc = pin_take(&g, x->s, x->t, *waiter, 0);

    *waiter = 0;
    if (rc != ENQ_OK)
        return rc > 0 ? 0 : rc;
    if (!entry_ask(map, g.e, &ask))
        rc = ENQ_ECORRUPT;
    else if (STATE_PHASE(g.state) == PHASE_WAITING)
        rc = scope_visit(&g.scope, &ask.key, see_worth, &w);
    *waiter = wait_graph_next(map, g.e);
    scope_leave(&g.scope);
    *yes = w.yes;
    return rc;
}

/* For a set: at any of its keys. @known as struct worth has it. */
static int is_worth_it(const struct search *x, enq_handle waiter,
    const struct search *known, bool *yes)
{
    enq_handle at = waiter;
    int rc = 0;

    *yes = false;
    for (unsigned left = ENQ_SET_MAX; at != 0 && left > 0; left--) {
        rc = look_if_worth_it(x, &at, known, yes);
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
static bool is_confirmed(const struct search *x, uint32_t at,
    const struct sight *last, bool *youngest)
{
    const struct map *map = x->s->map;

    *youngest = true;
    for (; is_still(map, last) && is_still(map, &x->nodes[at].waiter);
         at = x->nodes[at].parent) {
        if (at < x->home)
            return true;
        *youngest &= x->nodes[at].waiter.ticket < x->nodes[0].waiter.ticket;
        last = &x->nodes[at].blocker;
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

    if (pin_take(&g, x->s, x->t, waiter->handle, 0) != ENQ_OK)
        return;
    if (entry_ask(x->s->map, g.e, &ask)) {
        say(w, first ? "" : "; ", ask.owner[0] == '\0' ? "nobody" : ask.owner);
        say(w, first ? "" : " has that and", " waits for ");
        say_key(w, &ask.key);
    }
    scope_leave(&g.scope);
}

/* The path is known backwards. */
static void say_path(struct words *w, const struct search *x, uint32_t at)
{
    if (at >= x->home)
        say_path(w, x, x->nodes[at].parent);
    say_waiter(w, x, &x->nodes[at].waiter, at < x->home);
}

#define PATH_MOST 64

/* say_path() calls itself: not for thousands, of which nobody would read more
   than the first few. */
static unsigned length_of(const struct search *x, uint32_t at)
{
    unsigned n = 1;

    for (; at >= x->home; at = x->nodes[at].parent)
        n++;
    return n;
}

static int explain(const struct search *x, uint32_t at)
{
    char text[WHY_BYTES] = "a cycle of many owners";
    struct words w = {text, 0, sizeof(text)};

    if (length_of(x, at) <= PATH_MOST)
        say_path(&w, x, at);
    return why(ENQ_DEADLOCK, "deadlock: %s; the first one has that", text);
}

/* The ticket of the youngest request in it, which tells cycles apart: tickets
   are given once, and a request waits for as long as the cycle is there. */
static uint64_t latest_of(const struct search *x, uint32_t at)
{
    uint64_t latest = x->nodes[0].waiter.ticket;

    for (; at >= x->home; at = x->nodes[at].parent)
        if (x->nodes[at].waiter.ticket > latest)
            latest = x->nodes[at].waiter.ticket;
    return latest;
}

/* The look at the own key costs what each look of a waiter costs, and nearly
   always ends it. With the requests collected it is asked again, by whole
   hashes. A request of nobody (R4) is not refused: it has no locks, and where
   others wait behind its place in the queue, they come later, and see it. */
static int find(struct session *s, struct thread *t, enq_handle waiter,
    bool *youngest, uint64_t *latest)
{
    struct search x = {.s = s, .t = t};
    struct sight last = {0};
    uint32_t at = 0;
    bool yes = false;
    int rc = is_worth_it(&x, waiter, NULL, &yes);

    enq_assert(t->n_held == 0);
    if (rc != 0 || !yes)
        return rc;
    wait_graph_add(&x, waiter);
    x.home = x.n;
    wait_graph_collect(&x);
    /* of a thousand owners one has nearly surely the hash of a holder */
    rc = is_worth_it(&x, waiter, &x, &yes);
    if (rc == 0 && yes && x.home > 0 && x.nodes[0].waiter.owner != 0)
        rc = search(&x, &at, &last);
    if (rc == ENQ_DEADLOCK)
        rc = is_confirmed(&x, at, &last, youngest) ? explain(&x, at) : 0;
    if (rc == ENQ_DEADLOCK)
        *latest = latest_of(&x, at);
    free(x.nodes);
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
    struct search x = {.s = s, .t = t};
    struct sight found[BLOCKERS];
    int rc = 0;

    wait_graph_collect(&x);
    for (uint32_t i = 0; rc == 0 && i < x.n; i++) {
        unsigned n, skip = 0;
        bool more = true;

        for (; rc == 0 && more; skip += BLOCKERS) {
            rc = wait_graph_look(s, t, x.nodes[i].waiter.handle, skip, found,
                &n, &more);
            for (unsigned k = 0; rc == 0 && k < n; k++)
                if (!is_passed(&x, &x.nodes[i].waiter, &found[k]))
                    see(context, x.nodes[i].waiter.handle, found[k].handle);
        }
    }
    free(x.nodes);
    return x.no_memory ? -ENOMEM : rc;
}
