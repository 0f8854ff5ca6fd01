/*
 * main.c - enq-bench: every chosen scenario with each of its numbers of
 * processes and held locks, one trial after the other.
 */
#include "bench.h"

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

static int run_held(const struct options *o, struct trial t)
{
    static struct figures figures[SUBJECTS_MAX];

    for (unsigned i = 0; i < o->n_held; i++) {
        t.held = t.scenario->follows_held ? o->held[i] : 0;
        if (trial_run(&t, o, figures) != 0)
            return -1;
        report_trial(o, &t, figures);
        if (!t.scenario->follows_held)
            break;
    }
    return 0;
}

static int run_scenario(const struct options *o, const struct scenario *s)
{
    bool ours = s->follows_procs && o->n_procs > 0;
    const unsigned *procs = ours ? o->procs : s->procs;

    for (unsigned i = 0; i < LIST_MAX && procs[i] != 0; i++) {
        struct trial t = {.scenario = s, .procs = procs[i]};
        if (run_held(o, t) != 0)
            return -1;
    }
    return 0;
}

static int run_all(const struct options *o, char **argv)
{
    report_head(o, argv);
    for (unsigned i = 0; scenarios[i].name != NULL; i++) {
        if (o->chosen && !o->picked[i])
            continue;
        if (run_scenario(o, &scenarios[i]) != 0)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct options o;

    if (options_parse(&o, argc, argv) != 0) {
        fprintf(stderr, "Try \"enq-bench --help\".\n");
        return EXIT_USAGE;
    }
    if (o.list) {
        scenarios_list(stdout);
        return 0;
    }
    catch_signals();
    int rc = o.pairs > 0 ? pairs_run(o.pairs) : run_all(&o, argv);
    if (bench_signal != 0)
        return 128 + bench_signal;
    return rc == 0 ? 0 : EXIT_FAILED;
}
