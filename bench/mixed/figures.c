/*
 * figures.c - what was found, beside ten and beside all, and what is wanted.
 */
#include "mixed/mixed.h"

#include <string.h>

enum { LENIENCE = 2 }; /* all at once: so many times what is wanted of each */

void figure_add(struct figure *f, unsigned place, double value)
{
    if (f->n[place] < VALUES_MAX)
        f->value[place][f->n[place]++] = value;
}

static double boiled_down(const struct figure *f, unsigned place)
{
    const double *v = f->value[place];

    return f->worst ? greatest(v, f->n[place]) : median(v, f->n[place]);
}

static const char *shown(char *out, size_t n, const char *unit, double value)
{
    if (strcmp(unit, "ns") == 0)
        return show_ns(out, n, value);
    snprintf(out, n, "%.2f %s", value, unit);
    return out;
}

static const char *unit_of_wanted(const struct figure *f)
{
    return f->judge == JUDGE_RATIO ? "x" : f->unit;
}

/* What is judged, of @more that there are more beside all. */
static double judged(const struct figure *f, uint64_t more)
{
    double ten = boiled_down(f, 0), all = boiled_down(f, 1);

    switch (f->judge) {
    case JUDGE_RATIO:
        return ten > 0 ? all / ten : 0;
    case JUDGE_EACH:
        return all > ten ? (all - ten) / (double)more : 0;
    default:
        return all;
    }
}

void figures_head(void)
{
    printf("%-44s %10s %10s %8s %12s\n", "", "beside ten", "beside all",
        "ratio", "wanted");
}

static void show_ratio(const struct figure *f)
{
    double ten = boiled_down(f, 0), all = boiled_down(f, 1);

    if (ten > 0)
        printf(" %8.2f", all / ten);
    else
        printf(" %8s", "");
}

static void show_wanted(const struct figure *f, double value, bool met)
{
    char is[32], wanted[32];

    printf(" <= %9s",
        shown(wanted, sizeof(wanted), unit_of_wanted(f), f->wanted * LENIENCE));
    if (f->judge == JUDGE_EACH)
        printf("  each: %s", shown(is, sizeof(is), f->unit, value));
    if (!met)
        printf("  MISSED");
}

bool figure_show(const struct figure *f, uint64_t more)
{
    char ten[32], all[32];
    double value = judged(f, more);
    bool met = f->judge == JUDGE_TOLD || value <= f->wanted * LENIENCE;

    if (f->n[0] == 0 || f->n[1] == 0)
        return true;
    printf("%-44s %10s %10s", f->what,
        shown(ten, sizeof(ten), f->unit, boiled_down(f, 0)),
        shown(all, sizeof(all), f->unit, boiled_down(f, 1)));
    show_ratio(f);
    if (f->judge != JUDGE_TOLD)
        show_wanted(f, value, met);
    printf("\n");
    return met;
}
