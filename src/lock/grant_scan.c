/*
 * grant_scan.c - lock: the waiters that can go are granted (see grant_scan.h).
 */
#include "lock/grant_scan.h"

#include <string.h>

/* `changes` tells a lock set, whose members are judged one after the other,
   that verdicts from before this are of another state (wait/set.c). */
static int drop_over(struct scope *s, struct entry *e, int why)
{
    enq_assert(scope_is_entered(s));
    s->t->changes++;
    if (why == ENQ_EXPIRED)
        thread_count(s->t, COUNT_EXPIRIES);
    return transition_drop(s, e, why == ENQ_EXPIRED ? GONE_EXPIRED : GONE_DIED);
}

/* Has it waited for so long that it is handed the lock? */
static bool is_due(struct scope *s, const struct entry *e, struct entry *self)
{
    enq_assert(scope_is_entered(s));
    return e == self || s->wide || scope_is_due(s, e);
}

/* A set takes all of its keys, or none: no scan of one key can grant it. It is
   woken to look at all of them under all latches (wait/set_wait.c). Not by a
   look that changed nothing: see grant_scan_looking(). */
static void retry_set(struct scope *s, struct entry *e)
{
    enq_assert(scope_is_entered(s));
    if ((s->marks & SCOPE_LOOKS) == 0 || s->changes != s->t->changes)
        transition_retry(s, e, false);
}

/* --- one object, in a narrow scope --- */

/* What one pass over a ring knows. Each waiter is checked against summaries and
   not against every other entry: a queue of a thousand costs a thousand checks,
   not a million. Private, and true as long as the latch is held. */
struct pass {
    struct scope *s;
    struct entry *self;
    struct summary held;
    struct summary delayed; /* lost, and in the way of other owners */
    struct summary queued;  /* the waiters that stay, and are due */
    struct summary told;
    bool standing; /* some of what is held is no dead process's */
    bool closed;   /* it leaves no room for any request */
    bool owners;   /* an owner of it waits: R6 and R7 may let that one pass */
    bool young;
    bool looked; /* at `self`, or there is none */
    bool enough; /* nothing will come of the waiters behind */
    bool granted;
    bool again;  /* somebody may pass who was judged before */
    bool judged; /* who is due; of whoever dies now, a reaper makes way */
    bool behind; /* a waiter stands before those that are told to try */
    bool stays;  /* one does, before this one */
    const struct entry *left; /* the one before this one has: it was granted */
};

/* Does a lock of this mode, held or in the way, leave room for nobody? */
static bool excludes_all(struct pass *p, const struct entry *e, unsigned mode,
    uint32_t besides)
{
    const struct mode_table *modes = p->s->map->modes;

    enq_assert(scope_is_entered(p->s));
    return mode_excludes_all(modes, mode) ||
        (mode_is_exclusive(modes, mode) &&
            !owners_wait(p->s->map, entry_owner_hash(p->s->map, e), besides));
}

static bool owner_waits(struct pass *p, const struct entry *e)
{
    return owners_wait(p->s->map, entry_owner_hash(p->s->map, e), 0);
}

static void take_stock_of_held(struct pass *p, struct entry *e)
{
    unsigned mode = STATE_MODE(shm_load(&e->state));
    bool delayed = entry_is_delayed(p->s->map, e, scope_clock(p->s));

    enq_assert(!p->s->wide && scope_is_entered(p->s));
    p->standing |= !entry_is_ending(p->s->map, e);
    p->closed = p->closed || (!delayed && excludes_all(p, e, mode, 0));
    p->owners = p->owners || owner_waits(p, e);
    summary_add(delayed ? &p->delayed : &p->held, p->s->map, e);
}

/* The ring is changed as it is walked: ring_next() has read the next link
   already, and where the first entry goes the walk's end moves on with it.
   Private copies of a link are safe here, as nobody else changes this ring: the
   bucket's latch is held. */
static int drop_from_ring(struct scope *s, struct ring *ring, struct entry *e,
    int why)
{
    if (map_ref(s->map, e) == ring->first)
        ring->first = ring->at;
    return drop_over(s, e, why);
}

/* Of what is held: drops what has run out, takes stock of the rest. */
static int take_stock(struct pass *p, struct entry *first)
{
    struct ring ring = ring_from(p->s->map, first);
    struct entry *e;
    int rc = 0, why;

    enq_assert(!p->s->wide && scope_is_entered(p->s));
    while (rc == 0 && (e = ring_next(&ring)) != NULL &&
        !entry_is(e, PHASE_WAITING)) {
        if (!state_is_live(shm_load_acquire(&e->state)))
            return ENQ_ECORRUPT;
        why = entry_over(p->s->map, e, scope_clock(p->s));
        if (why != ENQ_OK)
            rc = drop_from_ring(p->s, &ring, e, why);
        else
            take_stock_of_held(p, e);
    }
    return ring.damaged ? ENQ_ECORRUPT : rc;
}

/* R8 for one waiter, in the order of what it costs. Does what is held, or
   delayed, conflict: then it stays. Does no earlier waiter that stays conflict:
   then it goes. If one does, it may be passed for two reasons only, of which R6
   is seen in the summary: all that is held cumulates with the request, and some
   of it is there to stay. For R7 the earlier waiters must be looked at one by
   one (conflict_check()), and that pays only if the owner has something here
   that they may wait for, or a lock set was found to wait for it elsewhere. */
static int stays(struct pass *p, struct entry *e, const struct ask *ask,
    bool *yes)
{
    struct verdict v;
    int rc;

    enq_assert(!p->s->wide && scope_is_entered(p->s));
    *yes = summary_blocks(&p->held, p->s->map, ask) ||
        summary_delays(&p->delayed, p->s->map, ask);
    if (*yes || !summary_blocks(&p->queued, p->s->map, ask) ||
        (p->standing && summary_cumulates(&p->held, p->s->map, ask)))
        return 0;
    /* in a long queue to check each would take the square of its length */
    *yes = !summary_may_own(&p->held, p->s->map, ask) &&
        (p->s->bypass == NULL || p->s->bypass->asker != ask->ticket);
    if (*yes)
        return 0;
    /* an earlier one conflicts, but may be waiting for this very owner */
    rc = conflict_check(p->s, ask, e, &v);
    p->again |= v.over; /* a session ended since this round began */
    *yes = v.over || verdict_blocker(&v) != NULL;
    return rc;
}

/* First the waiters that are due, in order of arrival: granted, or in the way
   of those after them. A waiter behind a young one is no older: window_ns() lets
   no window end before that of the waiter ahead, so that the walk may stop. */
static int grant_due(struct pass *p, struct entry *e)
{
    struct ask ask;
    bool stay;
    int rc;

    enq_assert(!p->s->wide && scope_is_entered(p->s));
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
        retry_set(p->s, e);
        stay = true;
    }
    /* a young one that looks for itself is in nobody's way until it is due */
    if (stay && !scope_is_due(p->s, e))
        return 0;
    summary_add(stay ? &p->queued : &p->held, p->s->map, e);
    if (stay) {
        p->enough = !p->owners && p->s->bypass == NULL &&
            excludes_all(p, e, ask.mode, 1);
        return 0;
    }
    p->standing = p->granted = true;
    p->again |= summary_may_own(&p->queued, p->s->map, &ask);
    rc = transition_grant(p->s, e);
    p->enough = excludes_all(p, e, ask.mode, 0);
    p->owners = p->owners || owner_waits(p, e);
    return rc;
}

/* Then the young, which are told to try for themselves: of several that exclude
   each other, one. No herd. */
static int retry_within(struct pass *p, struct entry *e)
{
    bool first = !p->behind, stay;
    struct ask ask;
    int rc;

    enq_assert(!p->s->wide && scope_is_entered(p->s));
    p->behind = true;
    if (is_due(p->s, e, p->self))
        return 0;
    if (!entry_ask(p->s->map, e, &ask))
        return ENQ_ECORRUPT;
    rc = stays(p, e, &ask, &stay);
    if (rc != 0 || stay || summary_blocks(&p->told, p->s->map, &ask))
        return rc;
    if (entry_is_of_set(e))
        retry_set(p->s, e);
    else
        transition_retry(p->s, e, first);
    summary_add(&p->told, p->s->map, e);
    p->enough = mode_is_exclusive(p->s->map->modes, ask.mode);
    return 0;
}

/* The one before it has left the queue, if any has. */
static void tell_next(struct pass *p, struct entry *e)
{
    if (p->left != NULL)
        transition_tell(p->s, e, p->stays ? NULL : p->left);
}

/* One waiter: dropped if its session is over, else `grant_one`. The first that
   stays behind one that is granted is told: not each that is granted with
   others, of the one before. */
static int see_waiter(struct pass *p, struct ring *ring, struct entry *e,
    int (*grant_one)(struct pass *p, struct entry *e))
{
    int why = entry_over(p->s->map, e, scope_clock(p->s)), rc;
    bool waits;

    enq_assert(!p->s->wide && scope_is_entered(p->s));
    if (why != ENQ_OK)
        return p->judged ? 0 : drop_from_ring(p->s, ring, e, why);
    rc = grant_one(p, e);
    waits = entry_is(e, PHASE_WAITING);
    if (waits)
        tell_next(p, e);
    p->left = waits ? NULL : e;
    p->stays |= waits;
    return rc;
}

static int each_waiter(struct pass *p, struct entry *first,
    int (*grant_one)(struct pass *p, struct entry *e))
{
    struct ring ring = {.map = p->s->map};
    struct entry *e = first == NULL ? NULL : queue_begin(&ring, first);
    int rc = 0;

    enq_assert(!p->s->wide && scope_is_entered(p->s));
    p->enough = p->stays = false;
    p->left = NULL;
    for (; rc == 0 && e != NULL && !p->enough; e = queue_next(&ring))
        rc = see_waiter(p, &ring, e, grant_one);
    if (e != NULL)
        tell_next(p, e);
    return ring.damaged ? ENQ_ECORRUPT : rc;
}

/* The dead at the end of the queue: whoever comes next queues behind the last
   that lives (weigh_queue() in conflict.c). Those in the middle are dropped when
   the scan comes to them, or by a reaper. */
static int drop_last(struct scope *s, const struct key *key)
{
    struct entry *first, *last;
    int rc = 0, why;

    enq_assert(!s->wide && scope_is_entered(s));
    while (rc == 0 && (first = scope_object(s, key)) != NULL &&
        (last = queue_last(s->map, first)) != NULL &&
        (why = entry_over(s->map, last, scope_clock(s))) != ENQ_OK)
        rc = drop_over(s, last, why);
    return rc;
}

/* The one that looks, if its session is being closed: it may have been told to
   try, so that the scan goes on for those behind it. It stands in no ring then,
   and no entry of this one becomes it as long as the latch is held: the scan
   goes to the end of the queue, as it never meets it. */
static int drop_self(struct scope *s, struct entry *self)
{
    int why = self == NULL ? ENQ_OK : entry_over(s->map, self, scope_clock(s));

    enq_assert(!s->wide && scope_is_entered(s));
    return why == ENQ_OK ? 0 : drop_over(s, self, why);
}

static int grant_all_due(struct pass *p, const struct key *key)
{
    int rc = drop_last(p->s, key);

    enq_assert(!p->s->wide && scope_is_entered(p->s));
    if (rc == 0)
        rc = take_stock(p, scope_object(p->s, key));
    if (rc != 0 || p->closed)
        return rc;
    return each_waiter(p, scope_object(p->s, key), grant_due);
}

/* lmgr's ProcLockWakeup. The first entry is looked up anew each time, as it may
   have been dropped, or the object with it. Another round comes where a grant may
   let its owner's earlier requests pass; or where a waiter stayed only because
   another had just died, of whom no reaper may make way any more, as this very
   scan drops him. Each has granted or drops at least one, so that they end. The
   young are told last, when all is granted that can be. */
static int grant_narrow(struct scope *s, const struct key *key,
    struct entry *self)
{
    bool granted = false;
    struct pass p;
    int rc;

    enq_assert(!s->wide && scope_is_entered(s));
    if (likely(scope_object(s, key) == NULL))
        return 0;
    rc = drop_self(s, self);
    if (rc != 0)
        return rc;
    do {
        p = (struct pass){.s = s, .self = self, .looked = self == NULL};
        rc = grant_all_due(&p, key);
        granted |= p.granted;
        p.judged = true;
        if (rc == 0 && p.young && !p.again)
            rc = each_waiter(&p, scope_object(s, key), retry_within);
    } while (rc == 0 && p.again);
    if (rc == 0 && granted)
        rc = transition_note_all(s, key);
    s->marks &= (uint8_t)~SCOPE_MOVED;
    return rc;
}

/* --- everything that overlaps, in a wide scope --- */

/* A visit must not change the rings that it walks, and the order of arrival runs
   across them: so waiters are noted first, those of the lowest tickets, and
   judged afterwards. They stand still meanwhile, as the gate is held. What does
   not fit on the stack is for another visit: no memory is asked for here. */
struct noted {
    struct scope *s;
    const struct key *beside; /* pass over what overlaps this; or NULL */
    uint64_t after;           /* ticket */
    unsigned n;
    struct {
        uint64_t ticket;
        struct entry *e;
    } of[NOTED_MOST]; /* by ticket; one of each */
};

static bool passed_over(const struct noted *x, const struct entry *e)
{
    struct key key;

    return x->beside != NULL &&
        (!entry_key(x->s->map, e, &key) || key_overlaps(x->beside, &key));
}

/* The members of a set have one ticket: the first that is met stands for all. */
static void note(struct noted *x, struct entry *e)
{
    uint64_t ticket = e->ticket;
    unsigned at = x->n;

    while (at > 0 && x->of[at - 1].ticket > ticket)
        at--;
    if (at == NOTED_MOST || (at > 0 && x->of[at - 1].ticket == ticket))
        return;
    x->n += x->n < NOTED_MOST;
    memmove(&x->of[at + 1], &x->of[at], (x->n - at - 1) * sizeof(*x->of));
    x->of[at].ticket = ticket;
    x->of[at].e = e;
}

static bool see_waiter_of_many(void *context, struct entry *e)
{
    struct noted *x = context;

    enq_assert(scope_is_entered(x->s));
    if (entry_is(e, PHASE_WAITING) && e->ticket > x->after &&
        entry_over(x->s->map, e, scope_clock(x->s)) == ENQ_OK &&
        !passed_over(x, e))
        note(x, e);
    return true;
}

struct find {
    struct scope *s;
    struct entry *found;
};

static bool see_over(void *context, struct entry *e)
{
    struct find *f = context;

    enq_assert(f->s->wide && f->found == NULL);
    if (entry_over(f->s->map, e, scope_clock(f->s)) == ENQ_OK)
        return true;
    f->found = e;
    return false;
}

/* What the waiters so far tell of the next. */
struct before {
    struct summary stay;
    enq_handle usual; /* a lock that was in the way of the last, or 0 */
    bool again;       /* see grant_overlapping() */
};

static int stays_wide(struct scope *s, struct entry *e, const struct ask *ask,
    struct before *b, bool *yes)
{
    struct verdict v;
    int rc;

    enq_assert(s->wide && scope_is_entered(s));
    *yes = conflict_is_known(s, ask, e, b->usual);
    if (*yes)
        return 0;
    rc = conflict_check(s, ask, e, &v);
    *yes = v.over || verdict_blocker(&v) != NULL;
    b->usual = conflict_note(s, &v, e);
    return rc;
}

/* Granted, told to retry, or one of those that stay. */
static int judge_wide(struct scope *s, struct entry *e, struct before *b)
{
    struct ask ask;
    bool stays;
    int rc;

    enq_assert(s->wide && scope_is_entered(s));
    if (!entry_ask(s->map, e, &ask))
        return ENQ_ECORRUPT;
    rc = stays_wide(s, e, &ask, b, &stays);
    if (rc != 0)
        return rc;
    if (stays) {
        summary_add(&b->stay, s->map, e);
        return 0;
    }
    if (entry_is_of_set(e)) {
        retry_set(s, e);
        return 0;
    }
    rc = transition_grant(s, e);
    if (rc == 0)
        rc = transition_note_waiters(s, e);
    b->again |= rc == 0 &&
        (ask.key.generic != 0 ||
            (summary_may_own(&b->stay, s->map, &ask) &&
                owners_wait(s->map, entry_owner_hash(s->map, e), 0)));
    return rc;
}

/* By ticket: in the order of arrival. `again`: some grants may let waiters pass
   that were checked before. A generic waiter that is granted is in the way no
   more of those that came later, and they need not overlap `key`. And the waiter
   ahead of an owner's other request may wait for this owner now, and so be
   passed (R7); or that request cumulates (R6). */
static int grant_overlapping(struct scope *s, const struct key *key,
    const struct key *beside, bool *again)
{
    struct before b = {.again = false};
    struct noted x;
    int rc = 0;

    enq_assert(scope_is_entered(s));
    x.s = s;
    x.beside = beside;
    x.after = 0;
    do {
        x.n = 0;
        rc = scope_visit(s, key, see_waiter_of_many, &x);
        for (unsigned i = 0; rc == 0 && i < x.n; i++)
            rc = judge_wide(s, x.of[i].e, &b);
        x.after = x.n < NOTED_MOST ? 0 : x.of[x.n - 1].ticket;
    } while (rc == 0 && x.after != 0);
    *again |= b.again;
    return rc;
}

/* Once for the key; then, for as long as a grant may have made way, for the
   whole name: the same number of fields, all of them generic, overlaps all that
   any of these grants could. Each round grants something, or is the last. */
static int grant_wide_waiters(struct scope *s, const struct key *key,
    const struct key *beside)
{
    const struct key all = key_any(key);
    bool again = false;
    int rc = grant_overlapping(s, key, beside, &again);

    enq_assert(scope_is_entered(s));
    while (rc == 0 && again) {
        again = false;
        rc = grant_overlapping(s, &all, beside, &again);
    }
    return rc;
}

/* Drops one entry that has run out, and grants what waited for it: not all of
   that need overlap `key`. Its key is copied first, as the entry is free, and
   its bytes may be another's, as soon as it is out. Of a generic one it is known
   that nobody does, and so each bucket of its name need not be looked at. */
static int drop_and_scan(struct scope *s, struct entry *e)
{
    char bytes[KEY_BYTES_MAX];
    bool alone = nobody_waits(s, e);
    struct key key;
    int rc;

    enq_assert(s->wide && scope_is_entered(s));
    if (!state_is_live(shm_load_acquire(&e->state)) ||
        !entry_key(s->map, e, &key) || key_bytes(&key) > sizeof(bytes))
        return ENQ_ECORRUPT;
    memcpy(bytes, key.bytes, key_bytes(&key));
    key.bytes = bytes;
    rc = drop_over(s, e, entry_over(s->map, e, scope_clock(s)));
    return rc != 0 || alone ? rc : grant_wide_waiters(s, &key, NULL);
}

/* What has run out is looked for anew after each drop, as dropping changes the
   rings that a visit walks. One that is dropped may be generic, and have kept
   out waiters that do not overlap `key`: so each has a scan of its own key. */
static int grant_wide(struct scope *s, const struct key *key)
{
    struct find f = {.s = s};
    int rc;

    enq_assert(s->wide && scope_is_entered(s));
    do {
        f.found = NULL;
        rc = scope_visit(s, key, see_over, &f);
        if (rc == 0 && f.found != NULL)
            rc = drop_and_scan(s, f.found);
    } while (rc == 0 && f.found != NULL);
    return rc != 0 ? rc : grant_wide_waiters(s, key, NULL);
}

/* A lock that is granted for less than a tick would run out unnoticed by the
   waiters that sleep until theirs. */
static int wake_if_brief(struct scope *s, const struct key *key, int rc)
{
    enq_assert(scope_is_entered(s));
    if (likely(rc != 0 || !s->t->brief))
        return rc;
    s->t->brief = false;
    return scope_wake_waiters(s, key);
}

int grant_scan(struct scope *s, const struct key *key, struct entry *self)
{
    int rc = s->wide ? grant_wide(s, key) : grant_narrow(s, key, self);

    enq_assert(scope_is_entered(s));
    return wake_if_brief(s, key, rc);
}

int grant_scan_looking(struct scope *s, const struct key *key,
    struct entry *self)
{
    int rc;

    enq_assert((s->marks & SCOPE_LOOKS) == 0 && scope_is_entered(s));
    s->marks |= SCOPE_LOOKS;
    s->changes = s->t->changes;
    rc = grant_scan(s, key, self);
    s->marks &= (uint8_t)~SCOPE_LOOKS;
    return rc;
}

int grant_scan_beside(struct scope *s, const struct key *winner)
{
    const struct key all = key_any(winner);

    enq_assert(scope_is_entered(s));
    return wake_if_brief(s, &all, grant_wide_waiters(s, &all, winner));
}
