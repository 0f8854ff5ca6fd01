/*
 * start.c - libenq's acts without blocking: requests that are started,
 * and their events; thousands of them pending in one process.
 */
#include "enq/seat.h"
#include "harness/crew.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    EVENT_LATE_MS = 10000,
    SAMPLES = 1000,
    SETTLE_S = 1,
    IDLE_S = 2,
};

/* Granted at once ---------------------------------------------------------- */

/* It would wait: of a request that would not, there is nothing to start. */
int enq_start_batch(struct seat *s, uint32_t n)
{
    struct mine *m = s->mine;
    uint64_t ticket;

    for (uint32_t i = 0; i < n; i++) {
        int rc = enq_start(m->e, &m->req, &m->grant, &ticket);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_start", rc);
        rc = enq_unlock(m->e, m->grant.handle, m->grant.token);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_unlock", rc);
    }
    return 0;
}

int enq_start_once(struct seat *s)
{
    struct mine *m = s->mine;
    uint64_t ticket;
    int rc = enq_start(m->e, &m->req, &m->grant, &ticket);

    return rc == ENQ_OK ? 0 : enq_failed(s, "enq_start", rc);
}

/* Granted by another process ----------------------------------------------- */

/* Asleep on the descriptor, as a loop of events would be. */
static int event_next(struct seat *s, struct enq_event *event)
{
    struct mine *m = s->mine;
    struct pollfd fd = {.fd = m->events, .events = POLLIN};
    int rc;

    while ((rc = enq_next(m->e, event)) == ENQ_PENDING)
        if (poll(&fd, 1, EVENT_LATE_MS) == 0)
            return seat_fail(s, "no event within %d ms", EVENT_LATE_MS);
    return rc == ENQ_OK ? 0 : enq_failed(s, "enq_next", rc);
}

/* The next grant; events of held locks are passed over. */
static int event_granted(struct seat *s, uint64_t *ticket)
{
    struct mine *m = s->mine;
    struct enq_event event;

    do
        if (event_next(s, &event) != 0)
            return -1;
    while (event.kind != ENQ_EVENT_RESULT);
    if (event.result != ENQ_OK)
        return enq_failed(s, "a started request", event.result);
    *ticket = event.ticket;
    m->grant = event.grant;
    return 0;
}

/* That of this one request. */
static int event_grant(struct seat *s, uint64_t ticket)
{
    uint64_t granted;

    if (event_granted(s, &granted) != 0)
        return -1;
    return granted == ticket ? 0 : seat_fail(s, "an event of another request");
}

int enq_prepare_events(struct seat *s)
{
    struct mine *m = s->mine;

    m->events = enq_fd(m->e);
    if (m->events < 0)
        return enq_failed(s, "enq_fd", m->events);
    return enq_prepare_waiting(s);
}

int enq_start_guarded(struct seat *s)
{
    struct mine *m = s->mine;
    uint64_t ticket;
    int rc = enq_start(m->e, &m->req, &m->grant, &ticket);

    if (rc != ENQ_OK && rc != ENQ_PENDING)
        return enq_failed(s, "enq_start", rc);
    if (rc == ENQ_PENDING && event_grant(s, ticket) != 0)
        return -1;
    guard_visit(s, m->grant.token);
    return 0;
}

int enq_start_guarded_batch(struct seat *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (enq_start_guarded(s) != 0 || enq_give(s) != 0)
            return -1;
    return 0;
}

/* A queue of one process ----------------------------------------------------- */

static void turn_of(struct mine *m, uint64_t turn)
{
    m->turn = turn;
    snprintf(m->owner, sizeof(m->owner), "waiter %u", (unsigned)turn);
}

/* The one more than trial->count is the one that has the lock. */
int enq_prepare_started(struct seat *s)
{
    struct mine *m = s->mine;
    uint64_t ticket;

    m->req.mode = ENQ_MODE_X;
    turn_of(m, 0);
    if (enq_prepare_events(s) != 0 || enq_take(s) != 0)
        return -1;
    for (uint64_t i = 1; i <= s->trial->count; i++) {
        struct enq_grant unused;
        turn_of(m, i);
        int rc = enq_start(m->e, &m->req, &unused, &ticket);
        if (rc != ENQ_PENDING)
            return enq_failed(s, "enq_start (to wait)", rc);
    }
    m->turn = 0;
    return 0;
}

/* It is given back, the next one's grant comes as an event, and who had it waits
   behind all others. */
static int pass_on(struct seat *s)
{
    struct mine *m = s->mine;
    struct enq_grant unused;
    uint64_t ticket;

    if (enq_give(s) != 0 || event_granted(s, &ticket) != 0)
        return -1;
    turn_of(m, m->turn);
    int rc = enq_start(m->e, &m->req, &unused, &ticket);
    if (rc != ENQ_PENDING)
        return enq_failed(s, "enq_start (to wait again)", rc);
    m->turn = m->turn < s->trial->count ? m->turn + 1 : 0;
    return 0;
}

int enq_started_batch(struct seat *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (pass_on(s) != 0)
            return -1;
    return 0;
}

/* Many pending ------------------------------------------------------------- */

/* Another process, which has all that is asked for. It is told which lock to
   give back, and answers when it began to. */
struct holder {
    pid_t pid;
    int fd;
};

static void pending_key(struct mine *m, uint64_t i)
{
    snprintf(m->field, sizeof(m->field), "%u", (unsigned)i);
}

static int holder_take(struct seat *s, struct enq_grant *grants)
{
    struct mine *m = s->mine;
    const struct space *space = s->arena;

    int rc = enq_open(&m->e, space->address, NULL);
    m->req.owner = "holder";
    m->req.wait_ms = 0;
    for (uint64_t i = 0; rc == ENQ_OK && i < s->trial->count; i++) {
        pending_key(m, i);
        rc = enq_lock(m->e, &m->req, &grants[i]);
    }
    return rc;
}

static int holder_serve(struct mine *m, const struct enq_grant *grants, int fd)
{
    uint64_t began = 0;
    uint32_t i;

    do {
        if (write(fd, &began, sizeof(began)) != sizeof(began))
            return -1;
        if (read(fd, &i, sizeof(i)) != sizeof(i))
            return 0;
        began = now_ns();
    } while (enq_unlock(m->e, grants[i].handle, grants[i].token) == ENQ_OK);
    return -1;
}

static _Noreturn void holder_run(struct seat *s, int parent, int fd)
{
    struct enq_grant *grants = calloc(s->trial->count, sizeof(*grants));
    struct mine *m = s->mine;

    crew_settle(s->index + 1, parent);
    if (grants == NULL || holder_take(s, grants) != ENQ_OK ||
        holder_serve(m, grants, fd) != 0)
        _exit(EXIT_FAILED);
    enq_close(m->e);
    _exit(0);
}

static int holder_answer(struct seat *s, const struct holder *h, uint64_t *ns)
{
    if (read(h->fd, ns, sizeof(*ns)) == sizeof(*ns))
        return 0;
    return seat_fail(s, "the process that holds the locks has failed");
}

static int holder_start(struct seat *s, struct holder *h)
{
    int fd[2], parent = getpid();
    uint64_t unused;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0)
        return seat_fail(s, "socketpair: %s", strerror(errno));
    h->pid = fork();
    if (h->pid == 0) {
        close(fd[0]);
        holder_run(s, parent, fd[1]);
    }
    close(fd[1]);
    h->fd = fd[0];
    if (h->pid < 0)
        return seat_fail(s, "fork: %s", strerror(errno));
    return holder_answer(s, h, &unused);
}

static int holder_end(struct seat *s, const struct holder *h)
{
    int status = 0;

    close(h->fd);
    if (h->pid > 0)
        waitpid(h->pid, &status, 0);
    return status == 0 ? 0 : seat_fail(s, "the holder did not end well");
}

/* Of this process alone, and what of the segment is in use. */
static int memory_used(struct seat *s, uint64_t *bytes)
{
    struct mine *m = s->mine;
    struct enq_stats stats = {.size = sizeof(stats)};
    unsigned long long anon = 0;
    char line[128];

    int rc = enq_stat(m->e, &stats);
    if (rc != ENQ_OK)
        return enq_failed(s, "enq_stat", rc);
    FILE *in = fopen("/proc/self/status", "r");
    while (in != NULL && anon == 0 && fgets(line, sizeof(line), in) != NULL)
        sscanf(line, "RssAnon: %llu", &anon);
    if (in != NULL)
        fclose(in);
    *bytes = stats.bytes_used + anon * 1024;
    return anon > 0 ? 0 : seat_fail(s, "/proc/self/status has no RssAnon");
}

static int start_all(struct seat *s, uint64_t *tickets)
{
    struct mine *m = s->mine;
    uint64_t before, after, n = s->trial->count;

    if (memory_used(s, &before) != 0)
        return -1;
    for (uint64_t i = 0; i < n; i++) {
        pending_key(m, i);
        int rc = enq_start(m->e, &m->req, &m->grant, &tickets[i]);
        if (rc != ENQ_PENDING)
            return enq_failed(s, "enq_start (of a lock that is held)", rc);
    }
    if (memory_used(s, &after) != 0)
        return -1;
    s->slot->bytes = (double)(after - before) / (double)n;
    return 0;
}

/* What it burns while nothing happens. */
static void idle(struct seat *s)
{
    crew_pause(SETTLE_S);
    uint64_t cpu = crew_cpu_ns();
    s->slot->begin_ns = now_ns();
    crew_pause(IDLE_S);
    s->slot->end_ns = now_ns();
    s->slot->cpu_ns = crew_cpu_ns() - cpu;
}

static int serve_one(struct seat *s, const struct holder *h, uint32_t i,
    uint64_t ticket)
{
    uint64_t began;

    if (write(h->fd, &i, sizeof(i)) != sizeof(i))
        return seat_fail(s, "the holder is gone");
    if (event_grant(s, ticket) != 0)
        return -1;
    uint64_t now = now_ns();
    if (holder_answer(s, h, &began) != 0)
        return -1;
    if (now <= began)
        return seat_fail(s, "granted before it was given back");
    hist_add(&s->slot->hist, now - began);
    return 0;
}

/* All over the table, one after the other. */
static int serve_some(struct seat *s, const struct holder *h,
    const uint64_t *tickets)
{
    uint64_t n = s->trial->count, step = n > SAMPLES ? n / SAMPLES : 1;

    for (uint64_t i = 0; i < n; i += step)
        if (serve_one(s, h, (uint32_t)i, tickets[i]) != 0)
            return -1;
    return 0;
}

int enq_weigh_pending(struct seat *s)
{
    uint64_t *tickets = calloc(s->trial->count, sizeof(*tickets));
    struct holder h = {0};

    if (tickets == NULL)
        return seat_fail(s, "out of memory");
    if (enq_prepare_events(s) != 0 || holder_start(s, &h) != 0 ||
        start_all(s, tickets) != 0)
        return -1;
    idle(s);
    int rc = serve_some(s, &h, tickets);
    free(tickets);
    return rc == 0 ? holder_end(s, &h) : rc;
}
