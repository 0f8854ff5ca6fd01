/*
 * cycle.c - wait: owners that wait for each other in a circle (see
 * cycle.h).
 */
#include "wait/cycle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/why.h"
#include "lock/bypass.h"
#include "lock/grip.h"
#include "rules/spec.h"

/* An entry as it was when we looked. */
struct sight {
    enq_handle handle;
    uint64_t state;
    uint64_t owner;  /* hash; 0: nobody's */
    uint64_t ticket; /* one for all of a lock set */
    bool of_set;     /* that waits */
};

/* --- who is in the way of one request --- */

#define BLOCKERS 64

struct rivals {
    struct scope *s;
    const struct ask *ask;
    const struct entry *self;
    unsigned skip; /* so many were seen before */
    unsigned n;
    struct entry *entry[BLOCKERS];
    bool more;
};

static bool is_in_the_way(const struct rivals *b, const struct entry *e,
    uint64_t state)
{
    bool same = entry_owned_by(b->s->map, e, b->ask);

    if (e == b->self || same ||
        entry_over(b->s->map, e, scope_clock(b->s)) != ENQ_OK ||
        (STATE_PHASE(state) == PHASE_WAITING ? e->ticket >= b->ask->ticket
                                             : entry_is_ending(b->s->map, e)))
        return false;
    return mode_conflicts(b->s->map->modes, STATE_MODE(state) % MODES,
        b->ask->mode, false);
}

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

/* Not a waiter that waits for this very owner: he may be overtaken (R7). */
static int drop_excused(struct rivals *b)
{
    unsigned kept = 0;
    bool excused;
    int rc = 0;

    for (unsigned i = 0; i < b->n && rc == 0; i++) {
        excused = false;
        if (entry_is(b->entry[i], PHASE_WAITING))
            rc = judge_excuses(b->s, b->ask, b->entry[i], &excused);
        if (!excused)
            b->entry[kept++] = b->entry[i];
    }
    b->n = kept;
    return rc;
}

static struct sight sight_of(const struct map *map, struct entry *e)
{
    struct sight s = {.state = shm_load_acquire(&e->state)};

    s.handle = grip_handle(map, e, s.state);
    /* one that is delayed has no owner who could let go of it: time does */
    if (!entry_delays(e) || !entry_is_delayed(map, e, sys.now()))
        s.owner = entry_owner_hash(map, e);
    s.ticket = e->ticket;
    s.of_set = STATE_PHASE(s.state) == PHASE_WAITING && entry_is_of_set(e);
    return s;
}

/* Up to BLOCKERS of them, after the first `skip`. True in *more: ask again. */
static int look_at(struct session *s, struct thread *t, enq_handle waiter,
    unsigned skip, struct sight *out, unsigned *n, bool *more)
{
    struct rivals b = {.skip = skip};
    struct ask ask;
    struct grip g;
    int rc = grip_take(&g, s, t, waiter, 0);

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

/* --- who waits at all --- */

struct node {
    struct sight waiter;
    struct sight blocker; /* how the search came here: the parent's */
    uint32_t parent;
    bool seen;
};

struct search {
    struct session *s;
    struct thread *t;
    struct node *nodes; /* the first are of the request that asks */
    uint32_t n, room, home;
    bool no_memory;
};

static bool add_node(struct search *x, const struct node *node)
{
    uint32_t room = x->room == 0 ? 64 : x->room * 2;
    struct node *nodes;

    if (x->n == x->room) {
        nodes = realloc(x->nodes, room * sizeof(*nodes));
        x->no_memory = nodes == NULL;
        if (nodes == NULL)
            return false;
        x->nodes = nodes;
        x->room = room;
    }
    x->nodes[x->n++] = *node;
    return true;
}

static enq_handle next_of_set(const struct map *map, const struct entry *e)
{
    struct entry *next = entry_is_of_set(e) ? entry_next_of_set(map, e) : NULL;

    return next == NULL ? 0 : entry_handle(map, next);
}

/* Under its words: without them its texts may be another's. *handle leads to
   the next of its lock set, or is 0. */
static bool add_waiter(struct search *x, enq_handle *handle)
{
    struct node node = {.parent = 0};
    struct grip g;
    bool waits;

    if (grip_take(&g, x->s, x->t, *handle, 0) != ENQ_OK) {
        *handle = 0;
        return true;
    }
    waits = STATE_PHASE(g.state) == PHASE_WAITING;
    node.waiter = sight_of(x->s->map, g.e);
    *handle = waits ? next_of_set(x->s->map, g.e) : 0;
    scope_leave(&g.scope);
    return !waits || add_node(x, &node);
}

static void add_request(struct search *x, enq_handle handle)
{
    enq_handle at = handle;

    for (unsigned left = ENQ_SET_MAX; at != 0 && left > 0; left--)
        if (!add_waiter(x, &at) || at == handle)
            return;
}

/* Not one whose session is dead: a way through it would hide another. */
static bool see_waiting(void *context, struct entry *e, uint64_t state)
{
    struct search *x = context;
    enq_handle handle = grip_handle(x->s->map, e, state);

    return STATE_PHASE(state) != PHASE_WAITING ||
        entry_over(x->s->map, e, sys.now()) != ENQ_OK || add_waiter(x, &handle);
}

/* Those that threads wait for, and those that were started. One that means to
   wait, and does not yet, takes a later ticket than ours: it will look. */
static void collect(struct search *x)
{
    const struct map *map = x->s->map;

    shm_fence(); /* partner: cycle_publish() */
    for (uint32_t i = 0; i < map_threads(map) && !x->no_memory; i++) {
        enq_handle handle = shm_load(&map->threads[i].waiting);

        if (handle != 0)
            add_request(x, handle);
    }
    for (uint32_t i = 0; i < map_sessions(map) && !x->no_memory; i++) {
        session_ref_t ref = shm_load(&map->sessions[i].ref);
        if (ref != 0 && shm_load(&map->sessions[i].started) > 0)
            slab_each_of(map, ref, see_waiting, x);
    }
}

/* --- the search --- */

static bool waits(const struct map *map, uint64_t owner)
{
    return owner != 0 &&
        shm_load(&map->owners[owner >> 1 & (OWNER_HASHES - 1)]) > 0;
}

/* The search goes on from a lock to all that its owner waits for, before he
   will let go of it; from a request to what that one waits for. */
static bool leads_to(const struct sight *blocker, const struct node *node)
{
    if (STATE_PHASE(blocker->state) == PHASE_WAITING)
        return node->waiter.ticket == blocker->ticket;
    return blocker->owner != 0 && node->waiter.owner == blocker->owner;
}

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

/* Something that he has who asks, or his request itself. */
static bool leads_home(const struct search *x, const struct sight *blocker)
{
    const struct sight *home = &x->nodes[0].waiter;

    if (STATE_PHASE(blocker->state) == PHASE_WAITING)
        return blocker->ticket == home->ticket;
    return blocker->owner == home->owner;
}

/* A lock set that waits for him whom it is in the way of: see bypass.h. */
static bool is_passed(const struct search *x, const struct sight *waiter,
    const struct sight *blocker)
{
    uint64_t ticket;

    return blocker->of_set && waiter->owner != 0 &&
        bypass_set_wants(x->s, x->t, blocker->handle, waiter->owner, &ticket);
}

/* Looks at one request; *last is the edge that leads back, if one does. */
static int expand(struct search *x, uint32_t from, uint32_t *queue,
    uint32_t *end, struct sight *last)
{
    struct sight found[BLOCKERS];
    unsigned n, skip = 0;
    bool more = true;
    int rc = 0;

    for (; rc == 0 && more; skip += BLOCKERS) {
        rc = look_at(x->s, x->t, x->nodes[from].waiter.handle, skip, found, &n,
            &more);
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

/* Breadth first: of several circles a shortest. */
static int search(struct search *x, uint32_t *at, struct sight *last)
{
    uint32_t *queue = calloc(x->n, sizeof(*queue)), begin = 0, end = 0;
    int rc = 0;

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

struct worth {
    struct scope *s;
    const struct ask *ask;
    const struct search *x; /* NULL: who waits is not known, but by hashes */
    bool yes, own, queue, set;
};

/* For something else: he may have waited for this when he was collected. */
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

/* In a narrow scope all wait for what is held here, be it by the one who asks;
   but a lock set for other keys as well. */
static bool see_worth(void *context, struct entry *e)
{
    struct worth *w = context;
    bool same = entry_owned_by(w->s->map, e, w->ask);

    if (!entry_is(e, PHASE_WAITING)) {
        w->own |= same;
    } else if (e->ticket < w->ask->ticket) {
        w->queue |= !same;
        w->set |= entry_is_of_set(e); /* his own, too: others wait behind it */
    }
    w->yes = w->set || (w->queue && (w->own || w->s->wide)) ||
        (!same && entry_is(e, PHASE_HELD) && holder_waits(w, e));
    return !w->yes;
}

/* Does anybody who has something in the way wait himself? *waiter leads to the
   next of its lock set, or is 0. */
static int look_if_worth_it(const struct search *x, enq_handle *waiter,
    const struct search *known, bool *yes)
{
    const struct map *map = x->s->map;
    struct ask ask;
    struct grip g;
    struct worth w = {.s = &g.scope, .ask = &ask, .x = known};
    int rc = grip_take(&g, x->s, x->t, *waiter, 0);

    *waiter = 0;
    if (rc != ENQ_OK)
        return rc > 0 ? 0 : rc;
    if (!entry_ask(map, g.e, &ask))
        rc = ENQ_ECORRUPT;
    else if (STATE_PHASE(g.state) == PHASE_WAITING)
        rc = scope_visit(&g.scope, &ask.key, see_worth, &w);
    *waiter = next_of_set(map, g.e);
    scope_leave(&g.scope);
    *yes = w.yes;
    return rc;
}

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

/* --- a circle that was found --- */

static bool is_still(const struct map *map, const struct sight *s)
{
    uint64_t state;
    struct entry *e = entry_of_handle(map, s->handle, &state);

    return e != NULL && state_same(state, s->state) &&
        entry_ended(map, e, sys.now()) == ENQ_OK;
}

/* From the last node back to the first. */
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

/* One request after the other, of whom each has what the one before wants. */
static void say_waiter(struct words *w, const struct search *x,
    const struct sight *waiter, bool first)
{
    struct ask ask;
    struct grip g;

    if (grip_take(&g, x->s, x->t, waiter->handle, 0) != ENQ_OK)
        return;
    if (entry_ask(x->s->map, g.e, &ask)) {
        say(w, first ? "" : "; ", ask.owner[0] == '\0' ? "nobody" : ask.owner);
        say(w, first ? "" : " has that, and", " waits for ");
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

static unsigned length_of(const struct search *x, uint32_t at)
{
    unsigned n = 1;

    for (; at >= x->home; at = x->nodes[at].parent)
        n++;
    return n;
}

static int explain(const struct search *x, uint32_t at)
{
    char text[WHY_BYTES] = "a circle of many owners";
    struct words w = {text, 0, sizeof(text)};

    if (length_of(x, at) <= PATH_MOST)
        say_path(&w, x, at);
    return why(ENQ_DEADLOCK, "deadlock: %s; which the first has", text);
}

/* The ticket of the youngest request in it, which tells circles apart. */
static uint64_t latest_of(const struct search *x, uint32_t at)
{
    uint64_t latest = x->nodes[0].waiter.ticket;

    for (; at >= x->home; at = x->nodes[at].parent)
        if (x->nodes[at].waiter.ticket > latest)
            latest = x->nodes[at].waiter.ticket;
    return latest;
}

static int find(struct session *s, struct thread *t, enq_handle waiter,
    bool *youngest, uint64_t *latest)
{
    struct search x = {.s = s, .t = t};
    struct sight last = {0};
    uint32_t at = 0;
    bool yes = false;
    int rc = is_worth_it(&x, waiter, NULL, &yes);

    if (rc != 0 || !yes)
        return rc;
    add_request(&x, waiter);
    x.home = x.n;
    collect(&x);
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

/* For so long the youngest has the time to find it himself: he may be kept from
   running just between queueing and looking. */
#define SUSPECT_NS (20 * NS_PER_MS)
#define AGAIN_NS sys_look_every(NS_PER_S)

int cycle_suspect(struct suspicion *x, struct session *s, struct thread *t,
    enq_handle waiter, mono_t *until)
{
    bool youngest = true;
    uint64_t latest = 0;
    mono_t now;
    int rc;

    if (!x->wanted)
        return ENQ_PENDING;
    now = sys.now();
    if (!mono_reached(x->next, now)) {
        /* also one who leaves the rest to the waiter ahead of him */
        *until = mono_min(*until, x->next);
        return ENQ_PENDING;
    }
    rc = find(s, t, waiter, &youngest, &latest);
    /* not where another circle was found in between, whose youngest is refused
       as he should be, again and again */
    if (rc == ENQ_DEADLOCK && (youngest || (x->old && x->latest == latest)))
        return rc;
    x->latest = latest;
    x->old = rc == ENQ_DEADLOCK;
    x->next = mono_add_ns(now, x->old ? SUSPECT_NS : AGAIN_NS);
    *until = mono_min(*until, x->next);
    return rc == 0 || rc == ENQ_DEADLOCK ? ENQ_PENDING : rc;
}

int cycle_each_edge(struct session *s, struct thread *t, cycle_see_fn *see,
    void *context)
{
    struct search x = {.s = s, .t = t};
    struct sight found[BLOCKERS];
    int rc = 0;

    collect(&x);
    for (uint32_t i = 0; rc == 0 && i < x.n; i++) {
        unsigned n, skip = 0;
        bool more = true;

        for (; rc == 0 && more; skip += BLOCKERS) {
            rc =
                look_at(s, t, x.nodes[i].waiter.handle, skip, found, &n, &more);
            for (unsigned k = 0; rc == 0 && k < n; k++)
                if (!is_passed(&x, &x.nodes[i].waiter, &found[k]))
                    see(context, x.nodes[i].waiter.handle, found[k].handle);
        }
    }
    free(x.nodes);
    return x.no_memory ? -ENOMEM : rc;
}
