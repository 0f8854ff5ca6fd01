/*
 * growth.c - the scales in figures: how what one operation costs grows with the
 * number beside it, as the exponent of the power that fits best.
 */
#include "harness/bench.h"

#include <math.h>

double result_cost(const struct result *r)
{
    if (r->trial.scenario->work == WORK_QUEUE)
        return r->handover;
    if (r->trial.scenario->manner == MANNER_DEATH)
        return r->p50;
    return r->rate > 0 ? 1e9 / r->rate : 0;
}

uint64_t result_number(const struct result *r)
{
    const struct trial *t = &r->trial;

    if (t->scenario->work == WORK_POOL)
        return t->procs;
    return t->scenario->n_count > 0 ? t->count : t->held;
}

/* The sums of a straight line through the logarithms. */
struct fit {
    double n, x, y, xx, xy;
};

static void fit_add(struct fit *f, double number, double cost)
{
    double x = log(number), y = log(cost);

    f->n++;
    f->x += x;
    f->y += y;
    f->xx += x * x;
    f->xy += x * y;
}

static double fit_slope(const struct fit *f)
{
    return (f->n * f->xy - f->x * f->y) / (f->n * f->xx - f->x * f->x);
}

static void stretch(struct growth *g, uint64_t number, double cost)
{
    if (g->from == 0 || number < g->from) {
        g->from = number;
        g->from_ns = cost;
    }
    if (number > g->to) {
        g->to = number;
        g->to_ns = cost;
    }
}

/* Beside none it is another case, not a smaller number. */
bool growth_of(const struct scenario *s, const struct subject *subject,
    struct growth *g)
{
    struct fit fit = {0};

    *g = (struct growth){0};
    for (const struct result *r = result_next(NULL); r != NULL;
         r = result_next(r)) {
        uint64_t number = result_number(r);
        if (r->subject != subject || r->trial.scenario != s || number == 0 ||
            result_cost(r) <= 0)
            continue;
        fit_add(&fit, (double)number, result_cost(r));
        stretch(g, number, result_cost(r));
    }
    if (g->from == g->to)
        return false;
    g->exponent = fit_slope(&fit);
    return true;
}
