/*
 * wait.c - wait: standing in the queue.
 *
 * A waiter sleeps on its own entry's state and on the life words of those it
 * waits for, at once (futex_waitv), until its own deadline, the earliest
 * expiry of a blocker, or a tick. Whatever wakes it, it looks at the table
 * itself: nobody else need be alive for the queue to move on.
 */
#include "wait/wait.h"

#include <string.h>
#include <urcu/arch.h>

#include "base/point.h"
#include "lock/bypass.h"
#include "lock/request.h"
#include "lock/serve.h"
#include "lock/tell.h"
#include "wait/cycle.h"

/* One who waits. */
struct waiting {
    struct scope scope;
    const struct ask *ask;
    struct place *place;
    mono_t deadline;
    struct enq_blocker *blocker;
    struct bypass bypass;
    struct blockers b;
    bool kin;        /* who is ahead is of the same session, and narrow */
    unsigned futile; /* looks behind a lock set: see blockers_pause() */
};

/* --- spinning --- */

#define SPIN_NS 20000 /* a hand-over to a sleeper costs about as much */
#define CREDIT_MAX 8
#define CREDIT_TRY (-16)

/* Spinning pays when the hold is short and another CPU is at it: only the
   head of the queue spins, and not in the way of the holder himself. Where it
   did not pay lately, it is tried again only now and then. */
static bool may_spin(const struct blockers *b, struct thread *t)
{
    if (b->before != NULL || sys_cpus() < 2 ||
        (b->holder != NULL && shm_load(&b->holder->cpu) == sys_cpu()))
        return false;
    if (t->spin_credit < 0)
        t->spin_credit--;
    if (t->spin_credit <= CREDIT_TRY)
        t->spin_credit = 0;
    return t->spin_credit >= 0;
}

static bool has_changed(const struct sys_watch *watch)
{
    for (int i = 0; i < 32; i++) {
        if (shm_load(watch->word) != watch->value)
            return true;
        caa_cpu_relax();
    }
    return false;
}

static bool spin(const struct blockers *b, struct thread *t)
{
    mono_t end = mono_add_ns(sys.now(), SPIN_NS);

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

/* Cancelled: the entry is given back. Or it was granted, and lost again
   before we looked: the grant has happened, and its handle says the rest. */
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

static int give_up(struct scope *s, const struct ask *ask, struct entry *e,
    struct enq_blocker *blocker)
{
    struct verdict v;
    int rc = judge(s, ask, e, &v);

    if (rc == 0 && blocker != NULL)
        tell_blocker(s, verdict_blocker(&v), v.queue, blocker);
    if (rc == 0)
        rc = change_drop(s, e, GONE_NOT);
    if (rc == 0)
        rc = serve(s, &ask->key, NULL);
    return rc == 0 ? ENQ_TIMEDOUT : rc;
}

/* Once given back, by whom and why ever, the entry may be anyone's. */
static bool still_mine(const struct place *p)
{
    uint64_t state = shm_load_acquire(&p->e->state);

    return STATE_GENERATION(state) == p->generation;
}

static int look_inside(struct waiting *w)
{
    struct scope *s = &w->scope;
    struct place *p = w->place;
    struct entry *e = p->e;
    int rc = 0;

    if (!still_mine(p))
        return ENQ_CANCELLED;
    if (entry_is(e, PHASE_WAITING))
        rc = serve_looking(s, &w->ask->key, e);
    if (rc != 0)
        return rc;
    p->token = e->token;
    if (entry_is(e, PHASE_HELD))
        return ENQ_OK;
    if (entry_is(e, PHASE_GONE))
        return collect(e, shm_load(&e->state));
    if (!still_mine(p))
        return ENQ_CANCELLED;
    if (mono_reached(w->deadline, scope_clock(s)))
        return give_up(s, w->ask, e, w->blocker);
    shm_store(&e->cpu, sys_cpu());
    return ENQ_PENDING;
}

/* And what to sleep on, if it has to wait on. */
static int look_around(struct waiting *w)
{
    int rc = look_inside(w), fault;

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
    return may_pass_one(w) || blockers_prove(&w->b, w->scope.map);
}

/* The scope is that of what was asked for: the entry might be another's by
   now. */
static int look(struct waiting *w)
{
    int rc;

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

static void begin(struct waiting *w, struct session *s, struct thread *t)
{
    scope_begin(&w->scope, s, t);
    bypass_begin(&w->bypass, w->place->ticket);
    w->scope.bypass = &w->bypass;
}

/* --- looking for one who has no thread --- */

/* Who stands behind another of the same session's requests leaves time and
   death to him: his turn to look comes before. Not in a wide scope, where those
   ahead may wait for others than we do. */
static void plan_next(const struct waiting *w, struct wait_plan *plan)
{
    const struct blockers *b = &w->b;

    plan->again = w->kin ? w->deadline : b->until;
    if (b->behind_set)
        plan->again = mono_min(b->until, blockers_look_again(w->bypass.n > 0));
    plan->ahead = b->ahead;
    plan->ahead_state = b->ahead_state;
    plan->holder = b->holder;
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

static int look_started(struct waiting *w, struct started_ask *c)
{
    int rc;

    if (!still_mine(w->place))
        return ENQ_CANCELLED;
    rc = copy_ask(w->scope.map, w->place, c);
    w->ask = &c->ask;
    return rc == 0 ? look_around(w) : rc;
}

int wait_look_started(struct session *s, struct thread *t, struct place *place,
    mono_t deadline, struct enq_blocker *blocker, struct wait_plan *plan)
{
    struct waiting w = {
        .place = place, .deadline = deadline, .blocker = blocker};
    struct started_ask c;
    int rc;

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

/* Partner of `asleep`: send_wakes() in scope.c. Either it sees that we sleep,
   or the kernel sees that our state has changed. */
static void sleep_on(struct blockers *b, struct entry *e)
{
    mono_t now = sys.now();

    /* In a damaged table the time to look may be over again and again. */
    if (mono_reached(b->until, now))
        b->until = mono_add_ns(now, PAUSE_NS);
    ENQ_POINT("wait.looked");
    shm_store_fence(&e->asleep, ASLEEP_THREAD);
    if (shm_load(b->watch[0].word) == b->watch[0].value)
        sys.wait(b->watch, b->n, b->until);
    shm_store(&e->asleep, ASLEEP_NOBODY);
    ENQ_POINT("wait.woken");
}

/* As long as he holds it there is nothing to look for. */
static bool holder_has_moved(const struct blockers *b)
{
    return b->holder != NULL &&
        !state_same(shm_load(&b->holder->state), b->holder_state);
}

/*
 * In a long queue most of those who wake up by their tick have nothing to look
 * for: nothing that they watch has changed, and the one ahead is where he was,
 * who will look himself. (A thousand waiters would be 25,000 looks a second, of
 * 20 us each, under the word.) In a wide scope he may wait for something else,
 * and not notice what runs out that is in our way only.
 */
static bool may_sleep_on(const struct blockers *b, mono_t look_at)
{
    mono_t now = sys.now();

    if (b->ahead == NULL || shm_load(&b->ahead->state) != b->ahead_state ||
        mono_reached(b->until, now) || mono_reached(look_at, now) ||
        (b->leads && holder_has_moved(b)))
        return false;
    for (unsigned i = 0; i < b->n; i++)
        if (shm_load(b->watch[i].word) != b->watch[i].value)
            return false;
    return true;
}

/* Granted, as the state alone says: no need for the words, that others want. */
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

/* Nobody will ever wake us: out of the queue. */
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

/* Until there is something to look at. */
static void rest(struct waiting *w)
{
    mono_t look_at = MONO_NEVER;

    if (w->b.behind_set)
        look_at = mono_add_ns(sys.now(),
            w->bypass.n > 0 ? 0 : blockers_pause(&w->futile));
    do
        sleep_on(&w->b, w->place->e);
    while (may_sleep_on(&w->b, look_at));
    blockers_pass_on_deaths(&w->b, w->scope.session);
}

/* Spinning was in vain, or is not worth it. ENQ_PENDING: look again. */
static int look_for_circles_and_rest(struct waiting *w, struct suspicion *x)
{
    enq_handle handle = place_handle(w->scope.map, w->place);
    int rc;

    cycle_publish(w->scope.t, handle); /* others look, if we do not */
    rc = cycle_suspect(x, w->scope.session, w->scope.t, handle, &w->b.until);
    if (rc == ENQ_DEADLOCK)
        return leave_cycle(w);
    if (rc == ENQ_PENDING)
        rest(w);
    return rc;
}

static int wait_in(struct waiting *w, struct thread *t)
{
    struct suspicion suspicion = {.wanted = w->ask->cycles};
    int rc;

    for (;;) {
        rc = look(w);
        if (rc == ENQ_PENDING && (!may_spin(&w->b, t) || !spin(&w->b, t)))
            rc = look_for_circles_and_rest(w, &suspicion);
        if (rc != ENQ_PENDING)
            return rc;
        if (has_grant(w->place))
            return ENQ_OK;
    }
}

int wait_for_grant(struct session *s, struct thread *t, const struct ask *ask,
    struct place *place, mono_t deadline, struct enq_blocker *blocker)
{
    struct ask waiting = *ask;
    struct waiting w = {.ask = &waiting,
        .place = place,
        .deadline = deadline,
        .blocker = blocker};
    int rc;

    waiting.ticket = place->ticket;
    begin(&w, s, t);
    rc = wait_in(&w, t);
    bypass_end(&w.bypass);
    cycle_withdraw(t);
    return rc;
}
