/*
 * worker.c - what a worker process does with its orders. Rates are taken over
 * a whole pass with two readings of the clock; single operations are timed
 * only in passes of their own, with the clock's own cost taken off again.
 */
#include "crew.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

enum { DWELL = 5000 }; /* some 5 us: whoever comes in meanwhile is caught */

int seat_fail(struct seat *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(s->slot->why, WHY_BYTES, format, args);
    va_end(args);
    return -1;
}

static int rate(struct seat *s, const struct act *a, struct page *p)
{
    uint32_t batch = s->trial->scenario->batch;

    s->slot->begin_ns = now_ns();
    while (atomic_load_explicit(&p->stop, memory_order_relaxed) == 0) {
        if (a->batch(s, batch) != 0)
            return -1;
        s->slot->pairs += batch;
    }
    s->slot->end_ns = now_ns();
    return 0;
}

static uint64_t span(uint64_t from, uint64_t to, uint64_t cost)
{
    return to - from > cost ? to - from - cost : 0;
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
    if (waited > s->slot->longest_ns)
        s->slot->longest_ns = waited;
    hist_add(&s->slot->hist, whole);
    s->slot->pairs++;
    return 0;
}

static int sample(struct seat *s, const struct act *a, struct page *p)
{
    uint64_t cost = clock_cost_ns();

    while (atomic_load_explicit(&p->stop, memory_order_relaxed) == 0)
        if (sample_one(s, a, cost) != 0)
            return -1;
    return 0;
}

static int obey(struct seat *s, struct page *p)
{
    const struct act *a =
        &subjects[p->order.subject]->acts[s->trial->scenario->work];

    s->dwell = p->order.pass == PASS_PROVE ? DWELL : 0;
    s->slot->pairs = s->slot->broken = s->slot->longest_ns = 0;
    memset(&s->slot->hist, 0, sizeof(s->slot->hist));
    switch (p->order.pass) {
    case PASS_RATE:
    case PASS_PROVE:
        return rate(s, a, p);
    case PASS_SAMPLE:
        return sample(s, a, p);
    default:
        return a->weigh(s);
    }
}

/* At every subject that takes part, before anything is measured. */
static int sit_down(struct crew *c, struct seat *seats, unsigned index)
{
    for (unsigned i = 0; subjects[i] != NULL; i++) {
        struct seat *s = &seats[i];
        if (c->arenas[i] == NULL)
            continue;
        *s = (struct seat){
            .trial = c->trial,
            .index = index,
            .arena = c->arenas[i],
            .guard = &c->page->guard[i],
            .slot = &c->page->slot[index],
            .random = UINT64_C(0x9e3779b97f4a7c15) * (index + 1),
        };
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
        if (obey(&seats[c->page->order.subject], c->page) != 0)
            _exit(EXIT_FAILED);
        sem_post(&c->page->done);
    }
    for (unsigned i = 0; subjects[i] != NULL; i++)
        if (c->arenas[i] != NULL)
            subjects[i]->detach(&seats[i]);
    _exit(0);
}
