/*
 * main.c - random histories on the real table and on a model of the rules.
 *
 * usage: model-run [--seed S] [--ops N] [--only TEXT] [--steps]
 *                  [--over unix|tcp]
 *   --seed S     the same histories again (default: those of seed 11 for a
 *                tenth of the operations, which have found something before;
 *                then new ones, whose seed is printed)
 *   --ops N      so many compared operations (default 1,050,000, 350,000 under the
 *                address sanitizer, 1,750,000 optimized; over a bridge 48,000;
 *                or ENQ_TEST_PERCENT of that)
 *   --only TEXT  configurations whose name contains it
 *   --steps      print every step
 *   --over KIND  through a bridge, by unix or tcp: without waits (over.c says
 *                what else is different)
 *
 * One test per configuration. One that fails is run again, shorter and
 * shorter as long as it fails, and shown.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "history.h"
#include "lib/percent.h"

#define SEED_KEPT 11
/* Under the address sanitizer an operation costs three times as much, and what it
   finds, memory that is another's, needs less of them: the optimized build, where
   one costs least, has its share as well. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OPS_DEFAULT 350000
#endif
#endif
#ifndef OPS_DEFAULT
#ifdef ENQ_STORE_POINTS
#define OPS_DEFAULT 1750000
#else
#define OPS_DEFAULT 1050000
#endif
#endif
#define OPS_OVER 48000     /* each is some system calls */
#define HISTORY_STEPS 4000 /* then a fresh space */
#define SHRINK_S 4

static struct {
    uint64_t seed, ops;
    const char *only, *over;
    bool seeded, steps;
} options;

static struct history history;
static unsigned n_passed, n_failed;
static uint64_t words[HISTORY_STEPS], compared, questions, cycles;
static uint64_t sets_held, sets_queued, sets_granted, sets_left;
static const char *now_running = "", *kind;

/* --- running --- */

/* Runs the steps in words[]; the number of those that were good. */
static size_t run(const struct config *c, size_t n, bool talk)
{
    size_t i = 0;

    history.talk = talk;
    if (!history_begin(&history, c)) {
        fail(&history, "no space: %s", enq_why());
        return 0;
    }
    while (i < n && history_step(&history, words[i]))
        i++;
    return i;
}

static void stop(void)
{
    compared += history.compared;
    questions += history.questions;
    cycles += history.cycles;
    sets_held += history.sets_held;
    sets_queued += history.sets_queued;
    sets_granted += history.sets_granted;
    sets_left += history.sets_left;
    history_end(&history);
}

/* --- making it shorter --- */

static bool still_fails(const struct config *c, size_t *n)
{
    size_t good = run(c, *n, false);
    bool failed = history.failed && history.kind == kind;

    history_end(&history);
    if (failed)
        *n = good + 1;
    return failed;
}

/* Leaves out `some` from `at` if it fails without them. */
static bool leave_out(const struct config *c, size_t at, size_t some, size_t *n)
{
    static uint64_t before[HISTORY_STEPS];
    size_t left = *n - some;

    memcpy(before, words, *n * sizeof(words[0]));
    memmove(words + at, words + at + some, (left - at) * sizeof(words[0]));
    if (still_fails(c, &left)) {
        *n = left;
        return true;
    }
    memcpy(words, before, *n * sizeof(words[0]));
    return false;
}

static size_t shrink(const struct config *c, size_t n)
{
    time_t end = time(NULL) + SHRINK_S;
    bool shorter = true;

    for (size_t some = n / 2; some > 0; some /= 2)
        for (size_t at = 0; at + some <= n && time(NULL) < end;)
            if (!leave_out(c, at, some, &n))
                at += some;
    while (shorter && time(NULL) < end) {
        shorter = false;
        for (size_t at = 0; at < n && time(NULL) < end; at++)
            shorter |= leave_out(c, at, 1, &n);
    }
    return n;
}

/* --- telling --- */

static void show_last_steps(void)
{
    unsigned n = history.logged < LOG_LINES ? history.logged : LOG_LINES;

    for (unsigned i = history.logged - n; i < history.logged; i++)
        printf("    %s\n", history.log[i % LOG_LINES]);
}

static void show_failure(const struct config *c, size_t n)
{
    printf("FAIL %s: step %zu: %s\n", c->name, n, history.fault);
    printf("  again: --seed %" PRIu64 " --ops %" PRIu64 " --only \"%s\"\n",
        options.seed, options.ops, c->name);
    printf("  the last steps:\n");
    show_last_steps();
    show_both(&history);
}

static void show_shortest(const struct config *c, size_t n)
{
    kind = history.kind;
    n = shrink(c, n);
    printf("  shorter, %zu steps:\n", n);
    run(c, n, true);
    printf("    difference: %s\n", history.fault);
    show_both(&history);
    history_end(&history);
}

/* A library that aborts leaves no time for more than this. */
static void on_abort(int signal_number)
{
    printf("FAIL %s: signal %d; again: --seed %" PRIu64 " --ops %" PRIu64 "\n",
        now_running, signal_number, options.seed, options.ops);
    show_last_steps();
    fflush(stdout);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* --- configurations --- */

/* Independent of what else is run: FNV-1a of its name. */
static uint64_t seed_of(const struct config *c, uint64_t number)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ options.seed;

    for (const char *p = c->name; *p != '\0'; p++)
        hash = (hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    return (hash ^ number) * UINT64_C(0x9e3779b97f4a7c15);
}

static void draw_words(uint64_t seed)
{
    for (size_t i = 0; i < HISTORY_STEPS; i++) {
        seed = seed * UINT64_C(6364136223846793005) +
            UINT64_C(1442695040888963407);
        words[i] = seed ^ seed >> 29;
    }
}

static bool test(const struct config *c)
{
    uint64_t enough = compared + options.ops / CONFIGS + 1;
    size_t good;

    now_running = c->name;
    for (uint64_t number = 0; compared < enough; number++) {
        draw_words(seed_of(c, number));
        good = run(c, HISTORY_STEPS, options.steps);
        if (history.failed) {
            show_failure(c, good + 1);
            stop();
            show_shortest(c, good + 1);
            return false;
        }
        stop();
    }
    printf("ok   %s\n", c->name);
    return true;
}

/* --- main --- */

static void usage(void)
{
    fprintf(stderr,
        "usage: model-run [--seed S] [--ops N] [--only TEXT] [--steps] "
        "[--over unix|tcp]\n");
    exit(2);
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (strcmp(argv[i], "--steps") == 0) {
            options.steps = true;
            continue;
        }
        if (value == NULL)
            usage();
        if (strcmp(argv[i], "--seed") == 0)
            options.seed = strtoull(value, NULL, 0), options.seeded = true;
        else if (strcmp(argv[i], "--ops") == 0)
            options.ops = strtoull(value, NULL, 0);
        else if (strcmp(argv[i], "--only") == 0)
            options.only = value;
        else if (strcmp(argv[i], "--over") == 0)
            options.over = value;
        else
            usage();
        i++;
    }
    if (options.over != NULL && strcmp(options.over, "unix") != 0 &&
        strcmp(options.over, "tcp") != 0)
        usage();
}

static void print_figures(void)
{
    printf("figure cycle-questions %" PRIu64 "\n", questions);
    printf("figure cycles-found %" PRIu64 "\n", cycles);
    printf("figure model-sets-held %" PRIu64 "\n", sets_held);
    printf("figure model-sets-queued %" PRIu64 "\n", sets_queued);
    printf("figure model-sets-granted-later %" PRIu64 "\n", sets_granted);
    printf("figure model-sets-left %" PRIu64 "\n", sets_left);
}

static uint64_t seed_of_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return ((uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000) ^
        (uint64_t)getpid() << 44;
}

static void test_all(uint64_t seed, uint64_t ops)
{
    options.seed = seed;
    options.ops = ops;
    printf("seed %" PRIu64 "\n", options.seed);
    fflush(stdout);
    for (unsigned i = 0; i < CONFIGS; i++) {
        struct config c = config_at(i);

        c.over = options.over;
        if (c.over != NULL && strcmp(c.load->name, "short ttls") == 0)
            continue;
        if (options.only != NULL && strstr(c.name, options.only) == NULL)
            continue;
        if (test(&c))
            n_passed++;
        else
            n_failed++;
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    if (options.ops == 0)
        options.ops =
            test_percent(options.over == NULL ? OPS_DEFAULT : OPS_OVER);
    signal(SIGABRT, on_abort);
    signal(SIGSEGV, on_abort);
    if (options.seeded) {
        test_all(options.seed, options.ops);
    } else {
        uint64_t ops = options.ops;

        test_all(seed_of_now(), ops - ops / 10);
        test_all(SEED_KEPT, ops / 10);
    }
    printf("%" PRIu64 " operations compared\n", compared);
    if (options.over == NULL)
        print_figures();
    else
        printf("figure model-remote-operations %" PRIu64 "\n", compared);
    printf("model%s%s: %u passed, %u failed, 0 skipped\n",
        options.over == NULL ? "" : "-over-",
        options.over == NULL ? "" : options.over, n_passed, n_failed);
    return n_failed > 0;
}
