/*
 * serve.c - lock: what has gone makes way for those who wait (see
 * serve.h).
 */
#include "lock/serve.h"

#include <string.h>

static int drop_over(struct scope *s, struct entry *e, int why)
{
    s->t->changes++;
    if (why == ENQ_EXPIRED)
        thread_count(s->t, COUNT_EXPIRIES);
    return change_drop(s, e, why == ENQ_EXPIRED ? GONE_EXPIRED : GONE_DIED);
}

/* Has it waited for so long that it is handed the lock? */
static bool is_due(struct scope *s, const struct entry *e, struct entry *self)
{
    return e == self || s->wide || scope_is_due(s, e);
}

/* It takes all of its keys, or none. */
static void poke_set(struct scope *s, struct entry *e)
{
    if (!s->looks || s->changes != s->t->changes)
        change_poke(s, e, false);
}

/* --- one object, in a narrow scope --- */

struct pass {
    struct scope *s;
    struct entry *self;
    struct crowd held;
    struct crowd delayed; /* lost, and in the way of other owners */
    struct crowd queued;  /* those who stay, and are due */
    struct crowd poked;
    bool standing; /* some of what is held is no dead process's */
    bool waiters, young;
    bool looked; /* at `self`, or there is none */
    bool enough; /* nothing will come of those behind */
    bool again;  /* a grant may let its owner's earlier requests pass */
    bool behind; /* one waits before those that are told to try */
};

/* Drops what has run out; takes stock of what is held. */
static int take_stock(struct pass *p, struct entry *first)
{
    struct ring ring = ring_from(p->s->map, first);
    struct entry *e;
    int rc = 0, why;

    while (rc == 0 && (e = ring_next(&ring)) != NULL) {
        if (!state_is_live(shm_load_acquire(&e->state)))
            return ENQ_ECORRUPT;
        why = entry_over(p->s->map, e, scope_clock(p->s));
        if (why != ENQ_OK) {
            if (map_ref(p->s->map, e) == ring.first)
                ring.first = ring.at;
            rc = drop_over(p->s, e, why);
        } else if (entry_is(e, PHASE_HELD)) {
            p->standing |= !entry_is_ending(p->s->map, e);
            crowd_add(entry_is_delayed(p->s->map, e, scope_clock(p->s))
                    ? &p->delayed
                    : &p->held,
                p->s->map, e);
        } else {
            p->waiters = true;
        }
    }
    return ring.damaged ? ENQ_ECORRUPT : rc;
}

static int stays(struct pass *p, struct entry *e, const struct ask *ask,
    bool *yes)
{
    struct verdict v;
    int rc;

    *yes = crowd_blocks(&p->held, p->s->map, ask) ||
        crowd_delays(&p->delayed, p->s->map, ask);
    if (*yes || !crowd_blocks(&p->queued, p->s->map, ask) ||
        (p->standing && crowd_cumulates(&p->held, p->s->map, ask)))
        return 0;
    /* in a long queue to judge each would take the square of its length */
    *yes = !crowd_may_own(&p->held, p->s->map, ask) &&
        (p->s->bypass == NULL || p->s->bypass->asker != ask->ticket);
    if (*yes)
        return 0;
    /* an earlier one conflicts, but may be waiting for this very owner */
    rc = judge(p->s, ask, e, &v);
    /* or a session ended since we took stock: who ends it serves anew */
    *yes = v.over || verdict_blocker(&v) != NULL;
    return rc;
}

/* First those who are due, in order of arrival: granted, or in the way of
   those who come after them. Who is behind a young one is no older. */
static int serve_due(struct pass *p, struct entry *e)
{
    struct ask ask;
    bool stay;
    int rc;

    p->looked |= e == p->self;
    if (!is_due(p->s, e, p->self)) {
        p->young = true;
        p->enough = p->looked;
        return 0;
    }
    if (!entry_ask(p->s->map, e, &ask))
        return ENQ_ECORRUPT;
    rc = stays(p, e, &ask, &stay);
    if (rc != 0)
        return rc;
    if (!stay && entry_is_of_set(e)) {
        poke_set(p->s, e);
        stay = true;
    }
    /* a young one that looks for itself is in nobody's way until it is due */
    if (stay && !scope_is_due(p->s, e))
        return 0;
    crowd_add(stay ? &p->queued : &p->held, p->s->map, e);
    p->standing |= !stay;
    if (stay)
        return 0;
    p->again |= crowd_may_own(&p->queued, p->s->map, &ask);
    return change_grant(p->s, e);
}

/* Then the young, who are told to try for themselves: of several that exclude
   each other, one. No herd. */
static int poke_young(struct pass *p, struct entry *e)
{
    bool first = !p->behind, stay;
    struct ask ask;
    int rc;

    p->behind = true;
    if (is_due(p->s, e, p->self))
        return 0;
    if (!entry_ask(p->s->map, e, &ask))
        return ENQ_ECORRUPT;
    rc = stays(p, e, &ask, &stay);
    if (rc != 0 || stay || crowd_blocks(&p->poked, p->s->map, &ask))
        return rc;
    if (entry_is_of_set(e))
        poke_set(p->s, e);
    else
        change_poke(p->s, e, first);
    crowd_add(&p->poked, p->s->map, e);
    p->enough = mode_is_exclusive(p->s->map->modes, ask.mode);
    return 0;
}

static int each_waiter(struct pass *p, struct entry *first,
    int (*serve_one)(struct pass *p, struct entry *e))
{
    struct ring ring = ring_from(p->s->map, first);
    struct entry *e;
    int rc = 0;

    p->enough = false;
    while (rc == 0 && !p->enough && (e = ring_next(&ring)) != NULL)
        if (entry_is(e, PHASE_WAITING))
            rc = serve_one(p, e);
    return ring.damaged ? ENQ_ECORRUPT : rc;
}

static int serve_all_due(struct pass *p, const struct key *key,
    struct entry *first)
{
    int rc = take_stock(p, first);

    if (rc != 0 || !p->waiters)
        return rc;
    return each_waiter(p, scope_object(p->s, key), serve_due);
}

static int serve_narrow(struct scope *s, const struct key *key,
    struct entry *self)
{
    struct entry *first = scope_object(s, key);
    struct pass p;
    int rc;

    if (likely(first == NULL))
        return 0;
    do {
        p = (struct pass){.s = s, .self = self, .looked = self == NULL};
        rc = serve_all_due(&p, key, first);
        first = scope_object(s, key);
    } while (rc == 0 && p.again);
    if (rc == 0 && p.young)
        rc = each_waiter(&p, first, poke_young);
    return rc;
}

/* --- everything that overlaps, in a wide scope --- */

struct find {
    struct scope *s;
    const struct key *beside; /* pass over those who overlap this; or NULL */
    uint64_t after;           /* ticket */
    struct entry *found;
};

static bool passed_over(const struct find *f, const struct entry *e)
{
    struct key key;

    return f->beside != NULL &&
        (!entry_key(f->s->map, e, &key) || key_overlaps(f->beside, &key));
}

static bool see_next_waiter(void *context, struct entry *e)
{
    struct find *f = context;

    if (entry_is(e, PHASE_WAITING) && e->ticket > f->after &&
        (f->found == NULL || e->ticket < f->found->ticket) &&
        entry_over(f->s->map, e, scope_clock(f->s)) == ENQ_OK &&
        !passed_over(f, e))
        f->found = e;
    return true;
}

static bool see_over(void *context, struct entry *e)
{
    struct find *f = context;

    if (entry_over(f->s->map, e, scope_clock(f->s)) == ENQ_OK)
        return true;
    f->found = e;
    return false;
}

/* *again: some of those who were granted may let others pass who were judged
   before. A generic waiter that is granted is in the way no more of those who
   came later, and they need not overlap `key`. And whom an owner's other
   request stands behind may wait for this owner now, and so be passed (R7); or
   it cumulates (R6). */
static int serve_overlapping(struct scope *s, const struct key *key,
    const struct key *beside, bool *again)
{
    struct find f = {s, beside, 0, NULL};
    struct crowd stay = {0};
    struct verdict v;
    struct ask ask;
    int rc;

    for (;;) {
        f.found = NULL;
        rc = scope_visit(s, key, see_next_waiter, &f);
        if (rc != 0 || f.found == NULL)
            return rc;
        f.after = f.found->ticket;
        if (!entry_ask(s->map, f.found, &ask))
            return ENQ_ECORRUPT;
        rc = judge(s, &ask, f.found, &v);
        if (rc != 0)
            return rc;
        if (verdict_blocker(&v) != NULL || v.over) {
            crowd_add(&stay, s->map, f.found);
            continue;
        }
        if (entry_is_of_set(f.found)) {
            poke_set(s, f.found);
            continue;
        }
        rc = change_grant(s, f.found);
        if (rc != 0)
            return rc;
        *again |= ask.key.generic != 0 ||
            (crowd_may_own(&stay, s->map, &ask) &&
                shm_load(change_waits_of(s, f.found)) > 0);
    }
}

static int serve_wide_waiters(struct scope *s, const struct key *key,
    const struct key *beside)
{
    struct key all = *key;
    bool again = false;
    int rc = serve_overlapping(s, key, beside, &again);

    all.generic = (uint16_t)((1u << key->fields) - 1);
    while (rc == 0 && again) {
        again = false;
        rc = serve_overlapping(s, &all, beside, &again);
    }
    return rc;
}

/* Drops one entry that has run out, and serves those who waited for it: not
   all of them need overlap `key`. */
static int drop_and_serve(struct scope *s, struct entry *e)
{
    char bytes[KEY_BYTES_MAX];
    struct key key;
    int rc;

    if (!state_is_live(shm_load_acquire(&e->state)) ||
        !entry_key(s->map, e, &key) || key_bytes(&key) > sizeof(bytes))
        return ENQ_ECORRUPT;
    memcpy(bytes, key.bytes, key_bytes(&key));
    key.bytes = bytes;
    rc = drop_over(s, e, entry_over(s->map, e, scope_clock(s)));
    return rc != 0 ? rc : serve_wide_waiters(s, &key, NULL);
}

static int serve_wide(struct scope *s, const struct key *key)
{
    struct find f = {.s = s};
    int rc;

    do {
        f.found = NULL;
        rc = scope_visit(s, key, see_over, &f);
        if (rc == 0 && f.found != NULL)
            rc = drop_and_serve(s, f.found);
    } while (rc == 0 && f.found != NULL);
    return rc != 0 ? rc : serve_wide_waiters(s, key, NULL);
}

/* A lock that is granted for less than a tick would run out unnoticed by those
   who sleep until theirs. */
static int wake_if_brief(struct scope *s, const struct key *key, int rc)
{
    if (likely(rc != 0 || !s->t->brief))
        return rc;
    s->t->brief = false;
    return scope_wake_waiters(s, key);
}

int serve(struct scope *s, const struct key *key, struct entry *self)
{
    int rc = s->wide ? serve_wide(s, key) : serve_narrow(s, key, self);

    return wake_if_brief(s, key, rc);
}

int serve_looking(struct scope *s, const struct key *key, struct entry *self)
{
    int rc;

    s->looks = true;
    s->changes = s->t->changes;
    rc = serve(s, key, self);
    s->looks = false;
    return rc;
}

int serve_beside(struct scope *s, const struct key *winner)
{
    struct key all = *winner;

    all.generic = (uint16_t)((1u << winner->fields) - 1);
    return wake_if_brief(s, &all, serve_wide_waiters(s, &all, winner));
}
