/*
 * verify.c - what the table must be like after deaths.
 *
 * The rules once more, as plainly as they can be put, and no code shared with
 * the library: which modes go together, which keys overlap, which waiters may
 * go.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "crash.h"
#include "lib/at_hand.h"
#include "lib/starved.h"
#include "recovery/check.h"
#include "recovery/reap.h"
#include "store/walk.h"

/* P3: 50 ms; the rest is for a machine that is busy. */
#define PATIENCE_MS 200
/* That somebody always wants a processor, and nothing comes of it, is no load. */
#define PATIENCE_MOST_MS 30000

/* --- the rules --- */

static bool same_text(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* Names are one and the same here. */
static bool overlap(const struct enq_info *a, const struct enq_info *b)
{
    const char *x = a->key, *y = b->key;

    if (a->fields != b->fields)
        return false;
    for (unsigned i = 0; i < a->fields; i++) {
        if (!same_text(x, y) && !same_text(x, "@") && !same_text(y, "@"))
            return false;
        x += strlen(x) + 1;
        y += strlen(y) + 1;
    }
    return true;
}

/* held x asked, of different owners: all do, but two S and two O. */
static bool conflict(unsigned held, unsigned asked)
{
    return held != asked || (held != ENQ_MODE_S && held != ENQ_MODE_O);
}

/* Its process is dead, and it ends with it; or it is the barger's, which gives
   back at once, and must not overtake for long. */
static bool is_nothing(const struct enq_info *i)
{
    return (i->pid == 0 && (i->waiting || i->on_death == ENQ_DEATH_RELEASE)) ||
        i->owner[0] == 'b';
}

static bool in_the_way(const struct enq_info *i, const struct enq_info *w)
{
    return !is_nothing(i) && overlap(i, w) && conflict(i->mode, w->mode);
}

/* Of one lock set: nobody here waits for two things. */
static bool wait_together(const struct enq_info *a, const struct enq_info *b)
{
    return a->waiting && b->waiting && a->pid == b->pid &&
        same_text(a->owner, b->owner);
}

/* R8: it conflicts neither with what is held nor with one that came before. */
static bool may_go_alone(const struct look *l, const struct enq_info *w)
{
    for (const struct enq_info *i = l->info; i < l->info + l->n; i++)
        if (i == w)
            return true; /* behind it are those that came later */
        else if (!wait_together(i, w) && in_the_way(i, w))
            return false;
    return true;
}

/* All of a set, or none. */
bool may_go(const struct look *l, const struct enq_info *w)
{
    bool all = may_go_alone(l, w);

    for (const struct enq_info *i = l->info; i < l->info + l->n && all; i++)
        all = !wait_together(i, w) || may_go_alone(l, i);
    return all;
}

/* --- looking --- */

bool look_around(struct scene *s, struct look *l, bool frozen)
{
    int rc = enq_list(s->teller.e, frozen ? "crash" : NULL, NULL, l->info,
        INFOS, &l->n);

    if (rc == ENQ_OK && l->n <= INFOS)
        return true;
    complain(s->box, "the list is %s: %s", enq_result_name(rc), enq_why());
    return false;
}

bool is_asked_for(const struct look *l, const struct enq_info *held)
{
    for (const struct enq_info *i = l->info; i < l->info + l->n; i++)
        if (i->waiting && in_the_way(i, held) &&
            !same_text(i->owner, held->owner))
            return true;
    return false;
}

/* What a waiter has, and what it waits for: more than one with a lock set. */
struct stand {
    const struct enq_info *first; /* that it waits for */
    unsigned held, waits;
};

static void note_stand(struct stand *stand, const struct enq_info *i)
{
    stand->held += !i->waiting;
    if (i->waiting && stand->waits++ == 0)
        stand->first = i;
}

/* The holder may have a lock in a waiter's name. */
static struct stand stand_of(const struct scene *s, const struct look *l,
    unsigned w)
{
    struct stand stand = {NULL, 0, 0};

    for (size_t i = 0; i < l->n; i++)
        if (l->info[i].pid == s->waiters && l->info[i].owner[0] == 'w' &&
            l->info[i].owner[1] == (char)('0' + w))
            note_stand(&stand, &l->info[i]);
    return stand;
}

/* A waiter that has not been told yet, though it has the lock or may go, or
   cannot have all that it asked for any more. */
static bool is_due(struct scene *s, const struct look *l, unsigned i)
{
    const struct waiter *w = &s->box->waiters[i];
    struct stand stand = stand_of(s, l, i);
    uint32_t phase = load(&w->phase);

    if (phase != WAITER_QUEUED && phase != WAITER_ASKS)
        return false;
    return stand.waits < wish_locks(w->wish) || may_go(l, stand.first);
}

static int first_due(struct scene *s, bool all)
{
    static struct look l;

    if (!all && !look_around(s, &l, false))
        return -1;
    for (unsigned i = 0; i < WAITERS; i++)
        if (all ? load(&s->box->waiters[i].phase) != WAITER_IDLE
                : is_due(s, &l, i))
            return (int)i;
    return -1;
}

/* --- patience --- */

struct patience patience_begin(void)
{
    return (struct patience){.last_ns = now_ns()};
}

/* More than a slice asks for is the machine's fault. */
void patience_pause(struct patience *p, struct box *box, uint32_t event)
{
    int64_t slice;

    word_wait(&box->event, event, 2000000);
    slice = now_ns() - p->last_ns;
    p->last_ns += slice;
    p->ns += slice;
    slice = slice > 3000000 ? 3000000 : slice;
    p->waited_ns += slice;
    if (p->judges && !test_has_ready())
        p->quiet_ns += slice;
}

/* What a busy machine has not come to yet is a thread that is ready. So whoever
   is late is watched for as long again, and only the time counts in which nobody
   was: who was not woken sleeps on, and who was woken does not. */
bool patience_is_over(struct patience *p, int64_t most_ms)
{
    p->judges |= p->waited_ns / 1000000 > most_ms;
    return p->quiet_ns / 1000000 > most_ms ||
        p->ns / 1000000 > most_ms + PATIENCE_MOST_MS;
}

/* Until all that may go have gone; `all`: until all have gone home. No word is
   taken: that would recover, and wake. */
bool wait_for_waiters(struct scene *s, bool all)
{
    struct patience p = patience_begin();
    int due = -1;

    for (;;) {
        uint32_t event = load(&s->box->event);

        due = first_due(s, all);
        if (due < 0)
            return s->box->complaint[0] == '\0';
        if (patience_is_over(&p, (all ? 4 : 1) * PATIENCE_MS))
            break;
        patience_pause(&p, s->box, event);
    }
    complain_of(s->box, FAULT_STUCK,
        "w%d (%s) sleeps though it may go, for %lld ms", due,
        s->box->waiters[due].wish, (long long)(p.ns / 1000000));
    return false;
}

/* --- the table against what may have happened --- */

static bool holders_locks_are_there(struct scene *s, const struct plan *plan,
    const struct look *l)
{
    unsigned seen;

    if (plan->op->flags & (OP_HURTS | OP_EXPIRES | OP_GRANTED))
        return true;
    for (unsigned i = 0; i < s->teller.n; i++) {
        seen = 0;
        for (size_t at = 0; at < l->n; at++)
            seen += l->info[at].handle == s->teller.g[i].handle &&
                l->info[at].token == s->teller.g[i].token &&
                l->info[at].pid == getpid() && !l->info[at].waiting;
        if (seen != 1)
            complain(s->box, "the holder's lock %u is there %u times", i, seen);
    }
    return s->box->complaint[0] == '\0';
}

static bool may_be(const struct plan *plan, const struct enq_info *i)
{
    for (const char *may = plan->op->may; *may != '\0'; may += 2)
        if ("?SEXO"[i->mode] == may[0] && !i->waiting &&
            (may[1] == 'x' ? i->key[0] == 'k'
                           : i->key[0] == may[1] && i->key[1] == '\0'))
            return true;
    return false;
}

/* All of a set, or nothing: what outlives the dead, and what the living have.
   One that died inside its call, before any of it could count, left nothing. */
static bool check_sets(struct scene *s, const struct plan *plan,
    const struct look *l, const unsigned *of)
{
    unsigned all = (unsigned)strlen(plan->op->may) / 2, of_victim = of[0];
    bool inside = (plan->op->flags & OP_INSIDE) != 0;

    if (plan->op->flags & OP_WHOLE &&
        (of_victim != (of_victim > 0 ? all : 0) ||
            (of_victim < all && s->box->victims[0].committed)))
        complain_of(s->box, FAULT_HALF,
            "%u of %u locks of the victim's set are kept", of_victim, all);
    if (inside && strchr(plan->state->dead, ',') != NULL && of[1] > 0)
        complain_of(s->box, FAULT_HALF,
            "%u locks are kept of a set that was never granted", of[1]);
    for (unsigned i = 0; i < WAITERS; i++) {
        struct stand stand = stand_of(s, l, i);

        if (stand.held > 0 && stand.waits > 0)
            complain_of(s->box, FAULT_HALF, "w%u has %u of its set, not %u", i,
                stand.held, stand.held + stand.waits);
    }
    return s->box->complaint[0] == '\0';
}

static bool is_living(const struct enq_info *i)
{
    return strchr("bwhl", i->owner[0]) != NULL;
}

/* What the dead of the state's preparation keep is known as well. */
static bool check_dead(struct scene *s, const struct plan *plan,
    const struct enq_info *i, unsigned *of_victim)
{
    bool kept = !i->waiting &&
        (i->on_death != ENQ_DEATH_RELEASE ||
            strchr(plan->op->run, 'D') != NULL);

    if (i->owner[0] == 'v' && kept && i->orphaned && may_be(plan, i))
        ++*of_victim;
    else if (i->owner[0] != 'd' || !kept || !i->orphaned)
        complain_of(s->box, FAULT_LEAK,
            "%s of the dead %s: %c of %s, on_death %u%s",
            i->waiting ? "a wait" : "a lock", i->owner, "?SEXO"[i->mode],
            i -> key, i -> on_death, i -> orphaned ? "" : ", not orphaned");
    return s->box->complaint[0] == '\0';
}

/* All of one moment: nobody has what goes against what another one has. */
static bool check_exclusion(struct scene *s, const struct look *l)
{
    for (const struct enq_info *x = l->info; x < l->info + l->n; x++)
        for (const struct enq_info *y = l->info; y < x; y++)
            if (!x->waiting && !y->waiting && overlap(x, y) &&
                conflict(x->mode, y->mode) && !same_text(x->owner, y->owner))
                complain_of(s->box, FAULT_DOUBLE, "%s and %s both have %s",
                    x->owner, y->owner, x->key);
    return s->box->complaint[0] == '\0';
}

static bool compare(struct scene *s, const struct plan *plan,
    const struct look *l)
{
    unsigned of[2] = {0}; /* the victims, and the one that was dead before */

    if (!check_exclusion(s, l))
        return false;
    for (size_t i = 0; i < l->n; i++) {
        of[1] += l->info[i].owner[0] == 'd';
        if (!is_living(&l->info[i]) &&
            !check_dead(s, plan, &l->info[i], &of[0]))
            return false;
    }
    if (of[0] < plan->op->least)
        complain(s->box, "%u locks of the victim are kept, not %u", of[0],
            plan->op->least);
    if (strchr("dAF", plan->state->letter) != NULL && of[1] != 2 &&
        !(plan->op->flags & OP_SWEEPS))
        complain(s->box, "%u locks of the dead are kept, not 2", of[1]);
    if (!check_sets(s, plan, l, of))
        return false;
    return holders_locks_are_there(s, plan, l);
}

static bool check_clean(struct scene *s)
{
    char text[512] = "";
    struct check_report report = {text, sizeof(text), 0, 0};
    struct map *map = s->teller.e->map;
    int rc = check_table(map, thread_enter(map), &report);

    if (rc != 0)
        complain(s->box, "the check is %s", enq_result_name(rc));
    else if (report.findings > 0)
        complain(s->box, "%u findings: %.200s", report.findings, text);
    return s->box->complaint[0] == '\0';
}

/* Waiters first, by themselves; then the dead are seen off, then all of it is
   compared. */
bool verify_table(struct scene *s, const struct plan *plan)
{
    static struct look l;
    struct enq *e = s->teller.e;

    if (!wait_for_waiters(s, false) || !listener_heard(s))
        return false;
    reap_dead(&e->session, thread_enter(e->map));
    if (plan->op->flags & OP_DELAYS)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    return check_clean(s) && look_around(s, &l, true) && compare(s, plan, &l);
}

/* --- at rest --- */

struct rest {
    struct scene *s;
    unsigned cached;
};

/* Whose a page is, and whether nothing in it is lost. What is kept for holders
   that may still ask why their lock is gone is an hour old from now on. */
static bool see_rest(void *context, struct entry *e, uint64_t state)
{
    struct rest *r = context;
    const struct map *map = r->s->teller.e->map;
    uint32_t page = map_page_of(map, map_ref(map, e));
    uint32_t owner = load(&map->pages[page].owner);

    if (state_is_live(state))
        complain_of(r->s->box, FAULT_LEAK, "entry %x is still there",
            map_ref(map, e));
    if (STATE_PHASE(state) == PHASE_GONE)
        e->since_ns -= 3600 * INT64_C(1000000000);
    if (STATE_PHASE(state) != PHASE_CACHED)
        return true;
    r->cached++;
    if (owner == 0)
        complain_of(r->s->box, FAULT_LEAK, "entry %x is lost: cached by nobody",
            map_ref(map, e));
    return true;
}

static unsigned all_at_hand(struct scene *s)
{
    const struct session *own = &s->teller.e->session;
    unsigned n =
        s->box->kept + in_depot(own) + in_magazine(own, thread_enter(own->map));

    for (unsigned i = 0; i < WAITERS; i++)
        n += s->box->waiters[i].kept;
    return n;
}

/* Pages belong to living sessions, or to nobody. */
static void check_page_owners(struct scene *s)
{
    const struct map *map = s->teller.e->map;

    for (uint32_t i = 0; i < load(&map->h->pages_used); i++) {
        uint32_t owner = load(&map->pages[i].owner);

        if (owner != 0 && load(&map->pages[i].kind) != PAGE_BUCKETS &&
            load(&map->sessions[owner & SESSION_MASK].ref) != owner)
            complain_of(s->box, FAULT_LEAK,
                "page %u belongs to %x, which is gone", i, owner);
    }
}

static void count_slots(struct scene *s, unsigned *sessions, unsigned *threads)
{
    const struct map *map = s->teller.e->map;

    *sessions = *threads = 0;
    for (uint32_t i = 0; i < load(&map->h->sessions_high); i++)
        *sessions += load(&map->sessions[i].ref) != 0;
    for (uint32_t i = 0; i < load(&map->h->threads_high); i++)
        *threads += load(&map->threads[i].ref) != 0;
}

/* The barger is parked, nobody holds or waits. */
bool verify_rest(struct scene *s)
{
    unsigned sessions, threads;
    struct rest r = {s, 0};

    count_slots(s, &sessions, &threads);
    if (s->base_sessions == 0) {
        s->base_sessions = sessions;
        s->base_threads = threads;
    }
    if (sessions != s->base_sessions || threads != s->base_threads)
        complain_of(s->box, FAULT_LEAK,
            "%u sessions and %u threads are left, not %u and %u", sessions,
            threads, s->base_sessions, s->base_threads);
    slab_each(s->teller.e->map, see_rest, &r);
    /* what a helper thread is about to give back is in no magazine, and cached
       until it has done so */
    for (int i = 0; i < 1000 && r.cached > all_at_hand(s); i++) {
        nanosleep(&(struct timespec){0, 10000000}, NULL);
        r.cached = 0;
        slab_each(s->teller.e->map, see_rest, &r);
    }
    /* of some that say how many, they were taken away since */
    if (r.cached > all_at_hand(s) ||
        (r.cached < all_at_hand(s) && load(&s->teller.e->map->h->wanted) == 0))
        complain_of(s->box, FAULT_LEAK,
            "%u entries are at hand, %u say they are", all_at_hand(s),
            r.cached);
    check_page_owners(s);
    return s->box->complaint[0] == '\0';
}
