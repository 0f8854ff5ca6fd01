/*
 * loop.c - one round after the other: what has come, what became of it, and
 * then all that is to be said, in one write a connection.
 */
#include "loop.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "conn.h"
#include "event.h"
#include "hung.h"
#include "left.h"
#include "listen.h"
#include "look.h"
#include "over.h"
#include "peer.h"
#include "receive.h"
#include "route.h"
#include "say.h"
#include "session.h"
#include "unread.h"
#include "wait.h"

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

/* Others wait meanwhile: what is left is for the next round. */
#define ROUND_NS INT64_C(1000000)

void bridge_begin_time(struct bridge *b, int64_t ns)
{
    b->late_ns = bridge_clock() + ns;
    b->is_late = false;
}

int64_t bridge_look_late(struct bridge *b)
{
    int64_t now = bridge_clock();

    b->is_late = now >= b->late_ns;
    return now;
}

/* --- what epoll tells of, apart from listeners and connections --- */

static void take_signal(struct bridge *b)
{
    struct signalfd_siginfo info;

    if (read(b->sources[0].fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    if (info.ssi_signo == SIGHUP)
        say("SIGHUP: there is no configuration to reload; restart enq-bridge "
            "to change its options");
    else
        b->stopping = strsignal((int)info.ssi_signo);
}

static void add_source(struct bridge *b, unsigned i, int fd,
    void (*take)(struct bridge *b))
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &b->sources[i]};

    b->sources[i] = (struct source){fd, take};
    if (fd < 0 || epoll_ctl(b->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        say_die(1, "cannot start: %s", strerror(errno));
}

/* The first loop's alone. */
static void begin_first(struct bridge *b)
{
    sigset_t stop;

    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGHUP);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    add_source(b, 0, signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK),
        take_signal);
    add_source(b, 1, enq_fd(b->space), event_take);
}

static void begin(struct bridge *b)
{
    add_source(b, 2, look_begin(b), look_take);
    if (b->share->n > 1)
        add_source(b, 3, b->mailbox.fd, mailbox_take);
    listen_watch(b);
}

/* --- a round --- */

static bool is_source(const struct bridge *b, const struct source *source)
{
    return source >= b->sources && source < b->sources + SOURCES;
}

/* First of all the clients that have hung up: what others give back in this
   round is not to be granted to them. When there are more than the round has
   time for, they end in the order in which they came (hung.h). */
static void take_end(struct bridge *b, struct conn *c, uint32_t events)
{
    if (b->is_late || !cds_list_empty(&b->hung)) {
        hung_add(b, c, events);
        return;
    }
    receive_event(b, c, events);
    bridge_look_late(b);
}

/* Epoll tells of others when it has told of all that hang up: as long as it
   tells of little else, there is time for nothing else. */
static void take_ends(struct bridge *b, struct epoll_event *events, int n)
{
    int ends = 0;

    for (int i = 0; i < n; i++) {
        void *source = events[i].data.ptr;

        if ((events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0 ||
            is_source(b, source) || listen_is(source))
            continue;
        events[i].data.ptr = NULL;
        take_end(b, source, events[i].events);
        ends++;
    }
    b->is_flooded = n == EVENTS && ends > n / 2;
    if (b->is_flooded)
        bridge_begin_time(b, 0);
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
        if (is_source(b, source))
            source->take(b);
        else if (!listen_event(b, source))
            receive_event(b, events[i].data.ptr, events[i].events);
    }
}

static bool needs_ticks(struct bridge *b)
{
    return !cds_list_empty(&b->partial) || !cds_list_empty(&b->ending) ||
        !cds_list_empty(&b->unread) || !cds_list_empty(&b->broken) ||
        !cds_list_empty(&b->joined) || b->silent != 0 || route_needs_ticks(b);
}

/* How often systemd wants to hear of us; 0: it does not. And when it has. All
   by the first loop. */
static int64_t watchdog_ns, fed_ns;

static void begin_watchdog(void)
{
    const char *us = getenv("WATCHDOG_USEC");

    if (us != NULL) /* twice in its time, as sd_watchdog_enabled(3) says */
        watchdog_ns = strtoll(us, NULL, 10) * 1000 / 2;
}

/* Not where a loop has not come round since the last time. */
static void feed_watchdog(struct bridge *b)
{
    if (b->index != 0 || watchdog_ns <= 0 || b->now_ns - fed_ns < watchdog_ns ||
        !route_lap_is_over(b))
        return;
    fed_ns = b->now_ns;
    say_notify("WATCHDOG=1");
    route_lap_begin(b);
}

static bool is_anything_over(struct bridge *b)
{
    return !cds_list_empty(&b->dropped) || !cds_list_empty(&b->hung) ||
        !cds_list_empty(&b->over);
}

/* @most, or the ms until it is to hear of us; where a loop has to come round
   first, until we look again. */
static int watchdog_patience(const struct bridge *b, int most)
{
    int64_t ms = (fed_ns + watchdog_ns - b->now_ns) / 1000000 + 1;

    if (b->index != 0 || watchdog_ns <= 0)
        return most;
    if (ms < 1)
        ms = 100;
    return ms < most ? (int)ms : most;
}

/* ms until the next round, though nothing comes. */
static int patience(struct bridge *b)
{
    if (!cds_list_empty(&b->behind) || is_anything_over(b))
        return 0;
    return watchdog_patience(b, needs_ticks(b) ? 100 : left_patience(b));
}

static void tick(struct bridge *b)
{
    if (b->tick_ns != 0 && b->now_ns - b->tick_ns < TICK_NS)
        return;
    conn_tick(b);
    unread_tick(b);
    session_tick(b);
    listen_tick(b);
    left_tick(b);
    peer_tick(b);
    route_tick(b);
    b->tick_ns = needs_ticks(b) ? b->now_ns : 0;
}

/* --- the end --- */

/* Until what was said is read. */
static void drain(struct bridge *b)
{
    struct conn *c, *next;
    struct epoll_event events[EVENTS];
    int64_t until = b->now_ns + STOP_NS;
    int n;

    listen_end(b);
    over_all(b); /* what was told to be over is */
    cds_list_for_each_entry_safe (c, next, &b->conns, node) {
        conn_dismiss(b, c, "The bridge is stopping");
        conn_finish(b, c);
    }
    conn_flush_all(b);
    while (!cds_list_empty(&b->conns) && bridge_clock() < until) {
        n = epoll_wait(b->epoll, events, EVENTS,
            cds_list_empty(&b->hung) ? 50 : 0);
        b->now_ns = bridge_clock();
        take(b, events, n);
        hung_more(b);
        conn_tick(b);
        unread_tick(b);
        conn_flush_all(b);
    }
}

static void open_stop(struct bridge *b, struct message *message)
{
    (void)message;
    b->stopping = b->share->loops[0].stopping;
}

static void stop_others(struct bridge *first)
{
    struct share *share = first->share;

    for (unsigned i = 1; i < share->n; i++) {
        share->loops[i].stop.open = open_stop;
        mailbox_send(&share->loops[i], &share->loops[i].stop);
    }
    drain(first);
    for (unsigned i = 1; i < share->n; i++)
        pthread_join(share->loops[i].thread, NULL);
}

/* Locks that came in this moment are given back. */
static void take_last(struct bridge *first)
{
    struct share *share = first->share;

    event_take(first);
    for (unsigned i = 0; share->n > 1 && i < share->n; i++)
        mailbox_take(&share->loops[i]);
    look_end(first);
}

/* --- all of it --- */

/* Some of it, when all others have their answers. */
static void end_some(struct bridge *b)
{
    if (!is_anything_over(b))
        return;
    conn_flush_all(b);
    wait_drop_more(b);
    if (b->is_flooded)
        return;
    hung_more(b);
    over_more(b);
}

static void turn(struct bridge *b)
{
    struct epoll_event events[EVENTS];
    int n;

    while (b->stopping == NULL) {
        n = epoll_wait(b->epoll, events, EVENTS, patience(b));
        b->now_ns = bridge_clock();
        b->late_ns = b->now_ns + ROUND_NS;
        b->is_late = false;
        take(b, events, n);
        receive_behind(b);
        end_some(b);
        conn_flush_all(b);
        tick(b);
        feed_watchdog(b);
        conn_flush_all(b);
    }
}

static void *run_other(void *context)
{
    struct bridge *b = context;

    b->now_ns = bridge_clock();
    turn(b);
    drain(b);
    look_end(b);
    return NULL;
}

/* Signals are for the first. */
static void start_others(struct share *share)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (unsigned i = 1; i < share->n; i++) {
        struct bridge *b = &share->loops[i];

        rc = pthread_create(&b->thread, NULL, run_other, b);
        if (rc != 0)
            say_die(1, "cannot start a thread: %s", strerror(rc));
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void bridge_run(struct share *share)
{
    struct bridge *first = &share->loops[0];

    begin_first(first);
    listen_begin(first);
    for (unsigned i = 0; i < share->n; i++)
        begin(&share->loops[i]);
    begin_watchdog();
    start_others(share);
    say("ready");
    say_notify("READY=1");
    turn(first);
    say("stopping: %s", first->stopping);
    say_notify("STOPPING=1");
    stop_others(first);
    take_last(first);
}
