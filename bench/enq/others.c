/*
 * others.c - libenq's acts among others: '@' locks that others hold, threads
 * that wait in one queue, sessions.
 */
#include "enq/seat.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* '@' locks ---------------------------------------------------------------- */

static int generic_drop(struct seat *s)
{
    struct mine *m = s->mine;

    while (m->n_generic > 0) {
        struct enq_grant *g = &m->generic[m->n_generic - 1];
        int rc = enq_unlock(m->e, g->handle, g->token);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_unlock", rc);
        m->n_generic--;
    }
    return 0;
}

/* None of them overlaps with the key of the pairs. */
static int generic_take(struct seat *s)
{
    struct mine *m = s->mine;
    uint64_t n = s->trial->count;

    if (m->generic == NULL)
        m->generic = calloc(n + 1, sizeof(*m->generic));
    if (m->generic == NULL)
        return seat_fail(s, "out of memory");
    while (m->n_generic < n) {
        char first[24];
        struct enq_req req = m->req;
        snprintf(first, sizeof(first), "Printer %u", (unsigned)m->n_generic);
        req.key[0] = first;
        req.key[1] = "@";
        int rc = enq_lock(m->e, &req, &m->generic[m->n_generic]);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_lock ('@')", rc);
        m->n_generic++;
    }
    return 0;
}

int enq_arrange_generic(struct seat *s, bool base)
{
    if (!seat_aside(s))
        return 0;
    return base ? generic_drop(s) : generic_take(s);
}

int enq_prepare_apart(struct seat *s)
{
    struct mine *m = s->mine;

    if (!seat_aside(s))
        m->req.name = "order";
    return 0;
}

enum { QUEUE_LATE_MS = 10000 };

/* A queue ------------------------------------------------------------------ */

struct queue {
    struct seat *seat;
    unsigned n;
    _Atomic uint64_t pairs;
    _Atomic uint32_t n_named;
    _Atomic int rc;
    pthread_t thread[];
};

/* Counts, under the lock, how often it went from one to the other. */
static int queue_pair(struct seat *s, struct enq_req *req, uint32_t me)
{
    struct mine *m = s->mine;
    struct enq_grant g;

    int rc = enq_lock(m->e, req, &g);
    if (rc != ENQ_OK)
        return rc;
    guard_visit(s, g.token);
    s->slot->handovers += s->guard->last != me;
    s->guard->last = me;
    return enq_unlock(m->e, g.handle, g.token);
}

static void *queue_thread(void *arg)
{
    struct queue *q = arg;
    struct seat *s = q->seat;
    struct enq_req req = ((struct mine *)s->mine)->req;
    char owner[32];
    uint32_t me = 1 + atomic_fetch_add(&q->n_named, 1);
    uint64_t n = 0;
    int rc;

    snprintf(owner, sizeof(owner), "thread %u", me);
    req.owner = owner;
    req.wait_ms = ENQ_FOREVER;
    do {
        rc = queue_pair(s, &req, me);
        n++;
    } while (rc == ENQ_OK && atomic_load(s->stop) == 0);
    if (rc != ENQ_OK)
        atomic_store(&q->rc, rc);
    atomic_fetch_add(&q->pairs, n);
    return NULL;
}

static int queue_start(struct queue *q)
{
    pthread_attr_t attr;
    int rc = 0;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128 * 1024);
    for (unsigned i = 0; i < q->n && rc == 0; i++)
        rc = pthread_create(&q->thread[i], &attr, queue_thread, q);
    pthread_attr_destroy(&attr);
    return rc == 0 ? 0 : seat_fail(q->seat, "a thread: %s", strerror(rc));
}

/* Until all wait: the queue is as long from the first hand-over on. */
static int queue_full(struct queue *q)
{
    struct seat *s = q->seat;
    struct mine *m = s->mine;
    struct enq_stats stats = {.size = sizeof(stats)};
    struct timespec ms = {.tv_nsec = 1000000};

    for (unsigned tries = 0; tries < QUEUE_LATE_MS; tries++) {
        int rc = enq_stat(m->e, &stats);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_stat", rc);
        if (q->rc != ENQ_OK)
            return enq_failed(s, "a thread", q->rc);
        if (stats.waiting >= q->n)
            return 0;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL);
    }
    return seat_fail(s, "only %llu of %u threads wait",
        (unsigned long long)stats.waiting, q->n);
}

/* A worker is pinned, but its threads are to meet as processes do. */
static void unpin(void)
{
    cpu_set_t all;

    memset(&all, 0xff, sizeof(all));
    sched_setaffinity(0, sizeof(all), &all);
}

/* Threads that fail, fail the process: what the rest waits for ends with it.
   The one more than trial->count is the one that has the lock. */
int enq_queue_fill(struct seat *s, bool base)
{
    struct mine *m = s->mine;
    unsigned n = (unsigned)s->trial->count + 1;
    struct queue *q = calloc(1, sizeof(*q) + n * sizeof(q->thread[0]));

    (void)base;
    if (q == NULL)
        return seat_fail(s, "out of memory");
    q->seat = s;
    q->n = n;
    m->queue = q;
    unpin();
    if (enq_take(s) != 0 || queue_start(q) != 0)
        return -1;
    return queue_full(q);
}

int enq_queue_run(struct seat *s)
{
    struct queue *q = ((struct mine *)s->mine)->queue;

    if (enq_give(s) != 0)
        return -1;
    for (unsigned i = 0; i < q->n; i++)
        pthread_join(q->thread[i], NULL);
    s->slot->pairs = q->pairs;
    int rc = q->rc;
    free(q);
    return rc == ENQ_OK ? 0 : enq_failed(s, "a thread", rc);
}

/* Sessions ----------------------------------------------------------------- */

static int session_new(struct seat *s, unsigned index)
{
    const struct space *space = s->arena;
    struct enq_req req = ((struct mine *)s->mine)->req;
    struct enq_grant g;
    struct enq *e;
    char field[24];

    snprintf(field, sizeof(field), "session %u", index);
    req.key[0] = field;
    int rc = enq_open(&e, space->address, NULL);
    if (rc != ENQ_OK)
        return enq_failed(s, "enq_open", rc);
    rc = enq_lock(e, &req, &g);
    return rc == ENQ_OK ? 0 : enq_failed(s, "enq_lock", rc);
}

/* All of the bystander, until it ends: its own attachment is one of them, as a
   process may have 1,000. They may need descriptors. */
int enq_prepare_sessions(struct seat *s)
{
    struct rlimit files;

    if (!seat_aside(s))
        return 0;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    for (unsigned i = 1; i < s->trial->count; i++)
        if (session_new(s, i) != 0)
            return -1;
    return 0;
}
