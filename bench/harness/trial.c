/*
 * trial.c - one trial: rounds of passes over the subjects, A B A B, and what
 * they add up to. A fight whose guard does not agree with its grants ends the
 * run: a figure of a lock that does not exclude is worth nothing.
 */
#include "harness/crew.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FEW_PROCS = 64 };

const struct subject *const subjects[] = {
    &subject_enq,
    &subject_strict,
    &subject_mutex,
    &subject_rwlock,
    &subject_futex,
    &subject_bdb,
    &subject_bdb_detect,
    &subject_lmdb,
    &subject_flock,
    &subject_ofd,
    &subject_sysv,
    &subject_redis,
    &subject_redis_del,
    &subject_postgresql,
    &subject_seed,
    NULL,
};

bool subject_offers(const struct subject *s, enum work w)
{
    const struct act *a = &s->acts[w];

    return a->batch != NULL || a->weigh != NULL || a->hold != NULL ||
        a->aside != NULL;
}

const char *subject_missing(unsigned index)
{
    return subjects[index]->missing == NULL ? NULL : subjects[index]->missing();
}

bool subject_joins(const struct options *o, unsigned index)
{
    return !o->chosen_subjects || o->subject[index];
}

void subjects_list(FILE *out)
{
    fprintf(out, "\nsubjects:\n");
    for (unsigned i = 0; subjects[i] != NULL; i++) {
        const char *missing = subject_missing(i);
        fprintf(out, "%-16s %s%s%s%s\n", subjects[i]->name, subjects[i]->what,
            missing != NULL ? " (" : "", missing != NULL ? missing : "",
            missing != NULL ? ")" : "");
    }
}

static const struct act *act_of(const struct crew *c, unsigned subject)
{
    return &subjects[subject]->acts[c->trial->scenario->work];
}

static bool guarded(const struct crew *c)
{
    enum work w = c->trial->scenario->work;

    return w == WORK_FIGHT || w == WORK_QUEUE || w == WORK_NEXT ||
        w == WORK_LOOK;
}

static int guard_check(struct crew *c, unsigned subject)
{
    uint64_t pairs = 0, broken = 0;
    uint64_t visits = crew_guard(c, subject)->visits;

    if (!guarded(c))
        return 0;
    for (unsigned i = 0; i < c->workers; i++) {
        pairs += crew_slot(c, i)->pairs + crew_slot(c, i)->late;
        broken += crew_slot(c, i)->broken;
    }
    if (visits == pairs && broken == 0)
        return 0;
    crew_complain("MUTUAL EXCLUSION BROKEN: %s, %u processes: %llu grants, "
                  "%llu guarded visits, %llu torn",
        subjects[subject]->name, c->trial->procs, (unsigned long long)pairs,
        (unsigned long long)visits, (unsigned long long)broken);
    return -1;
}

static int pass(struct crew *c, struct order o, double seconds)
{
    struct order before = {.subject = o.subject,
        .pass = PASS_ARRANGE,
        .base = o.pass == PASS_BASE};

    if (act_of(c, o.subject)->arrange != NULL && crew_run(c, before, 0) != 0)
        return -1;
    if (crew_run(c, o, seconds) != 0)
        return -1;
    return guard_check(c, o.subject);
}

/* Notes -------------------------------------------------------------------- */

struct sum {
    uint64_t begin, end, pairs, least, most, longest, handovers, cpu;
};

/* Of those that took part in the pass. */
static struct sum sum_up(struct crew *c)
{
    struct sum sum = {.begin = UINT64_MAX, .least = UINT64_MAX};

    for (unsigned i = 0; i < c->workers; i++) {
        struct slot *s = crew_slot(c, i);
        if (s->end_ns == 0)
            continue;
        sum.begin = s->begin_ns < sum.begin ? s->begin_ns : sum.begin;
        sum.end = s->end_ns > sum.end ? s->end_ns : sum.end;
        sum.least = s->pairs < sum.least ? s->pairs : sum.least;
        sum.most = s->pairs > sum.most ? s->pairs : sum.most;
        sum.pairs += s->pairs;
        sum.handovers += s->handovers;
        sum.cpu += s->cpu_ns;
    }
    return sum;
}

static double rate_of(const struct sum *s)
{
    return s->end > s->begin
        ? (double)s->pairs * 1e9 / (double)(s->end - s->begin)
        : 0;
}

static double longest_of(struct crew *c)
{
    uint64_t longest = 0;
    unsigned first = c->trial->scenario->bystanders > 0
        ? c->workers - c->trial->scenario->bystanders
        : 0;

    for (unsigned i = first; i < c->workers; i++)
        if (crew_slot(c, i)->longest_ns > longest)
            longest = crew_slot(c, i)->longest_ns;
    return (double)longest;
}

static void note_longest(double *noted, double ns)
{
    if (ns > *noted)
        *noted = ns;
}

static void note_hist(struct crew *c, struct figures *f)
{
    for (unsigned i = 0; i < c->workers; i++)
        hist_merge(&f->hist, &crew_slot(c, i)->hist);
}

/* The holder's own time is not the waiters'. It looks at the clock until its
   time is over, so that it burns at most what it was told to hold. */
static void note_cpu(struct crew *c, struct figures *f, unsigned round)
{
    struct sum sum = sum_up(c);
    double held = (double)sum.pairs * (double)c->trial->hold_ns;
    double waited = (double)sum.cpu > held ? (double)sum.cpu - held : 0;

    if (sum.end > sum.begin)
        f->cpu_share[round] = waited / (double)(sum.end - sum.begin);
    if (sum.handovers > 0)
        f->cpu_each[round] = waited / (double)sum.handovers;
}

/* Does the work fill the histogram in its rate passes? */
static bool times_itself(enum work w)
{
    return w == WORK_REMOTE || w == WORK_QUEUE;
}

static void note_rate(struct crew *c, struct figures *f, unsigned round)
{
    struct sum sum = sum_up(c);

    f->runs[round] = rate_of(&sum);
    f->fairness[round] =
        sum.most > 0 ? (double)sum.least / (double)sum.most : 0;
    if (sum.handovers > 0)
        f->handover[round] =
            (double)(sum.end - sum.begin) / (double)sum.handovers;
    if (times_itself(c->trial->scenario->work))
        note_hist(c, f);
    if (c->trial->scenario->work == WORK_QUEUE)
        note_cpu(c, f, round);
    if (c->trial->scenario->work == WORK_REMOTE && sum.pairs > 0)
        f->server[round] = (double)sum.cpu / (double)sum.pairs;
    f->rounds = round + 1;
}

/* A crew of one has gone to sleep with what it has. */
static void note_weight(struct crew *c, struct figures *f)
{
    struct slot *s = crew_slot(c, 0);

    note_hist(c, f);
    f->bytes = s->bytes;
    if (s->end_ns > s->begin_ns)
        f->idle = (double)s->cpu_ns / (double)(s->end_ns - s->begin_ns);
}

static void note(struct crew *c, struct figures *f, enum pass what,
    unsigned round)
{
    double longest = longest_of(c);
    struct sum sum;

    switch (what) {
    case PASS_BASE:
        sum = sum_up(c);
        f->base[round] = rate_of(&sum);
        note_longest(&f->base_longest[round], longest);
        return;
    case PASS_HANDOVER:
        note_cpu(c, f, round);
        note_hist(c, f);
        break;
    case PASS_SAMPLE:
        note_hist(c, f);
        note_longest(&f->longest[round], longest);
        return;
    case PASS_WEIGH:
        note_weight(c, f);
        return;
    default:
        break;
    }
    note_rate(c, f, round);
    note_longest(&f->longest[round], longest);
}

/* Measuring ---------------------------------------------------------------- */

static bool has_pass(const struct act *a, enum pass what)
{
    switch (what) {
    case PASS_BASE:
        return a->base != NULL;
    case PASS_SAMPLE:
        return a->acquire != NULL;
    default:
        return true;
    }
}

struct lap {
    double seconds;
    unsigned round;
    struct figures *figures;
};

/* One pass of every subject that takes part, in the order of the table. */
static int run_lap(struct crew *c, enum pass what, const struct lap *l)
{
    for (unsigned i = 0; subjects[i] != NULL; i++) {
        struct order o = {.subject = i, .pass = what};
        if (!c->joins[i] || !has_pass(act_of(c, i), what))
            continue;
        if (pass(c, o, l->seconds) != 0)
            return -1;
        note(c, &l->figures[i], what, l->round);
    }
    return 0;
}

static int handovers(struct crew *c, const struct options *o, struct lap l)
{
    for (unsigned r = 0; r < o->rounds; r++) {
        l.round = r;
        if (run_lap(c, PASS_HANDOVER, &l) != 0)
            return -1;
    }
    return 0;
}

static struct figures unused[SUBJECTS_MAX]; /* of passes that do not count */

static int rates(struct crew *c, const struct options *o, struct lap l)
{
    struct lap samples = l, proof = {l.seconds, 0, unused};

    samples.seconds /= 4;
    for (unsigned r = 0; r < o->rounds; r++) {
        samples.round = l.round = r;
        if (run_lap(c, PASS_RATE, &l) != 0 || run_lap(c, PASS_BASE, &l) != 0 ||
            run_lap(c, PASS_SAMPLE, &samples) != 0)
            return -1;
    }
    return c->trial->scenario->work == WORK_FIGHT
        ? run_lap(c, PASS_PROVE, &proof)
        : 0;
}

static int measure(struct crew *c, const struct options *o, struct figures *f)
{
    const struct scenario *s = c->trial->scenario;
    double seconds = o->seconds * (s->share > 0 ? s->share : 1);
    struct lap warm = {seconds / 2, 0, unused}, lap = {seconds, 0, f};

    switch (s->manner) {
    case MANNER_WEIGH:
        return run_lap(c, PASS_WEIGH, &(struct lap){0, 0, f});
    case MANNER_DEATH:
        return death_run(c, o, f);
    case MANNER_HANDOVER:
        return run_lap(c, PASS_HANDOVER, &warm) == 0 ? handovers(c, o, lap)
                                                     : -1;
    default:
        return run_lap(c, PASS_RATE, &warm) == 0 ? rates(c, o, lap) : -1;
    }
}

/* A megabyte each, of which half of the machine's may be used; a limit that is
   met on the way would end the whole run. */
static const char *too_many(const struct trial *t)
{
    uint64_t memory =
        (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    struct rlimit most;

    if (t->procs <= FEW_PROCS)
        return NULL;
    if (memory / 2 >> 20 < t->procs)
        return "so many processes need more memory than there is";
    if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &most) == 0 &&
        most.rlim_cur < 2 * (rlim_t)t->procs)
        return "so many processes are not allowed (ulimit -u)";
    return NULL;
}

static void choose(struct crew *c, const struct options *o, struct figures *f)
{
    for (unsigned i = 0; subjects[i] != NULL; i++) {
        const struct subject *s = subjects[i];
        if (!subject_joins(o, i) || subject_missing(i) != NULL ||
            !subject_offers(s, c->trial->scenario->work))
            continue;
        f[i].declined = too_many(c->trial);
        if (f[i].declined == NULL && s->declines != NULL)
            f[i].declined = s->declines(c->trial);
        c->joins[i] = f[i].offered = f[i].declined == NULL;
    }
}

/* @f  one for each subject. */
int trial_run(const struct trial *t, const struct options *o, struct figures *f)
{
    struct crew c = {.trial = t};

    memset(f, 0, sizeof(*f) * SUBJECTS_MAX);
    choose(&c, o, f);
    int rc = crew_start(&c);
    if (rc == 0)
        rc = measure(&c, o, f);
    return crew_end(&c) == 0 ? rc : -1;
}
