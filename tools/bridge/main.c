/*
 * main.c - enq-bridge: the locks of a space for clients on other hosts, and for
 * those that speak enqueue-server's protocol.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#include "bridge.h"
#include "conn.h"
#include "left.h"
#include "loop.h"
#include "over.h"
#include "peer.h"
#include "route.h"
#include "say.h"
#include "session.h"
#include "wait.h"

/* A descriptor each, and some for the table and ourselves. */
static void allow_connections(const struct options *o)
{
    rlim_t wanted =
        (rlim_t)(o->limits.connections + 60 + 4 * o->limits.threads);
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
        say("only %llu descriptors are allowed: there can be no more clients",
            (unsigned long long)limit.rlim_cur);
}

static struct enq *open_space(const struct options *o)
{
    const struct enq_open_opts opts = {
        .size = sizeof(opts), .owner = "", .mode = o->space_mode};
    struct enq *space;
    int rc = enq_open(&space, o->space, &opts);

    if (rc != ENQ_OK)
        say_die(EX_UNAVAILABLE, "cannot open %s: %s",
            o->space == NULL ? "the space" : o->space, enq_why());
    return space;
}

static void *room_for(size_t n, size_t size)
{
    void *room = calloc(n, size);

    if (room == NULL)
        say_die(EX_OSERR, "out of memory");
    return room;
}

static void make_room(struct bridge *b)
{
    /* the longest request, and one byte that shows that it is too long */
    b->scratch_bytes = (size_t)b->options.limits.request_bytes + 1;
    if (b->scratch_bytes < 65536)
        b->scratch_bytes = 65536;
    b->scratch = room_for(b->scratch_bytes + 1, 1);
    b->values = room_for(VALUES_MAX, sizeof(*b->values));
    b->ask.locks = room_for(ENQ_SET_MAX, sizeof(*b->ask.locks));
    b->ask.grants = room_for(ENQ_SET_MAX, sizeof(*b->ask.grants));
    if (!table_begin(&b->sessions) || !table_begin(&b->held) ||
        !table_begin(&b->requests) || !table_begin(&b->waits) ||
        !table_begin(&b->asked) || !table_begin(&b->serials))
        say_die(EX_OSERR, "out of memory");
    CDS_INIT_LIST_HEAD(&b->conns);
    CDS_INIT_LIST_HEAD(&b->dirty);
    CDS_INIT_LIST_HEAD(&b->partial);
    CDS_INIT_LIST_HEAD(&b->ending);
    CDS_INIT_LIST_HEAD(&b->unread);
    CDS_INIT_LIST_HEAD(&b->behind);
    CDS_INIT_LIST_HEAD(&b->hung);
    CDS_INIT_LIST_HEAD(&b->dropped);
    CDS_INIT_LIST_HEAD(&b->broken);
    CDS_INIT_LIST_HEAD(&b->joined);
    CDS_INIT_LIST_HEAD(&b->over);
    CDS_INIT_LIST_HEAD(&b->spare);
}

static void make_loop(struct share *share, unsigned index,
    const struct options *options)
{
    struct bridge *b = &share->loops[index];

    b->share = share;
    b->index = index;
    b->options = *options;
    b->n_serials = index + 1 - (uint64_t)share->n; /* conn_begin() */
    b->now_ns = bridge_clock();
    b->epoll = epoll_create1(EPOLL_CLOEXEC);
    b->mailbox.fd = -1;
    if (b->epoll < 0 || (share->n > 1 && !mailbox_begin(&b->mailbox)))
        say_die(EX_OSERR, "cannot start: %s", strerror(errno));
    make_room(b);
}

static void make_loops(struct share *share, const struct options *options)
{
    share->n = (unsigned)options->limits.threads;
    share->loops = room_for(share->n, sizeof(*share->loops));
    for (unsigned i = 0; i < share->n; i++)
        make_loop(share, i, options);
    if (!peer_begin(share) || !route_begin(share))
        say_die(EX_OSERR, "out of memory");
}

static void end_all_connections(struct bridge *b)
{
    while (!cds_list_empty(&b->conns))
        conn_end(b, cds_list_first_entry(&b->conns, struct conn, node));
    over_all(b);
}

static void free_loop(struct bridge *b)
{
    session_forget_all(b);
    wait_forget_all(b);
    left_end(b);
    table_end(&b->sessions);
    table_end(&b->held);
    table_end(&b->requests);
    table_end(&b->waits);
    table_end(&b->asked);
    table_end(&b->serials);
    while (b->n_spare_outs > 0)
        text_free(&b->spare_outs[--b->n_spare_outs]);
    free(b->scratch);
    free(b->values);
    free(b->ask.locks);
    free(b->ask.grants);
    close(b->epoll);
    if (b->share->n > 1)
        mailbox_end(&b->mailbox);
}

static void free_all(struct share *share, struct enq *space)
{
    for (unsigned i = 0; i < share->n; i++)
        end_all_connections(&share->loops[i]);
    enq_close(space);
    for (unsigned i = 0; i < share->n; i++)
        free_loop(&share->loops[i]);
    route_end(share);
    peer_end(share);
    free(share->loops);
}

int main(int argc, char **argv)
{
    static struct share share;
    static struct options options; /* its texts are needed to the end */
    struct enq *space;

    options_take(&options, argc, argv);
    say_verbose = options.verbose;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN); /* until the loop takes it */
    if (options.make_space) {
        enq_close(open_space(&options));
        return 0;
    }
    allow_connections(&options);
    make_loops(&share, &options);
    space = open_space(&options);
    for (unsigned i = 0; i < share.n; i++)
        share.loops[i].space = space;
    if (!left_begin(&share))
        say_die(EX_OSERR, "out of memory");
    bridge_run(&share);
    free_all(&share, space);
    return 0;
}
