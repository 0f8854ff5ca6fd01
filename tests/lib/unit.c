/*
 * unit.c - what the unit tests share (see unit.h).
 */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/atomic.h"
#include "lib/dice.h"
#include "lib/mark.h"
#include "lib/tree.h"
#include "recovery/check.h"
#include "store/walk.h"

static const char *module_name;
static char directory[128];
static pid_t program;
static int skipped;

/* --- the thread sanitizer --- */

/*
 * A life mutex is locked once, by the thread that registers, and waited for by
 * nobody: it cannot close a cycle, though it is held while everything else is
 * taken. A walk through all slabs (list, stat, doctor, dump) reads entries
 * without their words on purpose, and compares the state afterwards. So does a
 * look at the liveness word of a slot that is given to another: it compares the
 * reference.
 */
#if UNIT_TSAN
const char *__tsan_default_suppressions(void);

const char *__tsan_default_suppressions(void)
{
    return "deadlock:life_begin\nrace:life_begin\nrace:^slab_each$\n"
           "race:^copy_info$\n";
}
#endif

/* --- the frame of a program --- */

static void tidy(void)
{
    if (getpid() == program)
        tree_remove(directory);
}

void unit_begin(const char *module)
{
    module_name = module;
    program = getpid();
    unsetenv("ENQ_SPACE");
    unsetenv("ENQ_OWNER");
    unsetenv("ENQ_CRASH");
    setenv("ENQ_TICK_FOUND", "3000", 1); /* see sync/tick.h */
    snprintf(directory, sizeof(directory), "/dev/shm/enq-%sunit-%s-%d",
        test_mark(), module, (int)program);
    if (mkdir(directory, 0755) != 0 || chmod(directory, 0755) != 0) {
        perror(directory);
        exit(1);
    }
    atexit(tidy);
}

bool unit_wants(const char *test)
{
    const char *only = getenv("UNIT_ONLY");

    return only == NULL || strcmp(only, test) == 0;
}

void unit_skip(const char *test, const char *reason)
{
    if (!unit_wants(test))
        return;
    printf("skip %s: %s\n", test, reason);
    skipped++;
}

bool unit_is_root(void)
{
    return geteuid() == 0;
}

/* Programs of threads search for races. */
static bool may_repeat(void)
{
    return !UNIT_TSAN && strstr(module_name, "threads") == NULL;
}

int unit_end(void)
{
    struct runner_count count = runner_play(module_name, may_repeat());

    if (count.passed + count.failed + skipped == 0 &&
        getenv("UNIT_ONLY") != NULL) {
        printf("there is no test %s\n", getenv("UNIT_ONLY"));
        count.failed = 1;
    }
    printf("%s: %d passed, %d failed, %d skipped\n", module_name, count.passed,
        count.failed, skipped);
    return count.failed != 0;
}

/* --- spaces --- */

/* Chosen at the first use, by the test's first thread: children of a test see
   the test's paths. */
const char *unit_dir(void)
{
    static char path[160];

    if (path[0] == '\0') {
        snprintf(path, sizeof(path), "%s/%d", directory, (int)getpid());
        ck_assert(mkdir(path, 0755) == 0 || errno == EEXIST);
        ck_assert_int_eq(chmod(path, 0755), 0);
    }
    return path;
}

const char *unit_path(const char *name, char path[256])
{
    snprintf(path, 256, "%s/%s", unit_dir(), name);
    return path;
}

const char *unit_space(void)
{
    static char path[256];

    /* made by the test's first thread: others only read it */
    return path[0] != '\0' ? path : unit_path("space", path);
}

struct enq *unit_open_with(const struct enq_open_opts *opts)
{
    struct enq *e = NULL;

    want(ENQ_OK, enq_open(&e, unit_space(), opts));
    ck_assert_ptr_nonnull(e);
    return e;
}

struct enq *unit_open(void)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .owner = "me"};

    if (access(unit_space(), F_OK) !=
        0) /* one that a test made may be smaller */
        opts.slots = 10000;
    return unit_open_with(&opts);
}

int unit_lock(struct enq *e, const char *name, const char *field,
    enum enq_mode mode, struct enq_grant *g)
{
    memset(g, 0xa5, sizeof(*g)); /* what is not stored is no zero */
    return enq_lock(e, ENQ_REQ(.name = name, .key = {field}, .mode = mode), g);
}

struct enq_stats unit_stats(struct enq *e)
{
    struct enq_stats stats = {.size = sizeof(stats)};

    want(ENQ_OK, enq_stat(e, &stats));
    return stats;
}

struct remote *unit_remote(struct enq *e)
{
    return e->remote;
}

void unit_healthy(struct enq *e)
{
    char text[4096] = "";
    struct check_report report = {text, sizeof(text), 0, 0};

    if (e->readonly)
        check_quiet(e->map, &report);
    else
        want(0, check_table(e->map, thread_enter(e->map), &report));
    ck_assert_msg(report.findings == 0, "%s", text);
}

/* --- children --- */

static bool is_asleep(const char *tid)
{
    char path[64], line[256] = "";
    const char *state;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%.16s/stat", tid);
    f = fopen(path, "re");
    if (f == NULL)
        return true; /* it has ended */
    if (fgets(line, sizeof(line), f) == NULL)
        line[0] = '\0';
    fclose(f);
    state = strrchr(line, ')');
    return state == NULL || strncmp(state, ") S", 3) == 0;
}

static bool others_sleep(void)
{
    DIR *d = opendir("/proc/self/task");
    const struct dirent *task;
    bool yes = true;

    while (d != NULL && yes && (task = readdir(d)) != NULL)
        yes = task->d_name[0] == '.' || atoi(task->d_name) == gettid() ||
            is_asleep(task->d_name);
    if (d != NULL)
        closedir(d);
    return yes;
}

/* A thread that begins or ends, as our helper does after the last attachment is
   closed, may have a lock of the address sanitizer, which a child would inherit
   and wait for for ever. */
static void await_others(void)
{
    for (int turns = UNIT_ASAN ? 300 : 0; turns > 0 && !others_sleep(); turns--)
        unit_nap();
}

pid_t unit_fork(int (*f)(void *), void *arg)
{
    pid_t pid;

    unit_dir();
    fflush(NULL);
    await_others();
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(f(arg));
    return pid;
}

static int reap(pid_t pid)
{
    int status = 0;
    pid_t got;

    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    ck_assert_int_gt(got, 0);
    return status;
}

void unit_join(pid_t pid)
{
    int status = reap(pid);

    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
        "child ended with status %#x", (unsigned)status);
}

void unit_join_all(int n)
{
    while (n-- > 0)
        unit_join(-1);
}

void unit_killed(pid_t pid)
{
    int status = reap(pid);

    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
        "child ended with status %#x, not killed", (unsigned)status);
}

void unit_stay(uint32_t *ready)
{
    shm_store_release(ready, 1);
    for (;;)
        pause();
}

void unit_kill(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    unit_killed(pid);
}

void unit_stop(pid_t pid)
{
    int status;

    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(status));
}

void *unit_shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

char *unit_at_edge(const void *bytes, size_t n)
{
    size_t room = (n + 4095) / 4096 * 4096;
    char *base = mmap(NULL, room + 4096, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(base, MAP_FAILED);
    ck_assert_int_eq(mprotect(base + room, 4096, PROT_NONE), 0);
    return memcpy(base + room - n, bytes, n);
}

void unit_is_at(const char *file, int line)
{
    static __thread const char *last_file;
    static __thread int last_line;

    if (line == last_line && file == last_file)
        return;
    last_file = file;
    last_line = line;
    (_mark_point)(file, line); /* Check's own, not our macro */
}

/* --- patience and chance --- */

int64_t unit_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t unit_patience_ms(void)
{
    const char *times = getenv("CK_TIMEOUT_MULTIPLIER");

    return 10000 * (times == NULL ? 1 : strtol(times, NULL, 10));
}

void unit_nap(void)
{
    nanosleep(&(struct timespec){0, 100000}, NULL);
}

unsigned unit_count_dir(const char *path)
{
    DIR *d = opendir(path);
    unsigned n = 0;

    ck_assert_ptr_nonnull(d);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

void unit_with_ticks(void)
{
    unsetenv("ENQ_TICK_MS");
}

uint64_t unit_seed(void)
{
    const char *given = getenv("ENQ_SEED");
    struct timespec ts;
    uint64_t seed;

    runner_searches();
    clock_gettime(CLOCK_REALTIME, &ts);
    seed = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
    if (given != NULL)
        seed = strtoull(given, NULL, 0);
    printf("ENQ_SEED=%#llx\n", (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

uint64_t unit_random(uint64_t *dice)
{
    return dice_roll(dice);
}
