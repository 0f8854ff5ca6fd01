/*
 * run.c - a mixed run: both crowds are started, probes measure in one place
 * and in the other until the time is over, and the figures are shown.
 */
#include "mixed/mixed_run.h"

#include <stdlib.h>
#include <string.h>

enum { IDLE_S = 2, SETTLE_MS = 500 };

enum of_what { OF_NOTHING, OF_HELD, OF_WIDE };

/* A probe, and what each of its two values is. */
struct row {
    actor_life *probe;
    enum of_what of; /* of JUDGE_EACH */
    struct figure figure[2];
};

#define US 1e3
#define MS 1e6

#define TOLD(text, in)                                                         \
    {                                                                          \
        .what = text, .unit = in                                               \
    }
#define MOST(text, in, limit)                                                  \
    {                                                                          \
        .what = text, .unit = in, .judge = JUDGE_MOST, .wanted = limit         \
    }
#define WORST(text, limit)                                                     \
    {                                                                          \
        .what = text, .unit = "ns", .judge = JUDGE_MOST, .wanted = limit,      \
        .worst = true                                                          \
    }
#define RATIO(text, limit)                                                     \
    {                                                                          \
        .what = text, .unit = "ns", .judge = JUDGE_RATIO, .wanted = limit      \
    }
#define EACH(text, limit)                                                      \
    {                                                                          \
        .what = text, .unit = "ns", .judge = JUDGE_EACH, .wanted = limit       \
    }

static struct row rows[] = {
    {probe_pair, OF_NOTHING, {TOLD("a pair", "ns")}},
    {probe_pass, OF_NOTHING, {RATIO("a hand-over among started requests", 2)}},
    {probe_queue, OF_NOTHING, {RATIO("a hand-over among processes", 1.5)}},
    {probe_cycle, OF_NOTHING, {WORST("a deadlock of two is told", 50 * MS)}},
    {probe_graph, OF_NOTHING,
        {WORST("one of those who wait for one owner", 50 * MS)}},
    {probe_wide, OF_HELD,
        {EACH("'@' of a name that has nothing", 3),
            EACH("'@' of one that has much, beyond that", 60)}},
    {probe_wide_stands, OF_NOTHING,
        {WORST("others stand while '@' is asked for", MS)}},
    {probe_beside, OF_NOTHING,
        {MOST("a pair while one waits for '@' / a pair", "x", 3)}},
    {probe_death, OF_NOTHING,
        {WORST("granted after a death in pairs of a key", 2 * MS)}},
    {probe_death_in_any, OF_NOTHING,
        {WORST("granted after a death in pairs of '@'", 2 * MS)}},
    {probe_list, OF_NOTHING,
        {WORST("others stand while their name is listed", MS),
            TOLD("the list", "ns")}},
    {probe_first, OF_NOTHING,
        {MOST("the first lock of a process", "ns", 100 * US),
            TOLD("it attaches", "ns")}},
    {probe_id, OF_NOTHING, {MOST("a pair with an id / a pair", "x", 1.5)}},
    {probe_heartbeat, OF_NOTHING, {WORST("a heartbeat is late by", 50 * MS)}},
};

/* It fills the table: once, when all others are done. */
static struct row last = {probe_full, OF_NOTHING,
    {MOST("a refusal by a full table", "ns", 20 * US),
        TOLD("the longest of these", "ns")}};

/* Measured by the parent: while nothing happens, of one processor. */
static struct figure idle[] = {
    MOST("who is attached, while nothing happens", "%", 0.3),
    MOST("who has requests pending", "%", 0.3),
};

enum { N_ROWS = sizeof(rows) / sizeof(*rows) };

static int measure(struct row *row, struct crowd *c, unsigned which)
{
    struct place *p = c->place;

    memset(p->value, 0, sizeof(p->value));
    pid_t pid = actor_start(p, 0, row->probe);
    if (pid < 0)
        return -1;
    int rc = actor_end(p, pid);
    if (crowd_failed(c))
        return -1;
    if (rc != 0) {
        crew_complain("a probe failed: %s", row->figure[0].what);
        return -1;
    }
    for (unsigned v = 0; v < 2; v++)
        if (row->figure[v].what != NULL)
            figure_add(&row->figure[v], which, p->value[v]);
    return bench_signal == 0 ? 0 : -1;
}

static int measure_idle(struct crowd *c, unsigned which)
{
    uint64_t before[2];

    if (crew_pause(SETTLE_MS * 1e-3) != 0)
        return -1;
    for (unsigned k = 0; k < 2; k++)
        before[k] = crowd_kind_cpu_ns(c, (enum kind)k);
    if (crew_pause(IDLE_S) != 0)
        return -1;
    for (unsigned k = 0; k < 2; k++) {
        uint64_t ns = crowd_kind_cpu_ns(c, (enum kind)k) - before[k];
        figure_add(&idle[k], which, (double)ns / (IDLE_S * 1e9) * 100);
    }
    return 0;
}

static bool wanted(const struct mixed_options *o, const struct figure *f)
{
    return o->only == NULL || strstr(f->what, o->only) != NULL;
}

/* The traffic is where we measure, and nowhere else. */
static int measure_row(struct row *row, struct crowd crowds[2])
{
    int rc = 0;

    for (unsigned w = 0; w < 2 && rc == 0; w++) {
        crowds[w].place->lively = 1;
        rc = measure(row, &crowds[w], w);
        crowds[w].place->lively = 0;
    }
    return rc;
}

/* Nobody else is to be refused: what is left of the traffic ends first. */
static int measure_full(struct crowd crowds[2])
{
    int rc = crew_pause(SETTLE_MS * 1e-3);

    for (unsigned w = 0; w < 2 && rc == 0; w++)
        rc = measure(&last, &crowds[w], w);
    return rc;
}

static int run_round(const struct mixed_options *o, struct crowd crowds[2])
{
    for (unsigned i = 0; i < N_ROWS; i++)
        if (wanted(o, &rows[i].figure[0]) && measure_row(&rows[i], crowds) != 0)
            return -1;
    for (unsigned w = 0; w < 2; w++)
        if (wanted(o, &idle[0]) && measure_idle(&crowds[w], w) != 0)
            return -1;
    return 0;
}

static uint64_t more_of(const struct crowd crowds[2], enum of_what of,
    unsigned value)
{
    const struct place *all = crowds[1].place, *ten = crowds[0].place;

    if (of == OF_NOTHING)
        return 1;
    return value == 0 ? all->held - ten->held + 1 : all->wide - ten->wide + 1;
}

static bool show_row(const struct crowd crowds[2], const struct row *row)
{
    bool met = true;

    for (unsigned v = 0; v < 2; v++)
        if (row->figure[v].what != NULL)
            met &= figure_show(&row->figure[v], more_of(crowds, row->of, v));
    return met;
}

static int show(const struct crowd crowds[2])
{
    const struct place *all = crowds[1].place;
    bool met = true;

    figures_head();
    for (unsigned i = 0; i < N_ROWS; i++)
        met &= show_row(crowds, &rows[i]);
    met &= show_row(crowds, &last);
    for (unsigned k = 0; k < 2; k++)
        met &= figure_show(&idle[k], 1);
    printf("beside all: %llu works of the traffic, %llu of it killed; of %llu "
           "deaths %llu were in a latch\n",
        (unsigned long long)all->works, (unsigned long long)all->killed,
        (unsigned long long)all->deaths, (unsigned long long)all->inside);
    return met ? 0 : -1;
}

static int run(const struct mixed_options *o, struct crowd crowds[2])
{
    for (unsigned w = 0; w < 2; w++) {
        uint64_t begin = now_ns();
        if (crowd_start(&crowds[w], w, o) != 0)
            return -1;
        printf("beside %s: %llu wait, %llu held, %u processes, %u names with "
               "'@': ready after %.1f s\n",
            w == 0 ? "ten" : "all", (unsigned long long)crowds[w].place->waits,
            (unsigned long long)crowds[w].place->held, crowds[w].place->procs,
            crowds[w].place->names, (double)(now_ns() - begin) / 1e9);
    }
    uint64_t end = now_ns() + o->seconds * UINT64_C(1000000000);
    do
        if (run_round(o, crowds) != 0)
            return -1;
    while (now_ns() < end);
    if (wanted(o, &last.figure[0]) && measure_full(crowds) != 0)
        return -1;
    return show(crowds);
}

int mixed_run(int argc, char **argv)
{
    struct mixed_options o;
    struct crowd crowds[2] = {0};

    if (mixed_options_parse(&o, argc, argv) != 0) {
        fprintf(stderr, "Try \"enq-bench --mixed --help\".\n");
        return EXIT_USAGE;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGCHLD, SIG_IGN); /* see actor_await_end() */
    int rc = run(&o, crowds);
    for (unsigned w = 0; w < 2; w++)
        crowd_end(&crowds[w]);
    if (bench_signal != 0)
        return 128 + bench_signal;
    return rc == 0 ? 0 : EXIT_FAILED;
}
