/*
 * main.c - deterministic simulation of the library.
 *
 * usage: sim-run [--seed N [--tell]] [--first N] [--count STEPS] [--seconds S]
 *                [--fault NAME] [--kind TEXT] [--plain] [--workers N]
 *                [--weaken PLACE]...
 *   --seed N       this one schedule again, telling what became of it
 *   --tell         with all that happens in it
 *   --first N      seeds from here on (default: from 1 for six tenths of the
 *                  steps, which have found something before; then from one
 *                  that is new each time, and printed)
 *   --count STEPS  until so many steps were made (default 500,000,000, or
 *                  ENQ_TEST_PERCENT of it)
 *   --seconds S    or for so long
 *   --fault NAME   with a faulty machine: wakes, fences, cas, marks
 *   --kind TEXT    schedules of this kind only, of the first whose name begins
 *                  so
 *   --weaken PLACE where an atomic access at this address of the program (of
 *                  the instruction behind the call, in hexadecimal) has no
 *                  order: until somebody notices (see orders.sh)
 *   --unordered    tells of accesses that nothing orders (before.c): "pair",
 *                  the kind, two places of the program, how often
 *   --plain        without the simulation's own tests
 *   --workers N    so many processes at once (default: a CPU each)
 *
 * A schedule is a function of its seed: what the processes do, which runs when,
 * which dies where. One that fails prints its seed.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/dice.h"
#include "lib/percent.h"
#include "lib/shared.h"
#include "sim/sim.h"

#define COUNT_DEFAULT UINT64_C(500000000)
#define WORKERS_MAX 64
#define FAILURES_MAX 3        /* then a worker has seen enough */
#define FAULT_SCHEDULES 15000 /* in which each seeded fault must be found */

struct sim sim;

static const char *const fault_names[FAULTS] = {
    "none", "wakes", "fences", "cas", "marks"};

static struct {
    uint64_t seed, first, count;
    double seconds;
    long workers, kind; /* -1: all kinds */
    enum fault fault;
    bool one, plain;
} options = {.kind = -1};

/* What the workers say, in memory that all see. */
struct tally {
    uint64_t next; /* schedule, counted from the first */
    uint64_t steps, schedules, deaths, recoveries, failures;
    int64_t latest_ns;
    uint64_t now_running[WORKERS_MAX];
    uint64_t of_kind[32], failed_kind[32];
    uint64_t own_passed, own_failed;
    struct figures figures;
};

static struct tally *tally;
static unsigned passed, failed;

/* --- dice --- */

uint64_t dice(void)
{
    return dice_roll(&sim.dice);
}

uint64_t log_below(uint64_t most)
{
    uint64_t bits = 64 - (uint64_t)__builtin_clzll(most | 1);
    uint64_t n = 1 + below(UINT64_C(1) << (1 + below(bits)));

    return n < most ? n : most;
}

/* --- one schedule --- */

static void run(uint64_t seed)
{
    sim.seed = seed;
    sim.dice = seed * UINT64_C(0xd1342543de82ef95) + 1;
    sim.fault = options.fault;
    sched_begin();
    segment_reset();
    kernel_begin();
    oracle_begin(false);
    events_begin();
    work_begin();
    sched_run();
    sched_forget();
}

static void tell(const char *what)
{
    static const char *const strategies[] = {"walk", "priorities", "preempt"};

    printf("seed %" PRIu64 " (%s, %s%s): %s: %s\n", sim.seed,
        work_name((unsigned)(sim.seed % work_kinds())),
        strategies[sim.strategy],
        sim.weak          ? ", weak"
            : sim.buffers ? ", store buffers"
                          : "",
        what, sim.why);
    fflush(stdout);
}

/* --- many, in several workers --- */

static double clock_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void add(uint64_t *to, uint64_t n)
{
    __atomic_fetch_add(to, n, __ATOMIC_RELAXED);
}

static void count(void)
{
    unsigned kind = (unsigned)(sim.seed % work_kinds());

    add(&tally->steps, sim.steps);
    add(&tally->schedules, 1);
    add(&tally->deaths, sim.deaths);
    add(&tally->recoveries, sim.map->h->retired[COUNT_RECOVERIES]);
    add(&tally->figures.started, figures.started);
    add(&tally->figures.results, figures.results);
    add(&tally->figures.events, figures.events);
    add(&tally->figures.cycles, figures.cycles);
    add(&tally->figures.sets, figures.sets);
    add(&tally->figures.sets_waited, figures.sets_waited);
    add(&tally->figures.sets_undone, figures.sets_undone);
    add(&tally->of_kind[kind], 1);
    add(&tally->failed_kind[kind], sim.failed);
    add(&tally->failures, sim.failed);
    if (!sim.failed && sim.latest_ns > tally->latest_ns)
        tally->latest_ns = sim.latest_ns;
}

static bool enough(double begin)
{
    if (sim.n_weakened > 0 && !sim.pairs && tally->failures > 0)
        return true;
    if (options.seconds > 0)
        return clock_s() - begin >= options.seconds;
    return tally->steps >= options.count;
}

/* The seed decides the kind. */
static uint64_t next_seed(void)
{
    uint64_t n = __atomic_fetch_add(&tally->next, 1, __ATOMIC_RELAXED);

    if (options.kind < 0)
        return options.first + n;
    return options.first / work_kinds() * work_kinds() +
        (uint64_t)options.kind + n * work_kinds();
}

/* A schedule takes milliseconds: one that goes on for seconds of processor time,
   however busy the machine is, goes round in a list. SIGVTALRM ends its worker,
   which is told as any other end. */
static void limit_time(void)
{
    struct itimerval limit = {.it_value.tv_sec = 20};

    setitimer(ITIMER_VIRTUAL, &limit, NULL);
}

static void work(unsigned me, double begin)
{
    unsigned failures = 0;

    while (failures < FAILURES_MAX && !enough(begin)) {
        uint64_t seed = next_seed();

        tally->now_running[me] = seed;
        limit_time();
        run(seed);
        count();
        if (!sim.failed)
            continue;
        failures++;
        tell("FAIL");
    }
}

static void report(const char *name, bool good)
{
    if (good)
        passed++;
    else
        failed++;
    if (!good)
        printf("FAIL %s\n", name);
    fflush(stdout);
}

static void await(pid_t pid, unsigned me)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    printf("seed %" PRIu64 ": its worker ended with status %#x\n",
        tally->now_running[me], (unsigned)status);
    report("no schedule ends its worker", false);
}

static void run_from(uint64_t first, uint64_t count)
{
    pid_t pids[WORKERS_MAX];
    double begin = clock_s();

    options.first = first;
    options.count = count;
    tally->next = 0;
    for (unsigned i = 0; i < options.workers; i++) {
        pids[i] = fork();
        if (pids[i] != 0)
            continue;
        if (!segment_open()) {
            printf("no segment: %s\n", enq_why());
            _exit(2);
        }
        work(i, begin);
        before_tell();
        _exit(0);
    }
    for (unsigned i = 0; i < options.workers; i++)
        await(pids[i], i);
    for (unsigned i = 0; i < work_kinds(); i++)
        if (options.kind < 0 || options.kind == (long)i)
            report(work_name(i),
                tally->of_kind[i] > 0 && !tally->failed_kind[i]);
    printf("%.1f s, seeds from %" PRIu64 "; the latest grant %.3f ms late\n",
        clock_s() - begin, options.first, (double)tally->latest_ns / 1e6);
}

static uint64_t seed_of_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return ((uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000) ^
        (uint64_t)getpid() << 44;
}

static void run_many(void)
{
    uint64_t count = options.count, first = options.first;

    if (options.first == 0) {
        run_from(1, count / 10 * 6);
        first = seed_of_now();
    }
    printf("seed %" PRIu64 "\n", first); /* --first */
    fflush(stdout);
    run_from(first, count);
}

/* --- the simulation's own tests --- */

static void test_replay(void)
{
    bool same = true, different = false;
    uint64_t last = 0;

    for (uint64_t i = 0; i < 3 * work_kinds(); i++) {
        uint64_t trace, steps;

        run(options.first + i);
        trace = sim.trace;
        steps = sim.steps;
        run(options.first + i + 1);
        run(options.first + i);
        same = same && sim.trace == trace && sim.steps == steps;
        different = different || trace != last;
        last = trace;
    }
    report("the same seed is the same schedule", same);
    report("another seed is another schedule", different);
}

/* A machine with a fault: the checks must notice, and say the same twice. */
static void test_fault(enum fault fault)
{
    char name[64], why[sizeof(sim.why)];
    uint64_t seed = options.first, end = seed + FAULT_SCHEDULES;
    bool found = false;

    options.fault = fault;
    while (!found && seed < end) {
        /* a missing barrier must be looked for where nothing else is missing */
        run(fault == FAULT_FENCES ? seed++ * work_kinds() : seed++);
        found = sim.failed;
    }
    if (found) {
        printf("fault %s: found by schedule %" PRIu64 ": %s\n",
            fault_names[fault], seed - options.first, sim.why);
        memcpy(why, sim.why, sizeof(why));
        run(sim.seed);
        found = sim.failed && strcmp(why, sim.why) == 0;
    }
    snprintf(name, sizeof(name), "a machine with faulty %s is found out",
        fault_names[fault]);
    report(name, found);
}

/* Missing fences are no longer seen (--fault fences): what they cost is over
   when the next waiter looks for itself, 2 ms later. The model hand.pml
   refutes them. */
static void own_test(unsigned i)
{
    if (!segment_open())
        _exit(2);
    if (options.first == 0)
        options.first = 1; /* in these each fault is known to show */
    passed = failed = 0;
    if (i == FAULT_NONE)
        test_replay();
    else if (i != FAULT_FENCES)
        test_fault((enum fault)i);
    add(&tally->own_passed, passed);
    add(&tally->own_failed, failed);
    _exit(0);
}

/* Each in a process of its own: what a fault does to it ends with it. */
static void run_own_tests(void)
{
    pid_t pids[FAULTS];

    for (unsigned i = 0; i < FAULTS; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            own_test(i);
    }
    for (unsigned i = 0; i < FAULTS; i++) {
        int status = 0;

        waitpid(pids[i], &status, 0);
        /* an assertion of the library that notices has noticed */
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
            i != FAULT_NONE)
            tally->own_passed++;
        else if (status != 0)
            tally->own_failed++;
    }
    passed += (unsigned)tally->own_passed;
    failed += (unsigned)tally->own_failed;
}

static int run_one(void)
{
    if (!segment_open()) {
        printf("no segment: %s\n", enq_why());
        return 2;
    }
    run(options.seed);
    tell(sim.failed ? "FAIL" : "ok");
    printf("%" PRIu64 " steps, trace %016" PRIx64 ", %u deaths, latest grant "
           "%.3f ms late\n",
        sim.steps, sim.trace, sim.deaths, (double)sim.latest_ns / 1e6);
    return sim.failed;
}

/* --- options --- */

static void usage(void)
{
    fprintf(stderr,
        "usage: sim-run [--seed N [--tell]] [--first N] [--count STEPS] "
        "[--seconds S] "
        "[--fault NAME] [--kind TEXT] [--plain] [--workers N] "
        "[--weaken PLACE]... [--unordered]\n");
    exit(2);
}

static enum fault fault_named(const char *name)
{
    for (unsigned i = 0; i < FAULTS; i++)
        if (strcmp(fault_names[i], name) == 0)
            return (enum fault)i;
    usage();
    return FAULT_NONE;
}

static long kind_named(const char *text)
{
    for (unsigned i = 0; i < work_kinds(); i++)
        if (strncmp(work_name(i), text, strlen(text)) == 0)
            return (long)i;
    usage();
    return -1;
}

static void weaken(uintptr_t place)
{
    if (sim.n_weakened == WEAKENED_MAX)
        usage();
    sim.weakened[sim.n_weakened++] = place;
}

static void take_option(const char *name, const char *value)
{
    if (strcmp(name, "--seed") == 0) {
        options.seed = strtoull(value, NULL, 0);
        options.one = true;
    } else if (strcmp(name, "--first") == 0) {
        options.first = strtoull(value, NULL, 0);
    } else if (strcmp(name, "--count") == 0) {
        options.count = strtoull(value, NULL, 0);
    } else if (strcmp(name, "--seconds") == 0) {
        options.seconds = strtod(value, NULL);
    } else if (strcmp(name, "--workers") == 0) {
        options.workers = strtol(value, NULL, 0);
    } else if (strcmp(name, "--kind") == 0) {
        options.kind = kind_named(value);
    } else if (strcmp(name, "--weaken") == 0) {
        weaken(strtoul(value, NULL, 16));
    } else if (strcmp(name, "--fault") == 0) {
        options.fault = fault_named(value);
    } else {
        usage();
    }
}

static void take_options(char **argv)
{
    options.workers = sysconf(_SC_NPROCESSORS_ONLN);
    options.count = test_percent(COUNT_DEFAULT);
    for (argv++; *argv != NULL; argv++) {
        if (strcmp(*argv, "--tell") == 0)
            sim.talks = true;
        else if (strcmp(*argv, "--plain") == 0)
            options.plain = true;
        else if (strcmp(*argv, "--unordered") == 0)
            sim.pairs = options.plain = true;
        else if (argv[1] == NULL)
            usage();
        else {
            take_option(argv[0], argv[1]);
            argv++;
        }
    }
    if (options.workers < 1 || options.workers > WORKERS_MAX)
        options.workers = 2;
}

int main(int argc, char **argv)
{
    (void)argc;
    take_options(argv);
    tally = test_shared(sizeof(*tally));
    if (options.one)
        return run_one();
    if (options.fault == FAULT_NONE && !options.plain)
        run_own_tests();
    run_many();
    printf("figure sim-steps %" PRIu64 "\n", tally->steps);
    printf("figure sim-schedules %" PRIu64 "\n", tally->schedules);
    printf("figure sim-deaths %" PRIu64 "\n", tally->deaths);
    printf("figure sim-recoveries %" PRIu64 "\n", tally->recoveries);
    printf("figure sim-started %" PRIu64 "\n", tally->figures.started);
    printf("figure sim-results %" PRIu64 "\n", tally->figures.results);
    printf("figure sim-events %" PRIu64 "\n", tally->figures.events);
    printf("figure sim-cycles %" PRIu64 "\n", tally->figures.cycles);
    printf("figure sim-sets %" PRIu64 "\n", tally->figures.sets);
    printf("figure sim-sets-waited %" PRIu64 "\n", tally->figures.sets_waited);
    printf("figure sim-sets-undone %" PRIu64 "\n", tally->figures.sets_undone);
    printf("sim: %u passed, %u failed, 0 skipped\n", passed, failed);
    return failed > 0;
}
