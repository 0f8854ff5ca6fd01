/*
 * crowd.c - who is in a place to stay: holders, what the dead left, queuers,
 * idlers, and one that watches the heartbeats.
 */
#include "mixed/mixed.h"

#include <unistd.h>

enum {
    ONE_IN_ID = 10, /* has an id of its own */
    STIRRED = 200,  /* keys of lower numbers go from hand to hand */
};

static uint64_t at_least(uint64_t n, uint64_t least)
{
    return n > least ? n : least;
}

static uint64_t at_most(uint64_t n, uint64_t most)
{
    return n < most ? n : most;
}

/* Of ten processes one holds, two pass, five queue, and two are idle. */
static void share_out_procs(struct place *p)
{
    p->holders = (unsigned)at_least(p->procs / 200, 1);
    p->passers = (unsigned)at_least(p->procs / 200, 2);
    p->waiters = p->in_keys > 0 ? (unsigned)at_least(p->procs / 50, 1) : 0;
    p->queuers = (unsigned)at_least(p->procs / 4, 5);
    unsigned busy = p->holders + p->passers + p->waiters + p->queuers;
    p->idlers = p->procs > busy + 2 ? p->procs - busy : 2;
}

/* Of ten that wait all wait for one key, and as many for one owner. */
void place_share_out(struct place *p)
{
    enum { PAGE = 21, SPARE = 20000 };

    p->orphans = p->held / 5;
    p->wide = p->held / 10;
    p->spread = p->held - p->orphans - p->wide;
    p->in_queue = p->in_graph = at_least(p->waits / 10, at_most(p->waits, TEN));
    uint64_t told = p->in_queue + p->in_graph;
    p->in_keys = p->waits > told ? p->waits - told : 0;
    share_out_procs(p);
    p->slots = (uint32_t)(p->held + p->waits + told + 4ull * p->names +
        4ull * PAGE * p->procs + SPARE);
}

void spread_key(struct actor *a, uint64_t i)
{
    bool any = i % 2 == 0;

    actor_name(a, "%s %u", any ? "name" : "plain",
        (unsigned)(i / 2 % a->place->names));
    actor_field(a, i);
    a->req.mode = any ? ENQ_MODE_S : ENQ_MODE_X;
}

/* --- holders --- */

static int take_spread(struct actor *a, uint64_t i)
{
    spread_key(a, i);
    if (i % ONE_IN_ID == 0)
        snprintf(a->id, sizeof(a->id), "id %llu", (unsigned long long)i);
    a->req.id = i % ONE_IN_ID == 0 ? a->id : NULL;
    actor_owner(a, "holder %llu", (unsigned long long)(i % 1000));
    int rc = actor_take(a);
    a->req.id = NULL;
    return rc;
}

/* What '@' requests of its name have to look at. */
static int take_wide(struct actor *a)
{
    struct place *p = a->place;

    actor_name(a, "wide");
    a->req.mode = ENQ_MODE_S;
    for (uint64_t i = a->index; i < p->wide; i += p->holders) {
        actor_field(a, i);
        if (actor_take(a) != 0)
            return -1;
    }
    return 0;
}

/* Of the graph, and of the lists. */
static int take_single(struct actor *a)
{
    a->req.mode = ENQ_MODE_X;
    actor_field(a, 0);
    actor_owner(a, "blocker");
    actor_name(a, "graph");
    if (actor_take(a) != 0)
        return -1;
    actor_name(a, "single");
    return actor_take(a);
}

static _Noreturn void hold_until_told(struct actor *a,
    const struct enq_grant *stir, unsigned n)
{
    while (!atomic_load(&a->place->stirred))
        usleep(LOOK_US);
    for (unsigned i = 0; i < n; i++)
        enq_unlock(a->e, stir[i].handle, stir[i].token);
    for (;;)
        pause();
}

/* Only what is waited for is stirred: there are in_keys / TEN such keys. */
int holder_life(struct actor *a)
{
    struct place *p = a->place;
    struct enq_grant stir[STIRRED];
    unsigned n = 0;

    if (actor_open(a) != 0)
        return -1;
    for (uint64_t i = a->index; i < p->spread; i += p->holders) {
        if (take_spread(a, i) != 0)
            return -1;
        if (i % 2 == 1 && i < STIRRED && i / 2 < p->in_keys / TEN)
            stir[n++] = a->grant;
    }
    if (take_wide(a) != 0 || (a->index == 0 && take_single(a) != 0))
        return -1;
    p->ready++;
    hold_until_told(a, stir, n);
}

/* One that ends, and leaves behind what nobody adopts. */
int leave_orphans(struct actor *a)
{
    struct place *p = a->place;

    if (actor_open(a) != 0)
        return -1;
    a->req.on_death = ENQ_DEATH_KEEP;
    for (uint64_t i = 0; i < p->orphans; i++) {
        actor_name(a, "orphan %u", (unsigned)(i % p->names));
        actor_field(a, i);
        if (actor_take(a) != 0)
            return -1;
    }
    return 0;
}

/* '@' of each name: held, or it waits for a single X. */
static int ask_for_any(struct actor *a, unsigned name)
{
    uint64_t unused;

    actor_name(a, "name %u", name);
    actor_owner(a, "any %u", name);
    snprintf(a->field, sizeof(a->field), "@");
    a->req.mode = ENQ_MODE_S;
    if (name % 2 != 0)
        return actor_take(a);
    snprintf(a->field, sizeof(a->field), "x");
    a->req.mode = ENQ_MODE_X;
    actor_owner(a, "one %u", name);
    if (actor_take(a) != 0)
        return -1;
    snprintf(a->field, sizeof(a->field), "@");
    a->req.mode = ENQ_MODE_S;
    actor_owner(a, "any %u", name);
    return actor_start_wait(a, &unused);
}

int any_life(struct actor *a)
{
    if (actor_open(a) != 0)
        return -1;
    for (unsigned i = 0; i < a->place->names; i++)
        if (ask_for_any(a, i) != 0)
            return -1;
    a->place->ready++;
    for (;;)
        pause();
}

/* --- who does nothing, or waits --- */

int idler_life(struct actor *a)
{
    actor_name(a, "idle");
    actor_field(a, a->index);
    if (actor_open(a) != 0 || actor_take(a) != 0)
        return -1;
    a->place->ready++;
    for (;;)
        pause();
}

int queuer_life(struct actor *a)
{
    struct place *p = a->place;

    actor_name(a, "queue");
    if (actor_open(a) != 0)
        return -1;
    a->req.wait_ms = ENQ_FOREVER;
    p->ready++;
    for (;;) {
        if (actor_take(a) != 0)
            return -1;
        while (!atomic_load(&p->queueing))
            usleep(LOOK_US);
        if (atomic_exchange(&p->queuer, a->index + 1) != a->index + 1)
            p->queued++;
        if (actor_give(a) != 0)
            return -1;
    }
}

/* --- heartbeats --- */

static int look_at_beat(struct actor *a, enq_handle beat)
{
    struct place *p = a->place;
    struct enq_info info;
    int rc = enq_look(a->e, beat, &info);

    if (rc != ENQ_OK)
        return actor_failed(a, "enq_look (at a lock with heartbeats)", rc);
    int64_t late = info.ttl_ms - info.ttl_left_ms - BEAT_MS;
    if (late > 0 && (uint64_t)late > p->late_ms)
        p->late_ms = (uint64_t)late;
    return 0;
}

/* How long ago each was renewed: nobody else writes late_ms. */
int watch_life(struct actor *a)
{
    struct place *p = a->place;

    if (actor_open(a) != 0)
        return -1;
    p->ready++;
    for (;;) {
        for (unsigned i = 0; i < BEATS_MAX; i++)
            if (p->beats[i] != 0 && look_at_beat(a, p->beats[i]) != 0)
                return -1;
        usleep(5000);
    }
}
