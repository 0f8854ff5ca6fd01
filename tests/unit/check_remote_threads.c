/*
 * check_remote_threads.c - threads that share an attachment to a bridge, which
 * is killed and started anew meanwhile: nothing is lost, and nothing doubled.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "unit.h"

#define THREADS 4
#define KILLS (UNIT_TSAN ? 3 : 6)
#define FIELDS 3

static char space[256], listen_at[256];
static pid_t bridge;

/* The released program, whatever profile we are. */
static void bridge_start(void)
{
    const char *build = getenv("BUILD");
    char path[512];
    int said[2];
    char c;

    snprintf(path, sizeof(path), "%s/release/enq-bridge",
        build == NULL ? "build" : build);
    ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
    bridge = fork();
    if (bridge == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(said[1], STDERR_FILENO);
        execl(path, "enq-bridge", "-S", space, "-l", listen_at, NULL);
        _exit(127);
    }
    close(said[1]);
    do /* what it listens at comes before "ready" */
        ck_assert_msg(read(said[0], &c, 1) == 1, "%s does not start", path);
    while (c != '\n');
    close(said[0]);
}

static void bridge_stop(int sig)
{
    kill(bridge, sig);
    ck_assert_int_eq(waitpid(bridge, NULL, 0), bridge);
}

/* The sockets of this process whose other end is the bridge. */
static void cut_connections(void)
{
    struct sockaddr_un a;

    for (int fd = 3; fd < 64; fd++) {
        socklen_t n = sizeof(a);

        memset(&a, 0, sizeof(a));
        if (getpeername(fd, (struct sockaddr *)&a, &n) == 0 &&
            a.sun_family == AF_UNIX &&
            strcmp(a.sun_path, listen_at + strlen("unix:")) == 0)
            shutdown(fd, SHUT_RDWR);
    }
}

struct team {
    struct enq *e;
    uint32_t over, inside[FIELDS];
    uint32_t pairs, refused, pending, results, late;
};

struct member {
    struct team *team;
    pthread_t thread;
    uint64_t dice;
};

/* One at a time may be here. */
static void work(struct team *team, unsigned field, const struct enq_grant *g)
{
    uint32_t others = shm_add(&team->inside[field], 1) - 1;
    int rc;

    ck_assert_uint_eq(others, 0);
    shm_add(&team->inside[field], -1);
    rc = enq_unlock(team->e, g->handle, g->token);
    ck_assert_msg(rc == ENQ_OK || rc == -ENOTCONN || rc == -ETIMEDOUT,
        "unlock: %s (%s)", enq_result_name(rc), enq_why());
    shm_add(&team->pairs, rc == ENQ_OK);
    shm_add(&team->late, rc < 0);
}

static void *lock_and_unlock(void *arg)
{
    static const char *const fields[FIELDS] = {"a", "b", "c"};
    struct member *m = arg;
    struct team *team = m->team;
    struct enq_grant g;
    struct enq_info info[8];
    size_t total;

    while (!shm_load(&team->over)) {
        unsigned field = unit_random(&m->dice) % FIELDS;
        int rc = enq_lock(team->e,
            ENQ_REQ(.name = "n", .key = {fields[field]}, .mode = ENQ_MODE_X,
                .owner = "all", .ttl_ms = 60000,
                .wait_ms = (int64_t)(unit_random(&m->dice) % 2 * 100)),
            &g);

        if (rc == ENQ_OK)
            work(team, field, &g);
        else
            ck_assert_msg(rc == ENQ_BUSY || rc == ENQ_TIMEDOUT ||
                    rc == -ENOTCONN || rc == -ETIMEDOUT,
                "lock: %s (%s)", enq_result_name(rc), enq_why());
        shm_add(&team->refused, rc != ENQ_OK);
        if (unit_random(&m->dice) % 16 == 0)
            (void)enq_list(team->e, "n", NULL, info, 8, &total);
    }
    return NULL;
}

static int start_one(struct member *m, struct enq_grant *g)
{
    uint64_t ticket;
    int rc = enq_start(m->team->e,
        ENQ_REQ(.name = "n", .key = {"d"}, .mode = ENQ_MODE_X, .ttl_ms = 60000,
            .owner = "all",
            .wait_ms = 1 + (int64_t)(unit_random(&m->dice) % 50)),
        g, &ticket);

    if (rc == ENQ_EFULL) /* so many wait already */
        unit_nap();
    ck_assert_msg(rc == ENQ_OK || rc == ENQ_PENDING || rc == ENQ_EFULL ||
            rc == -ENOTCONN || rc == -ETIMEDOUT,
        "start: %s (%s)", enq_result_name(rc), enq_why());
    shm_add(&m->team->pending, rc == ENQ_PENDING);
    return rc;
}

/* A bridge takes so many at most: on a busy machine results come late. */
#define PENDING_MOST 500

static bool too_many_wait(struct team *team)
{
    return shm_load(&team->pending) - shm_load(&team->results) > PENDING_MOST;
}

/* The second waits for the first: each result that was promised comes. */
static void *start_some(void *arg)
{
    struct member *m = arg;
    struct enq_grant g[2];

    while (!shm_load(&m->team->over)) {
        int rc[2];

        if (too_many_wait(m->team)) {
            sched_yield();
            continue;
        }
        rc[0] = start_one(m, &g[0]);
        rc[1] = start_one(m, &g[1]);
        for (int i = 0; i < 2; i++)
            if (rc[i] == ENQ_OK)
                (void)enq_unlock(m->team->e, g[i].handle, g[i].token);
    }
    return NULL;
}

static void *take_events(void *arg)
{
    struct team *team = ((struct member *)arg)->team;
    struct pollfd p = {enq_fd(team->e), POLLIN, 0};
    struct enq_event event;

    while (shm_load(&team->over) < 2) {
        poll(&p, 1, 10);
        while (enq_next(team->e, &event) == ENQ_OK) {
            if (event.kind != ENQ_EVENT_RESULT)
                continue;
            if (event.result == ENQ_OK)
                (void)enq_unlock(team->e, event.grant.handle,
                    event.grant.token);
            shm_add(&team->results, 1);
        }
    }
    return NULL;
}

static void begin(struct member *m, struct team *team, void *(*f)(void *),
    uint64_t seed)
{
    *m = (struct member){.team = team, .dice = seed};
    ck_assert_int_eq(pthread_create(&m->thread, NULL, f, m), 0);
}

static void kill_bridge(void)
{
    bridge_stop(SIGKILL);
    bridge_start();
}

static void go_on_while(void (*what)(void))
{
    struct enq_open_opts opts = {.size = sizeof(opts), .owner = "me"};
    static struct team team;
    struct member m[THREADS + 2];
    uint64_t seed = unit_seed();
    char address[300];

    snprintf(space, sizeof(space), "%s", unit_space());
    snprintf(listen_at, sizeof(listen_at), "unix:%.200s.socket", space);
    snprintf(address, sizeof(address), "%s", listen_at);
    bridge_start();
    want(ENQ_OK, enq_open(&team.e, address, &opts));
    for (unsigned i = 0; i < THREADS; i++)
        begin(&m[i], &team, lock_and_unlock, seed + i);
    begin(&m[THREADS], &team, start_some, seed + THREADS);
    begin(&m[THREADS + 1], &team, take_events, seed);
    for (int i = 0; i < KILLS; i++) {
        uint32_t before = shm_load(&team.pairs);

        eventually(shm_load(&team.pairs) > before + 100);
        what();
    }
    shm_store(&team.over, 1);
    for (unsigned i = 0; i <= THREADS; i++)
        pthread_join(m[i].thread, NULL);
    eventually(shm_load(&team.results) == shm_load(&team.pending));
    shm_store(&team.over, 2);
    pthread_join(m[THREADS + 1].thread, NULL);
    printf("%u pairs, %u refused, %u started, %u late\n", team.pairs,
        team.refused, team.pending, team.late);
    enq_close(team.e);
    bridge_stop(SIGTERM);
    {
        struct enq *e = unit_open();
        size_t total = 1;

        want(ENQ_OK, enq_list(e, NULL, NULL, NULL, 0, &total));
        ck_assert_uint_eq(total, 0);
        unit_healthy(e);
        enq_close(e);
    }
}

TEST(threads_go_on_while_their_bridge_is_killed)
{
    go_on_while(kill_bridge);
}

TEST(threads_go_on_while_their_connection_is_cut)
{
    go_on_while(cut_connections);
}

int main(void)
{
    unit_begin("remote-threads");
    ADD(threads_go_on_while_their_connection_is_cut);
    ADD(threads_go_on_while_their_bridge_is_killed);
    return unit_end();
}
