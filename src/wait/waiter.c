/*
 * waiter.c - wait: how anybody waits (see waiter.h).
 *
 * A waiter sleeps on the states of its own entries and on the liveness words of
 * those it waits for, at once (futex_waitv), until its own deadline, the
 * earliest expiry of a blocker, or a tick. Whatever wakes it, it looks at the
 * table itself: nobody else need be alive for the queue to move on.
 *
 * Why no wake-up is lost (P3): the look notes states and words under the
 * latches, and what happens after that changes one of them. The sender of a
 * wake-up stores the state first, and then looks whether the waiter sleeps; the
 * waiter says that it sleeps, and then compares the state (sleep_on()). A death
 * marks a word, which the kernel compares. What is left is a sender that dies
 * between its store and its wake: its liveness word wakes the waiter if it was
 * in the way, else the tick.
 *
 * A waiter that dies leaves its entries in the queue. Its session is dead then,
 * so that they are in nobody's way, and the next grant scan drops them (R21).
 */
#include "wait/waiter.h"

#include <urcu/arch.h>

#include "base/point.h"
#include "lock/bypass.h"
#include "sync/tick.h"

/* --- looking --- */

/* Lock sets were seen to wait in the way. True: for us, one of them; we may
   pass it, and look again. */
static bool may_pass_one(struct waiter *w)
{
    bool news = false;

    enq_assert(w->b.n_sets <= BYPASS_FEW);
    for (unsigned i = 0; i < w->b.n_sets; i++)
        news |= bypass_learn(w->bypass, w->s, w->t, w->b.set[i],
            w->places.first->owner);
    return news;
}

/* Something is known now that was not when we looked: another set may be
   passed (R7), or a dying session is over. Each round learns of one more, or is
   the last. */
static bool look_pays(struct waiter *w)
{
    enq_assert(w->t->n_held == 0);
    return may_pass_one(w) || blockers_prove(&w->b, w->s->map);
}

static int look(struct waiter *w)
{
    int rc;

    enq_assert(w->t->n_held == 0);
    w->bypass->n = 0; /* what was learned for an earlier look may be over */
    do
        rc = w->kind->look(w);
    while (rc == ENQ_PENDING && look_pays(w));
    return rc;
}

/* --- spinning --- */

#define SPIN_NS 20000 /* a hand-over to a sleeper costs about as much */
#define CREDIT_MAX 8
#define CREDIT_TRY (-16)

/* Spinning pays when the hold is short and another CPU is at it: only the head
   of the queue of one key spins, and not on the CPU of the holder. Where it did
   not pay lately, it is tried again only now and then. `cpu` is a hint, loaded
   without order (entry_fill() and look_inside() store it). */
static bool may_spin(const struct waiter *w)
{
    const struct blockers *b = &w->b;
    struct thread *t = w->t;

    if (b->alone || b->before != NULL || sys_cpus() < 2 ||
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
static bool changes_soon(const struct sys_watch *watch)
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
static bool spin(const struct waiter *w)
{
    mono_t end = mono_add_ns(sys.now(), SPIN_NS);
    struct thread *t = w->t;

    enq_assert(w->b.own == 1 && t->n_held == 0);
    while (!changes_soon(&w->b.watch[0])) {
        if (!mono_reached(end, sys.now()))
            continue;
        t->spin_credit = t->spin_credit > 0 ? t->spin_credit - 2 : -1;
        return false;
    }
    if (t->spin_credit < CREDIT_MAX)
        t->spin_credit++;
    return true;
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

static uint32_t says(const struct waiter *w, enum asleep how)
{
    return ASLEEP_BY(w->t->ref, how);
}

static uint32_t how_to_sleep(const struct waiter *w)
{
    return says(w, w->b.far ? ASLEEP_BEHIND : ASLEEP_THREAD);
}

/* False: one of the entries is its own no more. */
static bool all_stir(const struct waiter *w, uint32_t from, uint32_t to)
{
    bool all = true;

    EACH_PLACE (p, w->places)
        all &= entry_stirs(p->e, from, to);
    return all;
}

/* Partner of `asleep`: tick_trace(). An entry may be another's by now, and of a
   lock set any may have woken it. */
static bool is_unwoken(const void *waiter)
{
    const struct waiter *w = waiter;

    if (!blockers_changed(&w->b, w->b.own) || blockers_died(&w->b))
        return false;
    EACH_PLACE (p, w->places)
        if (shm_load_acquire(&p->e->asleep) != how_to_sleep(w) ||
            !place_is_mine(p))
            return false;
    return true;
}

/* Partner of `asleep`: scope_send_wakes() in scope.c. Either it sees that we
   sleep, or we, or the kernel, see that our state has changed: the swap is a
   full fence between our store of `asleep` and our load of the state, as the
   granter's stands between its store of the state and its load of `asleep`. A
   lock set says so in all its entries first, and only then loads a state.
   Where an entry is another waiter's already we do not sleep, but look. Should
   it become that before the kernel compares, whose half of the state has no
   generation, we sleep until our tick, or until the other one is woken: both
   are (notify_sleepers()). A thread that dies asleep leaves that behind, which
   costs a wake-up in vain. */
static void sleep_on(struct waiter *w)
{
    const uint32_t looks = says(w, ASLEEP_LOOKING), sleeps = how_to_sleep(w);
    struct blockers *b = &w->b;
    mono_t now = sys.now();

    enq_assert(b->own == w->places.n && w->t->n_held == 0);
    /* In a damaged table the time to look may be over again and again. */
    if (mono_reached(b->until, now))
        b->until = mono_add_ns(now, PAUSE_NS);
    ENQ_POINT("wait.looked");
    if (all_stir(w, looks, sleeps) && !blockers_changed(b, b->own)) {
        sleep_to_tick(b);
        if (sys_slept_out())
            tick_judge(is_unwoken, w, "a waiter");
    }
    all_stir(w, sleeps, looks);
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

    return b->ahead != NULL && shm_load(&b->ahead->state) == b->ahead_state &&
        !mono_reached(b->until, now) && !mono_reached(look_at, now) &&
        !(b->leads && holder_has_moved(b)) && !blockers_changed(b, b->n);
}

/* Until there is something to look at. A waiter behind a lock set has its own
   pace (blockers_pause()): `look_at` ends what may_sleep_on() would prolong. */
static void rest(struct waiter *w)
{
    mono_t look_at = MONO_NEVER;

    enq_assert(w->t->n_held == 0);
    if (w->b.behind_set)
        look_at = mono_add_ns(sys.now(),
            w->bypass->n > 0 ? 0 : blockers_pause(&w->futile));
    do
        sleep_on(w);
    while (may_sleep_on(&w->b, look_at));
    blockers_pass_on_deaths(&w->b, w->s);
}

/* --- waiting --- */

/* Granted, as the states alone say: no need for the latches, that others want.
   Partner of the acquire: set_state() in transition.c, after next_token(), so
   that the token is there. A lock set is granted by its own look only. */
static bool has_grant(struct waiter *w)
{
    struct place *p = w->places.first;
    uint64_t state;

    if (w->b.alone)
        return false;
    state = shm_load_acquire(&p->e->state);
    if (STATE_PHASE(state) != PHASE_HELD ||
        STATE_GENERATION(state) != p->generation)
        return false;
    p->token = shm_load(&p->e->token);
    /* the token is this grant's if the entry is still in its use */
    return place_is_mine(p);
}

/* Spinning was in vain, or is not worth it. ENQ_PENDING: look again. One
   published handle stands for all members of a lock set, as each leads to the
   next (enter() in cycle.c). */
static int look_for_cycles_and_rest(struct waiter *w, struct suspicion *x)
{
    enq_handle handle = place_handle(w->s->map, w->places.first);
    int rc;

    suspicion_told(x, w->places);
    rc = suspicion_look(x, w->s, w->t, handle, w->b.n_ahead, &w->b.until);
    if (rc == ENQ_DEADLOCK)
        return w->kind->leave_cycle(w);
    if (rc == ENQ_PENDING)
        rest(w);
    return rc;
}

/* Whatever wakes the waiter, it looks, and its look runs the grant scan: so the
   queue moves on though no other thread that could do so is alive. */
static int wait_in(struct waiter *w, struct suspicion *x)
{
    int rc;

    for (;;) {
        rc = look(w);
        if (rc == ENQ_PENDING && (!may_spin(w) || !spin(w)))
            rc = look_for_cycles_and_rest(w, x);
        if (rc != ENQ_PENDING)
            return rc;
        if (has_grant(w))
            return ENQ_OK;
    }
}

static void is_known(const struct waiter *w)
{
    EACH_PLACE (p, w->places)
        entry_is_known(p->e, says(w, ASLEEP_LOOKING));
}

/* The handle is withdrawn after the request has left the queue: one that is
   read in between names nothing, or a lock that is held, which a search leaves
   out. */
int waiter_wait(struct waiter *w, bool cycles)
{
    struct suspicion suspicion = {.wanted = cycles};
    int rc;

    enq_assert(w->t->n_held == 0);
    ENQ_POINT("wait.begun");
    rc = wait_in(w, &suspicion);
    if (rc == ENQ_OK)
        is_known(w);
    bypass_end(w->bypass);
    cycle_withdraw(w->t);
    if (rc == ENQ_OK)
        suspicion_granted(w->s, w->t, w->places);
    return rc;
}

/* --- without a thread --- */

/* One that is far behind is told if it has become the first by another's grant
   (transition_tell(), leave() in async/async.c): of all else its glance tells. */
#define FAR_TICKS_MOST 25

/* A request behind another of the same session leaves time and death to that
   one, and what becomes of the holder: its turn to look comes before. Else each
   hand-over would make all those behind look, once for each. Not in a wide
   scope, where those ahead may wait for others than we do. */
static struct wait_plan plan_next(const struct waiter *w)
{
    const struct blockers *b = &w->b;
    mono_t again = w->kin ? b->deadline : b->until;
    bool watches = !w->kin && b->n > b->own;
    int64_t n_ticks = ticks(b);

    if (b->behind_set)
        again = mono_min(b->until, blockers_look_again(w->bypass->n > 0));
    return (struct wait_plan){.again = again,
        .ahead = b->ahead,
        .ahead_state = b->ahead_state,
        .holder = w->kin ? NULL : b->holder,
        .holder_state = b->holder_state,
        .life = watches ? b->watch[b->own].word : NULL,
        .ticks = n_ticks < FAR_TICKS_MOST ? (unsigned)n_ticks : FAR_TICKS_MOST};
}

int waiter_look(struct waiter *w, struct wait_plan *plan)
{
    int rc = look(w);

    if (rc == ENQ_PENDING) {
        *plan = plan_next(w);
        blockers_pass_on_deaths(&w->b, w->s);
    }
    bypass_end(w->bypass);
    return rc;
}
