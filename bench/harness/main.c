/*
 * main.c - enq-bench: every chosen scenario with each of its numbers of
 * processes, of held locks and so on, one trial after the other.
 */
#include "harness/bench.h"

#include <stdlib.h>
#include <string.h>

static void on_signal(int sig)
{
    bench_signal = sig;
}

/* Without SA_RESTART: the parent's waits look at bench_signal. */
static void catch_signals(void)
{
    struct sigaction a = {.sa_handler = on_signal};

    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGHUP, &a, NULL);
}

/* The trials of a scenario, as an odometer: of each number its place. */
struct wheel {
    unsigned procs, held, count, hold;
};

static unsigned length(const uint64_t *list)
{
    unsigned n = 0;

    while (n < LIST_MAX && list[n] != 0)
        n++;
    return n;
}

/* One number of a trial: of the command line, of the scenario, or none. Sets
 *@out and returns whether there is an @index'th. */
static bool pick_held(const struct options *o, const struct scenario *s,
    unsigned index, uint64_t *out)
{
    bool ours = o->n_held > 0 && s->held[0] != 0;
    const uint64_t *list = ours ? o->held : s->held;
    unsigned n = ours ? o->n_held : length(s->held);

    *out = index < n ? list[index] : 0;
    return index < n || (n == 0 && index == 0);
}

static bool pick_count(const struct options *o, const struct scenario *s,
    unsigned index, uint64_t *out)
{
    bool ours = o->n_count > 0 && s->n_count > 1;
    const uint64_t *list = ours ? o->count : s->count;
    unsigned n = ours ? o->n_count : s->n_count;

    *out = index < n ? list[index] : 0;
    return index < n || (n == 0 && index == 0);
}

static bool pick_hold(const struct scenario *s, unsigned index, uint64_t *out)
{
    *out = index < s->n_holds ? s->hold_ns[index] : 0;
    return index < s->n_holds || (s->n_holds == 0 && index == 0);
}

static bool pick_procs(const struct options *o, const struct scenario *s,
    unsigned index, unsigned *out)
{
    bool ours = s->follows_procs && o->n_procs > 0;
    const unsigned *list = ours ? o->procs : s->procs;

    *out = index < LIST_MAX ? list[index] : 0;
    return *out != 0;
}

/* Hand-overs need two. */
static bool pointless(const struct trial *t)
{
    return t->scenario->manner == MANNER_HANDOVER && t->procs < 2;
}

/* Each result is compared with all of its trial. */
static void report_trial(const struct options *o, const struct trial *t,
    const struct figures *f)
{
    const struct result *results[SUBJECTS_MAX];

    for (unsigned i = 0; subjects[i] != NULL; i++)
        results[i] = subject_joins(o, i) ? result_add(t, i, &f[i]) : NULL;
    for (unsigned i = 0; subjects[i] != NULL; i++)
        if (results[i] != NULL)
            report_result(results[i]);
        else if (f[i].declined != NULL)
            report_declined(t, subjects[i], f[i].declined);
}

static int run_trial(const struct options *o, const struct trial *t)
{
    static struct figures figures[SUBJECTS_MAX];

    if (pointless(t))
        return 0;
    if (trial_run(t, o, figures) != 0)
        return -1;
    report_trial(o, t, figures);
    return 0;
}

static int run_scenario(const struct options *o, const struct scenario *s)
{
    struct trial t = {.scenario = s};
    struct wheel w = {0};

    for (;;) {
        if (!pick_procs(o, s, w.procs, &t.procs))
            return 0;
        if (!pick_held(o, s, w.held, &t.held))
            w = (struct wheel){.procs = w.procs + 1};
        else if (!pick_count(o, s, w.count, &t.count))
            w = (struct wheel){.procs = w.procs, .held = w.held + 1};
        else if (!pick_hold(s, w.hold, &t.hold_ns))
            w.count++, w.hold = 0;
        else if (run_trial(o, &t) != 0)
            return -1;
        else
            w.hold++;
    }
}

static int run_all(const struct options *o)
{
    for (unsigned i = 0; subjects[i] != NULL; i++)
        if (subject_joins(o, i) && subject_missing(i) != NULL)
            report_missing(subjects[i], subject_missing(i));
    report_columns();
    for (unsigned i = 0; scenarios[i].name != NULL; i++) {
        if (o->chosen && !o->picked[i])
            continue;
        if (run_scenario(o, &scenarios[i]) != 0)
            return -1;
    }
    report_growth();
    report_goals();
    return 0;
}

static int run(const struct options *o, char **argv)
{
    struct machine m;

    machine_read(&m, argv);
    if (report_open(o) != 0)
        return -1;
    report_head(o, &m);
    int rc = run_all(o);
    if (report_close() != 0)
        rc = -1;
    if (rc == 0 && o->plot != NULL)
        rc = plot_write(o->plot, &m);
    if (rc == 0 && o->readme != NULL)
        rc = readme_write(o->readme, &m);
    return rc;
}

int main(int argc, char **argv)
{
    struct options o;

    if (argc > 1 && strcmp(argv[1], "--mixed") == 0) {
        catch_signals();
        return mixed_run(argc, argv);
    }
    if (options_parse(&o, argc, argv) != 0) {
        fprintf(stderr, "Try \"enq-bench --help\".\n");
        return EXIT_USAGE;
    }
    if (o.list) {
        scenarios_list(stdout);
        subjects_list(stdout);
        return 0;
    }
    catch_signals();
    int rc = o.pairs > 0 ? pairs_run(&o) : run(&o, argv);
    if (bench_signal != 0)
        return 128 + bench_signal;
    return rc == 0 ? 0 : EXIT_FAILED;
}
