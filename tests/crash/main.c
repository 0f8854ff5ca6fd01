/*
 * main.c - crash-run: workers, their watchdog, and the sum.
 *
 * usage: crash-run [--jobs N] [--seed N] [--count KILLS] [--seconds S]
 *            [--share S] [--op NAME] [--state NAME]
 *            [--rescue SCRIPT | --alone | --points] [--verbose]
 *        crash-run --op NAME --state NAME --k N | --at POINT
 *            [--rescue SCRIPT --j N --i N] [--count TIMES]
 *
 * The first form plays all series once, or those named, and goes on until it
 * has so many kills, or so long. First somebody dies at every point but those
 * in tests/crash/unreached (--points: no more than that). Then those that die
 * alone do so at each pass of each store, and pairs at each store with each
 * store of those that clear up: that is done whatever it takes, a fifth of the
 * pairs in this run (ENQ_TEST_PERCENT: of that) and the others in the next rounds
 * or runs. Stores in loops
 * are passed often: further passes are died at as long as the series has time,
 * which is its part of --share seconds (10; 0: hours). The second form plays
 * one death again.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crash.h"
#include "lib/percent.h"
#include "lib/shared.h"

#define JOBS_MAX 16
#define HANG_S 60
#define ROUNDS 60
#define REACH_S 600 /* for these rounds: usually half a minute */

struct tally *tally;
struct options options = {.share = 10};

static struct box *boxes[JOBS_MAX];
static pid_t workers[JOBS_MAX];
static bool points_only; /* this round */

/* --- options --- */

enum {
    JOBS = 256,
    COUNT,
    SECONDS,
    SHARE,
    SEED,
    OP,
    STATE,
    RESCUE,
    AT,
    K,
    J,
    I,
    ALONE,
    POINTS,
    LOUD
};

static const struct option long_options[] = {
    {"jobs", 1, NULL, JOBS},
    {"count", 1, NULL, COUNT},
    {"seconds", 1, NULL, SECONDS},
    {"share", 1, NULL, SHARE},
    {"seed", 1, NULL, SEED},
    {"op", 1, NULL, OP},
    {"state", 1, NULL, STATE},
    {"rescue", 1, NULL, RESCUE},
    {"at", 1, NULL, AT},
    {"k", 1, NULL, K},
    {"j", 1, NULL, J},
    {"i", 1, NULL, I},
    {"alone", 0, NULL, ALONE},
    {"points", 0, NULL, POINTS},
    {"verbose", 0, NULL, LOUD},
    {NULL, 0, NULL, 0},
};

static bool take_text(int option, const char *text)
{
    const char **to = option == OP ? &options.op
        : option == STATE          ? &options.state
        : option == RESCUE         ? &options.rescue
        : option == AT             ? &options.name
                                   : NULL;

    if (to != NULL)
        *to = text;
    return to != NULL;
}

static bool take_number(int option, uint64_t n)
{
    switch (option) {
    case JOBS:
        options.jobs = (unsigned)n;
        return n >= 1 && n <= JOBS_MAX;
    case COUNT:
        options.count = n;
        return true;
    case SECONDS:
        options.seconds = n;
        return true;
    case SHARE:
        options.share = n;
        return true;
    case SEED:
        options.seed = n;
        return true;
    case K:
        options.k = (uint32_t)n;
        return true;
    case J:
        options.j = (uint32_t)n;
        return true;
    case I:
        options.i = (uint32_t)n;
        return true;
    default:
        return false;
    }
}

static bool take_options(int argc, char **argv)
{
    int option;

    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == LOUD)
            options.verbose = true;
        else if (option == ALONE)
            options.alone = true;
        else if (option == POINTS)
            options.points = true;
        else if (option == '?' ||
            (!take_text(option, optarg) &&
                !take_number(option, strtoull(optarg, NULL, 0))))
            return false;
    }
    return optind == argc;
}

/* --- workers --- */

static void start_worker(unsigned i, unsigned round)
{
    pid_t parent = getpid();

    boxes[i]->heartbeats = 0;
    fflush(stdout);
    workers[i] = fork();
    if (workers[i] != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    series_work(boxes[i], round, points_only);
    fflush(stdout);
    _exit(0);
}

static void remove_spaces(const struct box *box)
{
    enq_unlink(box->space);
    if (box->other[0] != '\0')
        enq_unlink(box->other);
}

/* It hangs, or has crashed: its children die with it. */
static void lose_worker(unsigned i, const char *how)
{
    printf("FAIL %s: the teller %s\n", boxes[i]->story, how);
    fflush(stdout);
    tally->failed++;
    tally->faults[FAULT_STUCK]++;
    remove_spaces(boxes[i]);
}

/* False: it has come to its end. */
static bool watch_worker(unsigned i, uint32_t *heartbeats, int64_t *since)
{
    int status;

    if (waitpid(workers[i], &status, WNOHANG) == workers[i]) {
        if (status != 0)
            lose_worker(i, "crashed");
        return status != 0;
    }
    if (load(&boxes[i]->heartbeats) != *heartbeats) {
        *heartbeats = load(&boxes[i]->heartbeats);
        *since = now_ns();
    }
    if (now_ns() - *since < HANG_S * INT64_C(1000000000))
        return true;
    kill(workers[i], SIGKILL);
    waitpid(workers[i], NULL, 0);
    lose_worker(i, "hangs");
    workers[i] = 0;
    return true;
}

static bool is_running(unsigned i)
{
    return workers[i] > 0 && kill(workers[i], 0) == 0;
}

/* Nothing is left behind, whatever ends us. */
static volatile sig_atomic_t stopped;

static void on_stop(int number)
{
    stopped = number;
}

/* Where they are in each other's way, more points are reached. */
static unsigned n_workers(void)
{
    return points_only && options.jobs <= JOBS_MAX / 2 ? 2 * options.jobs
                                                       : options.jobs;
}

static void stop_workers(void)
{
    for (unsigned i = 0; i < n_workers(); i++) {
        if (workers[i] <= 0)
            continue;
        kill(workers[i], SIGKILL);
        waitpid(workers[i], NULL, 0);
        remove_spaces(boxes[i]);
    }
    exit(1);
}

static void play_round(unsigned round)
{
    uint32_t heartbeats[JOBS_MAX] = {0};
    int64_t since[JOBS_MAX];
    unsigned left = n_workers();

    tally->next = 0;
    for (unsigned i = 0; i < n_workers(); i++) {
        since[i] = now_ns();
        start_worker(i, round);
    }
    while (left > 0) {
        nanosleep(&(struct timespec){0, 20000000}, NULL);
        if (stopped)
            stop_workers();
        for (unsigned i = 0; i < n_workers(); i++) {
            if (workers[i] == -1)
                continue;
            if (!watch_worker(i, &heartbeats[i], &since[i])) {
                workers[i] = -1;
                left--;
            } else if (!is_running(i)) {
                since[i] = now_ns();
                start_worker(i, round);
            }
        }
    }
}

/* First of all: what is not reached at once, as others are in the way, may be
   the next time. */
static void reach_points(void)
{
    int64_t until = now_ns() + REACH_S * INT64_C(1000000000);
    unsigned i;

    points_only = true;
    for (i = 0; i < ROUNDS && points_missing() > 0 && now_ns() < until; i++) {
        printf("round %u: %u points to reach\n", i, points_missing());
        if (i > 2)
            points_print_missing();
        play_round(i);
    }
    points_only = false;
    if (points_missing() == 0 || i == ROUNDS)
        return;
    points_cut_short = true;
    printf("after %d s, %u rounds, no more are looked for\n", REACH_S, i);
}

static bool is_done(int64_t begin)
{
    if (is_replay() || tally->failed > 20 || tally->kills == 0)
        return true;
    return load(&tally->kills) >= options.count &&
        now_ns() - begin >= (int64_t)options.seconds * 1000000000;
}

bool is_whole(void)
{
    return options.op == NULL && options.state == NULL &&
        options.rescue == NULL && !options.alone && !is_replay();
}

/* One for each CPU: with two each the same kills take a third more of the
   processors, which the kernel spends on those that it reaps meanwhile. */
static unsigned default_jobs(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    return cpus < 1 ? 1 : cpus > JOBS_MAX ? JOBS_MAX : (unsigned)cpus;
}

int main(int argc, char **argv)
{
    int64_t begin = now_ns();

    options.seed = (uint64_t)begin;
    options.turns = (unsigned)(TURNS * 100 / test_percent(100));
    if (!take_options(argc, argv)) {
        fprintf(stderr, "usage: see tests/crash/main.c\n");
        return 2;
    }
    if (options.jobs == 0)
        options.jobs = is_replay() ? 1 : default_jobs();
    signal(SIGTERM, on_stop);
    signal(SIGINT, on_stop);
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    tally = test_shared(sizeof(*tally));
    points_begin();
    for (unsigned i = 0; i < JOBS_MAX; i++)
        boxes[i] = test_shared(sizeof(struct box));
    printf("seed %llu\n", (unsigned long long)options.seed);
    if (is_whole())
        reach_points();
    for (unsigned round = 0; !options.points; round++) {
        play_round(round);
        if (is_done(begin))
            break;
    }
    if (is_whole()) {
        if (points_report())
            tally->passed++;
        else
            tally->failed++;
    }
    printf("figure crash-kills %llu\n", (unsigned long long)tally->kills);
    printf("figure crash-pairs %llu\n", (unsigned long long)tally->pairs);
    printf("figure crash-pairings-whole %llu\n",
        (unsigned long long)tally->whole);
    printf("figure crash-stuck %llu\n",
        (unsigned long long)tally->faults[FAULT_STUCK]);
    printf("figure crash-leaked %llu\n",
        (unsigned long long)tally->faults[FAULT_LEAK]);
    printf("figure crash-double-grants %llu\n",
        (unsigned long long)tally->faults[FAULT_DOUBLE]);
    printf("figure crash-half-sets %llu\n",
        (unsigned long long)tally->faults[FAULT_HALF]);
    printf("crash: %llu passed, %llu failed, 0 skipped\n",
        (unsigned long long)tally->passed, (unsigned long long)tally->failed);
    return tally->failed != 0;
}
