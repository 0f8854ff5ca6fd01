/*
 * crew.c - the worker processes of a trial: started, pinned one after the
 * other to the processors we may use, given orders, watched, and ended. None
 * outlives the parent (PR_SET_PDEATHSIG), and nothing outlives the crew.
 */
#include "harness/crew.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A worker that is not done by then hangs: it may have to fill or to empty a
   large table or a long queue, or only to finish its batch. */
enum { LATE_FILL_S = 120, LATE_PASS_S = 20 };

static unsigned late_after(const struct crew *c, enum pass pass)
{
    bool fills = pass == PASS_WEIGH || c->trial->scenario->work == WORK_QUEUE;

    return fills ? LATE_FILL_S : LATE_PASS_S;
}

volatile sig_atomic_t bench_signal;

const char *crew_space(void)
{
    static char space[48];

    if (space[0] == 0)
        snprintf(space, sizeof(space), "shm:enq-bench-%d", (int)getpid());
    return space;
}

static void pin(unsigned index)
{
    cpu_set_t ours, one;
    int seen = 0;

    if (sched_getaffinity(0, sizeof(ours), &ours) != 0)
        return;
    int want = (int)index % CPU_COUNT(&ours);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &ours) || seen++ != want)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof(one), &one);
        return;
    }
}

void crew_settle(unsigned index, int parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILED);  /* it died before the line above */
    signal(SIGINT, SIG_IGN); /* the parent ends us, in order */
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    pin(index);
}

void crew_complain(const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "enq-bench: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
}

static void complain_end(struct crew *c, unsigned worker, int status)
{
    const char *why = c->page->slot[worker].why;

    if (why[0] != 0)
        crew_complain("worker %u: %s", worker, why);
    else if (WIFSIGNALED(status))
        crew_complain("worker %u died: %s", worker,
            strsignal(WTERMSIG(status)));
    else
        crew_complain("worker %u ended before its time", worker);
}

bool crew_ended(struct crew *c, unsigned worker, int pid)
{
    int status;

    if (waitpid(pid, &status, WNOHANG) <= 0)
        return false;
    complain_end(c, worker, status);
    return true;
}

/* Has one of us ended although nobody told it to? */
static bool lost_worker(struct crew *c)
{
    for (unsigned i = 0; i < c->workers; i++) {
        if (c->pids[i] <= 0 || !crew_ended(c, i, c->pids[i]))
            continue;
        c->pids[i] = 0;
        return true;
    }
    return false;
}

struct timespec crew_in_ms(int64_t ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    return t;
}

/* A signal that comes just before a sleep does not end it: so none is longer. */
enum { SLEEP_MS = 100 };

/* All posted `done`, or -1: one is lost or late, or a signal came. */
int crew_wait(struct crew *c, unsigned late_s)
{
    uint64_t late = now_ns() + late_s * UINT64_C(1000000000);

    for (unsigned n = 0; n < c->workers;) {
        struct timespec tick = crew_in_ms(SLEEP_MS);
        if (bench_signal != 0)
            return -1;
        if (sem_clockwait(&c->page->done, CLOCK_MONOTONIC, &tick) == 0) {
            n++;
            continue;
        }
        if (lost_worker(c))
            return -1;
        if (now_ns() > late) {
            crew_complain("only %u workers are done, the others hang", n);
            return -1;
        }
    }
    return lost_worker(c) ? -1 : 0;
}

int crew_pause(double seconds)
{
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), now;

    while (bench_signal == 0 && (now = now_ns()) < end) {
        uint64_t left = end - now, most = SLEEP_MS * UINT64_C(1000000);
        struct timespec nap = {0, (long)(left < most ? left : most)};

        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    }
    return bench_signal == 0 ? 0 : -1;
}

static int page_new(struct crew *c)
{
    struct page *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        crew_complain("no memory for the page: %s", strerror(errno));
        return -1;
    }
    for (unsigned i = 0; i < PROCS_MAX; i++)
        sem_init(&p->go[i], 1, 0);
    sem_init(&p->done, 1, 0);
    sem_init(&p->ready, 1, 0);
    c->page = p;
    return 0;
}

static int arenas_open(struct crew *c)
{
    for (unsigned i = 0; subjects[i] != NULL; i++) {
        if (!c->joins[i])
            continue;
        int rc = subjects[i]->open(c->trial, &c->arenas[i]);
        c->opened[i] = rc == 0;
        if (rc == 0)
            continue;
        crew_complain("%s: %s", subjects[i]->name, strerror(rc));
        return -1;
    }
    return 0;
}

static int workers_fork(struct crew *c)
{
    pid_t parent = getpid();

    for (unsigned i = 0; i < c->workers; i++) {
        if (bench_signal != 0)
            return -1;
        c->pids[i] = fork();
        if (c->pids[i] == 0) {
            crew_settle(i, parent);
            worker_run(c, i);
        }
        if (c->pids[i] > 0)
            continue;
        crew_complain("worker %u does not start: %s", i, strerror(errno));
        return -1;
    }
    return 0;
}

/* Returns when every worker sits at all subjects and has prepared; a failure
   has been told, and is still to be followed by crew_end(). */
int crew_start(struct crew *c)
{
    const struct trial *t = c->trial;

    c->workers = t->procs - (t->scenario->manner == MANNER_DEATH ? 1 : 0);
    fflush(NULL);
    if (page_new(c) != 0 || arenas_open(c) != 0 || workers_fork(c) != 0)
        return -1;
    c->well = crew_wait(c, LATE_FILL_S) == 0;
    return c->well ? 0 : -1;
}

void crew_order(struct crew *c, struct order o)
{
    c->page->order = o;
    for (unsigned i = 0; i < c->workers; i++)
        sem_post(&c->page->go[i]);
}

int crew_run(struct crew *c, struct order o, double seconds)
{
    c->page->guard[o.subject].visits = 0;
    c->page->guard[o.subject].last = 0;
    atomic_store(&c->page->stop, 0);
    crew_order(c, o);
    c->well = seconds <= 0 || crew_pause(seconds) == 0;
    atomic_store(&c->page->stop, 1);
    c->well = c->well && crew_wait(c, late_after(c, o.pass)) == 0;
    return c->well ? 0 : -1;
}

/* All, before one is waited for: each that dies waits for its turn on a
   processor, which those that live take from it. */
static void kill_all(struct crew *c)
{
    c->well = false;
    for (unsigned i = 0; i < PROCS_MAX; i++)
        if (c->pids[i] > 0)
            kill(c->pids[i], SIGKILL);
}

/* Gives it time to close what it holds, unless something is wrong already. */
static int reap(struct crew *c, unsigned worker)
{
    uint64_t late = now_ns() + LATE_FILL_S * UINT64_C(1000000000);
    int status = 0, pid;

    while ((pid = waitpid(c->pids[worker], &status, c->well ? WNOHANG : 0)) ==
            0 ||
        (pid < 0 && errno == EINTR))
        if (c->well && (crew_pause(0.001) != 0 || now_ns() > late))
            kill_all(c);
    c->pids[worker] = 0;
    if (!c->well || status == 0)
        return 0;
    complain_end(c, worker, status);
    return -1;
}

/* Safe after any failure; returns -1 when a worker did not end well. */
int crew_end(struct crew *c)
{
    int rc = 0;

    if (c->victim > 0 && kill(c->victim, SIGKILL) == 0)
        waitpid(c->victim, NULL, 0);
    if (c->well && bench_signal == 0)
        crew_order(c, (struct order){.pass = PASS_LEAVE});
    else
        kill_all(c);
    for (unsigned i = 0; i < PROCS_MAX; i++)
        if (c->pids[i] > 0 && reap(c, i) != 0)
            rc = -1;
    for (unsigned i = 0; subjects[i] != NULL; i++)
        if (c->opened[i])
            subjects[i]->close(c->trial, c->arenas[i]);
    if (c->page != NULL)
        munmap(c->page, sizeof(*c->page));
    return rc;
}

struct slot *crew_slot(struct crew *c, unsigned worker)
{
    return &c->page->slot[worker];
}

struct guard *crew_guard(struct crew *c, unsigned subject)
{
    return &c->page->guard[subject];
}
