/*
 * oracle.c - what must be true, at each commit and whenever all sleep.
 *
 * A second, simple statement of the rules, over the entries themselves: the
 * state is stored last and says what is true, so that seeing each store of a
 * state is seeing the whole history of the table. Every grant is judged at the
 * moment of its store; every waiter whenever nobody can run.
 */
#include <string.h>

#include "sim/rules.h"
#include "sim/sim.h"

#define LIVE_MAX 2048
#define OBJECTS_MAX 512

/* A live entry, and for how long its waiter has slept while all did, though
   nothing was in its way. */
struct live {
    struct entry *e;
    int64_t late_ns, unseen_ns; /* unseen: others cannot know that */
    int64_t since_ns;           /* the call that asked for it */
};

/* An object that was ever granted, as the entry that it was granted to. */
union object {
    struct entry e;
    char bytes[SMALL_UNITS * UNIT_BYTES];
};

static struct live live[LIVE_MAX];
static unsigned n_live;
static union object objects[OBJECTS_MAX];
static unsigned n_objects;

/* An owner that had, at last then, what a waiting lock set wants: its ticket. */
struct want {
    uint64_t ticket;
    char owner[8];
    int64_t ns;
};

#define WANTS_MAX 256
static struct want wants[WANTS_MAX];
static unsigned n_wants;

void oracle_begin(bool sap)
{
    n_live = n_objects = n_wants = 0;
    rules_begin(sap);
    whole_begin();
}

/* --- what is in the way --- */

/* Something that is held is in the way of `e`, by its mode. */
static bool held_against(const struct entry *e)
{
    for (unsigned i = 0; i < n_live; i++) {
        const struct entry *h = live[i].e;

        if (h != e && rules_in_the_way(h, e))
            return true;
    }
    return false;
}

/* Not by its own time, that is; a session may have ended since the judged one
   looked. */
static bool held_at(const struct entry *h, int64_t ns)
{
    return rules_is(h, PHASE_HELD) && rules_until(h) > ns;
}

/* R6: it adds to what is its owner's own, and all that overlaps is. */
static bool cumulates(const struct entry *e, int64_t ns)
{
    bool any = false;

    if (rules_mode(e) != ENQ_MODE_E)
        return false;
    for (unsigned i = 0; i < n_live; i++) {
        const struct entry *h = live[i].e;

        if (h == e || !held_at(h, ns) || !rules_overlap(h, e))
            continue;
        if (rules_same_owner(h, e) &&
            (rules_mode(h) == ENQ_MODE_E || h->deadline_ns <= ns))
            any |= h->deadline_ns > ns;
        else if (!rules_over(h))
            return false;
    }
    return any;
}

/* R7's exception: does `w` wait for something of the owner of `e`? Of a lock
   that is delayed one may think as one likes: it is out of its hands. */
static bool waits_for_owner_of(const struct entry *w, const struct entry *e,
    int64_t ns)
{
    for (unsigned i = 0; i < n_live; i++) {
        const struct entry *h = live[i].e;

        if (h != e && held_at(h, ns) && rules_overlap(h, w) &&
            rules_same_owner(h, e) && rules_exclude(h, w))
            return true;
    }
    return false;
}

static unsigned place_of(const struct entry *e)
{
    unsigned i = 0;

    while (i < n_live && live[i].e != e)
        i++;
    return i;
}

/* The same, of all that a lock set waits for. */
static bool set_waits_for_owner_of(const struct entry *w, const struct entry *e,
    int64_t ns)
{
    for (unsigned i = 0; i < n_live; i++)
        if (rules_is(live[i].e, PHASE_WAITING) &&
            rules_same_set(live[i].e, w) &&
            waits_for_owner_of(live[i].e, e, ns))
            return true;
    return false;
}

/* It is asked with no word held: so whatever was true since `e` was asked for
   may be what was seen. */
static bool set_waited_for_owner_of(const struct entry *w,
    const struct entry *e)
{
    unsigned at = place_of(e);
    int64_t since = at < n_live ? live[at].since_ns : 0;

    for (unsigned i = 0; i < n_wants && i < WANTS_MAX; i++)
        if (wants[i].ticket == w->ticket && wants[i].ns >= since &&
            strcmp(wants[i].owner, rules_owner(e)) == 0)
            return true;
    return set_waits_for_owner_of(w, e, since);
}

/* How a lock set may be passed for what it wants at other keys. */
enum excuse {
    EXCUSE_NONE, /* others do not know */
    EXCUSE_NOW,  /* if it does */
    EXCUSE_SINCE /* if it did, as the asker may have seen */
};

static bool set_is_excused(const struct entry *w, const struct entry *e,
    int64_t ns, enum excuse excuse)
{
    if (excuse == EXCUSE_NONE || !rules_of_set(w))
        return false;
    return excuse == EXCUSE_NOW ? set_waits_for_owner_of(w, e, ns)
                                : set_waited_for_owner_of(w, e);
}

/* Of `h`, in a mode that it has or had, and `w`: the set wants it no more. */
static void note_want(const struct entry *h, unsigned held,
    const struct entry *w, unsigned asked)
{
    struct want *want = &wants[n_wants % WANTS_MAX];

    if (w == h || !rules_overlap(h, w) ||
        !rules_modes_exclude(held, asked, rules_same_owner(h, w)))
        return;
    n_wants++;
    *want = (struct want){.ticket = w->ticket, .ns = kernel_now_ns()};
    strncpy(want->owner, rules_owner(h), sizeof(want->owner) - 1);
}

/* A held lock is given back, or becomes another; or one of a set that waits
   leaves: what was wanted of whom until now? */
static void note_wants(const struct entry *e, uint64_t before)
{
    bool held = STATE_PHASE(before) == PHASE_HELD;

    if (((before ^ e->state) & ~STATE_NOTES) == 0)
        return;
    for (unsigned i = 0; i < n_live; i++) {
        const struct entry *other = live[i].e;

        if (held && rules_of_set(other))
            note_want(e, STATE_MODE(before), other, rules_mode(other));
        else if (STATE_PHASE(before) == PHASE_WAITING &&
            (e->on_death & ENTRY_SET) != 0 && rules_is(other, PHASE_HELD))
            note_want(other, rules_mode(other), e, STATE_MODE(before));
    }
}

/* R7: a waiter that came before `e` and was due at `ns` is passed over. Judged
   by the time at which the granter may have looked, by whichever
   clock. */
static const struct entry *passed_over(const struct entry *e, int64_t ns,
    enum excuse excuse)
{
    if (cumulates(e, ns - sys_coarse_lag_ns))
        return NULL;
    for (unsigned i = 0; i < n_live; i++) {
        const struct entry *w = live[i].e;

        if (w == e || !rules_is(w, PHASE_WAITING) || entry_due(w).ns > ns ||
            (e->ticket != 0 && w->ticket > e->ticket) || rules_over(w) ||
            rules_same_set(w, e) || !rules_overlap(w, e) ||
            !rules_exclude(w, e) || waits_for_owner_of(w, e, ns))
            continue;
        if (!set_is_excused(w, e, ns, excuse))
            return w;
    }
    return NULL;
}

/* --- commits --- */

static void judge_exclusion(const struct entry *e)
{
    if (rules_ended(e)) /* its thread runs on, but its session is dead */
        return;
    for (unsigned i = 0; i < n_live; i++) {
        const struct entry *h = live[i].e;

        if (h == e || !rules_in_the_way(h, e))
            continue;
        sim_fail("two hold what excludes each other: %s/%s mode %u owner "
                 "\"%s\", and now mode %u owner \"%s\"",
            e->payload, e->payload + e->name_bytes, rules_mode(h),
            rules_owner(h), rules_mode(e), rules_owner(e));
    }
}

static void judge_token(const struct entry *e)
{
    union object *own = NULL;

    for (unsigned i = 0; i < n_objects; i++) {
        const struct entry *o = &objects[i].e;

        if (!rules_overlap(o, e))
            continue;
        if (o->token >= e->token)
            sim_fail("token %llu of %s/%s comes after %llu",
                (unsigned long long)e->token, e->payload,
                e->payload + e->name_bytes, (unsigned long long)o->token);
        if (o->generic == e->generic && o->hash == e->hash)
            own = &objects[i];
    }
    if (own == NULL && n_objects < OBJECTS_MAX)
        own = &objects[n_objects++];
    if (own != NULL)
        memcpy(own->bytes, e, sizeof(own->bytes));
}

static void judge_order(const struct entry *e, int64_t began_ns)
{
    const struct entry *w = passed_over(e, began_ns, EXCUSE_SINCE);

    if (w != NULL)
        sim_fail("%s/%s was granted past a waiter in mode %u due %lld ns ago",
            e->payload, e->payload + e->name_bytes, rules_mode(w),
            (long long)(kernel_now_ns() - entry_due(w).ns));
}

static void note(struct entry *e, bool lives, int64_t began_ns)
{
    unsigned i = place_of(e);

    if (!lives && i < n_live) {
        live[i] = live[--n_live];
    } else if (lives && i == n_live) {
        if (n_live == LIVE_MAX)
            sim_fail("more than %d live entries", LIVE_MAX);
        else
            live[n_live++] = (struct live){.e = e, .since_ns = began_ns};
    }
}

static bool lives(uint64_t state)
{
    return STATE_PHASE(state) == PHASE_WAITING ||
        STATE_PHASE(state) == PHASE_HELD;
}

/* Is this an entry's, and not a bucket's? */
static bool is_entry(const struct entry *e)
{
    uint64_t at = (uint64_t)((const char *)e - (const char *)sim.map->h);
    uint32_t kind;

    if (at < sim.map->arena_at)
        return false;
    at -= sim.map->arena_at;
    kind = sim.map->pages[at / PAGE_BYTES].kind;
    return (kind == PAGE_SMALL || kind == PAGE_LARGE) &&
        (ENTRY_UNITS >> (at % PAGE_BYTES / UNIT_BYTES) & 1) != 0;
}

static void say(const struct entry *e, uint64_t before, uint64_t now)
{
    static const char *const phases[] = {
        "free", "cached", "waiting", "held", "gone"};

    sim_say("entry %#zx of %s/%s,%s by \"%s\": %s %u -> %s %u, token %llu, "
            "until %.3f us",
        sim_offset(e), e->payload, e->payload + e->name_bytes,
        e->payload + e->name_bytes + strlen(e->payload + e->name_bytes) + 1,
        rules_owner(e), phases[STATE_PHASE(before) % 5], STATE_MODE(before),
        phases[STATE_PHASE(now) % 5], STATE_MODE(now),
        (unsigned long long)e->token,
        (double)(e->deadline_ns - 1000 * NS_PER_S) / 1e3);
}

/* What has run out, or lost its holder, goes when its delay is over. */
static void judge_delay(const struct entry *e, uint64_t before)
{
    unsigned gone = STATE_GONE(e->state);

    if (STATE_PHASE(before) != PHASE_HELD || !rules_is(e, PHASE_GONE) ||
        (gone != GONE_EXPIRED && gone != GONE_DIED))
        return;
    if (!rules_may_be_over(e))
        sim_fail("%s/%s is out of the way %lld ns before its delay is over",
            e->payload, e->payload + e->name_bytes,
            (long long)(rules_until(e) - kernel_now_ns()));
}

/* Before the last thread of its holder was stopped. */
static void judge_loss(const struct entry *e, uint64_t before)
{
    if (STATE_PHASE(before) == PHASE_HELD &&
        STATE_GONE(e->state) == GONE_DIED && !rules_session_past(e->session))
        sim_fail("%s/%s mode %u is given back while its process still runs",
            e->payload, e->payload + e->name_bytes, STATE_MODE(before));
}

void oracle_stored(struct entry *e, uint64_t before, int64_t began_ns)
{
    uint64_t now = e->state;
    bool grant, promotion;

    if ((!lives(before) && !lives(now)) || !is_entry(e))
        return;
    note_wants(e, before);
    note(e, lives(now), sim.by == NULL ? began_ns : sim.by->called_ns);
    say(e, before, now);
    whole_changed(e, before);
    graph_changed(e, before);
    judge_delay(e, before);
    judge_loss(e, before);
    work_committed();
    if (STATE_PHASE(now) != PHASE_HELD)
        return;
    grant = STATE_PHASE(before) != PHASE_HELD;
    promotion = !grant && STATE_MODE(before) == ENQ_MODE_O &&
        STATE_MODE(now) == ENQ_MODE_E;
    if (!grant && !promotion)
        return;
    judge_exclusion(e);
    judge_token(e);
    if (grant)
        judge_order(e, began_ns);
}

/* --- when all sleep --- */

static bool is_dead(session_ref_t ref)
{
    for (unsigned i = 0; i < sim.n_procs; i++)
        if (sim.procs[i].state == PROC_DEAD &&
            sim.procs[i].process->enq.session.ref == ref)
            return true;
    return false;
}

bool oracle_any_stopped(void)
{
    for (unsigned i = 0; i < sim.n_procs; i++)
        if (sim.procs[i].stopped_until > 0)
            return true;
    return false;
}

/* Somebody sleeps on a latch that has changed: its mark was wiped out
   (latch.h), and what it would serve waits for its tick as well. */
static bool any_mark_lost(void)
{
    for (unsigned i = 0; i < sim.n_procs; i++) {
        const struct proc *p = &sim.procs[i];

        if (p->state == PROC_ASLEEP && p->n_watches > 0 &&
            sim_offset(p->watch[0].word) < sim.map->arena_at &&
            *p->watch[0].word != p->watch[0].value)
            return true;
    }
    return false;
}

bool oracle_excuses(void)
{
    return oracle_any_stopped() || any_mark_lost();
}

/* It has what it waits for, and does not know. */
static bool sleeps_granted(const struct entry *e)
{
    for (unsigned i = 0; i < sim.n_procs; i++) {
        const struct proc *p = &sim.procs[i];

        if (p->state == PROC_ASLEEP && p->n_watches > 0 &&
            p->watch[0].word == (const uint32_t *)&e->state)
            return rules_is(e, PHASE_HELD) && !rules_over(e);
    }
    return false;
}

/* Something of its owner's is in the way of others for a delay: whether that
   excuses those that wait for it is not for us to say. */
static bool has_delayed(const struct entry *e)
{
    for (unsigned i = 0; i < n_live; i++)
        if (rules_is(live[i].e, PHASE_HELD) && !rules_over(live[i].e) &&
            rules_ended(live[i].e) && rules_same_owner(live[i].e, e))
            return true;
    return false;
}

/* Is there one that came before it, and stays? */
static bool is_behind(const struct entry *e)
{
    for (unsigned i = 0; i < n_live; i++)
        if (rules_is(live[i].e, PHASE_WAITING) &&
            live[i].e->ticket < e->ticket && rules_overlap(live[i].e, e))
            return true;
    return false;
}

static bool one_is_eligible(const struct entry *e, enum excuse excuse)
{
    return rules_is(e, PHASE_WAITING) && !rules_over(e) &&
        !is_dead(e->session) && !held_against(e) &&
        passed_over(e, kernel_now_ns(), excuse) == NULL &&
        !(has_delayed(e) && is_behind(e));
}

/* A lock set: all of it. */
static bool eligible(const struct entry *e, enum excuse excuse)
{
    if (!one_is_eligible(e, excuse) || !rules_of_set(e))
        return one_is_eligible(e, excuse);
    for (unsigned i = 0; i < n_live; i++)
        if (rules_is(live[i].e, PHASE_WAITING) &&
            rules_same_set(live[i].e, e) && !one_is_eligible(live[i].e, excuse))
            return false;
    return true;
}

/*
 * Nobody may sleep beside what is free. Where nobody has died, nobody was
 * promoted and nothing runs out, no wake-up may be late but by the window in
 * which waiters may be overtaken. Else it is a tick: also where things run out
 * and generic waiters stand between, which are in the way of others than those
 * that they wait for (of one key it is P7's 20 ms: tests/env).
 */
#define CALM_NS (NS_PER_MS * 3 / 2) /* a latch's first tick, and the window */

int64_t oracle_latest_allowed(void)
{
    if (sim.deaths > 0 || sim.promoted || work_has_ttl())
        return SYS_TICK_NS;
    return CALM_NS;
}

/* That one may pass a lock set, for what it has come to wait for elsewhere,
   only oneself can find out, by looking: after a tick, two, four, up to a
   second (blockers_pause() in wait/blockers.h). */
#define UNSEEN_NS (NS_PER_S + CALM_NS)

/* A lock set that stands behind others looks once a second, and nobody else can
   know that all its keys are free if the one that was to tell it died. */
static int64_t latest_allowed_of(const struct entry *e)
{
    int64_t most = oracle_latest_allowed();

    return most > CALM_NS && rules_of_set(e) ? UNSEEN_NS : most;
}

static void last(int64_t *ns, bool still, int64_t by_ns)
{
    *ns = still ? *ns + by_ns : 0;
}

static void judge_late(const struct entry *e, int64_t ns, int64_t most)
{
    if (ns > sim.latest_ns)
        sim.latest_ns = ns;
    if (ns > most)
        sim_fail("a waiter for %s/%s mode %u%s sleeps %lld ns beside what is "
                 "free",
            e->payload, e->payload + e->name_bytes, rules_mode(e),
            rules_of_set(e) ? ", of a set," : "", (long long)ns);
}

void oracle_idle(int64_t by_ns)
{
    bool excused = oracle_excuses();

    for (unsigned i = 0; i < n_live; i++) {
        struct live *l = &live[i];
        bool late =
            !excused && (eligible(l->e, EXCUSE_NONE) || sleeps_granted(l->e));
        bool unseen = late || (!excused && eligible(l->e, EXCUSE_NOW));

        last(&l->late_ns, late, by_ns);
        last(&l->unseen_ns, unseen, by_ns);
        judge_late(l->e, l->late_ns, latest_allowed_of(l->e));
        judge_late(l->e, l->unseen_ns, UNSEEN_NS);
    }
}

/* --- what calls return --- */

static struct entry *entry_at(enq_handle handle)
{
    return at_entry(sim.map,
        (ref_t)(handle & ((UINT64_C(1) << HANDLE_REF_BITS) - 1)));
}

static bool is_held(const struct proc *p, const struct hold *h)
{
    const struct entry *e = entry_at(h->handle);
    uint64_t state = e == NULL ? 0 : memory_seen_by(p, &e->state);

    return STATE_GENERATION(state) == h->handle >> HANDLE_REF_BITS &&
        STATE_PHASE(state) == PHASE_HELD && e->session == p->enq.session.ref &&
        memory_seen_by(p, &e->token) == h->token;
}

void oracle_granted(struct proc *p, const struct hold *h)
{
    if (is_held(p, h) || sim.broken || kernel_now_ns() >= h->until_ns ||
        h->mode == ENQ_MODE_O)
        return;
    sim_misled("a grant in mode %u was returned that is none", h->mode);
}

/* It is renewed by itself, and nothing has kept anybody from doing so. */
#define RENEWED_MARGIN_NS (100 * NS_PER_MS)

static bool was_renewed(const struct hold *h)
{
    return h->heartbeat_ms > 0 &&
        sim.lost_ns - h->lost_ns + RENEWED_MARGIN_NS <
        (h->ttl_ms - h->heartbeat_ms) * NS_PER_MS;
}

bool oracle_may_say(const struct proc *p, const struct hold *h, int rc)
{
    bool ran_out = kernel_now_ns() >= h->until_ns && !was_renewed(h);

    switch (rc) {
    case ENQ_OK:
        return !is_held(p, h);
    case ENQ_EXPIRED:
        return ran_out;
    case ENQ_LOST:
        return h->mode == ENQ_MODE_O;
    case ENQ_FORCED:
        return sim.broken;
    case ENQ_NOTHELD: /* what is gone is not remembered for ever */
        return sim.broken || ran_out || h->mode == ENQ_MODE_O;
    default:
        return false;
    }
}

void oracle_lost(struct proc *p, const struct hold *h, int rc)
{
    if (!oracle_may_say(p, h, rc))
        sim_misled("a lock in mode %u with %lld ns left is gone: %s", h->mode,
            (long long)(h->until_ns - kernel_now_ns()), enq_result_name(rc));
}

struct entry *oracle_any(void)
{
    return n_live == 0 ? NULL : live[below(n_live)].e;
}

unsigned oracle_live(void)
{
    return n_live;
}

struct entry *oracle_entry(unsigned i)
{
    return live[i].e;
}
