/*
 * series.c - all deaths of one operation from one state: at the first store,
 * at the second, ... until it comes to its end; and where a second and a third
 * process clear up after it, all of theirs for each of its own.
 */
#include <stdio.h>
#include <string.h>

#include "crash.h"
#include "lib/dice.h"

/* --- which series --- */

struct series {
    const struct op *op;
    const struct state *state;
    const char *rescue; /* NULL: one dies alone */
    unsigned victims;
    const char *at; /* the first dies here only; NULL: everywhere */
};

/* "Z" reaps the dead, as a helper thread does: all that locks, unlocks or
   recovers is paired with that. */
static const char *const paired[] = {
    "lock-", "unlock", "grant-", "recover", "reap"};

/* These as well: the second one comes for the key; or a third one dies. Lock
   sets: the plain ones at every store, others at the one that is their own. */
static const struct pairing {
    const char *op;
    char state;
    const char *at, *rescue;
    unsigned victims;
} pairings[] = {
    {"lock-X", 'e', NULL, "+Xat", 2},
    {"lock-X", 'q', NULL, "+Sat", 2},
    {"lock-X", 'g', NULL, "+Xat", 2},
    {"lock-id", 'e', NULL, "+Xa", 2},
    {"lock-X-wide", 'g', NULL, "+Xat", 2},
    {"wait-timed-out", 'q', NULL, "Z", 2},
    {"unlock", 'g', NULL, "+Xat", 2},
    {"unlock-id", 'e', NULL, "+X@t", 2},
    {"grant-all", 'e', NULL, "+Xat", 2},
    {"lock-X", 'q', "lock.latched", "Z", 3},
    {"lock-id", 'g', "lock.linked", "Z", 3},
    {"lock-X-wide", 'e', "gate.linked", "Z", 3},
    {"unlock", 'e', "unlock.unlinked", "Z", 3},
    {"grant-all", 'e', "grant.stored", "+Xat", 3},
    {"grant-from-wide", 'e', "grant.stored", "Z", 3},
    {"set-lock", 'e', NULL, "Z", 2},
    {"set-lock-keep", 'e', NULL, "Z", 2},
    {"set-unlock", 'e', NULL, "Z", 2},
    {"set-lock-keep", 'e', "set.member_held", "+Xat,Xb", 2},
    {"set-lock-half-wide", 'g', "set.member_held", "+Xa,Xbt", 2},
    {"set-lock-mixed", 'g', "set.member_held", "Z", 2},
    {"set-lock-shared", 'l', "set.member_held", "Z", 2},
    {"set-lock-twice", 'e', "set.member_held", "Z", 2},
    {"set-lock-ids", 'g', "set.member_held", "Z", 2},
    {"set-lock-delayed", 'g', "set.member_held", "Z", 2},
    {"set-lock-same-id", 'e', "unlock.unlinked", "Z", 2},
    {"set-lock-wide", 'e', "set.member_held", "Z", 2},
    {"set-lock-ten", 'e', "set.committed", "Z", 2},
    {"set-wait-timed-out", 'q', "unlock.unlinked", "Z", 2},
    {"set-wait-granted-wide", 'h', "grant.stored", "Z", 2},
    {"set-start-granted-later", 'h', "grant.stored", "Z", 2},
    {"set-unlock-granting", 'g', "grant.retry", "Z", 2},
    {"set-lock-half-wide", 'g', "set.member_held", "Z", 3},
    {"first-page", 'e', "slab.claimed", "Z", 2},
    /* where there is time: */
    {"set-lock", 'Q', NULL, "Z", 2},
    {"set-lock-half-wide", 'g', NULL, "Z", 2},
    {"set-wait-granted-keep", 'h', NULL, "Z", 2},
};
#define LONG_ONES 3

static unsigned n_pairings(void)
{
    return LENGTH(pairings) - (options.share > 0 ? LONG_ONES : 0);
}

static bool is_paired(const struct op *op)
{
    if (op->stage >= STAGE_FRESH || op->flags & (OP_DIES | OP_FORSAKEN))
        return false;
    for (unsigned i = 0; i < LENGTH(paired); i++)
        if (strncmp(op->name, paired[i], strlen(paired[i])) == 0)
            return true;
    return false;
}

/* The i-th of all operations with their states, or of the paired ones. */
static bool op_with_state(unsigned *i, bool pairs, struct series *s)
{
    const struct op *op;

    for (unsigned n = 0; (op = op_at(n)) != NULL; n++) {
        unsigned states = (unsigned)strlen(op->states);

        if (pairs && !is_paired(op))
            continue;
        s->op = op;
        if (*i < states) {
            s->state = state_of(op->states[*i]);
            return true;
        }
        *i -= states;
    }
    return false;
}

static bool series_at(unsigned i, struct series *s)
{
    *s = (struct series){.victims = 1};
    if (op_with_state(&i, false, s))
        return true;
    s->rescue = "Z";
    s->victims = 2;
    if (op_with_state(&i, true, s))
        return true;
    if (i >= n_pairings())
        return false;
    *s = (struct series){op_named(pairings[i].op), state_of(pairings[i].state),
        pairings[i].rescue, pairings[i].victims, pairings[i].at};
    return true;
}

/* How many there are of those that die alone, or not. */
static unsigned series_total(bool alone)
{
    struct series s;
    unsigned n = 0;

    for (unsigned i = 0; series_at(i, &s); i++)
        n += (s.rescue == NULL) == alone;
    return n;
}

/* --- one of them --- */

struct work {
    struct scene *scene;
    struct plan plan;
    unsigned depth, faults;
    bool once, cut; /* no store of a loop twice; there was no time for all */
    int64_t until_ns;
    uint64_t seed;
};

#define FAULTS_MAX 3
#define SOME 16
#define MANY 2000

/* Each series has its share of the time, if there is a limit: a death at each
   pass of each store, in pairs, takes hours. */
static bool enough(struct work *w)
{
    w->cut = w->cut || w->faults >= FAULTS_MAX || now_ns() > w->until_ns;
    return w->cut;
}

static void print_places(const struct box *box, unsigned victims)
{
    for (unsigned i = 0; i < victims; i++)
        printf("%s%s", i == 0 ? " (" : ", ",
            box->victims[i].at == NULL ? "lives" : box->victims[i].at->name);
    printf(")");
}

static void play_once(struct work *w)
{
    struct box *box = w->scene->box;

    for (unsigned i = 0; i < VICTIMS; i++)
        box->victims[i].at = NULL;
    if (play(w->scene, &w->plan)) {
        if (box->victims[0].at != NULL && box->victims[1].at != NULL)
            __atomic_add_fetch(&tally->pairs, 1, __ATOMIC_RELAXED);
        if (!options.verbose)
            return;
        printf("fine: %s", box->story);
        print_places(box, w->plan.victims);
        printf(", %u passes\n", box->victims[w->plan.victims - 1].passes);
        return;
    }
    w->faults++;
    __atomic_add_fetch(&tally->faults[box->fault], 1, __ATOMIC_RELAXED);
    printf("FAIL %s", box->story);
    print_places(box, w->plan.victims);
    printf(": %s\n", box->complaint);
    fflush(stdout);
}

/* The same store in a loop (a generic lock passes through all 256 shards, a
   recoverer frees all words of ids) is not died at each time: at the first
   three, at the last six of all, and at some of the others. One that dies alone
   does so at each where there is no limit of time, but in the longest
   (doctor). */
static bool is_worth(struct work *w, const uint16_t *trace, uint32_t n,
    uint32_t k)
{
    unsigned before = 0;

    for (uint32_t i = 1; i < k; i++)
        before += trace[i] == trace[k];
    if (w->once)
        return before == 0;
    if ((w->depth == 1 && n < MANY && options.share == 0) || n - k < 6)
        return true;
    return before < 3 || dice_roll(&w->seed) % SOME == 0;
}

/* However short the time: where nobody has died yet in any operation, this one
   does so, at the first pass. Others may meet it in another way the next time,
   so it gets a second chance, and a third. */
static void die_where_new(struct work *w, const uint16_t *trace, uint32_t n)
{
    for (uint32_t k = 1; k <= n && w->faults < FAULTS_MAX; k++)
        for (int tries = 0; tries < 3 && point_is_new(trace[k]); tries++) {
            w->plan.name = __start_enq_points[trace[k]].name;
            play_once(w);
        }
    w->plan.name = NULL;
}

/* All deaths of the victim `level`, and for each all those of the next. */
static void die_everywhere(struct work *w, unsigned level)
{
    struct victim *v = &w->scene->box->victims[level];
    uint16_t trace[POINTS_MAX];
    uint32_t n, from;

    w->plan.victims = level + 1;
    w->plan.k[level] = 0;
    play_once(w);
    n = v->passes < POINTS_MAX - 1 ? v->passes : POINTS_MAX - 1;
    memcpy(trace, v->trace, sizeof(trace));
    if (w->depth == 1)
        die_where_new(w, trace, n);
    from = w->once || w->depth == 1 || n == 0 ? 0 : dice_roll(&w->seed) % n;
    for (uint32_t i = 0; i < n && !enough(w); i++) {
        uint32_t k = 1 + (from + i) % n;

        if (!is_worth(w, trace, n, k))
            continue;
        w->plan.k[level] = k;
        if (level + 1 < w->depth) {
            die_everywhere(w, level + 1);
            continue;
        }
        w->plan.victims = level + 1;
        play_once(w);
        if (k == n && from == 0 && v->at != NULL && n < POINTS_MAX - 1)
            n++; /* it did more this time */
    }
    w->plan.k[level] = 0;
}

/* A quarter of the time is for those that die alone. */
static int64_t share_until(bool alone)
{
    int64_t all = (int64_t)options.share * 1000000000 * options.jobs / 4;

    if (options.share == 0)
        return INT64_MAX;
    return now_ns() + (alone ? 1 : 3) * all / series_total(alone);
}

/* Every store of the operation, with every store of those that clear up: once
   each, though it be in a loop. Then some more, where the loops are longer, as
   long as there is time. */
static void die_in_turn(struct work *w)
{
    unsigned level = w->plan.name != NULL;
    int64_t until = w->until_ns;

    w->once = true;
    w->until_ns = INT64_MAX;
    die_everywhere(w, level);
    w->once = false;
    w->until_ns = until;
    __atomic_add_fetch(&tally->whole, !w->cut, __ATOMIC_RELAXED);
    if (!enough(w) && options.share > 0)
        die_everywhere(w, level);
}

static void work_through(struct scene *scene, const struct series *s,
    uint64_t seed, bool points_only)
{
    bool alone = s->rescue == NULL;
    struct work w = {.scene = scene,
        .seed = seed,
        .depth = s->victims,
        .until_ns = points_only ? 0 : share_until(alone),
        .plan = {.op = s->op,
            .state = s->state,
            .rescue = s->rescue,
            .name = s->at}};
    int64_t begin = now_ns();
    uint64_t kills = load(&tally->kills);

    if (alone)
        die_everywhere(&w, 0);
    else
        die_in_turn(&w);
    if (w.faults > 0 || !points_only)
        __atomic_add_fetch(w.faults == 0 ? &tally->passed : &tally->failed, 1,
            __ATOMIC_RELAXED);
    if (options.verbose)
        printf("series %s %s %s: %.2f s, some %llu kills\n", s->op->name,
            s->state->name, alone ? "" : s->rescue,
            (double)(now_ns() - begin) / 1e9,
            (unsigned long long)(load(&tally->kills) - kills));
    fflush(stdout);
}

/* --- a worker --- */

static bool is_wanted(const struct series *s)
{
    if (options.op != NULL && strcmp(options.op, s->op->name) != 0)
        return false;
    if (options.state != NULL && strcmp(options.state, s->state->name) != 0)
        return false;
    if (options.alone)
        return s->rescue == NULL;
    return options.rescue == NULL ||
        (s->rescue != NULL && strcmp(options.rescue, s->rescue) == 0);
}

/* Those of two that die take nine tenths of the time, and two states of an
   operation are much alike: each has its turn in one round of five (on a slow
   machine of more, see TURNS), and a run of one round begins where chance wants. But
   those that look at a whole name are few, and they alone die with a shard's latch:
   five times as often. */
static bool is_its_turn(const struct series *s, uint32_t i, uint64_t seed)
{
    bool wide = strstr(s->op->name, "-wide") != NULL;

    return s->rescue == NULL || options.share == 0 || !is_whole() ||
        (i + seed) % (wide ? options.turns / TURNS : options.turns) == 0;
}

bool is_replay(void)
{
    return options.name != NULL || options.k + options.j + options.i > 0;
}

static void replay(struct scene *scene)
{
    struct work w = {.scene = scene,
        .until_ns = INT64_MAX,
        .plan = {.op = op_named(options.op),
            .state = state_named(options.state),
            .rescue = options.rescue,
            .name = options.name,
            .k = {options.k, options.j, options.i},
            .victims = options.rescue == NULL ? 1
                : options.i > 0               ? 3
                                              : 2}};

    if (w.plan.op == NULL || w.plan.state == NULL) {
        printf("there is no such operation or state\n");
        tally->failed++;
        return;
    }
    for (uint64_t n = 0; n == 0 || (n < options.count && !enough(&w)); n++)
        play_once(&w);
    tally->passed += w.faults == 0;
    tally->failed += w.faults != 0;
}

void series_work(struct box *box, unsigned round, bool points_only)
{
    struct scene scene = {.box = box};
    struct series s;
    uint32_t i;

    spares_begin(box);
    if (is_replay()) {
        replay(&scene);
    } else {
        while (series_at(i = bump(&tally->next) - 1, &s))
            if (is_wanted(&s) && !(points_only && s.rescue != NULL) &&
                is_its_turn(&s, i, options.seed + round))
                work_through(&scene, &s, options.seed + round, points_only);
    }
    scene_end(&scene);
    spares_end();
}
