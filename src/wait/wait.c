/*
 * wait.c - wait: standing in the queue.
 *
 * A waiter sleeps on its own entry's state and on the liveness words of those
 * it waits for, at once (futex_waitv), until its own deadline, the earliest
 * expiry of a blocker, or a tick. Whatever wakes it, it looks at the table
 * itself: nobody else need be alive for the queue to move on.
 *
 * Why no wake-up is lost (P3): the look notes state and words under the
 * latches, and what happens after that changes one of them. The sender of a
 * wake-up stores the state first, and then looks whether the waiter sleeps; the
 * waiter says that it sleeps, and then compares the state (sleep_on()). A death
 * marks a word, which the kernel compares. What is left is a sender that dies
 * between its store and its wake: its liveness word wakes the waiter if it was
 * in the way, else the tick.
 *
 * A waiter that dies leaves its entry in the queue. Its session is dead then,
 * so that the entry is in nobody's way, and the next grant scan drops it (R21).
 */
#include "wait/wait.h"

#include <string.h>
#include <urcu/arch.h>

#include "base/point.h"
#include "lock/bypass.h"
#include "lock/copy_out.h"
#include "lock/grant_scan.h"
#include "lock/request.h"
#include "sync/tick.h"
#include "wait/suspicion.h"

/* A request that waits, as its thread knows it. Private but for the entry,
   which is the waiter's as long as still_mine(): looked at under the latches,
   or by state and generation alone. */
struct waiting {
    struct scope scope;
    const struct ask *ask;
    struct place *place;
    mono_t deadline;
    struct enq_blocker *blocker;
    struct bypass bypass;
    struct blockers b;
    bool kin;        /* the waiter ahead is of the same session, and narrow */
    unsigned futile; /* looks behind a lock set: see blockers_pause() */
};

/* --- spinning --- */

#define SPIN_NS 20000 /* a hand-over to a sleeper costs about as much */
#define CREDIT_MAX 8
#define CREDIT_TRY (-16)

/* Spinning pays when the hold is short and another CPU is at it: only the
   head of the queue spins, and not on the CPU of the holder. Where it did not
   pay lately, it is tried again only now and then. `cpu` is a hint, loaded
   without order (entry_fill() and look_inside() store it). */
static bool may_spin(const struct blockers *b, struct thread *t)
{
    enq_assert(b->own == 1 && t->n_held == 0);
    if (b->before != NULL || sys_cpus() < 2 ||
        (b->holder != NULL && shm_load(&b->holder->cpu) == sys_cpu()))
        return false;
    if (t->spin_credit < 0)
        t->spin_credit--;
    if (t->spin_credit <= CREDIT_TRY)
        t->spin_credit = 0;
    return t->spin_credit >= 0;
}

/* 32 loads for each look at the clock. Without order: the look that follows has
   the latches. */
static bool has_changed(const struct sys_watch *watch)
{
    for (int i = 0; i < 32; i++) {
        if (shm_load(watch->word) != watch->value)
            return true;
        caa_cpu_relax();
    }
    return false;
}

/* True: the state has changed, and the look may grant. A spin in vain takes
   back more credit than one that paid gives: it cost a CPU 20 us. */
static bool spin(const struct blockers *b, struct thread *t)
{
    mono_t end = mono_add_ns(sys.now(), SPIN_NS);

    enq_assert(b->own == 1 && t->n_held == 0);
    while (!has_changed(&b->watch[0])) {
        if (!mono_reached(end, sys.now()))
            continue;
        t->spin_credit = t->spin_credit > 0 ? t->spin_credit - 2 : -1;
        return false;
    }
    if (t->spin_credit < CREDIT_MAX)
        t->spin_credit++;
    return true;
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

/* Once given back, for whatever reason, the entry may be any request's. The
   generation tells, as it grows before the entry is used anew; the acquire is
   the partner of the release that stores the state. */
static bool still_mine(const struct place *p)
{
    uint64_t state = shm_load_acquire(&p->e->state);

    return STATE_GENERATION(state) == p->generation;
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
    if (!still_mine(p))
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
    int rc = look_inside(w), fault;

    enq_assert(scope_is_entered(&w->scope));
    if (rc != ENQ_PENDING)
        return rc;
    if (shm_load(&w->place->e->state) & STATE_SOONER)
        shm_and(&w->place->e->state, ~STATE_SOONER); /* it sees now when */
    blockers_begin(&w->b, w->deadline);
    blockers_own(&w->b, w->place->e);
    fault = blockers_add(&w->b, &w->scope, w->ask, w->place->e);
    blockers_leave_to_ahead(&w->b, w->deadline);
    w->kin = w->b.ahead != NULL && !w->scope.wide &&
        shm_load(&w->b.ahead->session) == w->place->e->session;
    return fault != 0 ? fault : rc;
}

/* Lock sets were seen to wait in the way. True: for us, one of them; we may
   pass it, and look again. */
static bool may_pass_one(struct waiting *w)
{
    uint64_t owner;
    bool news = false;

    enq_assert(w->scope.t->n_held == 0);
    if (likely(w->b.n_sets == 0))
        return false;
    owner = ask_owner_hash(w->scope.map, w->ask);
    for (unsigned i = 0; i < w->b.n_sets; i++)
        news |= bypass_learn(&w->bypass, w->scope.session, w->scope.t,
            w->b.set[i], owner);
    return news;
}

/* Something is known now that was not when we looked. */
static bool look_pays(struct waiting *w)
{
    enq_assert(w->scope.t->n_held == 0);
    return may_pass_one(w) || blockers_prove(&w->b, w->scope.map);
}

/* The scope is that of what was asked for: the entry might be another's by
   now. */
static int look(struct waiting *w)
{
    int rc;

    enq_assert(w->scope.t->n_held == 0);
    w->bypass.n = 0; /* what was learned for an earlier look may be over */
    do {
        rc = scope_enter(&w->scope, &w->ask->key);
        if (rc != 0)
            return rc;
        rc = look_around(w);
        scope_leave(&w->scope);
    } while (rc == ENQ_PENDING && look_pays(w));
    return rc;
}

/* The ticket tells the scope for which of the waiters that it judges the bypass
   was learned. */
static void begin(struct waiting *w, struct session *s, struct thread *t)
{
    scope_begin(&w->scope, s, t);
    bypass_begin(&w->bypass, w->place->ticket);
    w->scope.bypass = &w->bypass;
}

/* --- looking for an async request --- */

/* A request behind another of the same session leaves time and death to that
   one, and what becomes of the holder: its turn to look comes before. Else each
   hand-over would make all those behind look, once for each. Not in a wide
   scope, where those ahead may wait for others than we do. */
static void plan_next(const struct waiting *w, struct wait_plan *plan)
{
    const struct blockers *b = &w->b;

    enq_assert(w->scope.t->n_held == 0);
    plan->again = w->kin ? w->deadline : b->until;
    if (b->behind_set)
        plan->again = mono_min(b->until, blockers_look_again(w->bypass.n > 0));
    plan->ahead = b->ahead;
    plan->ahead_state = b->ahead_state;
    plan->holder = w->kin ? NULL : b->holder;
    plan->holder_state = b->holder_state;
}

/* A copy: the entry may be another's before we are done. */
struct started_ask {
    struct ask ask;
    char key[KEY_BYTES_MAX], owner[ENQ_OWNER_BYTES];
};

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

/* The request is read back from the entry inside the scope: the texts that it
   was made with were the caller's, and the call has returned. */
static int look_started(struct waiting *w, struct started_ask *c)
{
    int rc;

    enq_assert(scope_is_entered(&w->scope));
    if (!still_mine(w->place))
        return ENQ_CANCELLED;
    rc = copy_ask(w->scope.map, w->place, c);
    w->ask = &c->ask;
    return rc == 0 ? look_around(w) : rc;
}

/* By the helper, for a request on which no thread sleeps: the same look, and
   instead of a sleep a plan when to look again. The scope is entered by what
   the entry says, which may be in another use by then; the generation is
   compared again inside (scope_enter_entry()). */
int wait_look_started(struct session *s, struct thread *t, struct place *place,
    mono_t deadline, struct enq_blocker *blocker, struct wait_plan *plan)
{
    struct waiting w = {
        .place = place, .deadline = deadline, .blocker = blocker};
    struct started_ask c;
    int rc;

    enq_assert(t->n_held == 0);
    begin(&w, s, t);
    do {
        rc = still_mine(place) ? scope_enter_entry(&w.scope, place->e)
                               : ENQ_CANCELLED;
        if (rc != 0)
            break;
        rc = look_started(&w, &c);
        scope_leave(&w.scope);
    } while (rc == ENQ_PENDING && look_pays(&w));
    if (rc == ENQ_PENDING)
        plan_next(&w, plan);
    bypass_end(&w.bypass);
    return rc;
}

/* --- sleeping --- */

#define PAUSE_NS (NS_PER_MS / 2)

/*
 * A waiter with several ahead of it has nothing to look for until it is told
 * that the one ahead has left (transition_tell()), but in case that this was
 * lost: because its sender died, which the recovery after that death makes good
 * (rouse()). So its tick is the longer the more are ahead: of a thousand
 * waiters some 130 look in a second, not 25,000. The first two have the usual
 * one: for what else only a look finds, the first; for the first, the second.
 */
#define FAR_TICK_MOST_NS sys_look_every(20 * NS_PER_S)

static uint32_t says(const struct waiting *w, enum asleep how)
{
    return ASLEEP_BY(w->scope.t->ref, how);
}

static uint32_t how_to_sleep(const struct waiting *w)
{
    return says(w, w->b.far ? ASLEEP_BEHIND : ASLEEP_THREAD);
}

/* Of a waiter behind many locks each look sees all of them: some 25 us. */
#define HELD_A_TICK 1000

static int64_t ticks(const struct blockers *b)
{
    if (b->far)
        return b->n_ahead;
    return sys_has_waitv() ? 1 + b->n_held / HELD_A_TICK : 1;
}

static void sleep_to_tick(const struct blockers *b)
{
    int64_t tick_ns = SYS_TICK_NS * ticks(b);

    if (tick_ns == SYS_TICK_NS) {
        sys.wait(b->watch, b->n, b->until);
        return;
    }
    if (tick_ns > FAR_TICK_MOST_NS)
        tick_ns = FAR_TICK_MOST_NS;
    sys.sleep(b->watch, b->n,
        mono_min(b->until, mono_add_ns(sys.now(), tick_ns)));
}

/* Partner of `asleep`: tick_trace(). The entry may be another's by now. */
static bool is_unwoken(const void *waiting)
{
    const struct waiting *w = waiting;
    const struct place *p = w->place;

    return has_changed(&w->b.watch[0]) &&
        shm_load_acquire(&p->e->asleep) == how_to_sleep(w) && still_mine(p) &&
        !blockers_died(&w->b);
}

/* Partner of `asleep`: scope_send_wakes() in scope.c. Either it sees that we
   sleep, or we, or the kernel, see that our state has changed: the swap is a
   full fence between our store of `asleep` and our load of the state, as the
   granter's stands between its store of the state and its load of `asleep`.
   Where the entry is another waiter's already we do not sleep, but look. Should
   it become that before the kernel compares, whose half of the state has no
   generation, we sleep until our tick, or until the other one is woken: both
   are (notify_sleepers()). */
static void sleep_on(struct waiting *w)
{
    const uint32_t looks = says(w, ASLEEP_LOOKING), sleeps = how_to_sleep(w);
    struct blockers *b = &w->b;
    struct entry *e = w->place->e;
    mono_t now = sys.now();

    enq_assert(b->own == 1 && b->watch[0].word == (const uint32_t *)&e->state);
    /* In a damaged table the time to look may be over again and again. */
    if (mono_reached(b->until, now))
        b->until = mono_add_ns(now, PAUSE_NS);
    ENQ_POINT("wait.looked");
    if (entry_stirs(e, looks, sleeps) &&
        shm_load(b->watch[0].word) == b->watch[0].value) {
        sleep_to_tick(b);
        if (sys_slept_out())
            tick_judge(is_unwoken, w, "a waiter");
    }
    entry_stirs(e, sleeps, looks);
    ENQ_POINT("wait.woken");
}

/* As long as the lock is held there is nothing to look for. */
static bool holder_has_moved(const struct blockers *b)
{
    return b->holder != NULL &&
        !state_same(shm_load(&b->holder->state), b->holder_state);
}

/*
 * In a long queue most waiters that wake up by their tick have nothing to look
 * for: nothing that they watch has changed, and the waiter ahead is where it
 * was, which will look for itself. (A thousand waiters would be 25,000 looks a
 * second, of 20 us each, under the latch.) In a wide scope that one may wait
 * for something else, and not notice what runs out that is in our way only.
 */
static bool may_sleep_on(const struct blockers *b, mono_t look_at)
{
    mono_t now = sys.now();

    enq_assert(b->own == 1);
    if (b->ahead == NULL || shm_load(&b->ahead->state) != b->ahead_state ||
        mono_reached(b->until, now) || mono_reached(look_at, now) ||
        (b->leads && holder_has_moved(b)))
        return false;
    for (unsigned i = 0; i < b->n; i++)
        if (shm_load(b->watch[i].word) != b->watch[i].value)
            return false;
    return true;
}

/* Granted, as the state alone says: no need for the latches, that others
   want. Partner of the acquire: set_state() in transition.c, after
   next_token(), so that the token is there. */
static bool has_grant(struct place *p)
{
    uint64_t state = shm_load_acquire(&p->e->state);

    if (STATE_PHASE(state) != PHASE_HELD ||
        STATE_GENERATION(state) != p->generation)
        return false;
    p->token = shm_load(&p->e->token);
    /* the token is this grant's if the entry is still in its use */
    return STATE_GENERATION(shm_load_acquire(&p->e->state)) == p->generation;
}

/* --- waiting --- */

/* Nobody will ever wake us: out of the queue. The search held no latch at the
   end, so that the grant may have come meanwhile: it wins, and there is no
   cycle any more. */
static int leave_cycle(struct waiting *w)
{
    struct place *p = w->place;
    int rc = scope_enter(&w->scope, &w->ask->key);

    if (rc != 0)
        return rc;
    if (still_mine(p) && entry_is(p->e, PHASE_WAITING)) {
        rc = give_up(&w->scope, w->ask, p->e, w->blocker);
        rc = rc == ENQ_TIMEDOUT ? ENQ_DEADLOCK : rc;
    } else {
        rc = ENQ_PENDING; /* granted, or cancelled, meanwhile */
    }
    scope_leave(&w->scope);
    return rc;
}

/* Until there is something to look at. A waiter behind a lock set has its own
   pace (blockers_pause()): `look_at` ends what may_sleep_on() would prolong. */
static void rest(struct waiting *w)
{
    mono_t look_at = MONO_NEVER;

    enq_assert(w->scope.t->n_held == 0);
    if (w->b.behind_set)
        look_at = mono_add_ns(sys.now(),
            w->bypass.n > 0 ? 0 : blockers_pause(&w->futile));
    do
        sleep_on(w);
    while (may_sleep_on(&w->b, look_at));
    blockers_pass_on_deaths(&w->b, w->scope.session);
}

/* Spinning was in vain, or is not worth it. ENQ_PENDING: look again. */
static int look_for_cycles_and_rest(struct waiting *w, struct suspicion *x)
{
    enq_handle handle = place_handle(w->scope.map, w->place);
    int rc;

    enq_assert(w->scope.t->n_held == 0);
    suspicion_told(x, w->place);
    rc = suspicion_look(x, w->scope.session, w->scope.t, handle, w->b.n_ahead,
        &w->b.until);
    if (rc == ENQ_DEADLOCK)
        return leave_cycle(w);
    if (rc == ENQ_PENDING)
        rest(w);
    return rc;
}

/* Whatever wakes the waiter, it looks, and its look runs the grant scan: so the
   queue moves on though no other thread that could do so is alive. */
static int wait_in(struct waiting *w, struct thread *t)
{
    struct suspicion suspicion = {.wanted = w->ask->cycles};
    int rc;

    enq_assert(t->n_held == 0);
    for (;;) {
        rc = look(w);
        if (rc == ENQ_PENDING && (!may_spin(&w->b, t) || !spin(&w->b, t)))
            rc = look_for_cycles_and_rest(w, &suspicion);
        if (rc != ENQ_PENDING)
            return rc;
        if (has_grant(w->place))
            return ENQ_OK;
    }
}

/* The handle is withdrawn after the request has left the queue: one that is
   read in between names nothing, or a lock that is held, which a search leaves
   out. */
int wait_for_grant(struct session *s, struct thread *t, const struct ask *ask,
    struct place *place, mono_t deadline, struct enq_blocker *blocker)
{
    struct ask waiting = *ask;
    struct waiting w = {.ask = &waiting,
        .place = place,
        .deadline = deadline,
        .blocker = blocker};
    int rc;

    enq_assert(t->n_held == 0);
    waiting.ticket = place->ticket;
    begin(&w, s, t);
    ENQ_POINT("wait.begun");
    rc = wait_in(&w, t);
    if (rc == ENQ_OK)
        entry_is_known(place->e, says(&w, ASLEEP_LOOKING));
    bypass_end(&w.bypass);
    cycle_withdraw(t);
    if (rc == ENQ_OK)
        suspicion_granted(s, t, place_handle(s->map, place));
    return rc;
}
