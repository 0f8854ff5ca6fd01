/*
 * async.c - whenever all sleep: has each helper thread seen what it must have
 * seen by now?
 *
 * It may sleep beside nothing that is for its process: not a started request
 * that has got its answer, not a heartbeat that is due, not an event of a
 * held lock. And no event lies in the queue while the descriptor says that
 * there is none.
 */
#include <linux/futex.h>

#include "async/started.h"
#include "sim/rules.h"
#include "sim/sim.h"
#include "store/walk.h"

#define LATE_MAX 256

/* What has been late for some time, by what it is. */
struct late {
    const void *what;
    uint64_t use;
    int64_t ns;
};

static struct late before[LATE_MAX], now_late[LATE_MAX];
static unsigned n_before, n_now;

struct inquest {
    struct proc *p;
    int64_t by_ns, calm_ns, death_ns;
};

void async_all_begin(void)
{
    n_before = n_now = 0;
}

/* For how long it has been so. */
static int64_t late(const void *what, uint64_t use, int64_t by_ns)
{
    int64_t ns = by_ns;

    for (unsigned i = 0; i < n_before; i++)
        if (before[i].what == what && before[i].use == use)
            ns += before[i].ns;
    if (n_now < LATE_MAX)
        now_late[n_now++] = (struct late){what, use, ns};
    return ns;
}

/* --- one process --- */

/* It waits no longer. */
static bool has_moved(const struct place *p)
{
    uint64_t state = p->e->state;

    return STATE_GENERATION(state) != p->generation ||
        STATE_PHASE(state) != PHASE_WAITING;
}

/* Of a set that one of its locks is gone. */
static bool is_answered(const struct started *r)
{
    if (r->set == NULL)
        return has_moved(&r->place);
    for (unsigned i = 0; i < r->set->set.n; i++)
        if (has_moved(&r->set->set.member[i].place))
            return true;
    return false;
}

static bool is_of(const struct started *r, const struct entry *e)
{
    for (unsigned i = 0; r->set != NULL && i < r->set->set.n; i++)
        if (r->set->set.member[i].place.e == e)
            return true;
    return r->place.e == e;
}

static void judge_requests(const struct inquest *q)
{
    const struct async *d = &q->p->enq.async;

    for (uint32_t i = 0; i < d->n_started; i++) {
        const struct started *r = d->started[i];
        int64_t ns;

        if (r->phase != STARTED_PENDING || !is_answered(r))
            continue;
        ns = late(r, r->generation, q->by_ns);
        if (ns > q->calm_ns)
            sim_fail("the helper of %c sleeps %lld ns beside the answer to "
                     "request %u",
                'a' + (int)q->p->number, (long long)ns, i);
    }
}

static void judge_timers(const struct inquest *q)
{
    struct async *d = &q->p->enq.async;
    const struct heap_node *heartbeat = heap_first(&d->heartbeats_due);
    const struct heap_node *request = heap_first(&d->requests);

    if (!cds_list_empty(&d->fresh) && late(&d->fresh, 0, q->by_ns) > q->calm_ns)
        sim_fail("the helper of %c sleeps, and has not looked at a request yet",
            'a' + (int)q->p->number);
    if (heartbeat != NULL && heartbeat->at.ns <= kernel_now_ns() &&
        late(heartbeat, 0, q->by_ns) > q->calm_ns)
        sim_fail("the helper of %c sleeps beside a heartbeat that is due",
            'a' + (int)q->p->number);
    if (request != NULL && request->at.ns <= kernel_now_ns() &&
        late(request, 0, q->by_ns) > q->calm_ns)
        sim_fail(
            "the helper of %c sleeps beside a request that was due %lld ns "
            "ago",
            'a' + (int)q->p->number,
            (long long)(kernel_now_ns() - request->at.ns));
}

/* It is there, and nobody has told. */
static bool has_event(const struct entry *e)
{
    uint64_t state = e->state;
    bool told = (state & (STATE_TOLD | STATE_ENDED)) != 0;

    if (rules_is(e, PHASE_GONE))
        return !told && e->token != 0;
    if (!rules_is(e, PHASE_HELD) || (state & STATE_ENDED) != 0)
        return false;
    if ((state & (STATE_ASKED | STATE_TOLD)) == STATE_ASKED)
        return true;
    return e->deadline_ns <= kernel_now_ns();
}

/* Whose result has not come yet: that comes first. */
static bool is_before_its_result(const struct proc *p, const struct entry *e)
{
    const struct async *d = &p->enq.async;

    for (uint32_t i = 0; i < d->n_started; i++)
        if (d->started[i]->phase == STARTED_ASKING ||
            (d->started[i]->phase == STARTED_PENDING &&
                is_of(d->started[i], e)))
            return true;
    return false;
}

static bool judge_lock_event(void *context, struct entry *e, uint64_t state)
{
    const struct inquest *q = context;
    int64_t ns, most = q->death_ns;

    if (e->session != q->p->enq.session.ref || !has_event(e) ||
        is_before_its_result(q->p, e))
        return true;
    ns = late(e, state, q->by_ns);
    /* a lock that was taken in the very moment of a look is found by the next,
       50 ms later (watch.h) */
    if (rules_is(e, PHASE_HELD))
        most += 50 * NS_PER_MS;
    if (ns > most)
        sim_fail(
            "the helper of %c sleeps %lld ns beside an event of %s/%s, state "
            "%#llx",
            'a' + (int)q->p->number, (long long)ns, e->payload,
            e->payload + e->name_bytes, (unsigned long long)e->state);
    return !sim.failed;
}

static void judge_events(struct proc *p)
{
    if (p->enq.async.fd >= 0 && !cds_list_empty(&p->enq.async.events) &&
        p->readable == 0)
        sim_fail("%c has events, and its descriptor says that there are none",
            'a' + (int)p->number);
}

/* Not while it comes or goes, or waits for something else than work. */
static bool has_helper_asleep(const struct proc *p)
{
    if (p->process != p || !p->threaded || !p->session || p->doomed ||
        p->n_mutexes > 0 || p->enq.session.slot->state != SESSION_LIVE)
        return false;
    for (unsigned i = 0; i < sim.n_procs; i++) {
        const struct proc *t = &sim.procs[i];

        if (t->process == p && t != p)
            return t->state == PROC_ASLEEP && t->n_watches > 0 &&
                !sim_in_segment(t->watch[0].word);
    }
    return false;
}

/* A sender that died may not have notified: a tick, or the reaping, must do. */
#define DEATH_NS (1100 * NS_PER_MS)

static void judge_async(struct proc *p, int64_t by_ns)
{
    struct inquest q = {p, by_ns, oracle_latest_allowed(), 0};

    q.death_ns = sim.deaths > 0 ? DEATH_NS : q.calm_ns;
    judge_requests(&q);
    judge_timers(&q);
    judge_events(p);
    if (!p->enq.async.listens)
        return;
    if (p->enq.session.slot->adopted)
        slab_each(sim.map, judge_lock_event, &q);
    else
        slab_each_of(sim.map, p->enq.session.ref, judge_lock_event, &q);
}

void async_all_idle(int64_t by_ns)
{
    n_now = 0;
    for (unsigned i = 0; i < sim.n_procs && !oracle_any_stopped(); i++)
        if (has_helper_asleep(&sim.procs[i]))
            judge_async(&sim.procs[i], by_ns);
    for (unsigned i = 0; i < n_now; i++)
        before[i] = now_late[i];
    n_before = n_now;
}
