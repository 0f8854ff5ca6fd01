/*
 * report.c - the figures, as an aligned table for people or as one JSON
 * object per line. Times are wall time for one operation of the whole crew;
 * the ratio is time against the floor's time, in the same run.
 */
#include "bench.h"

#include <string.h>

static void json_text(const char *key, const char *value)
{
    printf("\"%s\":\"", key);
    for (const char *c = value; *c != 0; c++)
        if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else
            putchar((unsigned char)*c < ' ' ? ' ' : *c);
    putchar('"');
}

static void json_head(const struct options *o, const struct machine *m)
{
    printf("{\"bench\":\"machine\",");
    json_text("cpu", m->cpu);
    printf(",\"cpus\":%d,", m->cpus);
    json_text("kernel", m->kernel);
    putchar(',');
    json_text("compiler", m->compiler);
    putchar(',');
    json_text("flags", m->flags);
    putchar(',');
    json_text("commit", m->commit);
    putchar(',');
    json_text("command", m->command);
    printf(",\"libenq\":%d,\"rounds\":%u,\"seconds\":%g}\n", enq_version(),
        o->rounds, o->seconds);
}

void report_head(const struct options *o, char **argv)
{
    struct machine m;
    int v = enq_version();

    machine_read(&m, argv);
    if (o->json) {
        json_head(o, &m);
        return;
    }
    printf("libenq %d.%d.%d%s%s; %s, %d cpus; %s; %s, %s\n", v / 10000,
        v / 100 % 100, v % 100, m.commit[0] != 0 ? ", commit " : "", m.commit,
        m.cpu, m.cpus, m.kernel, m.compiler, m.flags);
    printf("medians of %u rounds of %g s for each subject, in turn; p50 and "
           "p99 sampled apart\n\n",
        o->rounds, o->seconds);
    printf("%-9s %5s %9s  %-13s%9s %9s %9s %9s %5s %8s %7s\n", "scenario",
        "procs", "held", "subject", "ops/s", "each", "p50", "p99", "fair",
        "longest", "x floor");
}

static const char *show_rate(char *out, size_t n, double rate)
{
    if (rate >= 1e6)
        snprintf(out, n, "%.2f M", rate / 1e6);
    else if (rate >= 1e3)
        snprintf(out, n, "%.1f k", rate / 1e3);
    else
        snprintf(out, n, "%.0f", rate);
    return out;
}

static const char *show_ns(char *out, size_t n, double ns)
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

/* 0: nothing to compare with. */
static double floor_rate(const struct figures *f)
{
    for (unsigned i = 0; subjects[i] != NULL; i++)
        if (f[i].offered && subjects[i]->floor && f[i].rounds > 0)
            return median(f[i].runs, f[i].rounds);
    return 0;
}

static void row_rate(const struct trial *t, const struct figures *f,
    double floor)
{
    char rate[24], each[24], p50[24], p99[24], longest[24];
    double r = median(f->runs, f->rounds);

    printf("%9s %9s %9s %9s", show_rate(rate, sizeof(rate), r),
        show_ns(each, sizeof(each), r > 0 ? 1e9 / r : 0),
        show_ns(p50, sizeof(p50), (double)hist_quantile(&f->hist, 0.5)),
        show_ns(p99, sizeof(p99), (double)hist_quantile(&f->hist, 0.99)));
    if (t->scenario->work == WORK_FIGHT && t->procs > 1)
        printf(" %5.2f %8s", median(f->fairness, f->rounds),
            show_ns(longest, sizeof(longest), (double)f->longest_ns));
    else if (floor > 0)
        printf(" %5s %8s", "", "");
    if (floor > 0 && r > 0)
        printf(" %7.2f", floor / r);
}

static void table_trial(const struct trial *t, const struct figures *f)
{
    for (unsigned i = 0; subjects[i] != NULL; i++) {
        if (!f[i].offered)
            continue;
        printf("%-9s %5u ", t->scenario->name, t->procs);
        if (t->scenario->follows_held)
            printf("%9llu", (unsigned long long)t->held);
        else
            printf("%9s", "-");
        printf("  %-13s", subjects[i]->name);
        if (t->scenario->work == WORK_WEIGH)
            printf("%.1f bytes for each lock", f[i].bytes);
        else
            row_rate(t, &f[i], subjects[i]->floor ? 0 : floor_rate(f));
        putchar('\n');
    }
}

static void json_rates(const struct trial *t, const struct figures *f,
    double floor)
{
    double r = median(f->runs, f->rounds);

    printf(",\"pairs_per_s\":%.0f,\"ns_per_pair\":%.2f,\"p50_ns\":%llu,"
           "\"p99_ns\":%llu",
        r, r > 0 ? 1e9 / r : 0,
        (unsigned long long)hist_quantile(&f->hist, 0.5),
        (unsigned long long)hist_quantile(&f->hist, 0.99));
    if (t->scenario->work == WORK_FIGHT && t->procs > 1)
        printf(",\"fairness\":%.3f,\"longest_wait_ns\":%llu",
            median(f->fairness, f->rounds), (unsigned long long)f->longest_ns);
    if (floor > 0 && r > 0)
        printf(",\"times_floor\":%.3f", floor / r);
    printf(",\"runs\":[");
    for (unsigned i = 0; i < f->rounds; i++)
        printf("%s%.0f", i > 0 ? "," : "", f->runs[i]);
    putchar(']');
}

static void json_trial(const struct trial *t, const struct figures *f)
{
    const struct scenario *s = t->scenario;

    for (unsigned i = 0; subjects[i] != NULL; i++) {
        if (!f[i].offered)
            continue;
        printf("{\"bench\":\"%s\",\"scenario\":\"%s\",\"subject\":\"%s\","
               "\"procs\":%u,\"keys\":\"%s\",\"held\":%llu,\"mode\":\"%s\"",
            s->bench, s->name, subjects[i]->name, t->procs, s->keys,
            (unsigned long long)t->held, s->mode);
        if (s->work == WORK_WEIGH)
            printf(",\"bytes_per_lock\":%.1f", f[i].bytes);
        else
            json_rates(t, &f[i], subjects[i]->floor ? 0 : floor_rate(f));
        printf("}\n");
    }
}

void report_trial(const struct options *o, const struct trial *t,
    const struct figures *f)
{
    if (o->json)
        json_trial(t, f);
    else
        table_trial(t, f);
    fflush(stdout);
}
