/*
 * main.c - enq-bridge: the locks of a space for clients on other hosts, and for
 * those who speak enqueue-server's protocol.
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
#include "say.h"
#include "session.h"
#include "wait.h"

/* A descriptor each, and some for the table and ourselves. */
static void allow_connections(struct bridge *b)
{
    rlim_t wanted = (rlim_t)b->options.limits.connections + 64;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
        say("only %llu descriptors are allowed: so many clients at most",
            (unsigned long long)limit.rlim_cur);
}

static void open_space(struct bridge *b)
{
    const struct enq_open_opts opts = {
        .size = sizeof(opts), .owner = "", .mode = b->options.space_mode};
    int rc = enq_open(&b->space, b->options.space, &opts);

    if (rc != ENQ_OK)
        say_die(EX_UNAVAILABLE, "cannot open %s: %s",
            b->options.space == NULL ? "the space" : b->options.space,
            enq_why());
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
        !table_begin(&b->serials))
        say_die(EX_OSERR, "out of memory");
    CDS_INIT_LIST_HEAD(&b->conns);
    CDS_INIT_LIST_HEAD(&b->dirty);
    CDS_INIT_LIST_HEAD(&b->partial);
    CDS_INIT_LIST_HEAD(&b->ending);
    CDS_INIT_LIST_HEAD(&b->broken);
    CDS_INIT_LIST_HEAD(&b->joined);
    CDS_INIT_LIST_HEAD(&b->spare);
}

static void free_all(struct bridge *b)
{
    while (!cds_list_empty(&b->conns))
        conn_end(b, cds_list_first_entry(&b->conns, struct conn, node));
    enq_close(b->space);
    session_forget_all(b);
    wait_forget_all(b);
    table_end(&b->sessions);
    table_end(&b->held);
    table_end(&b->requests);
    table_end(&b->waits);
    table_end(&b->serials);
    while (b->n_spare_outs > 0)
        text_free(&b->spare_outs[--b->n_spare_outs]);
    free(b->scratch);
    free(b->values);
    free(b->ask.locks);
    free(b->ask.grants);
    close(b->epoll);
}

int main(int argc, char **argv)
{
    static struct bridge b;

    options_take(&b.options, argc, argv);
    say_verbose = b.options.verbose;
    signal(SIGPIPE, SIG_IGN);
    allow_connections(&b);
    make_room(&b);
    b.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (b.epoll < 0)
        say_die(EX_OSERR, "cannot begin: %s", strerror(errno));
    b.now_ns = bridge_clock();
    open_space(&b);
    session_inherit(&b);
    bridge_run(&b);
    free_all(&b);
    return 0;
}
