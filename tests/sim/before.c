/*
 * before.c - what happens before what (--unordered): which two accesses of two
 * processes to the same bytes does nothing order?
 *
 * A missing release or acquire shows in few schedules, and on few machines. But
 * that nothing orders two accesses shows in almost any schedule in which both
 * are made: so each process has a vector clock, which a release leaves at the
 * place of its store and an acquire takes from there (C11 7.17.3; the kernel
 * orders by what it does to liveness words, and for threads of a process by its
 * mutexes). Each eight bytes remember who wrote and who read them last, and
 * when by its own clock. One that comes to them without having received that
 * makes a pair with it, told by the places of both in the program.
 *
 * Not every pair is a fault: hints, and what is read before it is checked, are
 * unordered by design. It is the pairs that are not there as long as all orders
 * are (unordered.py).
 *
 * A third kind of pair is of one process: a store, and a load that comes after
 * it with no full barrier in between, so that the load may be made first. Two
 * that each tell the other and then look may both look too early.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

#define SYNCS (1u << 15) /* places of atomic accesses in one schedule */
#define PAIRS (1u << 17)
#define GRANULE 8
#define PENDING 64

struct clocks {
    uint32_t of[PROCS_MAX];
};

struct stamp {
    uint32_t clock, place;
    uint8_t proc, mask;
    bool atomic;
};

struct cell {
    uint32_t run;
    struct stamp wrote, read;
};

struct sync {
    uintptr_t at;
    uint32_t run;
    struct clocks left;
};

struct pair {
    uint32_t first, second, times;
    char kind;
};

static struct clocks now[PROCS_MAX];
static struct clocks received[PROCS_MAX]; /* without order, until a fence */
static struct clocks fenced[PROCS_MAX];
/* Stores, by their places, since the last full barrier. */
static struct {
    uint32_t place[PENDING];
    unsigned n;
} pending[PROCS_MAX];
static struct cell *cells;
static struct sync *syncs;
static struct pair *pairs;
static uint32_t run;

static void *room(size_t n, size_t bytes)
{
    void *p = calloc(n, bytes);

    if (p == NULL)
        abort();
    return p;
}

void before_begin(void)
{
    if (!sim.pairs)
        return;
    if (cells == NULL) {
        cells = room(sim.map->bytes / GRANULE + 1, sizeof(*cells));
        syncs = room(SYNCS, sizeof(*syncs));
        pairs = room(PAIRS, sizeof(*pairs));
    }
    run++;
    memset(now, 0, sizeof(now));
    memset(received, 0, sizeof(received));
    memset(fenced, 0, sizeof(fenced));
    memset(pending, 0, sizeof(pending));
}

static void join(struct clocks *to, const struct clocks *from)
{
    for (unsigned i = 0; i < PROCS_MAX; i++)
        if (from->of[i] > to->of[i])
            to->of[i] = from->of[i];
}

/* All that was before a process is made comes before all that it does. */
void before_spawned(const struct proc *p)
{
    if (!sim.pairs)
        return;
    for (unsigned i = 0; i < p->number; i++)
        join(&now[p->number], &now[i]);
    now[p->number].of[p->number] = 1;
}

/* --- places of atomic accesses --- */

static struct sync *sync_at(uintptr_t at, bool make)
{
    unsigned i = (unsigned)(at * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SYNCS;

    for (unsigned n = 0; n < SYNCS; n++, i = (i + 1) % SYNCS) {
        if (syncs[i].run == run && syncs[i].at == at)
            return &syncs[i];
        if (syncs[i].run == run)
            continue;
        if (!make)
            return NULL;
        memset(&syncs[i], 0, sizeof(syncs[i]));
        syncs[i].at = at;
        syncs[i].run = run;
        return &syncs[i];
    }
    abort(); /* SYNCS is too few */
}

static bool acquires(int order)
{
    return order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL ||
        order == __ATOMIC_SEQ_CST || order == __ATOMIC_CONSUME;
}

static bool releases(int order)
{
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL ||
        order == __ATOMIC_SEQ_CST;
}

static void take(unsigned me, uintptr_t at, int order)
{
    const struct sync *s = sync_at(at, false);

    if (s != NULL)
        join(acquires(order) ? &now[me] : &received[me], &s->left);
}

/* `on`: of an access that reads and writes, which goes on with what was left
   there. */
static void leave(unsigned me, uintptr_t at, int order, bool on)
{
    struct sync *s = sync_at(at, true);

    if (!on)
        memset(&s->left, 0, sizeof(s->left));
    join(&s->left, releases(order) ? &now[me] : &fenced[me]);
    if (releases(order))
        now[me].of[me]++;
}

/* Two processes have different memory at one address, except the segment. */
static uintptr_t place_of(const void *at)
{
    uintptr_t offset = (uintptr_t)at - sim.base;

    return offset < sim.map->bytes
        ? offset
        : (uintptr_t)at ^ (uintptr_t)(sim.me->process->number + 1) << 52;
}

/* --- pairs --- */

static void note_pair(uint32_t first, uint32_t place, char kind)
{
    unsigned i = (first * 31 + place) * 2654435761u % PAIRS;

    for (unsigned n = 0; n < PAIRS; n++, i = (i + 1) % PAIRS) {
        struct pair *p = &pairs[i];

        if (p->times > 0 &&
            (p->first != first || p->second != place || p->kind != kind))
            continue;
        *p = (struct pair){first, place, p->times + 1, kind};
        return;
    }
    abort(); /* PAIRS is too few */
}

static uint32_t place_in_program(uintptr_t from)
{
    extern const char __executable_start[];

    return (uint32_t)(from - (uintptr_t)__executable_start);
}

/* --- a store, and a load that may pass it --- */

static void store_pends(unsigned me, uintptr_t from)
{
    uint32_t place = place_in_program(from);

    for (unsigned i = 0; i < pending[me].n; i++)
        if (pending[me].place[i] == place)
            return;
    if (pending[me].n < PENDING)
        pending[me].place[pending[me].n++] = place;
}

static void load_may_pass(unsigned me, uintptr_t from)
{
    for (unsigned i = 0; i < pending[me].n; i++)
        note_pair(pending[me].place[i], place_in_program(from), 'b');
}

/* --- two processes --- */

static void compare(const struct stamp *s, uint8_t mask, bool atomic,
    bool write, uint32_t place)
{
    unsigned me = sim.me->number;

    if (s->clock == 0 || s->proc == me || (s->mask & mask) == 0 ||
        s->clock <= now[me].of[s->proc])
        return;
    if (s->atomic && atomic && write)
        return; /* the later one has the last word */
    note_pair(s->place, place, s->atomic && atomic ? 'a' : 'p');
}

static void access_at(const void *at, unsigned bytes, bool write, bool atomic,
    uintptr_t from)
{
    uint32_t place = place_in_program(from);
    uintptr_t offset = (uintptr_t)at - sim.base;

    while (bytes > 0) {
        struct cell *c = &cells[offset / GRANULE];
        unsigned in = offset % GRANULE;
        unsigned n = bytes < GRANULE - in ? bytes : GRANULE - in;
        uint8_t mask = (uint8_t)(((1u << n) - 1) << in);
        struct stamp stamp = {now[sim.me->number].of[sim.me->number], place,
            (uint8_t)sim.me->number, mask, atomic};

        if (c->run != run)
            *c = (struct cell){.run = run};
        compare(&c->wrote, mask, atomic, write, place);
        if (write)
            compare(&c->read, mask, atomic, write, place);
        if (write)
            c->wrote = stamp;
        else
            c->read = stamp;
        offset += n;
        bytes -= n;
    }
}

/* --- accesses --- */

void before_plain(const void *at, unsigned bytes, bool write, uintptr_t from)
{
    if (sim.me != NULL)
        access_at(at, bytes, write, false, from);
}

void before_load(const void *at, unsigned bytes, int order, uintptr_t from)
{
    if (sim.me == NULL)
        return;
    take(sim.me->number, place_of(at), order);
    load_may_pass(sim.me->number, from);
    if (sim_in_segment(at))
        access_at(at, bytes, false, true, from);
}

void before_store(const void *at, unsigned bytes, int order, uintptr_t from)
{
    if (sim.me == NULL)
        return;
    if (sim_in_segment(at))
        access_at(at, bytes, true, true, from);
    leave(sim.me->number, place_of(at), order, false);
    store_pends(sim.me->number, from);
}

void before_both(const void *at, unsigned bytes, int order, uintptr_t from)
{
    if (sim.me == NULL)
        return;
    take(sim.me->number, place_of(at), order);
    if (sim_in_segment(at))
        access_at(at, bytes, true, true, from);
    leave(sim.me->number, place_of(at), order, true);
    if (order == __ATOMIC_SEQ_CST)
        pending[sim.me->number].n = 0;
    else
        store_pends(sim.me->number, from);
}

void before_fence(int order)
{
    unsigned me;

    if (sim.me == NULL)
        return;
    me = sim.me->number;
    if (order == __ATOMIC_SEQ_CST)
        pending[me].n = 0;
    if (acquires(order))
        join(&now[me], &received[me]);
    if (releases(order)) {
        fenced[me] = now[me];
        now[me].of[me]++;
    }
}

/* --- what the kernel orders --- */

void before_taken(const void *at)
{
    if (sim.pairs && sim.me != NULL)
        take(sim.me->number, place_of(at), __ATOMIC_ACQUIRE);
}

void before_given(const void *at)
{
    if (sim.pairs && sim.me != NULL)
        leave(sim.me->number, place_of(at), __ATOMIC_RELEASE, false);
}

void before_marked(const struct proc *dead, const uint32_t *word)
{
    if (sim.pairs)
        leave(dead->number, (uintptr_t)word - sim.base, __ATOMIC_RELEASE, true);
}

void before_ended(const struct proc *dead)
{
    if (sim.pairs && sim.me != NULL)
        join(&now[sim.me->number], &now[dead->number]);
}

void before_tell(void)
{
    for (unsigned i = 0; pairs != NULL && i < PAIRS; i++)
        if (pairs[i].times > 0)
            printf("pair %c %x %x %u\n", pairs[i].kind, pairs[i].first,
                pairs[i].second, pairs[i].times);
    fflush(stdout);
}
