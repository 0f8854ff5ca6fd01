/*
 * judge.c - lock: may this request be granted? (see judge.h)
 */
#include "lock/judge.h"

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

bool granted_earlier(const struct entry *a, const struct entry *b)
{
    if (b == NULL || a->since_ns != b->since_ns)
        return b == NULL || a->since_ns < b->since_ns;
    return a->token < b->token;
}

static void weigh_held(struct bench *b, struct entry *e, unsigned mode)
{
    bool same = entry_owned_by(b->s->map, e, b->ask);

    if (same && entry_delays(e) &&
        entry_is_delayed(b->s->map, e, scope_clock(b->s)))
        return; /* it is lost: a delay keeps others out, not its owner */
    if (mode_conflicts(b->s->map->modes, mode, b->ask->mode, same)) {
        if (granted_earlier(e, b->v->holder))
            b->v->holder = e;
        return;
    }
    b->own |= same;
    if (same && mode_cumulates(mode) && mode_cumulates(b->ask->mode))
        b->cumulate = true;
    else
        b->others = true;
}

static bool may_pass(const struct scope *s, const struct ask *ask,
    uint64_t ticket)
{
    const struct bypass *bypass = s->bypass;

    return unlikely(bypass != NULL) && bypass->asker == ask->ticket &&
        bypass_has(bypass, ticket);
}

/* R7: a waiter in the way has come earlier, and has waited for longer than the
   window in which it may be overtaken. */
static bool is_rival(struct scope *s, const struct ask *ask, struct entry *e)
{
    unsigned mode = STATE_MODE(shm_load(&e->state));
    bool same;

    if (e->ticket >= ask->ticket || !scope_is_due(s, e) ||
        may_pass(s, ask, e->ticket))
        return false;
    same = entry_owned_by(s->map, e, ask);
    return mode_conflicts(s->map->modes, mode, ask->mode, same);
}

/* May have run out by the exact clock, and not by the coarse one. */
static inline bool is_near_its_end(const struct bench *b, const struct entry *e,
    uint64_t state)
{
    return b->s->now.ns == 0 && STATE_PHASE(state) == PHASE_HELD &&
        shm_load(&e->deadline_ns) - b->now.ns < sys_coarse_lag_ns;
}

static bool weigh(void *context, struct entry *e)
{
    struct bench *b = context;
    uint64_t state = shm_load_acquire(&e->state);

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
        if (e->deadline_ns > b->v->last_due.ns)
            b->v->last_due.ns = e->deadline_ns;
        b->rivals += is_rival(b->s, b->ask, e);
    }
    return true;
}

/* --- waiters in the way --- */

struct hunt {
    struct scope *s;
    const struct ask *ask;
    uint64_t after;
    struct entry *found;
};

static bool see_rival(void *context, struct entry *e)
{
    struct hunt *h = context;

    if (entry_is(e, PHASE_WAITING) && e->ticket > h->after &&
        (h->found == NULL || e->ticket < h->found->ticket) &&
        entry_over(h->s->map, e, scope_clock(h->s)) == ENQ_OK &&
        is_rival(h->s, h->ask, e))
        h->found = e;
    return true;
}

bool judge_wants(const struct map *map, const struct entry *waiter,
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

static bool see_excuse(void *context, struct entry *e)
{
    struct excuse *x = context;
    unsigned mode = STATE_MODE(shm_load(&e->state));

    if (!entry_is(e, PHASE_HELD) ||
        entry_over(x->s->map, e, scope_clock(x->s)) != ENQ_OK ||
        !entry_owned_by(x->s->map, e, x->asker) ||
        entry_is_ending(x->s->map, e))
        return true;
    x->found = mode_conflicts(x->s->map->modes, mode, x->waiter->mode,
        entry_owned_by(x->s->map, e, x->waiter));
    return !x->found;
}

int judge_excuses(struct scope *s, const struct ask *asker,
    struct entry *waiter, bool *yes)
{
    struct ask ask;
    struct excuse x = {s, asker, &ask, false};
    int rc;

    if (!entry_ask(s->map, waiter, &ask))
        return ENQ_ECORRUPT;
    rc = scope_visit(s, &ask.key, see_excuse, &x);
    *yes = x.found;
    return rc;
}

static int find_waiter_in_the_way(struct bench *b)
{
    struct hunt h = {b->s, b->ask, 0, NULL};
    bool excused;
    int rc;

    for (;;) {
        h.found = NULL;
        rc = scope_visit(b->s, &b->ask->key, see_rival, &h);
        if (rc != 0 || h.found == NULL)
            return rc;
        h.after = h.found->ticket;
        /* in a narrow scope he holds nothing else that it could wait for */
        excused = b->own || b->s->wide;
        if (excused)
            rc = judge_excuses(b->s, b->ask, h.found, &excused);
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

    x->found = entry_is(e, PHASE_HELD) && !entry_is_ending(x->map, e);
    return !x->found;
}

/* R6. All that is held here cumulates with what is asked for: if any of it is
   there to stay. */
static int cumulates(const struct bench *b, bool *yes)
{
    struct standing x = {b->s->map, false};
    int rc = 0;

    if (b->cumulate && !b->others)
        rc = scope_visit(b->s, &b->ask->key, see_standing, &x);
    *yes = x.found;
    return rc;
}

int judge(struct scope *s, const struct ask *ask, const struct entry *self,
    struct verdict *v)
{
    struct bench b = {
        .s = s, .ask = ask, .self = self, .v = v, .now = scope_time(s)};
    bool passes;
    int rc;

    *v = (struct verdict){0};
    rc = scope_visit(s, &ask->key, weigh, &b);
    if (rc != 0 || v->over || v->holder != NULL || b.rivals == 0)
        return rc;
    rc = cumulates(&b, &passes);
    return rc != 0 || passes ? rc : find_waiter_in_the_way(&b);
}

/* --- crowds --- */

void crowd_add(struct crowd *c, const struct map *map, const struct entry *e)
{
    unsigned mode = STATE_MODE(shm_load(&e->state)) % MODES;
    struct ask ask;

    if (c->of[mode].n++ == 0)
        c->of[mode].first = e;
    else if (!c->of[mode].mixed)
        c->of[mode].mixed = !entry_ask(map, e, &ask) ||
            !entry_owned_by(map, c->of[mode].first, &ask);
}

bool crowd_blocks(const struct crowd *c, const struct map *map,
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

bool crowd_delays(const struct crowd *c, const struct map *map,
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

bool crowd_may_own(const struct crowd *c, const struct map *map,
    const struct ask *ask)
{
    for (unsigned mode = 1; mode < MODES; mode++)
        if (c->of[mode].n > 0 &&
            (c->of[mode].mixed || entry_owned_by(map, c->of[mode].first, ask)))
            return true;
    return false;
}

bool crowd_cumulates(const struct crowd *c, const struct map *map,
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
