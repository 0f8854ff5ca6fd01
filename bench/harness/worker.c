/*
 * worker.c - what a worker process does with its orders. Rates are taken over
 * a whole pass with two readings of the clock; single operations are timed
 * only in passes of their own, with the clock's own cost taken off again.
 */
#include "harness/crew.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DWELL = 5000 }; /* some 5 us: a worker that comes in then is caught */

int seat_fail(struct seat *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(s->slot->why, WHY_BYTES, format, args);
    va_end(args);
    return -1;
}

static bool over(const struct seat *s)
{
    return atomic_load_explicit(s->stop, memory_order_relaxed) != 0;
}

/* Once at least, here as below: a worker that comes late has a figure, too. */
static int rate(struct seat *s, int (*batch)(struct seat *, uint32_t))
{
    uint32_t n = s->trial->scenario->batch;

    s->slot->begin_ns = now_ns();
    do {
        if (batch(s, n) != 0)
            return -1;
        s->slot->pairs += n;
    } while (!over(s));
    s->slot->end_ns = now_ns();
    return 0;
}

static uint64_t span(uint64_t from, uint64_t to, uint64_t cost)
{
    return to - from > cost ? to - from - cost : 0;
}

static void note_wait(struct seat *s, uint64_t ns)
{
    if (ns > s->slot->longest_ns)
        s->slot->longest_ns = ns;
}

static int sample_one(struct seat *s, const struct act *a, uint64_t cost)
{
    uint64_t begin = now_ns();
    if (a->acquire(s) != 0)
        return -1;
    uint64_t got = now_ns();
    uint64_t waited = span(begin, got, cost), whole = waited;
    if (a->release != NULL) {
        if (a->release(s) != 0)
            return -1;
        whole = span(begin, now_ns(), 2 * cost);
    }
    note_wait(s, waited);
    hist_add(&s->slot->hist, whole);
    s->slot->pairs++;
    return 0;
}

static int sample(struct seat *s, const struct act *a)
{
    uint64_t cost = clock_cost_ns();

    do {
        if (sample_one(s, a, cost) != 0)
            return -1;
    } while (!over(s));
    return 0;
}

/* What a bystander counts is part of the rate, up to where it said that it is
   over. */
static int aside(struct seat *s, const struct act *a)
{
    if (a->aside == NULL)
        return 0;
    s->slot->begin_ns = now_ns();
    int rc = a->aside(s);
    if (s->slot->end_ns == 0 && s->slot->pairs > 0)
        s->slot->end_ns = now_ns();
    return rc;
}

/* Hand-overs --------------------------------------------------------------- */

uint64_t crew_cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Both stamps of a hand-over lie in the guard's page, under the lock: the
   releaser writes the one, the next holder reads it. */
static void handed_over(struct seat *s, uint64_t now)
{
    struct guard *g = s->guard;

    if (g->last == 0 || g->last == s->index + 1)
        return;
    hist_add(&s->slot->hist, span(g->released_ns, now, 0));
    s->slot->handovers++;
}

static int handover_one(struct seat *s, const struct act *a)
{
    uint64_t begin = now_ns();

    if (a->acquire(s) != 0)
        return -1;
    uint64_t got = now_ns(), now = got;
    note_wait(s, got - begin);
    handed_over(s, got);
    while (now - got < s->trial->hold_ns)
        now = now_ns();
    s->guard->last = s->index + 1;
    s->guard->released_ns = now;
    s->slot->pairs++;
    return a->release(s);
}

static int handover(struct seat *s, const struct act *a)
{
    uint64_t cpu = crew_cpu_ns();

    s->slot->begin_ns = now_ns();
    do {
        if (handover_one(s, a) != 0)
            return -1;
    } while (!over(s));
    s->slot->end_ns = now_ns();
    s->slot->cpu_ns = crew_cpu_ns() - cpu;
    return 0;
}

/* Once, for a key whose holder will be killed. */
static int wait_once(struct seat *s, const struct act *a, struct crew *c)
{
    atomic_store(&c->page->waiting, 1);
    if (a->acquire(s) != 0)
        return -1;
    s->slot->end_ns = now_ns();
    return a->release == NULL ? 0 : a->release(s);
}

/* Orders ------------------------------------------------------------------- */

static void forget(struct slot *s)
{
    s->pairs = s->broken = s->longest_ns = s->end_ns = 0;
    s->handovers = s->cpu_ns = s->late = 0;
    memset(&s->hist, 0, sizeof(s->hist));
}

static int obey(struct seat *s, struct crew *c)
{
    struct order o = c->page->order;
    const struct act *a = &subjects[o.subject]->acts[s->trial->scenario->work];

    s->dwell = o.pass == PASS_PROVE ? DWELL : 0;
    forget(s->slot);
    if (o.pass == PASS_ARRANGE)
        return a->arrange(s, o.base);
    if (seat_aside(s))
        return aside(s, a);
    switch (o.pass) {
    case PASS_RATE:
    case PASS_PROVE:
        return rate(s, a->batch);
    case PASS_BASE:
        return rate(s, a->base);
    case PASS_SAMPLE:
        return sample(s, a);
    case PASS_HANDOVER:
        return handover(s, a);
    case PASS_WAIT:
        return wait_once(s, a, c);
    default:
        return a->weigh(s);
    }
}

struct seat seat_of(struct crew *c, unsigned subject, unsigned index)
{
    return (struct seat){
        .trial = c->trial,
        .index = index,
        .arena = c->arenas[subject],
        .guard = &c->page->guard[subject],
        .slot = &c->page->slot[index],
        .random = UINT64_C(0x9e3779b97f4a7c15) * (index + 1),
        .stop = &c->page->stop,
    };
}

/* At every subject that takes part, before anything is measured. */
static int sit_down(struct crew *c, struct seat *seats, unsigned index)
{
    for (unsigned i = 0; subjects[i] != NULL; i++) {
        struct seat *s = &seats[i];
        if (!c->joins[i])
            continue;
        *s = seat_of(c, i, index);
        const struct act *a = &subjects[i]->acts[c->trial->scenario->work];
        if (subjects[i]->attach(s) != 0)
            return -1;
        if (a->prepare != NULL && a->prepare(s) != 0)
            return -1;
    }
    return 0;
}

static int next_order(struct crew *c, unsigned index)
{
    while (sem_wait(&c->page->go[index]) != 0)
        if (errno != EINTR)
            return -1;
    return c->page->order.pass == PASS_LEAVE ? -1 : 0;
}

_Noreturn void worker_run(struct crew *c, unsigned index)
{
    struct seat seats[SUBJECTS_MAX] = {0};

    if (sit_down(c, seats, index) != 0)
        _exit(EXIT_FAILED);
    sem_post(&c->page->done);
    while (next_order(c, index) == 0) {
        if (obey(&seats[c->page->order.subject], c) != 0)
            _exit(EXIT_FAILED);
        sem_post(&c->page->done);
    }
    for (unsigned i = 0; subjects[i] != NULL; i++)
        if (c->joins[i])
            subjects[i]->detach(&seats[i]);
    _exit(0);
}
