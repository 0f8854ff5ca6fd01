/*
 * env.c - what the cases about the environment share (see env.h).
 */
#include "env.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/point.h"

/* --- what a case says --- */

void env_fail(const char *file, int line, const char *format, ...)
{
    char text[700];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    dprintf(1, "%s:%d: %s\n", file, line, text);
    _exit(1);
}

static double ms_of(clockid_t id)
{
    struct timespec ts;

    syscall(SYS_clock_gettime, id, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

double env_ms(void)
{
    return ms_of(CLOCK_MONOTONIC);
}

void env_nap(double ms)
{
    double end = env_ms() + ms, left = ms;

    while (left > 0) {
        struct timespec ts = {
            (time_t)(left / 1e3), (long)(left * 1e6) % 1000000000};
        nanosleep(&ts, NULL);
        left = end - env_ms();
    }
}

/*
 * --- how late everybody is ---
 *
 * What is measured takes several wake-ups, one after the other: of the process
 * that is killed, of its helper thread, of the waiter. Each may be as late as
 * the worst that is seen here.
 */

static struct {
    pthread_t thread[2];
    uint32_t stop;
    double worst_ms[2];
} lag;

static void *lag_main(void *slot)
{
    double *worst_ms = slot, late, asked;

    while (!shm_load_acquire(&lag.stop)) {
        asked = env_ms() + 2;
        env_nap(2);
        late = env_ms() - asked;
        if (late > *worst_ms)
            *worst_ms = late;
    }
    return NULL;
}

void env_lag_begin(void)
{
    shm_store_release(&lag.stop, 0);
    for (size_t i = 0; i < LENGTH(lag.thread); i++) {
        lag.worst_ms[i] = 0;
        must(pthread_create(&lag.thread[i], NULL, lag_main, &lag.worst_ms[i]) ==
            0);
    }
}

double env_lag_end_ms(void)
{
    double sum = 0;

    shm_store_release(&lag.stop, 1);
    for (size_t i = 0; i < LENGTH(lag.thread); i++) {
        pthread_join(lag.thread[i], NULL);
        sum += 2 * lag.worst_ms[i];
    }
    return sum;
}

/* --- spaces and locks --- */

const char *env_space_path(void)
{
    static char path[128];

    snprintf(path, sizeof(path), "/dev/shm/%s", env_space() + 4);
    return path;
}

const char *env_other_space(void)
{
    static char name[128];

    snprintf(name, sizeof(name), "%s-b", env_space());
    return name;
}

struct enq *env_open(void)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 4000};
    struct enq *e = NULL;

    want(ENQ_OK, enq_open(&e, env_space(), &opts));
    return e;
}

int env_take(struct enq *e, const char *field, int64_t wait_ms,
    struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = "env", .key = {field}, .mode = ENQ_MODE_X,
            .wait_ms = wait_ms, .ttl_ms = ENQ_FOREVER),
        g);
}

struct enq_stats env_stat(struct enq *e)
{
    struct enq_stats s = {.size = sizeof(s)};

    want(ENQ_OK, enq_stat(e, &s));
    return s;
}

/* The dead may not have been cleaned up yet: a helper thread comes by each
   second. */
void env_healthy(struct enq *e)
{
    char report[2000] = "";
    double give_up = env_ms() + 4000;
    int findings = enq_doctor(e, 0, report, sizeof(report));

    while (findings > 0 && env_ms() < give_up) {
        env_nap(2);
        findings = enq_doctor(e, 0, report, sizeof(report));
    }
    if (findings != 0)
        env_fail(__FILE__, __LINE__, "%d findings: %s", findings, report);
}

/* --- processes --- */

void *env_shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    must(p != MAP_FAILED);
    return p;
}

void env_reach(uint32_t *flag)
{
    shm_store_release(flag, 1);
}

bool env_reached(uint32_t *flag)
{
    return shm_load_acquire(flag) != 0;
}

void env_await(uint32_t *flag)
{
    while (!env_reached(flag))
        env_nap(0.05);
}

pid_t env_child(int (*f)(void *), void *arg)
{
    pid_t pid = fork();

    must(pid >= 0);
    if (pid == 0)
        _exit(f(arg));
    return pid;
}

/* With its first process a PID namespace ends, so each has a new one. */
pid_t env_child_in_pidns(int (*f)(void *), void *arg)
{
    int mine = (int)syscall(SYS_pidfd_open, getpid(), 0);
    pid_t pid;

    must(mine >= 0);
    must(unshare(CLONE_NEWPID) == 0);
    pid = env_child(f, arg);
    must(setns(mine, CLONE_NEWPID) == 0);
    close(mine);
    return pid;
}

int env_status(pid_t pid)
{
    int status = 0;
    pid_t got;

    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    must(got > 0);
    return status;
}

void env_join(pid_t pid)
{
    int status = env_status(pid);

    if (status != 0)
        env_fail(__FILE__, __LINE__, "a child ended with status %#x",
            (unsigned)status);
}

void env_killed(pid_t pid)
{
    int status = env_status(pid);

    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        env_fail(__FILE__, __LINE__, "status %#x: not killed",
            (unsigned)status);
}

void env_kill(pid_t pid)
{
    must(kill(pid, SIGKILL) == 0);
    env_killed(pid);
}

void env_stop(pid_t pid)
{
    int status;

    must(kill(pid, SIGSTOP) == 0);
    must(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
}

void env_continue(pid_t pid)
{
    must(kill(pid, SIGCONT) == 0);
}

void env_exec(const char *role, const char *argument)
{
    setenv("ENQ_SPACE", env_space(), 1);
    execl("/proc/self/exe", "env-run", "--role", role, argument, (char *)NULL);
    _exit(126);
}

/* --- crash points --- */

static const char *point_name;
static int point_signal;

/* Once: when the process goes on, it does not stop here again. */
static void end_here(const struct point *p)
{
    if (point_name == NULL || strcmp(p->name, point_name) != 0)
        return;
    point_name = NULL;
    kill(getpid(), point_signal);
    while (point_signal == SIGKILL)
        pause();
}

void env_at_point(const char *name, int signal)
{
    point_name = name;
    point_signal = signal;
    point_hook = name == NULL ? NULL : end_here;
}

/* --- clocks --- */

struct env_clocks *env_clocks;

void env_clocks_init(void)
{
    env_clocks = env_shared(sizeof(*env_clocks));
}

/*
 * In place of the C library's, for the whole program: the library is linked
 * into it. Steps of the wall clock and suspends are what these say, for all
 * processes of a case at once; nobody else on this machine notices.
 */
int clock_gettime(clockid_t id, struct timespec *ts)
{
    int rc = (int)syscall(SYS_clock_gettime, id, ts);
    int64_t ns = 0;

    if (env_clocks == NULL)
        return rc;
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) {
        ns = shm_load(&env_clocks->wall_step_ns);
        __atomic_add_fetch(&env_clocks->wall_readings, 1, __ATOMIC_RELAXED);
    } else if (id == CLOCK_BOOTTIME) {
        ns = shm_load(&env_clocks->suspended_ns);
    }
    ns += ts->tv_sec * INT64_C(1000000000) + ts->tv_nsec;
    ts->tv_sec = ns / 1000000000;
    ts->tv_nsec = ns % 1000000000;
    return rc;
}
