/*
 * conflict.c - lock: may this request be granted? (see conflict.h)
 */
#include "lock/conflict.h"

#include "lock/queue.h"

/* What one pass over all that overlaps tells of a request. */
struct bench {
    struct scope *s;
    const struct ask *ask;
    const struct entry *self;
    struct verdict *v;
    bool own;      /* the asker holds something that overlaps */
    bool others;   /* a lock overlaps that is not the asker's own to cumulate */
    bool cumulate; /* one is */
    mono_t now;
    uint32_t rivals; /* earlier waiters that conflict, beyond the window */
};

/* By the clock, which is coarse for most grants; within a tick by the token,
   which orders grants of one bucket and says nothing between two (R12). */
bool granted_earlier(const struct entry *a, const struct entry *b)
{
    if (b == NULL || a->since_ns != b->since_ns)
        return b == NULL || a->since_ns < b->since_ns;
    return a->token < b->token;
}

/* A lot that is the entry's own: by its place, multiplied as in Knuth's hashing
   (6.4), so that neighbours and those of one session are far apart. */
static uint32_t lot_of(const struct map *map, const struct entry *e)
{
    return map_ref(map, e) * UINT32_C(2654435769);
}

/* What is lost: a delay keeps others out, not its owner. */
static inline bool is_lost_by(struct scope *s, const struct entry *e, bool same)
{
    enq_assert(scope_is_entered(s));
    return same && entry_delays(e) &&
        entry_is_delayed(s->map, e, scope_clock(s));
}

static __attribute__((noinline)) void is_in_the_way(struct verdict *v,
    const struct map *map, struct entry *e)
{
    if (granted_earlier(e, v->holder))
        v->holder = e;
    if (v->witness == NULL || lot_of(map, e) > lot_of(map, v->witness))
        v->witness = e;
}

/* R2, R5: does this held lock conflict? Else it is noted what R6 asks: whether
   all that overlaps is the asking owner's to cumulate. */
static void weigh_held(struct bench *b, struct entry *e, unsigned mode)
{
    bool same = entry_owned_by(b->s->map, e, b->ask);

    enq_assert(scope_is_entered(b->s));
    if (is_lost_by(b->s, e, same))
        return;
    if (mode_conflicts(b->s->map->modes, mode, b->ask->mode, same)) {
        is_in_the_way(b->v, b->s->map, e);
        return;
    }
    b->own |= same;
    if (same && mode_cumulates(mode) && mode_cumulates(b->ask->mode))
        b->cumulate = true;
    else
        b->others = true;
}

/* Only for the request that the bypass was learned for: the same scope judges
   other waiters as well, when it runs the grant scan. */
static bool may_pass(const struct scope *s, const struct ask *ask,
    uint64_t ticket)
{
    const struct bypass *bypass = s->bypass;

    return unlikely(bypass != NULL) && bypass->asker == ask->ticket &&
        bypass_has(bypass, ticket);
}

/* R7, and with window_ns() what P6 promises: a waiter in the way has come earlier,
   and has waited for longer than the window in which it may be overtaken. Order
   is by ticket, and a request that has not waited has the greatest; members of
   one set have one ticket, and are not in each other's way. */
static bool is_rival(struct scope *s, const struct ask *ask, struct entry *e)
{
    unsigned mode = STATE_MODE(shm_load(&e->state));
    bool same;

    enq_assert(scope_is_entered(s));
    if (e->ticket >= ask->ticket || !scope_is_due(s, e) ||
        may_pass(s, ask, e->ticket))
        return false;
    same = entry_owned_by(s->map, e, ask);
    return mode_conflicts(s->map->modes, mode, ask->mode, same);
}

/* May have run out by the exact clock, and not by the coarse one. Only then the
   exact one is read: 18 ns that most requests do without. */
static inline bool is_near_its_end(const struct bench *b, const struct entry *e,
    uint64_t state)
{
    return b->s->now.ns == 0 && STATE_PHASE(state) == PHASE_HELD &&
        shm_load(&e->deadline_ns) < b->now.ns + sys_coarse_lag_ns;
}

/* What has run out is not in the way, but must be dropped before the answer is
   used: `over` sends the caller through grant_scan(), and here again. */
static bool weigh(void *context, struct entry *e)
{
    struct bench *b = context;
    uint64_t state = shm_load_acquire(&e->state);

    enq_assert(scope_is_entered(b->s));
    if (e == b->self)
        return true;
    if (unlikely(is_near_its_end(b, e, state)))
        b->now = scope_clock(b->s);
    if (entry_over(b->s->map, e, b->now) != ENQ_OK) {
        b->v->over = true;
    } else if (STATE_PHASE(state) == PHASE_HELD) {
        weigh_held(b, e, STATE_MODE(state));
    } else {
        b->v->queue++;
        b->v->last_due = mono_max(b->v->last_due, entry_due(e));
        b->rivals += is_rival(b->s, b->ask, e);
    }
    return true;
}

/* --- waiters in the way ---
 *
 * Looked for only where no held lock is in the way. Tickets are the order of
 * arrival, and a ring has its waiters in that order, so that a narrow scope is
 * gone through once. A wide one shows one ring after the other: there the next
 * in order is found by a visit of its own, each time.
 */

struct hunt {
    struct scope *s;
    const struct ask *ask;
    uint64_t after;
    struct entry *found;
    unsigned own; /* a bit for each mode that the asker holds here, to stay */
};

static bool is_living_rival(const struct hunt *h, struct entry *e)
{
    enq_assert(scope_is_entered(h->s));
    return entry_is(e, PHASE_WAITING) &&
        entry_over(h->s->map, e, scope_clock(h->s)) == ENQ_OK &&
        is_rival(h->s, h->ask, e);
}

static bool see_rival(void *context, struct entry *e)
{
    struct hunt *h = context;

    if (e->ticket > h->after &&
        (h->found == NULL || e->ticket < h->found->ticket) &&
        is_living_rival(h, e))
        h->found = e;
    return true;
}

/* Of a waiter whose session has ended: no, as it will be dropped. Time 0, as a
   waiter's deadline_ns is the end of its bypass window and ends nothing. */
bool conflict_wants(const struct map *map, const struct entry *waiter,
    const struct entry *held)
{
    unsigned mode = STATE_MODE(shm_load(&held->state)) % MODES;
    struct ask ask;

    return entry_is(waiter, PHASE_WAITING) &&
        entry_ended(map, waiter, (mono_t){0}) == ENQ_OK &&
        entry_ask(map, waiter, &ask) &&
        mode_conflicts(map->modes, mode, ask.mode,
            entry_owned_by(map, held, &ask));
}

struct excuse {
    struct scope *s;
    const struct ask *asker, *waiter;
    bool found;
};

/* Does the asking owner hold this, to stay? That of a session that is ending
   will make way without the asker. */
static bool is_own_to_stay(struct scope *s, const struct ask *asker,
    const struct entry *e)
{
    enq_assert(scope_is_entered(s));
    return entry_is(e, PHASE_HELD) &&
        entry_over(s->map, e, scope_clock(s)) == ENQ_OK &&
        entry_owned_by(s->map, e, asker) && !entry_is_ending(s->map, e);
}

/* A lock of the asking owner that the waiter wants. */
static bool see_excuse(void *context, struct entry *e)
{
    struct excuse *x = context;
    unsigned mode = STATE_MODE(shm_load(&e->state));

    enq_assert(!x->found);
    x->found = is_own_to_stay(x->s, x->asker, e) &&
        mode_conflicts(x->s->map->modes, mode, x->waiter->mode,
            entry_owned_by(x->s->map, e, x->waiter));
    return !x->found;
}

int conflict_excuses(struct scope *s, const struct ask *asker,
    struct entry *waiter, bool *yes)
{
    struct ask ask;
    struct excuse x = {s, asker, &ask, false};
    int rc;

    enq_assert(scope_is_entered(s));
    if (!entry_ask(s->map, waiter, &ask))
        return ENQ_ECORRUPT;
    rc = scope_visit(s, &ask.key, see_excuse, &x);
    *yes = x.found;
    return rc;
}

static bool see_own(void *context, struct entry *e)
{
    struct hunt *h = context;

    if (is_own_to_stay(h->s, h->ask, e))
        h->own |= 1u << (STATE_MODE(shm_load(&e->state)) % MODES);
    return true;
}

/* conflict_excuses() in a narrow scope, where all that the owner holds is of
   this one key: one look at it does for all waiters. */
static bool is_excused(const struct hunt *h, const struct entry *waiter)
{
    unsigned mode = STATE_MODE(shm_load(&waiter->state)) % MODES;
    bool same = entry_owned_by(h->s->map, waiter, h->ask);

    for (unsigned own = 1; own < MODES; own++)
        if ((h->own >> own & 1) != 0 &&
            mode_conflicts(h->s->map->modes, own, mode, same))
            return true;
    return false;
}

/* As far as it goes: behind one that came later, or whose window has not ended,
   none is a rival. */
static bool see_rival_in_order(void *context, struct entry *e)
{
    struct hunt *h = context;

    if (is_living_rival(h, e) && !is_excused(h, e))
        h->found = e;
    return h->found == NULL &&
        (entry_is(e, PHASE_HELD) ||
            (e->ticket < h->ask->ticket && scope_is_due(h->s, e)));
}

static int find_in_order(struct bench *b)
{
    struct hunt h = {.s = b->s, .ask = b->ask};
    int rc = 0;

    enq_assert(!b->s->wide && scope_is_entered(b->s));
    if (b->own)
        rc = scope_visit_held(b->s, &b->ask->key, see_own, &h);
    if (rc == 0)
        rc = scope_visit(b->s, &b->ask->key, see_rival_in_order, &h);
    b->v->waiter = h.found;
    return rc;
}

/*
 * The first rival that is not excused (R7). A lock set may wait for the owner
 * at a key that this scope does not show: of those bypass.h has learned, and
 * is_rival() passes over their tickets.
 *
 * In a wide scope, one visit for each excused waiter, and a second inside: a
 * square, of a number that is small, as only waiters for a lock of this very
 * owner are excused.
 */
static __attribute__((noinline)) int find_waiter_in_the_way(struct bench *b)
{
    struct hunt h = {.s = b->s, .ask = b->ask};
    bool excused;
    int rc;

    enq_assert(b->v->holder == NULL && b->v->waiter == NULL);
    if (!b->s->wide)
        return find_in_order(b);
    for (;;) {
        h.found = NULL;
        rc = scope_visit(b->s, &b->ask->key, see_rival, &h);
        if (rc != 0 || h.found == NULL)
            return rc;
        h.after = h.found->ticket;
        rc = conflict_excuses(b->s, b->ask, h.found, &excused);
        if (rc != 0 || excused)
            continue;
        b->v->waiter = h.found;
        return 0;
    }
}

struct standing {
    const struct map *map;
    bool found;
};

static bool see_standing(void *context, struct entry *e)
{
    struct standing *x = context;

    enq_assert(!x->found);
    x->found = entry_is(e, PHASE_HELD) && !entry_is_ending(x->map, e);
    return !x->found;
}

/* R6. All that is held here cumulates with what is asked for: then no waiter is
   in the way, if any of it is there to stay. What is about to go does not
   count: the owner would overtake waiters for a lock that it loses. */
static int cumulates(const struct bench *b, bool *yes)
{
    struct standing x = {b->s->map, false};
    int rc = 0;

    enq_assert(b->v->holder == NULL && b->rivals > 0);
    if (b->cumulate && !b->others)
        rc = scope_visit_held(b->s, &b->ask->key, see_standing, &x);
    *yes = x.found;
    return rc;
}

/* What weigh() finds of the waiters in a wide scope, by the last of the queue;
   any of them may be a rival. */
static inline void weigh_queue(struct bench *b, struct entry *first)
{
    struct entry *last = queue_last(b->s->map, first);

    enq_assert(!b->s->wide && scope_is_entered(b->s));
    if (likely(last == NULL))
        return;
    b->v->over |= entry_over(b->s->map, last, scope_clock(b->s)) != ENQ_OK;
    b->v->queue = queue_length(last);
    if (b->self != NULL && entry_is(b->self, PHASE_WAITING))
        b->v->queue--;
    b->v->last_due = entry_due(last);
    b->rivals = b->v->queue;
}

/* One pass for what is held, which decides nearly all; a second and third only
   for requests that nothing but waiters are in the way of. */
int conflict_check(struct scope *s, const struct ask *ask,
    const struct entry *self, struct verdict *v)
{
    struct bench b = {
        .s = s, .ask = ask, .self = self, .v = v, .now = scope_time(s)};
    struct entry *first;
    bool passes;
    int rc;

    enq_assert(scope_is_entered(s));
    *v = (struct verdict){0};
    rc = scope_visit_held(s, &ask->key, weigh, &b);
    if (!s->wide && (first = scope_object(s, &ask->key)) != NULL)
        weigh_queue(&b, first);
    if (rc != 0 || v->holder != NULL || b.rivals == 0)
        return rc;
    rc = cumulates(&b, &passes);
    return rc != 0 || passes ? rc : find_waiter_in_the_way(&b);
}

/* --- witnesses --- */

/* Of the same name, its gate is ours: so it stands still while we look. */
static bool is_in_its_way(struct scope *s, const struct ask *ask,
    enq_handle witness)
{
    uint64_t state;
    const struct entry *e = entry_of_handle(s->map, witness, &state);
    struct key key;
    bool same;

    if (e == NULL || STATE_PHASE(state) != PHASE_HELD ||
        shm_load(&e->name_hash) != ask->key.name_hash ||
        entry_over(s->map, e, scope_clock(s)) != ENQ_OK ||
        !entry_key(s->map, e, &key) || !key_overlaps(&key, &ask->key))
        return false;
    same = entry_owned_by(s->map, e, ask);
    return !is_lost_by(s, e, same) &&
        mode_conflicts(s->map->modes, STATE_MODE(state) % MODES, ask->mode,
            same);
}

bool conflict_is_known(struct scope *s, const struct ask *ask,
    struct entry *waiter, enq_handle usual)
{
    enq_assert(s->wide && scope_is_entered(s));
    if (entry_is_of_set(waiter))
        return false;
    if (is_in_its_way(s, ask, shm_load(&waiter->witness)))
        return true;
    if (usual == 0 || !is_in_its_way(s, ask, usual))
        return false;
    shm_store(&waiter->witness, usual);
    return true;
}

enq_handle conflict_note(struct scope *s, const struct verdict *v,
    struct entry *waiter)
{
    enq_handle witness =
        v->witness == NULL ? 0 : entry_handle(s->map, v->witness);

    enq_assert(s->wide && scope_is_entered(s));
    if (!entry_is_of_set(waiter))
        shm_store(&waiter->witness, witness);
    return witness;
}

/* --- summaries ---
 *
 * Modes are read from states, which another process may have damaged: hence the
 * remainder by MODES. Index 0 is no mode, and is never asked.
 */

void summary_add(struct summary *c, const struct map *map,
    const struct entry *e)
{
    unsigned mode = STATE_MODE(shm_load(&e->state)) % MODES;
    struct ask ask;

    if (c->of[mode].n++ == 0)
        c->of[mode].first = e;
    else if (!c->of[mode].mixed)
        c->of[mode].mixed = !entry_ask(map, e, &ask) ||
            !entry_owned_by(map, c->of[mode].first, &ask);
}

/* Where a mode is mixed, the row of other owners is asked: it has all that the
   row of the same owner has (mode.h), so that no conflict is missed. And none
   is invented, as of a mixed mode one lock at least is another owner's. */
bool summary_blocks(const struct summary *c, const struct map *map,
    const struct ask *ask)
{
    for (unsigned mode = 1; mode < MODES; mode++) {
        bool same;

        if (c->of[mode].n == 0)
            continue;
        same =
            !c->of[mode].mixed && entry_owned_by(map, c->of[mode].first, ask);
        if (mode_conflicts(map->modes, mode, ask->mode, same))
            return true;
    }
    return false;
}

/* A delay keeps others out, not the owner that has lost the lock: so a mode
   blocks if one of its locks is another's, be it that all are, or that they are
   mixed. */
bool summary_delays(const struct summary *c, const struct map *map,
    const struct ask *ask)
{
    for (unsigned mode = 1; mode < MODES; mode++) {
        if (c->of[mode].n == 0 ||
            !mode_conflicts(map->modes, mode, ask->mode, false))
            continue;
        if (c->of[mode].mixed || !entry_owned_by(map, c->of[mode].first, ask))
            return true;
    }
    return false;
}

bool summary_wants(const struct summary *c, const struct map *map,
    const struct entry *held)
{
    unsigned mode = STATE_MODE(shm_load(&held->state)) % MODES;

    for (unsigned wanted = 1; wanted < MODES; wanted++) {
        struct ask ask;
        bool same;

        if (c->of[wanted].n == 0)
            continue;
        same = !c->of[wanted].mixed &&
            entry_ask(map, c->of[wanted].first, &ask) &&
            entry_owned_by(map, held, &ask);
        if (mode_conflicts(map->modes, mode, wanted, same))
            return true;
    }
    return false;
}

bool summary_may_own(const struct summary *c, const struct map *map,
    const struct ask *ask)
{
    for (unsigned mode = 1; mode < MODES; mode++)
        if (c->of[mode].n > 0 &&
            (c->of[mode].mixed || entry_owned_by(map, c->of[mode].first, ask)))
            return true;
    return false;
}

bool summary_cumulates(const struct summary *c, const struct map *map,
    const struct ask *ask)
{
    bool any = false;

    if (!mode_cumulates(ask->mode))
        return false;
    for (unsigned mode = 1; mode < MODES; mode++) {
        if (c->of[mode].n == 0)
            continue;
        if (!mode_cumulates(mode) || c->of[mode].mixed ||
            !entry_owned_by(map, c->of[mode].first, ask))
            return false;
        any = true;
    }
    return any;
}
