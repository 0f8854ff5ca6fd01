/*
 * queue.c - many threads that wait for one key: see queue.h.
 */
#include "load/queue.h"

#include "harness/crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LATE_MS = 60000, STACK_BYTES = 128 * 1024 };

struct queue {
    struct seat *seat; /* of the worker */
    const struct queue_calls *calls;
    unsigned n;
    _Atomic uint64_t pairs; /* of the whole pass, to be compared with visits */
    _Atomic uint32_t n_named;
    pthread_t thread[];
};

static struct queue *queue; /* a worker fills and empties one at a time */

/* --- a thread --- */

static bool over(const struct seat *s)
{
    return atomic_load_explicit(s->stop, memory_order_relaxed) != 0;
}

/* Under the lock: all of this is its holder's. */
static void note_grant(struct seat *s)
{
    struct guard *g = s->guard;
    struct slot *slot = s->slot;
    uint64_t now = now_ns();

    if (slot->end_ns != 0)
        return;
    if (g->last != 0 && g->last != s->index + 1) {
        hist_add(&slot->hist, now - g->released_ns);
        slot->handovers++;
    }
    slot->pairs++;
    if (over(s)) {
        slot->end_ns = now;
        slot->cpu_ns = crew_cpu_ns() - slot->cpu_ns;
    }
}

static int one_pair(struct queue *q, struct seat *s)
{
    if (q->calls->take(s) != 0)
        return -1;
    note_grant(s);
    atomic_fetch_add(&q->pairs, 1);
    s->guard->last = s->index + 1;
    s->guard->released_ns = now_ns();
    return q->calls->give(s);
}

/* Who fails, fails the process: the others wait for what it has. */
static void *run(void *arg)
{
    struct queue *q = arg;
    struct seat own = *q->seat;

    own.index = atomic_fetch_add(&q->n_named, 1);
    if (q->calls->join(&own) != 0)
        _exit(EXIT_FAILED);
    do {
        if (one_pair(q, &own) != 0)
            _exit(EXIT_FAILED);
    } while (!over(&own));
    q->calls->leave(&own);
    return NULL;
}

/* --- the worker --- */

/* It is pinned, but its threads are to meet as processes do. */
static void unpin(void)
{
    cpu_set_t all;

    memset(&all, 0xff, sizeof(all));
    sched_setaffinity(0, sizeof(all), &all);
}

static int start(struct queue *q)
{
    pthread_attr_t attr;
    int rc = 0;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    for (unsigned i = 0; i < q->n && rc == 0; i++)
        rc = pthread_create(&q->thread[i], &attr, run, q);
    pthread_attr_destroy(&attr);
    return rc == 0 ? 0 : seat_fail(q->seat, "a thread: %s", strerror(rc));
}

/* Until all wait: the queue is as long from the first hand-over on. */
static int await_all(struct queue *q)
{
    struct timespec ms = {.tv_nsec = 1000000};
    uint64_t late = now_ns() + LATE_MS * UINT64_C(1000000), n = 0;

    while (now_ns() < late) {
        if (q->calls->waiting(q->seat, &n) != 0)
            return -1;
        if (n >= q->n)
            return 0;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL);
    }
    return seat_fail(q->seat, "only %llu of %u threads wait",
        (unsigned long long)n, q->n);
}

int queue_fill(struct seat *s, const struct queue_calls *calls, unsigned n)
{
    queue = calloc(1, sizeof(*queue) + n * sizeof(queue->thread[0]));
    if (queue == NULL)
        return seat_fail(s, "out of memory");
    queue->seat = s;
    queue->calls = calls;
    queue->n = n;
    unpin();
    return start(queue) == 0 ? await_all(queue) : -1;
}

int queue_run(struct seat *s, int (*give)(struct seat *s))
{
    struct queue *q = queue;

    s->guard->last = UINT32_MAX; /* the worker's own is a hand-over, too */
    s->slot->cpu_ns = crew_cpu_ns();
    s->guard->released_ns = now_ns();
    if (give(s) != 0)
        return -1;
    for (unsigned i = 0; i < q->n; i++)
        pthread_join(q->thread[i], NULL);
    s->slot->late = atomic_load(&q->pairs) - s->slot->pairs;
    free(q);
    queue = NULL;
    return 0;
}
