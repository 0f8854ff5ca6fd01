/*
 * crew.c - the processes behind the letters, seen from outside: starting
 * them (also in a PID namespace of their own), orders and answers, signals,
 * and knowing that one is dead: its socket ends when its last thread is gone.
 */
#include "spec.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct worker *worker_of(struct scene *scene, char letter)
{
    struct worker *worker = &scene->crew[letter - 'A'];

    worker->letter = letter;
    return worker;
}

/* Both sockets of a worker's end stay open over its exec; ours do not. */
static void become_worker(struct scene *scene, char letter, const int theirs[2])
{
    char name[2] = {letter, 0}, fd[12], spare[12], strict[12], slots[12];
    char *compat = (char *)scene->opts.compat;
    char *argv[] = {"spec-run", "--worker", name, fd, spare,
        (char *)bridge_address(scene), compat != NULL ? compat : "", strict,
        slots, NULL};

    snprintf(fd, sizeof(fd), "%d", theirs[0]);
    snprintf(spare, sizeof(spare), "%d", theirs[1]);
    snprintf(strict, sizeof(strict), "%u", scene->opts.strict);
    snprintf(slots, sizeof(slots), "%u", scene->opts.slots);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fcntl(theirs[0], F_SETFD, 0);
    fcntl(theirs[1], F_SETFD, 0);
    execv("/proc/self/exe", argv);
    _exit(127);
}

/*
 * fork, optionally into a new PID namespace: unshare changes only where the
 * next children live, and setns back undoes that.
 */
static pid_t fork_into(bool pidns)
{
    int home = -1;
    pid_t pid;

    if (pidns) {
        home = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
        if (home < 0 || unshare(CLONE_NEWPID) != 0)
            return -1;
    }
    pid = fork();
    if (pidns && pid != 0 && setns(home, CLONE_NEWPID) != 0)
        abort();
    if (home >= 0)
        close(home);
    return pid;
}

static bool hear_hello(struct scene *scene, struct worker *worker)
{
    static struct answer answer;

    if (worker_hear(worker, &answer, PATIENCE_MS) <= 0)
        return fail(scene, "%c did not start", worker->letter);
    /* what the table shows: of those behind a bridge the bridge's */
    worker->own_pid = scene->bridge.pid > 0 ? scene->bridge.pid : answer.pid;
    worker->asked = false;
    return true;
}

bool worker_start(struct scene *scene, struct worker *worker)
{
    int kind = SOCK_SEQPACKET | SOCK_CLOEXEC, main[2], spare[2];
    int theirs[2];

    if (!bridge_start(scene))
        return false;
    if (socketpair(AF_UNIX, kind, 0, main) != 0 ||
        socketpair(AF_UNIX, kind, 0, spare) != 0)
        return fail(scene, "socketpair: %s", strerror(errno));
    theirs[0] = main[1];
    theirs[1] = spare[1];
    worker->pid = fork_into(worker->pidns);
    if (worker->pid < 0)
        return fail(scene, "cannot start %c: %s", worker->letter,
            strerror(errno));
    if (worker->pid == 0)
        become_worker(scene, worker->letter, theirs);
    close(main[1]);
    close(spare[1]);
    worker->fd = main[0];
    worker->spare = spare[0];
    return hear_hello(scene, worker);
}

/* A fork child of another letter answers on that one's spare socket. */
bool worker_fork(struct scene *scene, struct worker *worker, char letter)
{
    static struct answer answer;
    struct order order = {.verb = VERB_FORKS};
    struct worker *child = worker_of(scene, letter);

    if (child->pid != 0 || worker->spare < 0 || worker->pidns)
        return fail(scene, "%c cannot fork %c", worker->letter, letter);
    if (!worker_ask(scene, worker, &order))
        return false;
    if (worker_hear(worker, &answer, PATIENCE_MS) <= 0 || answer.result != 0)
        return fail(scene, "%c did not fork", worker->letter);
    child->pid = answer.pid;
    child->fd = worker->spare;
    child->spare = worker->spare = -1;
    child->orphan = true;
    return hear_hello(scene, child);
}

bool worker_ask(struct scene *scene, struct worker *worker,
    const struct order *order)
{
    if (worker->pid == 0 && !worker_start(scene, worker))
        return false;
    if (worker->asked)
        return fail(scene, "%c has not answered yet", worker->letter);
    worker->order = *order;
    worker->asked = true;
    worker->asked_ms = now_ms();
    if (send(worker->fd, order, sizeof(*order), MSG_NOSIGNAL) < 0)
        return fail(scene, "%c is gone", worker->letter);
    return true;
}

/* 1: an answer; 0: none within ms; -1: the process has ended */
int worker_hear(struct worker *worker, struct answer *answer, int64_t ms)
{
    struct pollfd p = {.fd = worker->fd, .events = POLLIN};
    int64_t end = now_ms() + ms;
    int n;

    do {
        int64_t left = end - now_ms();
        n = poll(&p, 1, left > 0 ? (int)left : 0);
    } while (n < 0 && errno == EINTR);
    if (n <= 0)
        return 0;
    if (recv(worker->fd, answer, sizeof(*answer), 0) <= 0)
        return -1;
    worker->asked = false;
    return 1;
}

/* Waits for the end of the socket, then for the process itself. */
bool worker_reap(struct worker *worker, int64_t ms, int *status)
{
    static struct answer unread;
    int heard;

    do
        heard = worker_hear(worker, &unread, ms);
    while (heard == 1);
    if (heard == 0)
        return false;
    *status = 0;
    if (!worker->orphan && waitpid(worker->pid, status, 0) != worker->pid)
        return false;
    close(worker->fd);
    if (worker->spare >= 0)
        close(worker->spare);
    memset(worker, 0, offsetof(struct worker, order));
    return true;
}

bool worker_kill(struct worker *worker)
{
    int status;

    return kill(worker->pid, SIGKILL) == 0 &&
        worker_reap(worker, PATIENCE_MS, &status);
}

static char state_in(const char *path)
{
    char text[128] = "", *end;
    FILE *f;

    f = fopen(path, "r");
    if (f == NULL)
        return 0;
    if (fgets(text, sizeof(text), f) == NULL)
        text[0] = 0;
    fclose(f);
    end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' ? end[2] : 0;
}

static char state_of(pid_t pid)
{
    char path[40];

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    return state_in(path);
}

static bool all_threads_sleep(pid_t pid)
{
    char path[40];
    glob_t threads;
    bool asleep = true;

    snprintf(path, sizeof(path), "/proc/%d/task/*/stat", (int)pid);
    if (glob(path, 0, NULL, &threads) != 0)
        return false;
    for (size_t i = 0; i < threads.gl_pathc; i++)
        asleep = asleep && state_in(threads.gl_pathv[i]) == 'S';
    globfree(&threads);
    return asleep;
}

#define SLEEPS_FOR 3 /* looks in a row, a ms apart */

/* Who is stopped inside a latch stops all others, and a waiter that has just
   been seen in the queue still looks around there. */
static void until_asleep(struct worker *worker, int64_t end)
{
    for (unsigned n = 0; n < SLEEPS_FOR && now_ms() < end; poll(NULL, 0, 1))
        n = all_threads_sleep(worker->pid) ? n + 1 : 0;
}

/* SIGSTOP, and until it shows: the signal is no event one could wait for. */
bool worker_stop(struct worker *worker)
{
    int64_t end = now_ms() + PATIENCE_MS;

    until_asleep(worker, now_ms() + PATIENCE_MS / 2);
    if (kill(worker->pid, SIGSTOP) != 0)
        return false;
    while (state_of(worker->pid) != 'T')
        if (now_ms() > end || poll(NULL, 0, 1) != 0)
            return false;
    worker->stopped = true;
    return true;
}

void crew_end(struct scene *scene)
{
    for (char letter = 'A'; letter <= 'Z'; letter++)
        if (worker_of(scene, letter)->pid != 0)
            worker_kill(worker_of(scene, letter));
}
