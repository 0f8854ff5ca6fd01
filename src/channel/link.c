/*
 * link.c - channel: how a socket to a bridge comes about (see link.h).
 */
#include "channel/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sync/sys.h"

/* A host that does not answer: what the kernel would do takes two minutes. */
#define CONNECT_MS 4000

/* What ends an attempt. */
struct patience {
    int bell;
    mono_t until;
};

/* A peer that is gone without a word is noticed within this, in seconds: by
   what it does not acknowledge, or by silence. */
#define GONE_S 4

static void set_tcp(int fd)
{
    int on = 1, idle_s = 1, gone_ms = GONE_S * 1000, times = GONE_S - 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &gone_ms, sizeof(gone_ms));
}

/* A read that is to wait does, for HEAR_MS. Where that cannot be set none does:
   then the leader has to ask poll(). */
static void set_waiting(int fd)
{
    struct timeval t = {0, HEAR_MS * 1000};
    int flags = fcntl(fd, F_GETFL);

    if (flags >= 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) == 0)
        fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

/* Until the connection stands, or somebody rings. 0, or negative. */
static int wait_for(int fd, const struct patience *patience)
{
    struct pollfd p[] = {{.fd = fd, .events = POLLOUT},
        {.fd = patience->bell, .events = POLLIN}};
    int64_t ms = mono_ms_between(sys.now(), patience->until) + 1;
    socklen_t bytes = sizeof(int);
    int error = 0, n;

    if (ms > CONNECT_MS)
        ms = CONNECT_MS;
    do
        n = poll(p, 2, ms > 0 ? (int)ms : 0);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return -ETIMEDOUT;
    if (n < 0)
        return -errno;
    if (p[1].revents != 0)
        return -ECANCELED;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    return -error;
}

static int connect_one(const struct sockaddr *a, socklen_t bytes,
    const struct patience *patience)
{
    int fd =
        socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = 0;

    if (fd < 0)
        return -errno;
    if (a->sa_family != AF_UNIX)
        set_tcp(fd);
    if (connect(fd, a, bytes) != 0)
        rc = errno == EINPROGRESS || errno == EINTR ? wait_for(fd, patience)
                                                    : -errno;
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

static int connect_unix(const struct address *a,
    const struct patience *patience)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};

    memcpy(to.sun_path, a->path, sizeof(a->path));
    return connect_one((const struct sockaddr *)&to, sizeof(to), patience);
}

/* getaddrinfo() has results of its own; those of errno's kind are found. */
static int explain_host(int rc, const struct address *a, char *why, size_t n)
{
    int error = errno;

    snprintf(why, n, "unknown host \"%.100s\": %s", a->host, gai_strerror(rc));
    switch (rc) {
    case EAI_SYSTEM:
        return -error;
    case EAI_MEMORY:
        return -ENOMEM;
    default:
        return -EHOSTUNREACH;
    }
}

static int connect_tcp(const struct address *a, const struct patience *patience,
    char *why, size_t n)
{
    const struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found;
    int rc = getaddrinfo(a->host, a->port, &hints, &found);

    if (rc != 0)
        return explain_host(rc, a, why, n);
    rc = -EHOSTUNREACH;
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        rc = connect_one(at->ai_addr, at->ai_addrlen, patience);
        if (rc >= 0 || rc == -ECANCELED)
            break;
    }
    freeaddrinfo(found);
    return rc;
}

int link_connect(const struct address *a, int bell, mono_t until, char *why,
    size_t n)
{
    const struct patience patience = {bell, until};
    int fd;

    why[0] = '\0';
    fd = a->local ? connect_unix(a, &patience)
                  : connect_tcp(a, &patience, why, n);
    if (fd >= 0)
        set_waiting(fd);
    else if (why[0] == '\0')
        snprintf(why, n, "%s", strerrordesc_np(-fd));
    return fd;
}
