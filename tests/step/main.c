/*
 * main.c - starts the worlds, watches over them, and sums up.
 *
 * usage: step-run [--seed N] [--seconds S] [--worlds N]
 *                 [--op NAME] [--replay NAME:STATE:cN]
 *
 * The usual states of each operation (ENQ_TEST_PERCENT of them), and then more for
 * as long as --seconds says.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/percent.h"
#include "lib/shared.h"
#include "step.h"

#define WORLDS_MAX 16u
#define WORLDS 6u /* each sleeps now and then */
#define SILENT_US 300000000

struct seat {
    pid_t pid;
    struct ctl *ctl;
    uint32_t heartbeats;
    int64_t heard_us;
};

static struct seat seats[WORLDS_MAX];
static unsigned n_seats = WORLDS;
static volatile sig_atomic_t ended;

/* --- worlds come and go --- */

static void start(unsigned i)
{
    struct seat *seat = &seats[i];
    pid_t me = getpid();

    memset(seat->ctl, 0, sizeof(*seat->ctl));
    seat->heard_us = now_us();
    fflush(stdout);
    seat->pid = fork();
    if (seat->pid != 0)
        return;
    ctl = seat->ctl;
    world_run(i, me);
}

/* Its group is of processes that it has started. */
static void clear(unsigned i)
{
    char space[64];

    kill(-seats[i].pid, SIGKILL);
    world_space(i, getpid(), space);
    enq_unlink(space);
}

static bool is_over(void)
{
    return ended || LOAD(tally->stop) || tally->replay ||
        (LOAD(tally->next) > 101 * n_ops && tally->until_us <= now_us());
}

static void reap_world(unsigned i, int status)
{
    if (WIFSIGNALED(status) || WEXITSTATUS(status) != 0)
        fault(FAULT_STUCK, &seats[i].ctl->now,
            "the controller ended with status %#x", (unsigned)status);
    clear(i);
    seats[i].pid = 0;
    if (!is_over())
        start(i);
}

static void look_after(unsigned i)
{
    struct seat *seat = &seats[i];
    uint32_t heartbeats = LOAD(seat->ctl->heartbeats);

    if (heartbeats != seat->heartbeats)
        seat->heard_us = now_us();
    seat->heartbeats = heartbeats;
    if (now_us() < seat->heard_us + SILENT_US && !ended)
        return;
    if (!ended)
        fault(FAULT_STUCK, &seat->ctl->now, "the controller is stuck");
    kill(-seat->pid, SIGKILL);
    kill(seat->pid, SIGKILL);
    waitpid(seat->pid, NULL, 0);
    reap_world(i, 0);
}

static void watch(void)
{
    unsigned living;
    int status;

    do {
        living = 0;
        for (unsigned i = 0; i < n_seats; i++) {
            if (seats[i].pid == 0)
                continue;
            living++;
            if (waitpid(seats[i].pid, &status, WNOHANG) == seats[i].pid)
                reap_world(i, status);
            else
                look_after(i);
        }
        nap_us(5000);
    } while (living > 0);
}

static void on_signal(int signal)
{
    ended = signal;
}

/* --- the end --- */

static void figure(const char *name, uint64_t value)
{
    printf("figure %s %llu\n", name, (unsigned long long)value);
}

static void tell_op(unsigned i)
{
    const struct op_tally *t = &tally->op[i];

    printf("%s %-10s %6llu kills, %5llu of them at %4llu instructions, "
           "%3llu states, %.1f ms each\n",
        t->failed != 0 ? "FAIL" : "ok  ", ops[i].name,
        (unsigned long long)t->kills, (unsigned long long)t->points,
        (unsigned long long)t->places, (unsigned long long)t->cases,
        (double)t->took_us / 1e3 / (double)(t->kills + 1));
}

static int tell(int64_t took_us)
{
    unsigned passed = 0, failed = 0;
    uint64_t kills = 0, points = 0, places = 0;

    for (unsigned i = 0; i < n_ops; i++) {
        kills += tally->op[i].kills;
        points += tally->op[i].points;
        places += tally->op[i].places;
        failed += tally->op[i].failed != 0;
        passed += tally->op[i].failed == 0 && tally->op[i].cases != 0;
        if (tally->op[i].kills != 0)
            tell_op(i);
    }
    if (failed == 0 && (tally->failures > 0 || passed == 0))
        failed = 1;
    printf("%llu kills in %.1f s; %llu missed, %llu elsewhere; %llu waiters "
           "granted, the last after %.1f ms, %llu after 50 ms\n",
        (unsigned long long)kills, (double)took_us / 1e6,
        (unsigned long long)tally->missed, (unsigned long long)tally->drifted,
        (unsigned long long)tally->grants, (double)tally->latest_us / 1e3,
        (unsigned long long)tally->late);
    printf("%llu stuck, %llu leaked, %llu findings, %llu wrong\n",
        (unsigned long long)tally->stuck, (unsigned long long)tally->leaked,
        (unsigned long long)tally->findings, (unsigned long long)tally->wrong);
    figure("step-kills", points);
    figure("step-instructions", places);
    printf("step: %u passed, %u failed, 0 skipped\n", passed, failed);
    return failed == 0 && !ended ? 0 : 1;
}

/* --- options --- */

static void usage(void)
{
    fprintf(stderr,
        "usage: step-run [--seed N] [--seconds S] [--worlds N] [--op NAME] "
        "[--replay NAME:STATE:cN]\n");
    exit(2);
}

static uint32_t op_named(const char *name)
{
    for (unsigned i = 0; i < n_ops; i++)
        if (strcmp(ops[i].name, name) == 0)
            return i;
    usage();
    return 0;
}

static void take_replay(const char *text)
{
    char name[32], kind;
    unsigned state, n;

    if (sscanf(text, "%31[^:]:%u:%c%u", name, &state, &kind, &n) != 4)
        usage();
    tally->only = (struct point){
        .op = op_named(name),
        .state = state,
        .kind = kind == 's' ? AIM_SYSCALL : AIM_CHANGE,
        .n = n,
    };
    tally->replay = true;
    n_seats = 1;
}

static void take_op(const char *name)
{
    tally->only.op = op_named(name);
    tally->one_op = true;
}

static void take_options(int argc, char **argv)
{
    tally->percent = (uint32_t)test_percent(100);
    tally->seed = (uint64_t)now_us() ^ (uint64_t)getpid() << 48;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            usage();
        if (strcmp(argv[i], "--seed") == 0)
            tally->seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            tally->until_us = now_us() + atoll(argv[i + 1]) * 1000000;
        else if (strcmp(argv[i], "--worlds") == 0)
            n_seats = (unsigned)atoi(argv[i + 1]) % (WORLDS_MAX + 1);
        else if (strcmp(argv[i], "--op") == 0)
            take_op(argv[i + 1]);
        else if (strcmp(argv[i], "--replay") == 0)
            take_replay(argv[i + 1]);
        else
            usage();
    }
}

int main(int argc, char **argv)
{
    int64_t began = now_us();

    tally = test_shared(sizeof(*tally));
    take_options(argc, argv);
    printf("seed %llu\n", (unsigned long long)tally->seed);
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    for (unsigned i = 0; i < n_seats; i++) {
        seats[i].ctl = test_shared(sizeof(struct ctl));
        start(i);
    }
    watch();
    return tell(now_us() - began);
}
