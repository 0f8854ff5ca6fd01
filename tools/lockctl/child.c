/*
 * child.c - see child.h.
 */
#include "child.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockctl.h"
#include "system.h"

#define LOOK_AGAIN_MS 10

/* Between fork and exec. lockctl may be gone before it could be watched. */
static void become_program(char **argv, pid_t parent, bool own_group,
    const sigset_t *mask)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(RUN_FAILED);
    if (own_group)
        setpgid(0, 0);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(argv[0], argv);
    int error = errno;
    say("cannot run %s: %s", argv[0], strerrordesc_np(error));
    _exit(error == ENOENT ? RUN_NOT_FOUND : RUN_UNABLE);
}

bool child_start(struct child *child, char **argv,
    const struct signals *signals)
{
    pid_t parent = getpid();

    child->name = argv[0];
    child->reaped = false;
    child->pid = fork();
    if (child->pid == 0)
        become_program(argv, parent, child->own_group, &signals->before);
    if (child->pid < 0)
        return false;
    if (child->own_group)
        setpgid(child->pid, child->pid); /* or the child was first */
    return true;
}

static void send_signal(const struct child *child, int number)
{
    if (child->own_group)
        kill(-child->pid, number);
    else if (!child->reaped)
        kill(child->pid, number);
}

/* What the terminal sends reaches a program in lockctl's group by itself. */
void child_signal(const struct child *child, struct signal_seen seen)
{
    bool has_it = seen.from_tty && !child->own_group;

    if (seen.number != 0 && seen.number != SIGCHLD && !has_it)
        send_signal(child, seen.number);
}

static void take_status(struct child *child, int status)
{
    child->reaped = true;
    if (WIFSIGNALED(status))
        child->status = SIGNALLED + WTERMSIG(status);
    else
        child->status = WEXITSTATUS(status);
}

/* Of others there are some in child_end() only: see there. */
bool child_has_ended(struct child *child)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == child->pid)
            take_status(child, status);
    return child->reaped;
}

/* A group lasts as long as any of its members, and its number is not given
   to a new process meanwhile. */
static bool anybody_left(struct child *child)
{
    if (!child_has_ended(child))
        return true;
    return child->own_group && kill(-child->pid, 0) == 0;
}

/* Who dies after its parent would stay a member of the group until init takes
   notice, which not every container's does: lockctl takes its place. */
void child_end(struct child *child, int64_t grace_ms,
    const struct signals *signals)
{
    int64_t deadline_ms = system_now_ms() + grace_ms;
    int status;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    send_signal(child, SIGTERM);
    send_signal(child, SIGCONT); /* the stopped cannot hear TERM */
    while (anybody_left(child) && system_now_ms() < deadline_ms)
        child_signal(child, signals_wait(signals, -1, LOOK_AGAIN_MS));
    if (anybody_left(child))
        send_signal(child, SIGKILL);
    if (!child->reaped && waitpid(child->pid, &status, 0) == child->pid)
        take_status(child, status);
}
