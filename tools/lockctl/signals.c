/*
 * signals.c - see signals.h.
 */
#include "signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int taken[] = {
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};

static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 &&
        action.sa_handler == SIG_IGN;
}

/* An inherited "ignore" of SIGCHLD would throw the child's status away. */
static void default_child_signal(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};

    sigaction(SIGCHLD, &action, NULL);
}

bool signals_take(struct signals *signals)
{
    sigset_t set;

    default_child_signal();
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
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
    return (struct signal_seen){
        .number = (int)info.ssi_signo,
        .from_tty = info.ssi_code == SI_KERNEL,
    };
}

bool signal_ends(int number)
{
    return number != 0 && number != SIGCHLD && number != SIGCONT &&
        number != SIGWINCH;
}
