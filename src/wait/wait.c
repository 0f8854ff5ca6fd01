/*
 * wait.c - wait: one request that stands in the queue of its key (see wait.h).
 */
#include "wait/wait.h"

#include <string.h>

#include "lock/bypass.h"
#include "lock/copy_out.h"
#include "lock/grant_scan.h"
#include "lock/request.h"

/* A copy of what its entry says, which may be another's before we are done. */
struct started_ask {
    struct ask ask;
    char key[KEY_BYTES_MAX], owner[ENQ_OWNER_BYTES];
};

/* Private but for the entry, which is the request's as long as
   place_is_mine(): looked at under the latches, or by state and generation
   alone. */
struct waiting {
    struct waiter waiter;
    struct scope scope;
    const struct ask *ask;
    struct started_ask *copy; /* where it was started: of what it asks for */
    struct place *place;
    mono_t deadline;
    struct enq_blocker *blocker;
    struct bypass bypass;
};

static struct waiting *waiting_of(struct waiter *w)
{
    return caa_container_of(w, struct waiting, waiter);
}

/* The ticket tells the scope for which of the waiters that it judges the bypass
   was learned. */
static void begin(struct waiting *w, const struct waiter_kind *kind,
    struct session *s, struct thread *t)
{
    w->waiter.kind = kind;
    w->waiter.s = s;
    w->waiter.t = t;
    w->waiter.places = places_of_one(w->place);
    w->waiter.bypass = &w->bypass;
    scope_begin(&w->scope, s, t);
    bypass_begin(&w->bypass, w->place->ticket);
    w->scope.bypass = &w->bypass;
}

/* --- looking --- */

/* GONE, and what of it? Cancelled, or broken before it was ever granted (no
   token): the entry is given back (R13). Else it was granted, and lost again
   before we looked: the grant has happened, and its handle says the rest (R16).
   By a swap, as the entry is linked nowhere and no latch guards it any more;
   where another was quicker, it is free already. */
static int collect(struct entry *e, uint64_t state)
{
    unsigned gone = STATE_GONE(state);

    if (gone != GONE_CANCELLED &&
        (gone != GONE_FORCED || shm_load(&e->token) != 0))
        return ENQ_OK;
    shm_cas(&e->state, &state,
        STATE(STATE_GENERATION(state) + 1, PHASE_FREE, 0, 0));
    return ENQ_CANCELLED;
}

/* Out of the queue, by our own decision. The blocker first, as it is at the
   moment of the answer (R12); then the entry; then the scan, as those behind
   may have waited for this request alone (R8, R13). In one scope: a grant comes
   before all of it, and then we do not get here, or finds that we have left. */
static int give_up(struct scope *s, const struct ask *ask, struct entry *e,
    struct enq_blocker *blocker)
{
    struct verdict v;
    int rc = conflict_check(s, ask, e, &v);

    enq_assert(scope_is_entered(s));
    if (rc == 0 && blocker != NULL)
        copy_blocker(s, verdict_blocker(&v), v.queue, blocker);
    if (rc == 0)
        rc = transition_drop(s, e, GONE_NOT);
    if (rc == 0)
        rc = grant_scan(s, &ask->key, NULL);
    return rc == 0 ? ENQ_TIMEDOUT : rc;
}

/* The scan first, in our own name: it drops what has run out, grants those
   ahead, and us whatever our age (grant_scan.h). Only then is the deadline
   looked at, so that if both meet the grant wins (R10). The entry is looked at
   again after each step, since the scan may have dropped it: when our own
   session ends. */
static int look_inside(struct waiting *w)
{
    struct scope *s = &w->scope;
    struct place *p = w->place;
    struct entry *e = p->e;
    uint64_t state;
    int rc = 0;

    enq_assert(scope_is_entered(s));
    if (!place_is_mine(p))
        return ENQ_CANCELLED;
    if (entry_is(e, PHASE_WAITING))
        rc = grant_scan_looking(s, &w->ask->key, e);
    if (rc != 0)
        return rc;
    /* one load: what is gone is in no queue, and may be another's by the next */
    state = shm_load_acquire(&e->state);
    p->token = shm_load(&e->token);
    if (STATE_GENERATION(state) != p->generation)
        return ENQ_CANCELLED;
    if (STATE_PHASE(state) == PHASE_HELD)
        return ENQ_OK;
    if (STATE_PHASE(state) == PHASE_GONE)
        return collect(e, state);
    if (mono_reached(w->deadline, scope_clock(s)))
        return give_up(s, w->ask, e, w->blocker);
    shm_store(&e->cpu, sys_cpu());
    return ENQ_PENDING;
}

/* And what to sleep on, if it has to wait on. All in one scope: a grant between
   the look and the note of our state would be slept through. The note SOONER is
   cleared before blockers_own() reads the state: set after that, it makes the
   state another than the one we are about to sleep on (wake_waiter()). */
static int look_around(struct waiting *w)
{
    struct entry *e = w->place->e;
    struct blockers *b = &w->waiter.b;
    int rc = look_inside(w), fault;

    enq_assert(scope_is_entered(&w->scope));
    if (rc != ENQ_PENDING)
        return rc;
    if (shm_load(&e->state) & STATE_SOONER)
        shm_and(&e->state, ~STATE_SOONER); /* it sees now when */
    blockers_begin(b, w->deadline, false);
    blockers_own(b, e);
    fault = blockers_add(b, &w->scope, w->ask, e);
    blockers_end(b);
    w->waiter.kin = b->ahead != NULL && !w->scope.wide &&
        shm_load(&b->ahead->session) == e->session;
    return fault != 0 ? fault : rc;
}

/* --- with a thread --- */

/* The scope is that of what was asked for: the entry might be another's by
   now. */
static int look(struct waiter *waiter)
{
    struct waiting *w = waiting_of(waiter);
    int rc = scope_enter(&w->scope, &w->ask->key);

    if (rc != 0)
        return rc;
    rc = look_around(w);
    scope_leave(&w->scope);
    return rc;
}

/* Nobody will ever wake us: out of the queue. The search held no latch at the
   end, so that the grant may have come meanwhile: it wins, and there is no
   cycle any more. */
static int leave_cycle(struct waiter *waiter)
{
    struct waiting *w = waiting_of(waiter);
    struct place *p = w->place;
    int rc = scope_enter(&w->scope, &w->ask->key);

    if (rc != 0)
        return rc;
    if (place_is_mine(p) && entry_is(p->e, PHASE_WAITING)) {
        rc = give_up(&w->scope, w->ask, p->e, w->blocker);
        rc = rc == ENQ_TIMEDOUT ? ENQ_DEADLOCK : rc;
    } else {
        rc = ENQ_PENDING; /* granted, or cancelled, meanwhile */
    }
    scope_leave(&w->scope);
    return rc;
}

int wait_for_grant(struct session *s, struct thread *t, const struct ask *ask,
    struct place *place, mono_t deadline, struct enq_blocker *blocker)
{
    static const struct waiter_kind kind = {look, leave_cycle};
    struct ask waiting = *ask;
    struct waiting w = {.ask = &waiting,
        .place = place,
        .deadline = deadline,
        .blocker = blocker};

    waiting.ticket = place->ticket;
    begin(&w, &kind, s, t);
    return waiter_wait(&w.waiter, ask->cycles);
}

/* --- started, without one --- */

static int copy_ask(const struct map *map, const struct place *p,
    struct started_ask *c)
{
    if (!entry_ask(map, p->e, &c->ask) ||
        key_bytes(&c->ask.key) > sizeof(c->key))
        return ENQ_ECORRUPT;
    memcpy(c->key, c->ask.key.bytes, key_bytes(&c->ask.key));
    memcpy(c->owner, c->ask.owner, c->ask.owner_bytes);
    c->ask.key.bytes = c->key;
    c->ask.owner = c->owner;
    c->ask.ticket = p->ticket;
    return 0;
}

/* By the helper. The scope is entered by what the entry says, which may be in
   another use by then; the generation is compared again inside
   (scope_enter_entry()). There the request is read back from the entry: the
   texts that it was made with were the caller's, and the call has returned. */
static int look_started(struct waiter *waiter)
{
    struct waiting *w = waiting_of(waiter);
    int rc = ENQ_CANCELLED;

    if (place_is_mine(w->place))
        rc = scope_enter_entry(&w->scope, w->place->e);
    if (rc != 0)
        return rc;
    if (!place_is_mine(w->place))
        rc = ENQ_CANCELLED;
    else
        rc = copy_ask(w->scope.map, w->place, w->copy);
    if (rc == 0)
        rc = look_around(w);
    scope_leave(&w->scope);
    return rc;
}

int wait_look_started(struct session *s, struct thread *t, struct place *place,
    mono_t deadline, struct enq_blocker *blocker, struct wait_plan *plan)
{
    static const struct waiter_kind kind = {look_started, NULL};
    struct started_ask copy;
    struct waiting w = {.ask = &copy.ask,
        .copy = &copy,
        .place = place,
        .deadline = deadline,
        .blocker = blocker};

    begin(&w, &kind, s, t);
    return waiter_look(&w.waiter, plan);
}
