/*
 * report.c - the figures as an aligned table for people, or as JSON, and into
 * the file of --save. Times are wall time for one operation of the whole
 * crew. What has its own kind of figures says them at the end of its line.
 */
#include "harness/bench.h"

#include <errno.h>
#include <string.h>

static FILE *table, *lines, *saved; /* the table, or JSON; and the file */

int report_open(const struct options *o)
{
    table = o->json ? NULL : stdout;
    lines = o->json ? stdout : NULL;
    saved = o->save == NULL ? NULL : fopen(o->save, "w");
    if (o->save == NULL || saved != NULL)
        return 0;
    fprintf(stderr, "enq-bench: %s: %s\n", o->save, strerror(errno));
    return -1;
}

int report_close(void)
{
    int rc = fflush(stdout) == 0 && !ferror(stdout) ? 0 : -1;

    if (saved != NULL) {
        bool bad = ferror(saved) != 0;
        rc = fclose(saved) != 0 || bad ? -1 : rc;
    }
    if (rc != 0)
        fprintf(stderr, "enq-bench: not all output could be written\n");
    return rc;
}

static void table_head(const struct options *o, const struct machine *m)
{
    int v = enq_version();

    fprintf(table, "libenq %d.%d.%d%s%s; %s, %d cpus; %s\n%s %s\n", v / 10000,
        v / 100 % 100, v % 100, m->commit[0] != 0 ? ", commit " : "", m->commit,
        m->cpu, m->cpus, m->kernel, m->compiler, m->flags);
    fprintf(table,
        "medians of %u rounds of %g s for each subject, in turn; p50 and p99 "
        "sampled apart\n",
        o->rounds, o->seconds);
}

/* After the missing have been named. */
void report_columns(void)
{
    if (table == NULL)
        return;
    fprintf(table, "\n%-16s %5s %-15s %-13s%9s %9s %9s %9s %5s %9s %8s\n",
        "scenario", "procs", "with", "subject", "ops/s", "each", "p50", "p99",
        "fair", "longest", "enq is");
}

void report_head(const struct options *o, const struct machine *m)
{
    if (table != NULL)
        table_head(o, m);
    if (lines != NULL)
        json_head(lines, o, m);
    if (saved != NULL)
        json_head(saved, o, m);
}

void report_missing(const struct subject *s, const char *why)
{
    if (table != NULL)
        fprintf(table, "skipped %s: %s\n", s->name, why);
    if (lines != NULL)
        json_missing(lines, s, why);
    if (saved != NULL)
        json_missing(saved, s, why);
}

static void label(const struct trial *t, const struct subject *s)
{
    char with[32];

    fprintf(table, "%-16s %5u %-15s %-13s", t->scenario->name, t->procs,
        show_trial(with, sizeof(with), t), s->name);
}

void report_declined(const struct trial *t, const struct subject *s,
    const char *why)
{
    if (lines != NULL)
        json_declined(lines, t, s, why);
    if (saved != NULL)
        json_declined(saved, t, s, why);
    if (table == NULL)
        return;
    label(t, s);
    fprintf(table, " not measured: %s\n", why);
}

/* Blank where there is none. */
static const char *time_cell(char *out, size_t n, double ns)
{
    if (ns <= 0)
        out[0] = 0;
    else
        show_ns(out, n, ns);
    return out;
}

static void cells_rate(const struct result *r)
{
    bool dead = r->trial.scenario->manner == MANNER_DEATH;
    char rate[24] = "", each[24] = "";

    if (r->rate > 0 && !dead) {
        show_rate(rate, sizeof(rate), r->rate);
        show_ns(each, sizeof(each), 1e9 / r->rate);
    }
    fprintf(table, "%9s %9s", rate, each);
}

static void cells_times(const struct result *r)
{
    char p50[24], p99[24];

    fprintf(table, " %9s %9s", time_cell(p50, sizeof(p50), r->p50),
        time_cell(p99, sizeof(p99), r->p99));
}

/* Do several compete, so that the worst-off is of interest? */
static bool competes(const struct result *r)
{
    const struct scenario *s = r->trial.scenario;

    return s->work == WORK_FIGHT && r->trial.procs > 1;
}

static void cells_worst(const struct result *r)
{
    char fair[16] = "", longest[24] = "";
    enum work w = r->trial.scenario->work;
    bool shown =
        competes(r) || w == WORK_DEATH || w == WORK_LIST || w == WORK_LIST_NAME;

    if (competes(r))
        snprintf(fair, sizeof(fair), "%.2f", r->fairness);
    if (shown)
        time_cell(longest, sizeof(longest), r->longest_worst);
    fprintf(table, " %5s %9s", fair, longest);
}

static void cell_ratio(const struct result *r)
{
    const struct result *enq = result_peer(r, subjects[0]);
    double n = enq == NULL || enq == r ? 0 : result_times(enq, r);

    if (n > 0)
        fprintf(table, " %6.*f x", n < 100 ? 2 : 0, n);
    else
        fprintf(table, " %8s", "");
}

static void remarks(const struct result *r)
{
    char a[24], b[24];

    if (!r->measured)
        fprintf(table, "  claimed, not measured");
    if (r->base_rate > 0 && r->base_longest <= 0 && r->rate > 0)
        fprintf(table, "  %.2f x its base of %s", r->base_rate / r->rate,
            show_ns(a, sizeof(a), 1e9 / r->base_rate));
    if (r->base_longest > 0)
        fprintf(table, "  longest: median %s, without listing up to %s",
            show_ns(a, sizeof(a), r->longest),
            show_ns(b, sizeof(b), r->base_longest));
    if (r->handover > 0)
        fprintf(table, "  a hand-over each %s",
            show_ns(a, sizeof(a), r->handover));
    if (r->cpu_each > 0)
        fprintf(table, "; waiting burns %.2f cpu, %s for each", r->cpu_share,
            show_ns(a, sizeof(a), r->cpu_each));
    if (r->server > 0)
        fprintf(table, "  server: %s cpu each",
            show_ns(a, sizeof(a), r->server));
    if (r->bytes > 0)
        fprintf(table, "  %s", show_unit(a, sizeof(a), r->bytes, "bytes"));
    if (r->idle > 0)
        fprintf(table, " each; idle burns %.3f %% cpu", r->idle * 100);
}

static void table_result(const struct result *r)
{
    label(&r->trial, r->subject);
    cells_rate(r);
    cells_times(r);
    cells_worst(r);
    cell_ratio(r);
    remarks(r);
    fputc('\n', table);
}

void report_result(const struct result *r)
{
    if (table != NULL)
        table_result(r);
    if (lines != NULL)
        json_result(lines, r);
    if (saved != NULL)
        json_result(saved, r);
    fflush(stdout);
}

static void table_growth(const struct scenario *s, const struct subject *of,
    const struct growth *g)
{
    char from[24], to[24];

    fprintf(table, "%-16s %-13s %9llu %10s %9llu %10s %9.2f\n", s->name,
        of->name, (unsigned long long)g->from,
        show_ns(from, sizeof(from), g->from_ns), (unsigned long long)g->to,
        show_ns(to, sizeof(to), g->to_ns), g->exponent);
}

static void scale_growth(const struct scenario *s, bool *headed)
{
    struct growth g;

    for (unsigned i = 0; subjects[i] != NULL; i++) {
        if (!growth_of(s, subjects[i], &g))
            continue;
        if (table != NULL && !*headed)
            fprintf(table, "\n%-16s %-13s %9s %10s %9s %10s %9s\n", "growth",
                "subject", "beside", "each", "beside", "each", "exponent");
        *headed = true;
        if (table != NULL)
            table_growth(s, subjects[i], &g);
        if (lines != NULL)
            json_growth(lines, s, subjects[i], &g);
        if (saved != NULL)
            json_growth(saved, s, subjects[i], &g);
    }
}

/* Of the scales with two numbers at least. */
void report_growth(void)
{
    bool headed = false;

    for (const struct scenario *s = scenarios; s->name != NULL; s++)
        if (scenario_is_scale(s))
            scale_growth(s, &headed);
}

static void table_goal(const struct verdict *v)
{
    char value[32] = "-", limit[32];

    if (v->missing == NULL)
        show_unit(value, sizeof(value), v->value, v->unit);
    fprintf(table, "%-16s %-52s %11s %s %-11s ", v->scenario, v->text, value,
        v->at_least ? ">=" : "<=",
        show_unit(limit, sizeof(limit), v->limit, v->unit));
    if (v->missing != NULL)
        fprintf(table, "not measured: %s\n", v->missing);
    else
        fprintf(table, "%s\n", v->met ? "met" : "MISSED");
}

/* Only of what this run has measured. */
void report_goals(void)
{
    unsigned met = 0, judged = 0;

    if (result_next(NULL) == NULL)
        return;
    if (table != NULL)
        fprintf(table, "\n%-16s %-52s %11s %-14s\n", "goals", "", "measured",
            "   goal");
    for (unsigned i = 0; i < goals_count(); i++) {
        struct verdict v = goal_judge(i);
        if (!v.ours)
            continue;
        judged += v.missing == NULL;
        met += v.missing == NULL && v.met;
        if (table != NULL)
            table_goal(&v);
        if (lines != NULL)
            json_goal(lines, &v);
        if (saved != NULL)
            json_goal(saved, &v);
    }
    if (table != NULL)
        fprintf(table, "%u of %u goals met\n", met, judged);
}
