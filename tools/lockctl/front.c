/*
 * front.c - see front.h.
 */
#include "front.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockctl.h"
#include "tree.h"

/* Between the two --------------------------------------------------------- */

union carrier {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void close_socket(struct front *front)
{
    if (front->socket >= 0)
        close(front->socket);
    front->socket = -1;
}

void front_give(struct front *front, int life_fd)
{
    union carrier carrier = {.bytes = {0}};
    char byte = 0;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data,
        .msg_iovlen = 1,
        .msg_control = carrier.bytes,
        .msg_controllen = sizeof(carrier.bytes)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    if (life_fd >= 0) {
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &life_fd, sizeof(int));
        sendmsg(front->socket, &message, MSG_NOSIGNAL);
    }
    close_socket(front);
}

/* What was sent, or the end of the guardian: nothing more comes. */
static void take_life_fd(struct front *front)
{
    union carrier carrier;
    char byte;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data,
        .msg_iovlen = 1,
        .msg_control = carrier.bytes,
        .msg_controllen = sizeof(carrier.bytes)};
    struct cmsghdr *header;

    if (front->socket < 0 ||
        recvmsg(front->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
        return;
    header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_type == SCM_RIGHTS)
        memcpy(&front->life_fd, CMSG_DATA(header), sizeof(int));
    close_socket(front);
}

/* The two ----------------------------------------------------------------- */

/* A search for "lockctl" by name finds the front. What the guardian writes to a
   terminal does not stop it. */
static void become_guardian(pid_t front)
{
    sigset_t output;

    prctl(PR_SET_NAME, "lockctl-guard");
    prctl(PR_SET_PDEATHSIG, SIGNAL_ORPHANED);
    if (getppid() != front)
        _exit(RUN_FAILED);
    tree_adopt();
    sigemptyset(&output);
    sigaddset(&output, SIGTTOU);
    sigprocmask(SIG_BLOCK, &output, NULL);
}

pid_t front_fork(struct front *front)
{
    int ends[2];

    *front = (struct front){.pid = getpid(), .socket = -1, .life_fd = -1};
    tree_adopt();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    fflush(NULL);
    front->guardian = fork();
    front->socket = ends[front->guardian == 0];
    close(ends[front->guardian != 0]);
    if (front->guardian == 0)
        become_guardian(front->pid);
    return front->guardian;
}

void front_leave_group(void)
{
    setpgid(0, 0);
}

static void note_end(void *context, pid_t pid, int status)
{
    struct front *front = context;

    if (pid != front->guardian)
        return;
    front->ended = true;
    front->status = status;
}

/* Nobody looks after the lock any more. */
static int guardian_was_killed(struct front *front,
    const struct signals *signals, const char *name)
{
    say("signal %d ended the guardian (pid %d); ending %s",
        WTERMSIG(front->status), (int)front->guardian, name);
    tree_end(signals, note_end, front);
    return RUN_FAILED;
}

int front_stay(struct front *front, const struct signals *signals,
    const char *name)
{
    while (!front->ended) {
        struct signal_seen seen = signals_wait(signals, front->socket, -1);

        take_life_fd(front);
        if (tree_reap(note_end, front) && !front->ended)
            signals_pass_on(front->guardian, seen);
    }
    take_life_fd(front);
    if (WIFEXITED(front->status))
        return WEXITSTATUS(front->status);
    return guardian_was_killed(front, signals, name);
}
