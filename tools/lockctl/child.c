/*
 * child.c - see child.h.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockctl.h"
#include "system.h"
#include "tree.h"

#define LOOK_AGAIN_MS 10

/* Above what shells and scripts use for descriptors of their own, if the limit
   permits. */
#define LIFE_FD_FROM 200

static void inherit_life(int fd)
{
    if (fd >= 0 && fcntl(fd, F_DUPFD, LIFE_FD_FROM) < 0)
        fcntl(fd, F_SETFD, 0);
}

/* Between fork and exec. lockctl may be gone before it could be watched. */
static void become_program(const struct child *child, char **argv, pid_t parent,
    const sigset_t *mask)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(RUN_FAILED);
    if (child->own_group)
        setpgid(0, 0);
    inherit_life(child->life_fd);
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
    child->any_left = true;
    child->pid = fork();
    if (child->pid == 0)
        become_program(child, argv, parent, &signals->before);
    if (child->pid < 0)
        return false;
    if (child->own_group)
        setpgid(child->pid, child->pid); /* or the child was first */
    return true;
}

static void send_signal(const struct child *child, int number)
{
    if (child->reaped)
        tree_signal(number, 0);
    else
        kill(child->own_group ? -child->pid : child->pid, number);
}

/* What has left the program's group, or ignores INT as a shell's "&" does, is
   still to be ended by the one that waits for it. But it is not told of a
   hang-up, which is why it has left. */
static void end_rest(int number)
{
    if (number == SIGINT || number == SIGQUIT || number == SIGTERM)
        tree_signal(SIGTERM, 0);
}

/* What the terminal sends reaches a program in the front's group by itself; to
   another the front passes it on, as for us. */
void child_signal(const struct child *child, struct signal_seen seen)
{
    bool has_it = seen.from_tty && !child->own_group;
    bool comes_again = seen.from_tty && !seen.passed_on;

    if (child->reaped)
        end_rest(seen.number);
    else if (signal_is_for_program(seen.number) && !has_it && !comes_again)
        send_signal(child, seen.number);
}

/* Of others there are those that the program has left behind. */
static void note_end(void *context, pid_t pid, int status)
{
    struct child *child = context;

    if (pid != child->pid)
        return;
    child->reaped = true;
    child->status = WIFSIGNALED(status) ? SIGNALLED + WTERMSIG(status)
                                        : WEXITSTATUS(status);
}

void child_look(struct child *child)
{
    child->any_left = tree_reap(note_end, child);
}

void child_kill(const struct child *child)
{
    if (!child->reaped)
        kill(child->pid, SIGKILL);
}

/* Where /proc does not show the processes, the group will do. */
static void end_politely(const struct child *child)
{
    if (tree_signal(SIGTERM, 0) >= 0) {
        tree_signal(SIGCONT, 0); /* the stopped do not receive TERM */
        return;
    }
    send_signal(child, SIGTERM);
    send_signal(child, SIGCONT);
}

void child_end(struct child *child, int64_t grace_ms,
    const struct signals *signals)
{
    int64_t deadline_ms = system_now_ms() + grace_ms;

    end_politely(child);
    for (child_look(child); child->any_left && system_now_ms() < deadline_ms;
         child_look(child))
        child_signal(child, signals_wait(signals, -1, LOOK_AGAIN_MS));
    if (child->any_left && !child->reaped)
        send_signal(child, SIGKILL);
    tree_end(signals, note_end, child);
    child->any_left = false;
}
