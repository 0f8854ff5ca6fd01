/*
 * frame.c - runs the cases: some at a time, as most of them wait for something,
 * and those that measure alone.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "env.h"
#include "lib/mark.h"

#define WORKERS 6
#define PATIENCE_MS 300000 /* for what hangs: the machine may be slow */

unsigned env_passed, env_failed;
uint32_t *env_dying_kills;

static const struct env_case *const tables[] = {clock_cases, timens_cases,
    stop_cases, promise_cases, token_cases, pid_cases, filter_cases,
    robust_cases, family_cases, exec_cases, thread_cases, end_cases, load_cases,
    cred_cases, survive_cases, exclude_cases, overtake_cases, dying_cases};

static struct worker {
    const struct env_case *c;
    pid_t pid;
    double began_ms;
    unsigned number;
} workers[WORKERS];

static char space[96];
static const char *case_name; /* in the process of a case */
static unsigned cases_begun;

const char *env_space(void)
{
    const char *given = getenv("ENQ_SPACE");

    return given != NULL ? given : space;
}

void env_new_space(void)
{
    snprintf(space, sizeof(space), "shm:enq-%senv-%d-%u", test_mark(),
        (int)getpid(), cases_begun++);
}

/* --- what a case has counted --- */

void env_say(const char *format, ...)
{
    char text[300];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    dprintf(1, "%s: %s\n", case_name, text);
}

void env_figure(const char *name, uint64_t value)
{
    dprintf(1, "figure %s %llu\n", name, (unsigned long long)value);
}

/* --- one case --- */

static void begin(struct worker *w, const struct env_case *c)
{
    w->c = c;
    w->number = cases_begun;
    env_new_space();
    w->began_ms = env_ms();
    fflush(NULL);
    w->pid = fork();
    must(w->pid >= 0);
    if (w->pid != 0)
        return;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    env_clocks_init();
    case_name = c->name;
    c->run();
    _exit(0);
}

/* A process that outlives its parent becomes a child of its case, and one that
   outlives that, of ours. */
static void end_orphans(void)
{
    char path[64];
    FILE *f;
    int pid;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    f = fopen(path, "r");
    while (f != NULL && fscanf(f, "%d", &pid) == 1) {
        bool known = false;

        for (size_t i = 0; i < WORKERS; i++)
            known |= workers[i].c != NULL && workers[i].pid == pid;
        if (!known)
            kill(pid, SIGKILL);
    }
    if (f != NULL)
        fclose(f);
}

static void remove_spaces(unsigned number)
{
    char file[128];

    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof(file), "/dev/shm/enq-%senv-%d-%u%s", test_mark(),
            (int)getpid(), number, i == 0 ? "" : "-b");
        unlink(file);
    }
}

static void judge(struct worker *w, int status)
{
    const char *how = WIFSIGNALED(status) ? "signal" : "status";

    kill(-w->pid, SIGKILL);
    end_orphans();
    remove_spaces(w->number);
    if (status == 0) {
        env_passed++;
        printf("ok   %s\n", w->c->name);
    } else {
        env_failed++;
        printf("FAIL %s (%s %d)\n", w->c->name, how,
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    if (getenv("ENV_TIMES") != NULL)
        printf("%6.0f ms %s\n", env_ms() - w->began_ms, w->c->name);
    w->c = NULL;
}

/* --- all of them --- */

static struct worker *find_worker(pid_t pid)
{
    for (size_t i = 0; i < WORKERS; i++)
        if (workers[i].c != NULL && (pid == 0 || workers[i].pid == pid))
            return &workers[i];
    return NULL;
}

static void end_the_late(void)
{
    for (size_t i = 0; i < WORKERS; i++) {
        struct worker *w = &workers[i];

        if (w->c == NULL || env_ms() - w->began_ms < PATIENCE_MS)
            continue;
        printf("%s hangs\n", w->c->name);
        kill(w->pid, SIGKILL);
    }
}

/* Until one has ended. */
static void reap_one(void)
{
    struct worker *w;
    int status;
    pid_t pid;

    for (;;) {
        pid = waitpid(-1, &status, WNOHANG);
        w = pid > 0 ? find_worker(pid) : NULL;
        if (w != NULL) {
            judge(w, status);
            return;
        }
        if (pid <= 0) {
            end_the_late();
            env_nap(1);
        }
    }
}

static struct worker *free_worker(void)
{
    for (;;) {
        for (size_t i = 0; i < WORKERS; i++)
            if (workers[i].c == NULL)
                return &workers[i];
        reap_one();
    }
}

static void run_those(const char *only, bool alone)
{
    for (size_t t = 0; t < LENGTH(tables); t++) {
        for (const struct env_case *c = tables[t]; c->name != NULL; c++) {
            if (c->alone != alone ||
                (only != NULL && strstr(c->name, only) == NULL))
                continue;
            while (alone && find_worker(0) != NULL)
                reap_one();
            begin(free_worker(), c);
        }
    }
    while (find_worker(0) != NULL)
        reap_one();
}

unsigned env_run_all(const char *only)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    unsetenv("ENQ_SPACE");
    unsetenv("ENQ_OWNER");
    env_dying_kills = env_shared(sizeof(*env_dying_kills));
    run_those(only, false);
    run_those(only, true);
    end_orphans();
    return env_failed;
}

/* --- roles --- */

int env_role(const char *name, const char *argument)
{
    static const struct env_role *const all[] = {filter_roles, family_roles};

    for (size_t t = 0; t < LENGTH(all); t++)
        for (const struct env_role *r = all[t]; r->name != NULL; r++)
            if (strcmp(r->name, name) == 0)
                return r->run(argument);
    fprintf(stderr, "no role %s\n", name);
    return 127;
}
