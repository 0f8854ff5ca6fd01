/*
 * trial.c - one trial: rounds of passes over the subjects, A B A B, and what
 * they add up to. A fight whose guard does not agree with its grants ends the
 * run: a figure of a lock that does not exclude is worth nothing.
 */
#include "crew.h"

#include <stdlib.h>
#include <string.h>

const struct subject *const subjects[] = {
    &subject_enq,
    &subject_mutex,
    &subject_rwlock,
    NULL,
};

bool subject_offers(const struct subject *s, enum work w)
{
    return s->acts[w].batch != NULL || s->acts[w].weigh != NULL;
}

static int guard_check(struct crew *c, unsigned subject)
{
    uint64_t pairs = 0, broken = 0;
    uint64_t visits = crew_guard(c, subject)->visits;

    if (c->trial->scenario->work != WORK_FIGHT)
        return 0;
    for (unsigned i = 0; i < c->trial->procs; i++) {
        pairs += crew_slot(c, i)->pairs;
        broken += crew_slot(c, i)->broken;
    }
    if (visits == pairs && broken == 0)
        return 0;
    fprintf(stderr,
        "enq-bench: MUTUAL EXCLUSION BROKEN: %s, %u processes: %llu "
        "grants, %llu guarded visits, %llu torn\n",
        subjects[subject]->name, c->trial->procs, (unsigned long long)pairs,
        (unsigned long long)visits, (unsigned long long)broken);
    return -1;
}

static int pass(struct crew *c, struct order o, double seconds)
{
    if (crew_run(c, o, seconds) != 0)
        return -1;
    return guard_check(c, o.subject);
}

static void note_rate(struct crew *c, struct figures *f)
{
    uint64_t begin = UINT64_MAX, end = 0, pairs = 0;
    uint64_t least = UINT64_MAX, most = 0;

    for (unsigned i = 0; i < c->trial->procs; i++) {
        struct slot *s = crew_slot(c, i);
        begin = s->begin_ns < begin ? s->begin_ns : begin;
        end = s->end_ns > end ? s->end_ns : end;
        least = s->pairs < least ? s->pairs : least;
        most = s->pairs > most ? s->pairs : most;
        pairs += s->pairs;
    }
    f->runs[f->rounds] =
        end > begin ? (double)pairs * 1e9 / (double)(end - begin) : 0;
    f->fairness[f->rounds] = most > 0 ? (double)least / (double)most : 0;
    f->rounds++;
}

static void note_sample(struct crew *c, struct figures *f)
{
    for (unsigned i = 0; i < c->trial->procs; i++) {
        struct slot *s = crew_slot(c, i);
        hist_merge(&f->hist, &s->hist);
        if (s->longest_ns > f->longest_ns)
            f->longest_ns = s->longest_ns;
    }
}

/* One pass of every subject that takes part, in the order of the table. */
static int lap(struct crew *c, enum pass what, double seconds,
    struct figures *f)
{
    for (unsigned i = 0; subjects[i] != NULL; i++) {
        struct order o = {.subject = i, .pass = what};
        if (!f[i].offered)
            continue;
        if (pass(c, o, seconds) != 0)
            return -1;
        if (what == PASS_RATE)
            note_rate(c, &f[i]);
        else if (what == PASS_SAMPLE)
            note_sample(c, &f[i]);
        else if (what == PASS_WEIGH)
            f[i].bytes = crew_slot(c, 0)->bytes;
    }
    return 0;
}

static void forget(struct figures *f)
{
    for (unsigned i = 0; subjects[i] != NULL; i++)
        f[i].rounds = 0;
}

static int measure(struct crew *c, const struct options *o, struct figures *f)
{
    if (c->trial->scenario->work == WORK_WEIGH)
        return lap(c, PASS_WEIGH, 0, f);
    if (lap(c, PASS_RATE, o->seconds / 2, f) != 0)
        return -1;
    forget(f); /* it only warmed up */
    for (unsigned r = 0; r < o->rounds; r++) {
        if (lap(c, PASS_RATE, o->seconds, f) != 0)
            return -1;
        if (lap(c, PASS_SAMPLE, o->seconds / 4, f) != 0)
            return -1;
    }
    if (c->trial->scenario->work == WORK_FIGHT)
        return lap(c, PASS_PROVE, o->seconds, f);
    return 0;
}

/* @f  one for each subject. */
int trial_run(const struct trial *t, const struct options *o, struct figures *f)
{
    struct crew c;

    memset(f, 0, sizeof(*f) * SUBJECTS_MAX);
    for (unsigned i = 0; subjects[i] != NULL; i++)
        f[i].offered = subject_offers(subjects[i], t->scenario->work);
    int rc = crew_start(&c, t);
    if (rc == 0)
        rc = measure(&c, o, f);
    return crew_end(&c) == 0 ? rc : -1;
}
