/*
 * show.c - figures as people read them.
 */
#include "harness/bench.h"

#include <string.h>

const char *show_rate(char *out, size_t n, double rate)
{
    if (rate >= 1e6)
        snprintf(out, n, "%.2f M", rate / 1e6);
    else if (rate >= 1e3)
        snprintf(out, n, "%.1f k", rate / 1e3);
    else
        snprintf(out, n, "%.0f", rate);
    return out;
}

const char *show_ns(char *out, size_t n, double ns)
{
    if (ns >= 1e6)
        snprintf(out, n, "%.2f ms", ns / 1e6);
    else if (ns >= 1e4)
        snprintf(out, n, "%.1f us", ns / 1e3);
    else if (ns >= 100)
        snprintf(out, n, "%.0f ns", ns);
    else
        snprintf(out, n, "%.1f ns", ns);
    return out;
}

/* Of round numbers, as they are: no more digits than they have. */
const char *show_round_ns(char *out, size_t n, double ns)
{
    if (ns >= 1e6)
        snprintf(out, n, "%g ms", ns / 1e6);
    else if (ns >= 1e3)
        snprintf(out, n, "%g us", ns / 1e3);
    else
        snprintf(out, n, "%g ns", ns);
    return out;
}

const char *show_unit(char *out, size_t n, double value, const char *unit)
{
    if (strcmp(unit, "ns") == 0)
        return show_ns(out, n, value);
    if (strcmp(unit, "bytes") == 0 && value >= 10240)
        snprintf(out, n, "%.0f KiB", value / 1024);
    else if (strcmp(unit, "bytes") == 0)
        snprintf(out, n, "%.0f bytes", value);
    else
        snprintf(out, n, "%.*f%s%s", value < 100 ? 2 : 0, value,
            unit[0] != 0 ? " " : "", unit);
    return out;
}

/* What sets it apart from the others of its scenario, but for @procs. */
const char *show_trial(char *out, size_t n, const struct trial *t)
{
    char hold[24];

    out[0] = 0;
    if (t->held > 0)
        snprintf(out, n, "%llu held", (unsigned long long)t->held);
    else if (t->scenario->n_count > 0)
        snprintf(out, n, "%llu %s", (unsigned long long)t->count,
            t->scenario->count_of);
    else if (t->scenario->n_holds > 0)
        snprintf(out, n, "hold %s",
            show_round_ns(hold, sizeof(hold), (double)t->hold_ns));
    return out;
}
