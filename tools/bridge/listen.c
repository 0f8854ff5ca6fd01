/*
 * listen.c - where clients come in (see listen.h).
 */
#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sysexits.h>
#include <unistd.h>

#include "conn.h"
#include "handoff.h"
#include "peer.h"
#include "say.h"

#define BACKLOG 4096
#define AT_ONCE 64 /* so many in a round */

/* The same for all loops, from before they begin until the last has left. */
static struct listener {
    int fd;
    bool local; /* a unix socket */

    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* made by us */
} listeners[LISTENERS_MAX];
static unsigned n_listeners;

/* --- tcp --- */

static bool is_loopback(const struct sockaddr *a)
{
    static const struct in6_addr loopback6 = IN6ADDR_LOOPBACK_INIT;

    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 ==
            127;
    return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &loopback6,
               sizeof(loopback6)) == 0;
}

static void judge_bind(const struct bridge *b, const struct sockaddr *a,
    const char *address)
{
    if (is_loopback(a) || b->options.insecure)
        return;
    say_die(EX_USAGE,
        "other hosts can reach %s, and anyone who can may take and break "
        "any lock: listen on 127.0.0.1 or a unix socket, or give --insecure if "
        "you trust the network like this host",
        address);
}

static void tell_port(int fd, const char *host, int family)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof(a);
    unsigned port = 0;

    if (getsockname(fd, (struct sockaddr *)&a, &n) == 0)
        port = ntohs(family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                        : ((struct sockaddr_in *)&a)->sin_port);
    say(strchr(host, ':') != NULL ? "listening on tcp:[%s]:%u"
                                  : "listening on tcp:%s:%u",
        host, port);
}

static int bind_tcp(const struct addrinfo *a)
{
    int on = 1;
    int fd =
        socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    close(fd);
    return -1;
}

/* "HOST:PORT" or "[HOST]:PORT", split in place. */
static bool split(char *text, char **host, char **port)
{
    char *colon = strrchr(text, ':');

    if (colon == NULL || colon == text || colon[1] == '\0')
        return false;
    *colon = '\0';
    *port = colon + 1;
    *host = text;
    if (text[0] == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        ++*host;
    }
    return **host != '\0';
}

static int open_tcp(const struct bridge *b, const char *address)
{
    const struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found;
    char text[256], *host, *port;
    int rc, fd;

    if (strlen(address + 4) >= sizeof(text))
        say_die(EX_USAGE, "\"%.64s...\" is longer than %zu bytes", address,
            sizeof(text) + 3);
    strcpy(text, address + 4);
    if (!split(text, &host, &port))
        say_die(EX_USAGE,
            "\"%s\" is not tcp:HOST:PORT, such as tcp:127.0.0.1:3721", address);
    if (strspn(port, "0123456789") != strlen(port) || strlen(port) > 5 ||
        atoi(port) > 65535)
        say_die(EX_USAGE, "%s: \"%s\" is not a port: 0 to 65535", address,
            port);
    rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        say_die(EX_NOHOST, "%s: %s", address, gai_strerror(rc));
    judge_bind(b, found->ai_addr, address);
    fd = bind_tcp(found);
    if (fd < 0)
        say_die(EX_UNAVAILABLE, "cannot listen on %s: %s%s", address,
            strerror(errno),
            errno == EADDRINUSE ? " (is another enq-bridge running?)" : "");
    tell_port(fd, host, found->ai_family);
    freeaddrinfo(found);
    return fd;
}

/* --- unix --- */

/* What a bridge before us has left behind, and nobody listens at. */
static void remove_stale(const struct sockaddr_un *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct stat st;

    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) != 0 &&
        errno == ECONNREFUSED && stat(a->sun_path, &st) == 0 &&
        S_ISSOCK(st.st_mode))
        unlink(a->sun_path);
    close(fd);
}

static bool set_rights(const struct bridge *b, const char *path)
{
    struct group *group;

    if (chmod(path, b->options.unix_mode) != 0)
        return false;
    if (b->options.unix_group == NULL)
        return true;
    group = getgrnam(b->options.unix_group);
    if (group == NULL)
        say_die(EX_USAGE, "unknown group \"%s\"", b->options.unix_group);
    return group != NULL && chown(path, (uid_t)-1, group->gr_gid) == 0;
}

/* Nobody can connect before its permissions are set. */
static int bind_unix(const struct bridge *b, const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    mode_t before;
    int fd, rc;

    strcpy(a.sun_path, path);
    remove_stale(&a);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    before = umask(0177);
    rc = bind(fd, (const struct sockaddr *)&a, sizeof(a));
    umask(before);
    if (rc == 0 && set_rights(b, path) && listen(fd, BACKLOG) == 0)
        return fd;
    rc = errno;
    close(fd);
    errno = rc;
    return -1;
}

static int open_unix(const struct bridge *b, struct listener *l,
    const char *address, bool wanted)
{
    const char *path = address + 5;

    if (path[0] != '/' || strlen(path) >= sizeof(l->path))
        say_die(EX_USAGE, "\"%s\" is not unix:/PATH of at most %zu bytes",
            address, sizeof(l->path) - 1);
    l->local = true;
    l->fd = bind_unix(b, path);
    if (l->fd < 0 && wanted)
        say_die(EX_UNAVAILABLE, "cannot listen on %s: %s", address,
            strerror(errno));
    if (l->fd < 0) {
        say("not listening on %s: %s", address, strerror(errno));
        return -1;
    }
    strcpy(l->path, path);
    say("listening on unix:%s", path);
    return l->fd;
}

/* --- all of them --- */

/* One client is to wake one loop. */
static int watch(struct bridge *b, struct listener *l)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = l};

    if (b->share->n > 1)
        event.events |= EPOLLEXCLUSIVE;
    b->silent &= ~(UINT32_C(1) << (l - listeners));
    return epoll_ctl(b->epoll, EPOLL_CTL_ADD, l->fd, &event);
}

/* For a while. (An entry with EPOLLEXCLUSIVE cannot be modified.) */
static void ignore(struct bridge *b, struct listener *l)
{
    b->silent |= UINT32_C(1) << (l - listeners);
    epoll_ctl(b->epoll, EPOLL_CTL_DEL, l->fd, NULL);
}

static void open_one(const struct bridge *b, const char *address, bool wanted)
{
    struct listener *l = &listeners[n_listeners];

    *l = (struct listener){.fd = -1};
    if (strncmp(address, "tcp:", 4) == 0)
        l->fd = open_tcp(b, address);
    else if (strncmp(address, "unix:", 5) == 0)
        open_unix(b, l, address, wanted);
    else
        say_die(EX_USAGE, "\"%s\" is neither tcp:HOST:PORT nor unix:/PATH",
            address);
    n_listeners += l->fd >= 0;
}

/* sd_listen_fds(3): from descriptor 3 on. */
static bool take_given(const struct bridge *b)
{
    const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
    int given = n == NULL ? 0 : atoi(n);
    struct sockaddr_storage a;
    socklen_t bytes;

    if (pid == NULL || atol(pid) != (long)getpid() || given <= 0)
        return false;
    for (int fd = 3; fd < 3 + given && n_listeners < LISTENERS_MAX; fd++) {
        bytes = sizeof(a);
        if (getsockname(fd, (struct sockaddr *)&a, &bytes) != 0)
            say_die(EX_OSERR, "descriptor %d is not a socket: %s", fd,
                strerror(errno));
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        if (a.ss_family != AF_UNIX)
            judge_bind(b, (struct sockaddr *)&a, "the given socket");
        listeners[n_listeners++] =
            (struct listener){.fd = fd, .local = a.ss_family == AF_UNIX};
        say("listening on the given descriptor %d", fd);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    return true;
}

void listen_begin(const struct bridge *b)
{
    if (take_given(b))
        return;
    for (unsigned i = 0; i < b->options.n_listen; i++)
        open_one(b, b->options.listen[i], true);
    if (b->options.n_listen > 0)
        return;
    open_one(b, "tcp:127.0.0.1:3721", true);
    mkdir("/run/enq", 0755);
    open_one(b, "unix:/run/enq/bridge", false);
}

/* False: there is none. */
static bool take_spare(struct bridge *b)
{
    b->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return b->spare_fd >= 0 || (errno != EMFILE && errno != ENFILE);
}

void listen_watch(struct bridge *b)
{
    (void)take_spare(b);
    for (unsigned i = 0; i < n_listeners; i++)
        if (watch(b, &listeners[i]) != 0)
            say_die(EX_OSERR, "cannot watch a listener: %s", strerror(errno));
    b->share->n_listening++;
}

void listen_end(struct bridge *b)
{
    for (unsigned i = 0; i < n_listeners; i++)
        epoll_ctl(b->epoll, EPOLL_CTL_DEL, listeners[i].fd, NULL);
    b->silent = 0;
    if (b->spare_fd >= 0)
        close(b->spare_fd);
    if (--b->share->n_listening > 0)
        return;
    for (unsigned i = 0; i < n_listeners; i++) {
        close(listeners[i].fd);
        if (listeners[i].path[0] != '\0')
            unlink(listeners[i].path);
    }
}

/* --- a new client --- */

/* On each link there may be one of a link's own address. */
static void name_six(const struct sockaddr_in6 *a, char *peer)
{
    _Static_assert(INET6_ADDRSTRLEN + sizeof("%4294967295") <= PEER_BYTES,
        "no address is cut");
    size_t n;

    inet_ntop(AF_INET6, &a->sin6_addr, peer, PEER_BYTES);
    n = strlen(peer);
    if (a->sin6_scope_id != 0)
        snprintf(peer + n, PEER_BYTES - n, "%%%u", a->sin6_scope_id);
}

/* 10.1.2.3, 2001:db8::1, fe80::1%2; of a unix socket whose it is. */
static void name_peer(int fd, const struct sockaddr_storage *a, char *peer)
{
    struct ucred who;
    socklen_t n = sizeof(who);

    strcpy(peer, "unknown");
    if (a->ss_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)a)->sin_addr, peer,
            PEER_BYTES);
    else if (a->ss_family == AF_INET6)
        name_six((const struct sockaddr_in6 *)a, peer);
    else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0)
        snprintf(peer, PEER_BYTES, "uid%u", (unsigned)who.uid);
}

/* A host that is gone without a word is noticed within 4 s: idle, by these;
   with bytes of ours that it does not acknowledge, by unread.c.
   (TCP_USER_TIMEOUT also ends a client that lives and does not read for a
   while.) */
static void set_options(int fd)
{
    int on = 1, idle = 1, times = 2;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
}

/* A reset: of what is sent to a client that has asked nothing yet it could not
   make sense. */
static void turn_away(int fd)
{
    const struct linger at_once = {1, 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(fd);
}

/* It may last: once a minute is enough. */
#define SHORT_TOLD_NS INT64_C(60000000000)

static void tell_short(const struct bridge *b)
{
    static _Atomic int64_t told_ns; /* by any loop */
    int64_t before = told_ns;

    if ((before == 0 || b->now_ns - before >= SHORT_TOLD_NS) &&
        atomic_compare_exchange_strong(&told_ns, &before, b->now_ns))
        say("no descriptor left for another client: %s", strerror(errno));
}

/* No descriptor is left: for the rest of the moment nobody is asked in. */
static void come_up_short(struct bridge *b, struct listener *l)
{
    int fd;

    tell_short(b);
    if (b->spare_fd >= 0) {
        close(b->spare_fd);
        fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            turn_away(fd);
    }
    (void)take_spare(b); /* unless another loop was faster */
    ignore(b, l);
    b->tick_ns = b->now_ns;
}

/* So many above the limit are told that they are. */
#define SURPLUS_MAX 64u

/* Counts it, unless there are too many for either. */
static bool admit(struct bridge *b, const char *name, struct peer **from)
{
    struct share *share = b->share;

    *from = NULL;
    if (share->n_conns++ < b->options.limits.connections)
        *from = peer_comes(share, name, b->options.limits.peer_connections);
    if (*from != NULL)
        return true;
    share->n_conns--;
    if (share->n_surplus++ < SURPLUS_MAX)
        return true;
    share->n_surplus--;
    return false;
}

static bool take_one(struct bridge *b, struct listener *l)
{
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof(a);
    char peer[PEER_BYTES];
    struct peer *from;
    int fd =
        accept4(l->fd, (struct sockaddr *)&a, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0 &&
        (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
            errno == ENOMEM))
        come_up_short(b, l);
    if (fd < 0)
        return errno == ECONNABORTED || errno == EINTR;
    a.ss_family = l->local ? AF_UNIX : a.ss_family;
    name_peer(fd, &a, peer);
    if (!admit(b, peer, &from)) {
        turn_away(fd);
        return true;
    }
    if (!l->local)
        set_options(fd);
    handoff_in(b, fd, peer, from);
    return true;
}

bool listen_is(const void *what)
{
    const struct listener *l = what;

    return l >= listeners && l < listeners + LISTENERS_MAX;
}

bool listen_event(struct bridge *b, void *what)
{
    struct listener *l = what;

    if (!listen_is(what))
        return false;
    for (int i = 0; i < AT_ONCE && take_one(b, l); i++)
        continue;
    return true;
}

void listen_tick(struct bridge *b)
{
    if (b->silent != 0 && b->spare_fd < 0 && !take_spare(b))
        return;
    for (unsigned i = 0; b->silent != 0 && i < n_listeners; i++)
        if ((b->silent >> i & 1) != 0)
            watch(b, &listeners[i]);
}
