/*
 * signals.c - see signals.h.
 */
#include "signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define FROM_TTY 1 /* the value of one that is passed on */

static const int taken[] = {
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};

static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 &&
        action.sa_handler == SIG_IGN;
}

/* An inherited "ignore" of SIGCHLD would throw the child's status away. */
static void default_action(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};

    sigaction(number, &action, NULL);
}

bool signals_take(struct signals *signals)
{
    sigset_t set;

    default_action(SIGCHLD);
    default_action(SIGNAL_ORPHANED);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGNAL_ORPHANED);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        if (!is_ignored(taken[i]))
            sigaddset(&set, taken[i]);
    sigprocmask(SIG_BLOCK, &set, &signals->before);
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals->fd >= 0;
}

struct signal_seen signals_wait(const struct signals *signals, int other_fd,
    int timeout_ms)
{
    struct pollfd fds[] = {
        {.fd = signals->fd, .events = POLLIN},
        {.fd = other_fd, .events = POLLIN}, /* poll(2) passes over -1 */
    };
    struct signalfd_siginfo info;

    poll(fds, 2, timeout_ms);
    if (read(signals->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return (struct signal_seen){.number = 0};
    bool passed_on =
        info.ssi_code == SI_QUEUE && (pid_t)info.ssi_pid == getppid();
    return (struct signal_seen){
        .number = (int)info.ssi_signo,
        .from_tty = info.ssi_code == SI_KERNEL ||
            (passed_on && info.ssi_int == FROM_TTY),
        .passed_on = passed_on,
    };
}

void signals_pass_on(pid_t child, struct signal_seen seen)
{
    union sigval value = {.sival_int = seen.from_tty ? FROM_TTY : 0};

    if (signal_is_for_program(seen.number))
        sigqueue(child, seen.number, value);
}

bool signal_is_for_program(int number)
{
    return number != 0 && number != SIGCHLD && number != SIGNAL_ORPHANED;
}

bool signal_ends(int number)
{
    return number != 0 && number != SIGCHLD && number != SIGCONT &&
        number != SIGWINCH;
}
