/*
 * whole.c - lock sets: all or none, at every moment at which anybody can see.
 *
 * A set is taken while the words of all its keys are held: between its first
 * grant and its last nobody else may change anything that overlaps one of its
 * members. Of one that is killed in between, the first to do so must find that
 * nothing stays of what would outlive it; and of one that is killed right
 * behind the last, all or nothing. A set that waits leaves as one, too.
 *
 * Which entries are of one set is known from the process that stores them, in
 * which call.
 */
#include <string.h>

#include "sim/rules.h"
#include "sim/sim.h"

#define SETS_MAX 4096 /* of one schedule */
#define ACTIVE_MAX 256

/* It leaves, when one member is gone; its thread has been told; it runs on
   from the middle, where it may have to wait for a word of a leaf. */
#define LEAVE_NS (2 * SYS_TICK_NS)

struct part {
    struct entry *e;
    uint32_t generation;
    bool undone; /* what its dead taker had placed is over */
};

struct known {
    struct proc *asker, *taker; /* taker: which has granted its members */
    unsigned n, seen;
    struct part part[SET_MAX];
    bool waited, whole; /* whole: all were held at once */
    bool counted;       /* as undone */
    bool answered;      /* its asker knows that it is granted */
    int64_t late_ns, retried_ns;
    /* how often it was told to look, since then, with no change in the table */
    unsigned retries;
    uint64_t changes;
    int64_t retries_ns;
};

static struct known all[SETS_MAX], *active[ACTIVE_MAX];
static unsigned n_all, n_active;
static uint64_t changes;

void whole_begin(void)
{
    n_all = n_active = 0;
    changes = 0;
}

struct known *whole_ask(struct proc *p, unsigned n)
{
    struct known *k;

    if (n_all == SETS_MAX || n_active == ACTIVE_MAX)
        return NULL;
    k = &all[n_all++];
    *k = (struct known){.asker = p, .n = n};
    active[n_active++] = k;
    p->asking = k;
    return k;
}

static void retire(struct known *k)
{
    for (unsigned i = 0; i < n_active; i++)
        if (active[i] == k)
            active[i--] = active[--n_active];
}

/* --- its members --- */

static bool is_in(const struct part *m, enum phase phase)
{
    return STATE_GENERATION(m->e->state) == m->generation &&
        rules_is(m->e, phase);
}

static unsigned count(const struct known *k, enum phase phase)
{
    unsigned n = 0;

    for (unsigned i = 0; i < k->seen; i++)
        n += is_in(&k->part[i], phase);
    return n;
}

static struct part *part_of(struct known *k, const struct entry *e,
    uint64_t state)
{
    for (unsigned i = 0; i < k->seen; i++)
        if (k->part[i].e == e &&
            k->part[i].generation == STATE_GENERATION(state))
            return &k->part[i];
    return NULL;
}

static bool overlaps(const struct known *k, const struct entry *e)
{
    for (unsigned i = 0; i < k->seen; i++)
        if (k->part[i].e == e || rules_overlap(k->part[i].e, e))
            return true;
    return false;
}

/* Between its first grant and its last. */
static bool is_half(const struct known *k)
{
    return !k->whole && count(k, PHASE_HELD) > 0;
}

static bool is_live(uint64_t state)
{
    return STATE_PHASE(state) == PHASE_WAITING ||
        STATE_PHASE(state) == PHASE_HELD;
}

/* --- whose taker is dead --- */

static void judge_dead(struct known *k)
{
    unsigned stay = 0, undone = 0;

    for (unsigned i = 0; i < k->seen; i++) {
        const struct part *m = &k->part[i];

        undone += m->undone;
        stay += is_in(m, PHASE_HELD) && !m->undone && rules_outlives(m->e) &&
            !rules_over(m->e);
    }
    if (stay > 0 && (!k->whole || undone > 0))
        sim_fail("%u locks stay of a set of %u whose taker died in the middle "
                 "(%u were undone)",
            stay, k->n, undone);
    figures.sets_undone += undone > 0 && !k->counted;
    k->counted |= undone > 0;
}

/* Recovery makes an end of it, in a new use of the entry. */
static bool is_undone(struct known *k, struct entry *e, uint64_t before)
{
    struct part *m = part_of(k, e, before);

    if (m == NULL || STATE_PHASE(before) != PHASE_HELD ||
        !rules_is(e, PHASE_HELD) ||
        STATE_GENERATION(e->state) == STATE_GENERATION(before))
        return false;
    m->generation = STATE_GENERATION(e->state);
    m->undone = true;
    sim_say("  undone, as its taker is dead");
    if (k->taker == NULL || k->taker->state != PROC_DEAD)
        sim_fail("a set is undone, and its taker lives");
    return true;
}

/* --- at each commit --- */

static void join(struct known *k, struct entry *e, uint64_t before)
{
    if (k == NULL || is_live(before) || !is_live(e->state) ||
        (e->on_death & ENTRY_SET) == 0 || sim.by->process != k->asker->process)
        return;
    if (k->seen == k->n) {
        sim_fail("a set of %u has one more member", k->n);
        return;
    }
    k->part[k->seen++] = (struct part){e, STATE_GENERATION(e->state), false};
    k->waited |= rules_is(e, PHASE_WAITING);
}

/* By whom it is granted, and by nobody else; it is whole with the last. */
static void grant_one(struct known *k)
{
    unsigned held = count(k, PHASE_HELD);

    if (sim.by->process != k->asker->process)
        sim_fail("one of a set is granted by another than its waiter");
    k->taker = sim.by;
    k->whole |= held == k->n;
    if (!k->whole)
        return;
    figures.sets_waited += k->waited;
    if (k->answered)
        retire(k);
}

/* Others that wait, too, look each tick, and tell it. */
#define RETRIES_MOST 300

static void count_retry(struct known *k)
{
    if (k->changes != changes ||
        kernel_now_ns() - k->retries_ns > SYS_TICK_NS) {
        k->changes = changes;
        k->retries = 0;
        k->retries_ns = kernel_now_ns();
    }
    if (++k->retries > RETRIES_MOST)
        sim_fail("a set is told %u times to look, and nothing has changed",
            k->retries);
}

static void judge_change(struct known *k, struct entry *e, uint64_t before)
{
    bool notes_only = ((before ^ e->state) & ~STATE_NOTES) == 0;
    bool mine = part_of(k, e, e->state) != NULL;

    if (mine && notes_only && (~before & e->state & STATE_RETRY) != 0)
        count_retry(k);
    if (is_undone(k, e, before) || notes_only)
        return;
    if (mine && rules_is(e, PHASE_HELD) && STATE_PHASE(before) != PHASE_HELD)
        grant_one(k);
    if (k->taker == NULL || k->taker == sim.by || !overlaps(k, e))
        return;
    if (k->taker->state == PROC_DEAD)
        judge_dead(k);
    else if (is_half(k))
        sim_fail("%s/%s is changed while a set beside it is half granted: %u "
                 "of %u",
            e->payload, e->payload + e->name_bytes, count(k, PHASE_HELD), k->n);
}

void whole_changed(struct entry *e, uint64_t before)
{
    if (sim.by == NULL)
        return;
    join(sim.asking, e, before);
    changes += ((before ^ e->state) & ~STATE_NOTES) != 0;
    for (unsigned i = n_active; i-- > 0;) /* the last may take its place */
        judge_change(active[i], e, before);
}

bool whole_in_the_middle(void)
{
    for (unsigned i = 0; i < n_active; i++)
        if (active[i]->taker == sim.by && active[i]->n > 1 &&
            count(active[i], PHASE_HELD) > 0)
            return true;
    return false;
}

/* --- what calls say --- */

static bool is_left(const struct proc *p, const struct part *m)
{
    uint64_t state = memory_seen_by(p, &m->e->state);

    return STATE_GENERATION(state) == m->generation && is_live(state);
}

void whole_answered(struct proc *p, struct known *k, int rc)
{
    p->asking = NULL;
    k->answered = true;
    if (rc != ENQ_OK || k->whole)
        retire(k);
    if (rc == ENQ_OK && p->n_buffer == 0 && !k->whole)
        sim_misled("a set of %u is said to be granted, and never was", k->n);
    for (unsigned i = 0; i < k->seen && rc != ENQ_OK; i++)
        if (is_left(p, &k->part[i]))
            sim_misled("a set of %u has ended (%s), and a member is left", k->n,
                enq_result_name(rc));
}

/* --- when all sleep --- */

static bool is_over(const struct known *k)
{
    const struct proc *p = k->asker;

    return sched_process_is_dead(p) || p->process->doomed ||
        (k->seen > 0 && rules_session_over(k->part[0].e->session));
}

/* Half granted, or half gone. */
static bool is_torn(const struct known *k)
{
    unsigned held = count(k, PHASE_HELD), waiting = count(k, PHASE_WAITING);

    if (k->whole || k->seen < k->n)
        return false;
    return (held > 0 && held < k->n) || (waiting > 0 && waiting < k->n);
}

static bool is_told_to_retry(const struct known *k)
{
    for (unsigned i = 0; i < k->seen; i++)
        if (is_in(&k->part[i], PHASE_WAITING) &&
            (k->part[i].e->state & STATE_RETRY) != 0)
            return true;
    return false;
}

static void last(int64_t *ns, bool still, int64_t by_ns)
{
    *ns = still ? *ns + by_ns : 0;
}

void whole_idle(int64_t by_ns)
{
    bool excused = oracle_excuses();

    for (unsigned i = 0; i < n_active && !sim.failed; i++) {
        struct known *k = active[i];
        bool judged = !excused && !is_over(k);

        last(&k->late_ns, judged && is_torn(k), by_ns);
        last(&k->retried_ns, judged && is_told_to_retry(k), by_ns);
        if (k->late_ns > LEAVE_NS)
            sim_fail("of a set of %u, %u wait and %u are held for %lld ns",
                k->n, count(k, PHASE_WAITING), count(k, PHASE_HELD),
                (long long)k->late_ns);
        if (k->retried_ns > oracle_latest_allowed())
            sim_fail("a set of %u was told to look, and sleeps for %lld ns",
                k->n, (long long)k->retried_ns);
    }
}
