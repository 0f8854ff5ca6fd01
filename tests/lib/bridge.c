/*
 * bridge.c - an enq-bridge of a test's own (see bridge.h).
 */
#include "bridge.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The program beside this one. */
static void find_program(char *path, size_t n)
{
    ssize_t got = readlink("/proc/self/exe", path, n - 1);
    char *slash;

    path[got > 0 ? got : 0] = 0;
    slash = strrchr(path, '/');
    if (slash != NULL)
        snprintf(slash + 1, n - (size_t)(slash + 1 - path), "enq-bridge");
}

static void become_bridge(const char *space, const char *listen, int said)
{
    char path[400];

    find_program(path, sizeof(path));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(said, STDERR_FILENO);
    execl(path, "enq-bridge", "-S", space, "-l", listen, NULL);
    _exit(127);
}

bool bridge_launch(struct bridge *b, const char *space, const char *listen)
{
    int said[2];

    *b = (struct bridge){0};
    if (pipe2(said, O_CLOEXEC) != 0)
        return false;
    b->pid = fork();
    if (b->pid == 0)
        become_bridge(space, listen, said[1]);
    close(said[1]);
    b->said = said[0];
    if (b->pid > 0)
        return true;
    close(said[0]);
    return false;
}

static bool is_ready(const struct bridge *b)
{
    return strstr(b->text, "enq-bridge: ready\n") != NULL;
}

enum bridge_state bridge_wait(struct bridge *b, int wait_ms)
{
    struct pollfd p = {b->said, POLLIN, 0};

    while (!is_ready(b)) {
        ssize_t got;

        if (poll(&p, 1, wait_ms) != 1)
            return BRIDGE_STARTS;
        got = read(b->said, b->text + b->n, sizeof(b->text) - 1 - b->n);
        if (got <= 0)
            return BRIDGE_GONE;
        b->n += (size_t)got;
        b->text[b->n] = 0;
    }
    return BRIDGE_READY;
}

unsigned bridge_port(const struct bridge *b)
{
    const char *at = strstr(b->text, "tcp:127.0.0.1:");
    unsigned port = 0;

    if (at != NULL && sscanf(at, "tcp:127.0.0.1:%u", &port) != 1)
        port = 0;
    return port;
}

int bridge_reap(struct bridge *b)
{
    int status = -1;

    if (waitpid(b->pid, &status, 0) != b->pid)
        status = -1;
    b->pid = 0;
    close(b->said);
    return status;
}
