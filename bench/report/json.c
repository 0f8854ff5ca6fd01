/*
 * json.c - what is reported, as JSON: one object per line.
 */
#include "harness/bench.h"

#include <string.h>

static void text(FILE *out, const char *key, const char *value)
{
    fprintf(out, "\"%s\":\"", key);
    for (const char *c = value; *c != 0; c++)
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else
            fputc((unsigned char)*c < ' ' ? ' ' : *c, out);
    fputc('"', out);
}

static void more_text(FILE *out, const char *key, const char *value)
{
    fputc(',', out);
    text(out, key, value);
}

/* Not what is 0, for it was not measured. */
static void figure(FILE *out, const char *key, double value)
{
    if (value > 0)
        fprintf(out, ",\"%s\":%.*f", key, value < 1000 ? 3 : 0, value);
}

void json_head(FILE *out, const struct options *o, const struct machine *m)
{
    fprintf(out, "{\"bench\":\"machine\"");
    more_text(out, "date", m->date);
    more_text(out, "cpu", m->cpu);
    fprintf(out, ",\"cpus\":%d", m->cpus);
    more_text(out, "kernel", m->kernel);
    more_text(out, "compiler", m->compiler);
    more_text(out, "flags", m->flags);
    more_text(out, "commit", m->commit);
    more_text(out, "command", m->command);
    fprintf(out, ",\"libenq\":%d,\"rounds\":%u,\"seconds\":%g}\n",
        enq_version(), o->rounds, o->seconds);
}

void json_missing(FILE *out, const struct subject *s, const char *why)
{
    fprintf(out, "{\"bench\":\"skipped\"");
    more_text(out, "subject", s->name);
    more_text(out, "why", why);
    fprintf(out, "}\n");
}

static void trial(FILE *out, const struct trial *t)
{
    const struct scenario *s = t->scenario;

    more_text(out, "scenario", s->name);
    fprintf(out, ",\"procs\":%u", t->procs);
    more_text(out, "keys", s->keys);
    fprintf(out, ",\"held\":%llu", (unsigned long long)t->held);
    more_text(out, "mode", s->mode);
    if (s->n_count > 0)
        fprintf(out, ",\"%s\":%llu", s->count_of, (unsigned long long)t->count);
    if (s->depth > 0)
        fprintf(out, ",\"depth\":%u,\"transport\":\"%s\"", s->depth,
            s->local ? "unix" : "tcp");
    if (s->n_holds > 0)
        fprintf(out, ",\"hold_ns\":%llu", (unsigned long long)t->hold_ns);
}

void json_declined(FILE *out, const struct trial *t, const struct subject *s,
    const char *why)
{
    fprintf(out, "{\"bench\":\"declined\"");
    more_text(out, "subject", s->name);
    trial(out, t);
    more_text(out, "why", why);
    fprintf(out, "}\n");
}

static void rates(FILE *out, const struct result *r)
{
    fprintf(out, ",\"pairs_per_s\":%.0f,\"ns_per_pair\":%.2f", r->rate,
        r->rate > 0 ? 1e9 / r->rate : 0);
    if (r->base_rate > 0)
        fprintf(out, ",\"base_per_s\":%.0f,\"times_base\":%.3f", r->base_rate,
            r->rate > 0 ? r->base_rate / r->rate : 0);
    if (r->trial.procs > 1 && r->fairness > 0)
        fprintf(out, ",\"fairness\":%.3f", r->fairness);
}

static void runs(FILE *out, const struct result *r)
{
    fprintf(out, ",\"runs\":[");
    for (unsigned i = 0; i < r->rounds; i++)
        fprintf(out, "%s%.0f", i > 0 ? "," : "", r->runs[i]);
    fputc(']', out);
}

/* Of ours: how many times better than each of the others. */
static void times(FILE *out, const struct result *r)
{
    const char *between = ",\"times\":{", *end = "";

    for (unsigned i = 0; subjects[i] != NULL; i++) {
        const struct result *other = result_peer(r, subjects[i]);
        double n = other == NULL || other == r ? 0 : result_times(r, other);
        if (n <= 0)
            continue;
        fprintf(out, "%s\"%s\":%.3f", between, subjects[i]->name, n);
        between = ",";
        end = "}";
    }
    fprintf(out, "%s", end);
}

void json_result(FILE *out, const struct result *r)
{
    fprintf(out, "{\"bench\":\"%s\"", r->trial.scenario->bench);
    more_text(out, "subject", r->subject->name);
    trial(out, &r->trial);
    if (!r->measured)
        fprintf(out, ",\"claimed\":true");
    if (r->rate > 0 && r->trial.scenario->manner != MANNER_DEATH)
        rates(out, r);
    figure(out, "p50_ns", r->p50);
    figure(out, "p99_ns", r->p99);
    figure(out, "worst_ns", r->samples > 0 ? r->worst : 0);
    figure(out, "longest_wait_ns", r->longest_worst);
    figure(out, "longest_wait_median_ns", r->longest);
    figure(out, "longest_wait_base_ns", r->base_longest);
    figure(out, "ns_per_handover", r->handover);
    figure(out, "cpu_share", r->cpu_share);
    figure(out, "cpu_ns_per_handover", r->cpu_each);
    figure(out, "server_cpu_ns_per_pair", r->server);
    figure(out, "bytes", r->bytes);
    if (r->idle > 0)
        fprintf(out, ",\"idle_cpu_share\":%.6f", r->idle);
    figure(out, "samples", (double)r->samples);
    if (r->subject == subjects[0])
        times(out, r);
    if (r->rounds > 0 && r->trial.scenario->manner != MANNER_DEATH)
        runs(out, r);
    fprintf(out, "}\n");
}

void json_growth(FILE *out, const struct scenario *s, const struct subject *of,
    const struct growth *g)
{
    fprintf(out, "{\"bench\":\"growth\"");
    more_text(out, "subject", of->name);
    more_text(out, "scenario", s->name);
    fprintf(out,
        ",\"from\":%llu,\"from_ns\":%.2f,\"to\":%llu,\"to_ns\":%.2f,"
        "\"exponent\":%.3f}\n",
        (unsigned long long)g->from, g->from_ns, (unsigned long long)g->to,
        g->to_ns, g->exponent);
}

void json_goal(FILE *out, const struct verdict *v)
{
    fprintf(out, "{\"bench\":\"goal\"");
    more_text(out, "scenario", v->scenario);
    more_text(out, "goal", v->text);
    more_text(out, "unit", v->unit);
    fprintf(out, ",\"%s\":%g", v->at_least ? "at_least" : "at_most", v->limit);
    if (v->missing != NULL)
        more_text(out, "not_measured", v->missing);
    else
        fprintf(out, ",\"measured\":%.4g,\"met\":%s", v->value,
            v->met ? "true" : "false");
    fprintf(out, "}\n");
}
