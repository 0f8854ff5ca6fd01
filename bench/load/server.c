/*
 * server.c - a server of our own (see server.h). It is not pinned, the
 * scheduler knows better.
 */
#include "load/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { START_MS = 20000, LOOK_MS = 2 };

bool server_in_path(const char *program)
{
    const char *path = getenv("PATH");
    char file[512];

    while (path != NULL && *path != 0) {
        int len = (int)strcspn(path, ":");
        snprintf(file, sizeof(file), "%.*s/%s", len, path, program);
        if (access(file, X_OK) == 0)
            return true;
        path += len + (path[len] == ':');
    }
    return false;
}

/* --- where it is --- */

static struct sockaddr_in address(const char *port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

    inet_pton(AF_INET, SERVER_HOST, &a.sin_addr);
    return a;
}

int server_pick_port(struct server *s)
{
    struct sockaddr_in a = address("0");
    socklen_t n = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc = 0;

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        rc = errno;
    if (fd >= 0)
        close(fd);
    snprintf(s->port, sizeof(s->port), "%u", ntohs(a.sin_port));
    return rc;
}

int server_connect(const struct server *s)
{
    struct sockaddr_in a = address(s->port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

int server_connect_local(const struct server *s)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    _Static_assert(sizeof(s->path) <= sizeof(a.sun_path), "with its zero");
    memcpy(a.sun_path, s->path, sizeof(s->path));
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

bool server_listens(const void *server)
{
    int fd = server_connect(server);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* --- the process --- */

/* It has a process group of its own: ^C is for us, and we end it. */
static _Noreturn void run(char *const argv[], pid_t parent)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    if (getppid() != parent || null < 0)
        _exit(EXIT_FAILED);
    for (int fd = 0; fd <= 2; fd++)
        dup2(null, fd);
    execvp(argv[0], argv);
    _exit(EXIT_FAILED);
}

static int await(struct server *s, bool (*answers)(const void *arg),
    const void *arg)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    uint64_t late = now_ns() + START_MS * UINT64_C(1000000);

    while (!answers(arg)) {
        if (bench_signal != 0)
            return EINTR;
        if (now_ns() > late)
            return ETIMEDOUT;
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid) {
            s->pid = 0;
            return ECONNREFUSED; /* it ended at once */
        }
        nanosleep(&pause, NULL);
    }
    return 0;
}

int server_start(struct server *s, char *const argv[],
    bool (*answers)(const void *arg), const void *arg)
{
    pid_t parent = getpid();

    s->pid = fork();
    if (s->pid == 0)
        run(argv, parent);
    if (s->pid < 0) {
        s->pid = 0;
        return errno;
    }
    int rc = await(s, answers, arg);
    if (rc != 0)
        server_end(s);
    return rc;
}

/* It has nothing to save; and a SIGKILL cannot be delayed. */
void server_end(struct server *s)
{
    if (s->pid <= 0)
        return;
    kill(s->pid, s->sig != 0 ? s->sig : SIGKILL);
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    s->pid = 0;
    if (s->path[0] != 0)
        unlink(s->path);
}

uint64_t server_cpu_ns(const struct server *s)
{
    struct timespec t = {0};
    clockid_t clock;

    if (clock_getcpuclockid(s->pid, &clock) == 0)
        clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- descriptors --- */

enum { FILES_SPARE = 100 };

void server_raise_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

const char *server_few_files(uint64_t n)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_max < n + FILES_SPARE)
        return "so many descriptors are not allowed (ulimit -Hn)";
    return NULL;
}
