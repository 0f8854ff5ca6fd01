/*
 * results.c - what the run has brought so far, kept for the goals, the plot
 * and RESULTS.md.
 */
#include "harness/bench.h"

#include <string.h>

enum { RESULTS_MAX = 2048 };

static struct result results[RESULTS_MAX];
static unsigned n_results;

static void boil_down(struct result *r, const struct figures *f)
{
    const struct hist *h = &f->hist;

    r->rounds = f->rounds;
    r->rate = median(f->runs, f->rounds);
    r->base_rate = median(f->base, f->rounds);
    r->fairness = median(f->fairness, f->rounds);
    r->samples = hist_count(h);
    r->p50 = (double)hist_quantile(h, 0.5);
    r->p99 = (double)hist_quantile(h, 0.99);
    r->worst = (double)hist_quantile(h, 1);
    r->longest = median(f->longest, f->rounds);
    r->longest_worst = greatest(f->longest, f->rounds);
    r->base_longest = greatest(f->base_longest, f->rounds);
    r->handover = median(f->handover, f->rounds);
    r->cpu_share = median(f->cpu_share, f->rounds);
    r->cpu_each = median(f->cpu_each, f->rounds);
    r->server = median(f->server, f->rounds);
    r->bytes = f->bytes;
    r->idle = f->idle;
    memcpy(r->runs, f->runs, sizeof(r->runs));
}

/* Where others state a figure: a pair on one free key, or their own client. */
static bool claims(const struct trial *t, const struct subject *s)
{
    enum work w = t->scenario->work;

    return s->claim > 0 &&
        (w == WORK_NPM ||
            (w == WORK_PAIR && t->procs == 1 &&
                strcmp(t->scenario->keys, "hot") == 0));
}

/* NULL: there is nothing to keep. */
const struct result *result_add(const struct trial *t, unsigned subject,
    const struct figures *f)
{
    const struct subject *s = subjects[subject];
    bool claimed = !f->offered && claims(t, s);

    if ((!f->offered && !claimed) || n_results == RESULTS_MAX)
        return NULL;
    struct result *r = &results[n_results++];
    *r = (struct result){.trial = *t, .subject = s, .measured = !claimed};
    if (claimed)
        r->rate = s->claim;
    else
        boil_down(r, f);
    return r;
}

static bool fits(const struct result *r, const struct which *w)
{
    const struct trial *t = &r->trial;

    return (w->scenario == NULL ||
               strcmp(w->scenario, t->scenario->name) == 0) &&
        (w->subject == NULL || strcmp(w->subject, r->subject->name) == 0) &&
        (w->procs == 0 || w->procs == t->procs) &&
        (w->held == 0 || w->held == t->held) &&
        (w->count == 0 || w->count == t->count) &&
        (w->hold_ns == 0 || w->hold_ns == t->hold_ns);
}

const struct result *result_find(const struct which *w)
{
    for (unsigned i = 0; i < n_results; i++)
        if (fits(&results[i], w))
            return &results[i];
    return NULL;
}

const struct result *result_peer(const struct result *r,
    const struct subject *s)
{
    const struct trial *a = &r->trial;

    for (unsigned i = n_results; i-- > 0;) {
        const struct trial *b = &results[i].trial;
        if (results[i].subject == s && a->scenario == b->scenario &&
            a->procs == b->procs && a->held == b->held &&
            a->count == b->count && a->hold_ns == b->hold_ns)
            return &results[i];
    }
    return NULL;
}

static double over(double more, double less)
{
    return less > 0 ? more / less : 0;
}

double result_times(const struct result *mine, const struct result *other)
{
    switch (mine->trial.scenario->manner) {
    case MANNER_RATE:
        return over(mine->rate, other->rate);
    case MANNER_WEIGH:
        return over(other->bytes, mine->bytes);
    default:
        return over(other->p50, mine->p50);
    }
}

const struct result *result_next(const struct result *r)
{
    r = r == NULL ? results : r + 1;
    return r < results + n_results ? r : NULL;
}
