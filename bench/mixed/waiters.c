/*
 * waiters.c - processes with requests pending: passers and waiters.
 */
#include "mixed/mixed.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    LUCKY_MAX = 256, /* granted, and not given back yet */
    HAND_ON_MS = 20, /* how long a waiter keeps what it was granted */
    BEAT_TTL_MS = 10000,
};

/* A lock of this process that only its heartbeats keep. */
static int hold_by_heartbeats(struct actor *a, unsigned slot)
{
    if (slot >= BEATS_MAX)
        return 0;
    actor_name(a, "beat");
    actor_field(a, slot);
    a->req.heartbeat_ms = BEAT_MS;
    a->req.ttl_ms = BEAT_TTL_MS;
    int rc = actor_take(a);
    a->req.heartbeat_ms = 0;
    a->req.ttl_ms = ENQ_FOREVER;
    if (rc == 0)
        a->place->beats[slot] = a->grant.handle;
    return rc;
}

static int next_grant(struct actor *a, struct enq_grant *out)
{
    struct enq_event event;
    int rc = enq_next(a->e, &event);

    if (rc == ENQ_PENDING)
        return 0;
    if (rc != ENQ_OK)
        return actor_failed(a, "enq_next", rc);
    if (event.kind == ENQ_EVENT_EXPIRED || event.kind == ENQ_EVENT_LOST)
        return actor_failed(a, "an event (of a lock with heartbeats)",
            event.kind == ENQ_EVENT_EXPIRED ? ENQ_EXPIRED : event.result);
    if (event.kind != ENQ_EVENT_RESULT)
        return 0;
    if (event.result != ENQ_OK)
        return actor_failed(a, "a started request", event.result);
    *out = event.grant;
    return 1;
}

static int await_events(struct actor *a, int ms)
{
    struct pollfd fd = {.fd = enq_fd(a->e), .events = POLLIN};

    if (fd.fd < 0)
        return actor_failed(a, "enq_fd", fd.fd);
    poll(&fd, 1, ms);
    return 0;
}

/* --- passers --- */

/* All of one process, in turn: the requests of an owner come in their order. */
struct turn {
    unsigned n, next;
};

static int ask_in_turn(struct actor *a, struct turn *t, bool *granted)
{
    uint64_t ticket;

    actor_owner(a, "passer %u %u", a->index, t->next);
    t->next = t->next + 1 < t->n ? t->next + 1 : 0;
    a->req.wait_ms = ENQ_FOREVER;
    struct enq_grant g;
    int rc = enq_start(a->e, &a->req, &g, &ticket);
    if (rc != ENQ_OK && rc != ENQ_PENDING)
        return actor_failed(a, "enq_start (to pass on)", rc);
    if (rc == ENQ_OK) {
        a->grant = g;
        *granted = true;
    }
    return 0;
}

static int pass_on(struct actor *a, struct turn *t, bool *granted)
{
    if (!atomic_load(&a->place->passing)) {
        usleep(LOOK_US);
        return 0;
    }
    a->place->passed++;
    *granted = false;
    return actor_give(a) != 0 ? -1 : ask_in_turn(a, t, granted);
}

static int pass_for_ever(struct actor *a, struct turn *t, bool granted)
{
    for (;;) {
        if (granted) {
            if (pass_on(a, t, &granted) != 0)
                return -1;
            continue;
        }
        int rc = next_grant(a, &a->grant);
        if (rc < 0 || (rc == 0 && await_events(a, 1000) != 0))
            return -1;
        granted = rc > 0;
    }
}

/* One more than wait: who has it. */
int passer_life(struct actor *a)
{
    struct place *p = a->place;
    struct turn t = {(unsigned)(p->in_queue / p->passers), 0};
    bool granted = false;

    if (actor_open(a) != 0 || hold_by_heartbeats(a, a->index) != 0)
        return -1;
    actor_name(a, "passed");
    actor_field(a, 0);
    t.n += a->index == 0;
    for (unsigned i = 0; i < t.n; i++)
        if (ask_in_turn(a, &t, &granted) != 0)
            return -1;
    p->ready++;
    return pass_for_ever(a, &t, granted);
}

/* --- waiters --- */

struct lucky {
    struct enq_grant grant[LUCKY_MAX];
    unsigned first, n;
};

static void lucky_add(struct lucky *l, const struct enq_grant *g)
{
    if (l->n < LUCKY_MAX)
        l->grant[(l->first + l->n++) % LUCKY_MAX] = *g;
}

/* The lock itself says what was asked for. */
static int ask_again(struct actor *a, struct lucky *l)
{
    struct enq_info info;
    uint64_t ticket;

    a->grant = l->grant[l->first % LUCKY_MAX];
    l->first++, l->n--;
    int rc = enq_look(a->e, a->grant.handle, &info);
    if (rc != ENQ_OK)
        return actor_failed(a, "enq_look (at what was granted)", rc);
    snprintf(a->name, sizeof(a->name), "%.31s", info.name);
    snprintf(a->field, sizeof(a->field), "%.23s", info.key);
    snprintf(a->owner, sizeof(a->owner), "%.47s", info.owner);
    if (actor_give(a) != 0)
        return -1;
    a->req.wait_ms = ENQ_FOREVER;
    rc = enq_start(a->e, &a->req, &a->grant, &ticket);
    if (rc == ENQ_OK)
        lucky_add(l, &a->grant);
    return rc == ENQ_OK || rc == ENQ_PENDING
        ? 0
        : actor_failed(a, "enq_start (to wait again)", rc);
}

static int hand_on_for_ever(struct actor *a)
{
    struct lucky l = {.n = 0};
    struct enq_grant g;
    int rc;

    for (;;) {
        while ((rc = next_grant(a, &g)) > 0)
            lucky_add(&l, &g);
        if (rc < 0)
            return -1;
        if (l.n == 0) {
            if (await_events(a, 1000) != 0)
                return -1;
            continue;
        }
        usleep(HAND_ON_MS * 1000);
        if (a->place->lively && ask_again(a, &l) != 0)
            return -1;
    }
}

/* Ten for each key that is waited for at all, each by an owner of its own. */
int waiter_life(struct actor *a)
{
    struct place *p = a->place;
    uint64_t ticket, keys = p->spread / 2;

    if (actor_open(a) != 0 || hold_by_heartbeats(a, p->passers + a->index) != 0)
        return -1;
    for (uint64_t i = a->index; i < p->in_keys; i += p->waiters) {
        spread_key(a, i / TEN % keys * 2 + 1);
        actor_owner(a, "waiter %llu", (unsigned long long)i);
        if (actor_start_wait(a, &ticket) != 0)
            return -1;
    }
    p->ready++;
    return hand_on_for_ever(a);
}

/* All wait for one owner: what a search for a cycle comes to. */
int graph_life(struct actor *a)
{
    struct place *p = a->place;
    uint64_t ticket;

    if (actor_open(a) != 0)
        return -1;
    actor_name(a, "graph");
    actor_field(a, 0);
    for (uint64_t i = 0; i < p->in_graph; i++) {
        actor_owner(a, "of graph %llu", (unsigned long long)i);
        if (actor_start_wait(a, &ticket) != 0)
            return -1;
    }
    p->ready++;
    for (;;)
        pause();
}
