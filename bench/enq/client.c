/*
 * client.c - enq-bridge by the clients that programs have: npm's
 * enqueue-client in a node of its own, and our own in C beside the bare round
 * trips that it is made of.
 */
#include "enq/seat.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- npm's --- */

/* Where bench/npm has put it: beside this program's directory. */
static const char *script(void)
{
    static char path[PATH_MAX + 32];
    char client[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);

    for (int i = 0; i < 2 && n > 0; n--)
        i += path[n - 1] == '/';
    if (n <= 0)
        return NULL;
    strcpy(path + n, "/npm/npm.js");
    snprintf(client, sizeof(client), "%.*s/npm/node_modules/enqueue-client",
        (int)n, path);
    return access(path, R_OK) == 0 && access(client, R_OK) == 0 ? path : NULL;
}

const char *enq_npm_declines(void)
{
    if (!server_in_path("node"))
        return "node is not installed";
    return script() == NULL ? "enqueue-client is " SUBJECT_MISSING : NULL;
}

static _Noreturn void node_run(const char *port, const char *clients, int link,
    pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILED);
    dup2(link, STDIN_FILENO);
    dup2(link, STDOUT_FILENO);
    execlp("node", "node", script(), port, clients, (char *)NULL);
    _exit(EXIT_FAILED);
}

int enq_prepare_npm(struct seat *s)
{
    const struct space *space = s->arena;
    struct mine *m = s->mine;
    pid_t parent = getpid();
    char clients[24];
    int ends[2];

    snprintf(clients, sizeof(clients), "%llu",
        (unsigned long long)s->trial->count);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return seat_fail(s, "socketpair: %s", strerror(errno));
    m->link = ends[0];
    m->node = fork();
    if (m->node == 0)
        node_run(space->bridge.port, clients, ends[1], parent);
    close(ends[1]);
    return m->node > 0 ? 0 : seat_fail(s, "node: %s", strerror(errno));
}

int enq_npm_batch(struct seat *s, uint32_t n)
{
    const struct mine *m = s->mine;
    char line[160];
    ssize_t got;

    snprintf(line, sizeof(line), "%u\n", n);
    if (send(m->link, line, strlen(line), MSG_NOSIGNAL) < 0)
        return seat_fail(s, "node: %s", strerror(errno));
    got = recv(m->link, line, sizeof(line) - 1, 0);
    if (got <= 0)
        return seat_fail(s, "node has ended");
    line[got] = '\0';
    return strcmp(line, "done\n") == 0
        ? 0
        : seat_fail(s, "enqueue-client: %s", line);
}

int enq_npm_once(struct seat *s)
{
    return enq_npm_batch(s, 1);
}

/* --- ours --- */

const char *enq_client_declines(void)
{
    struct enq *e = NULL;
    int rc = enq_open(&e, "tcp://" SERVER_HOST ":1", NULL);

    if (rc == ENQ_OK)
        enq_close(e);
    return rc == -EOPNOTSUPP || rc == -EINVAL
        ? "enq_open() knows no tcp:// in this build"
        : NULL;
}

int enq_prepare_client(struct seat *s)
{
    const struct space *space = s->arena;
    struct mine *m = s->mine;
    char address[48];
    int rc;

    snprintf(address, sizeof(address), "tcp://" SERVER_HOST ":%s",
        space->bridge.port);
    rc = enq_open(&m->far, address, NULL);
    if (rc != ENQ_OK)
        return enq_failed(s, "enq_open", rc);
    m->link = server_connect(&space->bridge);
    return m->link >= 0 ? 0 : seat_fail(s, "connect: %s", strerror(errno));
}

int enq_far_take(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = enq_lock(m->far, &m->req, &m->grant);

    return rc == ENQ_OK ? 0 : enq_failed(s, "enq_lock", rc);
}

int enq_far_give(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = enq_unlock(m->far, m->grant.handle, m->grant.token);

    return rc == ENQ_OK ? 0 : enq_failed(s, "enq_unlock", rc);
}

int enq_far_batch(struct seat *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (enq_far_take(s) != 0 || enq_far_give(s) != 0)
            return -1;
    return 0;
}

/* --- the round trips alone --- */

static int trip(struct seat *s, const char *request)
{
    const struct mine *m = s->mine;
    char reply[512];
    ssize_t n = send(m->link, request, strlen(request), MSG_NOSIGNAL);

    if (n > 0)
        n = recv(m->link, reply, sizeof(reply), 0);
    if (n > 10 && strncmp(reply, "{\"RC\":\"0\"", 9) == 0 &&
        reply[n - 1] == '\n')
        return 0;
    return seat_fail(s, "an unexpected answer: %.*s", n > 0 ? (int)n : 0,
        reply);
}

int enq_far_base(struct seat *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (trip(s,
                "{\"OP\":\"1\",\"eleLock\":{\"name\":\"product\",\"argument\":"
                "[\"Computer\",\"raw\"],\"mode\":\"E\",\"owner\":\"worker 0\","
                "\"uuid\":\"raw\"},\"reqUUID\":\"1\"}") != 0 ||
            trip(s, "{\"OP\":\"2\",\"lockUUID\":\"raw\",\"reqUUID\":\"2\"}") !=
                0)
            return -1;
    return 0;
}

/* --- both --- */

void enq_client_end(struct mine *m)
{
    if (m->far != NULL)
        enq_close(m->far);
    if (m->link > 0)
        close(m->link);
    if (m->node <= 0)
        return;
    kill(m->node, SIGKILL);
    while (waitpid(m->node, NULL, 0) < 0 && errno == EINTR)
        continue;
}
