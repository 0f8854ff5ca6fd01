/*
 * wait.c - floor 4: standing in the queue.
 *
 * A waiter sleeps on its own entry's state and on the life words of those it
 * waits for, at once (futex_waitv), until its own deadline, the earliest
 * expiry of a blocker, or a tick. Whatever wakes it, it looks at the table
 * itself: nobody else need be alive for the queue to move on.
 *
 * Whom to watch: the sessions of the held locks in the way, and of the waiter
 * just before (ZooKeeper's predecessor rule). The kernel wakes one watcher of
 * a dead thread's word only, so the first who notices wakes the others.
 */
#include "table/wait.h"

#include <limits.h>
#include <urcu/arch.h>

#include "base/point.h"
#include "sync/life.h"
#include "table/request.h"
#include "table/serve.h"
#include "table/tell.h"

void (*wait_report_death)(struct session *s);

struct watch_list {
    struct scope *s;
    const struct ask *ask;
    struct entry *self;
    struct entry *before; /* the waiter just before */
    struct sys_watch watch[SYS_WATCHES_MAX];
    unsigned n;
    mono_t until;
};

static void watch_session(struct watch_list *w, session_ref_t ref)
{
    if (w->n == SYS_WATCHES_MAX)
        return;
    if (session_watch(w->s->map, ref, &w->watch[w->n]))
        w->n++;
    else
        w->until = (mono_t){0}; /* look again at once */
}

static bool see_blocker(void *context, struct entry *e)
{
    struct watch_list *w = context;
    uint64_t state = shm_load(&e->state);
    bool same = entry_owned_by(w->s->map, e, w->ask);

    if (e == w->self ||
        !mode_conflicts(w->s->map->modes, STATE_MODE(state) % MODES,
            w->ask->mode, same))
        return true;
    if (STATE_PHASE(state) == PHASE_HELD) {
        w->until = mono_min(w->until, (mono_t){e->deadline_ns});
        if (e->on_death == ENQ_DEATH_RELEASE)
            watch_session(w, e->session);
    } else if (e->ticket < w->self->ticket &&
        (w->before == NULL || e->ticket > w->before->ticket)) {
        w->before = e;
    }
    return true;
}

/* Under the scope: what to sleep on next. */
static int watch_blockers(struct watch_list *w, mono_t deadline)
{
    int rc;

    w->n = 1;
    w->until = deadline;
    w->before = NULL;
    w->watch[0] = (struct sys_watch){
        (const uint32_t *)&w->self->state, (uint32_t)shm_load(&w->self->state)};
    rc = scope_visit(w->s, &w->ask->key, see_blocker, w);
    if (w->before != NULL)
        watch_session(w, w->before->session);
    return rc;
}

/* --- looking --- */

/* Cancelled: the entry is given back. Or it was granted, and lost again
   before we looked: the grant has happened, and its handle says the rest. */
static int collect(struct entry *e, uint64_t state)
{
    unsigned gone = STATE_GONE(state);

    if (gone != GONE_CANCELLED && gone != GONE_FORCED)
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

static int look_inside(struct scope *s, const struct ask *ask, struct place *p,
    mono_t deadline, struct enq_blocker *blocker)
{
    struct entry *e = p->e;
    int rc = 0;

    if (!still_mine(p))
        return ENQ_CANCELLED;
    if (entry_is(e, PHASE_WAITING)) {
        change_unpoke(s, e);
        rc = serve(s, &ask->key, e);
    }
    if (rc != 0)
        return rc;
    p->token = e->token;
    if (entry_is(e, PHASE_HELD))
        return ENQ_OK;
    if (entry_is(e, PHASE_GONE))
        return collect(e, shm_load(&e->state));
    if (!still_mine(p))
        return ENQ_CANCELLED;
    if (mono_reached(deadline, scope_clock(s)))
        return give_up(s, ask, e, blocker);
    return ENQ_PENDING;
}

/* With a list to fill, or without. The scope is that of what was asked for:
   the entry might be another's by now. */
static int look(struct watch_list *w, struct scope *s, const struct ask *ask,
    struct place *p, mono_t deadline, struct enq_blocker *blocker)
{
    int rc = scope_enter(s, &ask->key), fault = 0;

    if (rc != 0)
        return rc;
    rc = look_inside(s, ask, p, deadline, blocker);
    if (rc == ENQ_PENDING && w != NULL)
        fault = watch_blockers(w, deadline);
    scope_leave(s);
    return fault != 0 ? fault : rc;
}

int wait_look(struct session *s, struct thread *t, const struct ask *ask,
    struct place *place, mono_t deadline, struct enq_blocker *blocker)
{
    struct scope scope = {.map = s->map, .t = t, .session = s};
    struct ask waiting = *ask;

    waiting.ticket = place->ticket;
    return look(NULL, &scope, &waiting, place, deadline, blocker);
}

/* --- spinning --- */

#define SPIN_NS 20000 /* a hand-over to a sleeper costs about as much */
#define CREDIT_MAX 8
#define CREDIT_TRY (-16)

/* Spinning pays when the hold is short and another CPU is at it. Only the
   head of the queue spins; and where it lately did not pay, it is tried
   again only now and then. */
static bool may_spin(const struct watch_list *w, struct thread *t)
{
    if (w->before != NULL || sys_cpus() < 2)
        return false;
    if (t->spin_credit < 0)
        t->spin_credit--;
    if (t->spin_credit <= CREDIT_TRY)
        t->spin_credit = 0;
    return t->spin_credit >= 0;
}

static bool spin(const struct watch_list *w, struct thread *t)
{
    mono_t end = mono_add_ns(sys.now(), SPIN_NS);

    do {
        for (int i = 0; i < 32; i++) {
            if (shm_load(w->watch[0].word) != w->watch[0].value) {
                if (t->spin_credit < CREDIT_MAX)
                    t->spin_credit++;
                return true;
            }
            caa_cpu_relax();
        }
    } while (!mono_reached(end, sys.now()));
    t->spin_credit = t->spin_credit > 0 ? t->spin_credit - 2 : -1;
    return false;
}

/* --- sleeping --- */

/* The kernel woke one watcher of each word that died: pass it on. */
static void pass_on_deaths(const struct watch_list *w)
{
    bool death = false;

    for (unsigned i = 1; i < w->n; i++) {
        if (!life_word_is_dead(shm_load(w->watch[i].word)))
            continue;
        sys.wake(w->watch[i].word, INT_MAX);
        death = true;
    }
    if (death && shm_load(&wait_report_death) != NULL)
        wait_report_death(w->s->session);
}

/* Partner of `asleep`: send_wakes() in scope.c. Either it sees that we sleep,
   or the kernel sees that our state has changed. */
static void sleep_on(struct watch_list *w, struct entry *e)
{
    shm_store_fence(&e->asleep, 1);
    if (shm_load(w->watch[0].word) == w->watch[0].value)
        sys.wait(w->watch, w->n, w->until);
    shm_store(&e->asleep, 0);
    ENQ_POINT("wait.woken");
}

int wait_for_grant(struct session *s, struct thread *t, const struct ask *ask,
    struct place *place, mono_t deadline, struct enq_blocker *blocker)
{
    struct scope scope = {.map = s->map, .t = t, .session = s};
    struct ask waiting = *ask;
    struct watch_list w = {.s = &scope, .ask = &waiting, .self = place->e};
    int rc;

    waiting.ticket = place->ticket;
    for (;;) {
        rc = look(&w, &scope, &waiting, place, deadline, blocker);
        if (rc != ENQ_PENDING)
            return rc;
        if (may_spin(&w, t) && spin(&w, t))
            continue;
        sleep_on(&w, place->e);
        pass_on_deaths(&w);
    }
}
