/*
 * stage.c - set up and struck again, whatever happens: children die with us
 * (PR_SET_PDEATHSIG), and a janitor process removes the lock space when we
 * and all our children are gone without having done so, even by kill -9: it
 * sees the end of a pipe that all of us hold open.
 */
#include "demo.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t came;

static void on_signal(int sig)
{
    came = sig;
}

int stage_signal(void)
{
    return came;
}

/* Without SA_RESTART: our waits look at `came`. */
static void catch_signals(void)
{
    struct sigaction a = {.sa_handler = on_signal};

    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGHUP, &a, NULL);
}

const char *stage_space(void)
{
    static char space[40];

    if (space[0] == 0)
        snprintf(space, sizeof(space), "shm:enq-demo-%d", (int)getpid());
    return space;
}

pid_t stage_fork(void)
{
    pid_t parent = getpid();

    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_BROKEN);
    signal(SIGINT, SIG_IGN); /* the parent ends us, in order */
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    return 0;
}

static _Noreturn void janitor_run(int fd)
{
    char byte;

    setsid(); /* out of reach of the terminal's signals */
    while (read(fd, &byte, 1) < 0 && errno == EINTR)
        continue;
    enq_unlink(stage_space());
    _exit(0);
}

static int janitor_begin(struct stage *st)
{
    int ends[2];

    stage_space(); /* named after us, not after the janitor */
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    fflush(NULL);
    st->janitor = fork();
    if (st->janitor < 0)
        return -1;
    if (st->janitor == 0) {
        close(ends[1]);
        janitor_run(ends[0]);
    }
    close(ends[0]);
    st->janitor_fd = ends[1];
    return 0;
}

int stage_begin(struct stage *st)
{
    void *p = mmap(NULL, sizeof(*st->page), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p != MAP_FAILED)
        st->page = p;
    catch_signals();
    if (p != MAP_FAILED && janitor_begin(st) == 0)
        return 0;
    say_alarm("cannot set up: %s", strerror(errno));
    return -1;
}

int stage_look(struct stage *st)
{
    struct enq_open_opts existing = {
        .size = sizeof(existing),
        .flags = ENQ_OPEN_EXISTING,
    };

    if (st->e != NULL || enq_open(&st->e, stage_space(), &existing) == ENQ_OK)
        return 0;
    say_alarm("cannot attach to %s: %s", stage_space(), enq_why());
    return -1;
}

int stage_pause(double seconds)
{
    uint64_t until = now_ns() + (uint64_t)(seconds * 1e9);
    struct timespec t = {
        .tv_sec = (time_t)(until / 1000000000u),
        .tv_nsec = (long)(until % 1000000000u),
    };

    while (came == 0)
        if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == 0)
            return 0;
    return -1;
}

static void end_child(pid_t *pid)
{
    if (*pid <= 0)
        return;
    kill(*pid, SIGKILL);
    waitpid(*pid, NULL, 0);
    *pid = 0;
}

/* Those still there did not leave when told, or we are in a hurry. */
void stage_end(struct stage *st)
{
    if (st->page == NULL)
        return;
    for (unsigned i = 0; i < ALL_ACTORS; i++)
        end_child(&st->page->actors[i].pid);
    for (unsigned i = 0; i < WORKERS_MAX; i++)
        end_child(&st->page->tallies[i].pid);
    end_child(&st->bridge_pid);
    enq_close(st->e);
    st->e = NULL;
    enq_unlink(stage_space());
    if (st->janitor > 0) {
        close(st->janitor_fd);
        waitpid(st->janitor, NULL, 0);
    }
}
