/*
 * main.c - the exhaustion tests: what happens when something runs out, or is
 * taken away.
 *
 * usage: exhaust-run [--seed N] [--seconds S] [--count N] [--jobs N] [TEXT]
 *   TEXT  only tests whose names contain it
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/atomic.h"
#include "lib/mark.h"
#include "lib/percent.h"
#include "lib/tree.h"
#include "scene.h"

#define TESTS_MAX 200
#define JOBS_MAX 16
#define SECONDS_MAX 600
#define RACES 5000

/* --- figures --- */

static uint64_t *figures;

void count(enum figure what)
{
    shm_add(&figures[what], 1);
}

uint64_t counted(enum figure what)
{
    return shm_load(&figures[what]);
}

/* --- the tests --- */

struct planned {
    char name[96];
    void (*run)(void);
    void (*run_with)(const void *arg);
    const void *arg;
};

static struct planned plan[TESTS_MAX];
static unsigned n_planned;
struct options options;

static struct planned *planned(const char *prefix, const char *name)
{
    struct planned *p = &plan[n_planned];

    snprintf(p->name, sizeof(p->name), "%s%s", prefix, name);
    if (options.only != NULL && strstr(p->name, options.only) == NULL)
        return NULL;
    must(++n_planned < TESTS_MAX, "too many tests");
    return p;
}

static void plan_suite(const struct test *tests)
{
    struct planned *p;

    for (; tests->name != NULL; tests++)
        if ((p = planned("", tests->name)) != NULL)
            p->run = tests->run;
}

/* The longest first. */
static void plan_all(void)
{
    struct planned *p;

    plan_suite(race_tests);
    for (const struct op *op = ops; op->name != NULL; op++) {
        p = planned("each failure is survived by ", op->name);
        if (p == NULL)
            continue;
        p->run_with = fail_all;
        p->arg = op;
    }
    plan_suite(full_tests);
    plan_suite(set_tests);
    plan_suite(limit_tests);
    plan_suite(room_tests);
    plan_suite(rlimit_tests);
    plan_suite(file_tests);
    plan_suite(kernel_tests);
}

/* --- running them, some at a time --- */

struct job {
    const struct planned *test;
    pid_t pid;
    int output;
    int64_t begun_ms;
};

static struct job jobs[JOBS_MAX];
static unsigned passed, failed, skipped;

static void begin(struct job *job, const struct planned *test)
{
    *job = (struct job){.test = test, .begun_ms = now_ms()};
    job->output = memfd_create("output", MFD_CLOEXEC);
    fflush(NULL);
    job->pid = fork();
    must(job->pid >= 0, "fork: %m");
    if (job->pid > 0)
        return;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(job->output, 1);
    dup2(job->output, 2);
    if (test->run != NULL)
        test->run();
    else
        test->run_with(test->arg);
    fflush(NULL);
    _exit(0);
}

static void show_output(int fd)
{
    char buf[4096];
    ssize_t n;
    off_t at = 0;

    while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
        fwrite(buf, 1, (size_t)n, stdout);
        at += n;
    }
}

static void end(struct job *job, int status)
{
    char directory[64];
    bool skip;

    kill(-job->pid, SIGKILL); /* what it has left behind */
    snprintf(directory, sizeof(directory), "/dev/shm/enq-%sexhaust-%d",
        test_mark(), (int)job->pid);
    tree_remove(directory);
    skip = WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
    passed += status == 0;
    skipped += skip;
    failed += status != 0 && !skip;
    printf("%s %s (%.1f s)\n",
        status == 0 ? "ok  "
            : skip  ? "skip"
                    : "FAIL",
        job->test->name, (double)(now_ms() - job->begun_ms) / 1000);
    show_output(job->output);
    if (WIFSIGNALED(status))
        printf("killed by signal %d%s\n", WTERMSIG(status),
            WTERMSIG(status) == SIGKILL ? ": it took too long" : "");
    fflush(stdout);
    close(job->output);
    job->test = NULL;
}

static void look_after(struct job *job)
{
    int status;

    if (job->test == NULL)
        return;
    if (waitpid(job->pid, &status, WNOHANG) == job->pid)
        end(job, status);
    else if (now_ms() - job->begun_ms > SECONDS_MAX * 1000)
        kill(job->pid, SIGKILL);
}

static void run_plan(unsigned n_jobs)
{
    unsigned next = 0, busy;

    do {
        busy = 0;
        for (unsigned i = 0; i < n_jobs; i++) {
            look_after(&jobs[i]);
            if (jobs[i].test == NULL && next < n_planned)
                begin(&jobs[i], &plan[next++]);
            busy += jobs[i].test != NULL;
        }
        nap_us(500);
    } while (busy > 0);
}

/* --- the command line --- */

static void read_options(int argc, char **argv, unsigned *n_jobs)
{
    static const struct option known[] = {{"seed", 1, NULL, 's'},
        {"seconds", 1, NULL, 't'}, {"count", 1, NULL, 'c'},
        {"jobs", 1, NULL, 'j'}, {NULL, 0, NULL, 0}};
    int c;

    options.seed = (uint64_t)time(NULL) << 20 | (unsigned)getpid();
    options.count = (unsigned)test_percent(RACES);
    while ((c = getopt_long(argc, argv, "", known, NULL)) >= 0) {
        if (c == 's')
            options.seed = strtoull(optarg, NULL, 0);
        else if (c == 't')
            options.until_ms = now_ms() + 1000 * atoi(optarg);
        else if (c == 'c')
            options.count = (unsigned)atoi(optarg);
        else if (c == 'j')
            *n_jobs = (unsigned)atoi(optarg);
        else
            exit(2);
    }
    options.only = argv[optind];
    must(*n_jobs >= 1 && *n_jobs <= JOBS_MAX, "1 to %d jobs", JOBS_MAX);
}

int main(int argc, char **argv)
{
    unsigned n_jobs = 2;

    unsetenv("ENQ_SPACE");
    unsetenv("ENQ_OWNER");
    unsetenv("ENQ_CRASH");
    read_options(argc, argv, &n_jobs);
    figures = shared_memory(FIGURES * sizeof(*figures));
    printf("seed %llu\n", (unsigned long long)options.seed);
    plan_all();
    run_plan(n_jobs);
    if (options.only == NULL) {
        printf("figure exhaust-failures-injected %llu\n",
            (unsigned long long)counted(FIGURE_FAILURES));
        printf("figure attach-races %llu\n",
            (unsigned long long)counted(FIGURE_RACES));
        printf("figure exhaust-limits %llu\n",
            (unsigned long long)counted(FIGURE_LIMITS));
    }
    printf("exhaust: %u passed, %u failed, %u skipped\n", passed, failed,
        skipped);
    return failed != 0;
}
