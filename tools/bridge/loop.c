/*
 * loop.c - one round after the other: what has come, what became of it, and
 * then all that is to be said, in one write a connection.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "conn.h"
#include "listen.h"
#include "look.h"
#include "say.h"
#include "session.h"

#define EVENTS 256
#define TICK_NS INT64_C(100000000)
/* What is said is to be read within this, when we stop. */
#define STOP_NS INT64_C(2000000000)

int64_t bridge_clock(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/* --- what epoll tells of, apart from listeners and connections --- */

#define SOURCES 3

struct source {
    int fd;
    void (*take)(struct bridge *b);
};

static struct source sources[SOURCES];

static void take_signal(struct bridge *b)
{
    struct signalfd_siginfo info;

    if (read(sources[0].fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        b->stopping = strsignal((int)info.ssi_signo);
}

static void add_source(struct bridge *b, unsigned i, int fd,
    void (*take)(struct bridge *b))
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &sources[i]};

    sources[i] = (struct source){fd, take};
    if (fd < 0 || epoll_ctl(b->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        say_die(1, "cannot begin: %s", strerror(errno));
}

static void begin(struct bridge *b)
{
    sigset_t stop;

    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    add_source(b, 0, signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK),
        take_signal);
    add_source(b, 1, enq_fd(b->space), news_take);
    add_source(b, 2, look_begin(b), look_take);
}

/* --- a round --- */

static bool is_source(const struct source *source)
{
    return source >= sources && source < sources + SOURCES;
}

/* First of all whoever has hung up: what others give back in this round is not
   to be granted to him. */
static void take_ends(struct bridge *b, struct epoll_event *events, int n)
{
    for (int i = 0; i < n; i++) {
        void *source = events[i].data.ptr;

        if ((events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0 ||
            is_source(source) || listen_is(source))
            continue;
        events[i].data.ptr = NULL;
        conn_event(b, source, events[i].events);
    }
}

/* A connection may end by its own event, and only by that: each has one in a
   round, and others' come to their end when all have been taken. */
static void take(struct bridge *b, struct epoll_event *events, int n)
{
    take_ends(b, events, n);
    for (int i = 0; i < n; i++) {
        struct source *source = events[i].data.ptr;

        if (source == NULL)
            continue;
        if (is_source(source))
            source->take(b);
        else if (!listen_event(b, source))
            conn_event(b, events[i].data.ptr, events[i].events);
    }
}

static bool needs_ticks(struct bridge *b)
{
    return !cds_list_empty(&b->partial) || !cds_list_empty(&b->ending) ||
        !cds_list_empty(&b->broken) || !cds_list_empty(&b->joined) ||
        b->n_silent > 0;
}

/* How often systemd wants to hear of us; 0: it does not. */
static int64_t watchdog_ns;

static void begin_watchdog(void)
{
    const char *us = getenv("WATCHDOG_USEC");

    if (us != NULL) /* twice in its time, as sd_watchdog_enabled(3) says */
        watchdog_ns = strtoll(us, NULL, 10) * 1000 / 2;
}

static void feed_watchdog(struct bridge *b)
{
    static int64_t fed_ns;

    if (watchdog_ns <= 0 || b->now_ns - fed_ns < watchdog_ns)
        return;
    fed_ns = b->now_ns;
    say_notify("WATCHDOG=1");
}

/* ms until the next round, though nothing comes. */
static int patience(struct bridge *b)
{
    if (needs_ticks(b))
        return 100;
    if (watchdog_ns <= 0)
        return -1;
    return watchdog_ns < 60000000000 ? (int)(watchdog_ns / 1000000) + 1 : 60000;
}

static void tick(struct bridge *b)
{
    if (b->tick_ns != 0 && b->now_ns - b->tick_ns < TICK_NS)
        return;
    conn_tick(b);
    session_tick(b);
    listen_tick(b);
    b->tick_ns = needs_ticks(b) ? b->now_ns : 0;
}

/* --- the end --- */

static void stop(struct bridge *b)
{
    struct conn *c, *next;
    struct epoll_event events[EVENTS];
    int64_t until = b->now_ns + STOP_NS;
    int n;

    say("stopping: %s", b->stopping);
    say_notify("STOPPING=1");
    listen_end(b);
    cds_list_for_each_entry_safe (c, next, &b->conns, node) {
        conn_dismiss(b, c, "The bridge is stopping");
        conn_finish(b, c);
    }
    conn_flush_all(b);
    while (!cds_list_empty(&b->conns) && bridge_clock() < until) {
        n = epoll_wait(b->epoll, events, EVENTS, 50);
        b->now_ns = bridge_clock();
        take(b, events, n);
        conn_tick(b);
        conn_flush_all(b);
    }
    news_take(b); /* locks that came in this moment are given back */
    look_end(b);
}

void bridge_run(struct bridge *b)
{
    struct epoll_event events[EVENTS];
    int n;

    begin(b);
    listen_begin(b);
    begin_watchdog();
    say("ready");
    say_notify("READY=1");
    while (b->stopping == NULL) {
        n = epoll_wait(b->epoll, events, EVENTS, patience(b));
        b->now_ns = bridge_clock();
        take(b, events, n);
        conn_flush_all(b);
        tick(b);
        feed_watchdog(b);
        conn_flush_all(b);
    }
    stop(b);
}
