/*
 * sets.c - lock sets: calls that are made to fail (see scene.h), a table that
 * is full in the middle of one, and how many locks it may have.
 *
 * A set that is not granted has taken nothing: no lock is held, and no entry
 * is lost, be it that memory, an id or the table has run out at its last lock.
 */
#include <errno.h>
#include <stdlib.h>

#include "api/attachment.h"
#include "lib/at_hand.h"
#include "limit.h"
#include "scene.h"
#include "store/walk.h"

#define MOST (ENQ_SET_MAX + 1)

struct stock {
    unsigned live, cached;
};

static bool take_one(void *stock, struct entry *e, uint64_t state)
{
    struct stock *s = stock;

    (void)e;
    s->live += state_is_live(state);
    s->cached += STATE_PHASE(state) == PHASE_CACHED;
    return true;
}

/* Entries in use, and those that are neither free nor at hand. No call of the
   system is made, as it might be one that is to fail. */
static struct stock take_stock(struct enq *e)
{
    const struct thread *t = thread_enter(e->map);
    struct stock stock = {0, 0};

    slab_each(e->map, take_one, &stock);
    stock.cached -= in_magazine(&e->session, t) + in_depot(&e->session);
    return stock;
}

/* --- the requests --- */

struct wishes {
    char name[MOST][24];
    struct enq_req req[MOST];
    const struct enq_req *reqs[MOST];
    struct enq_grant grants[MOST];
    unsigned n;
};

static void wish(struct wishes *w, const char *name, unsigned n)
{
    w->n = n;
    for (unsigned i = 0; i < n; i++) {
        snprintf(w->name[i], sizeof(w->name[i]), "%s-%u", name, i);
        w->req[i] = (struct enq_req){.size = sizeof(w->req[i]),
            .name = w->name[i],
            .mode = i % 3 == 0 ? ENQ_MODE_X : ENQ_MODE_S,
            .on_death = i % 4 == 1 ? ENQ_DEATH_KEEP : ENQ_DEATH_RELEASE};
        w->reqs[i] = &w->req[i];
    }
}

static void must_be_all_or_none(struct enq *e, const struct stock *before,
    int rc, unsigned n)
{
    struct stock now = take_stock(e);
    unsigned more = rc == ENQ_OK ? n : 0;

    must(now.live == before->live + more,
        "%u locks are there after %s, not %u more than %u", now.live,
        enq_result_name(rc), more, before->live);
    must(now.cached == before->cached, "%d entries are lost",
        (int)(now.cached - before->cached));
}

/* --- calls that fail --- */

static int lock_set(struct scene *s, unsigned n, bool heartbeats)
{
    struct stock before = take_stock(s->open[0]);
    static struct wishes w;
    char name[16];
    int rc;

    snprintf(name, sizeof(name), "new-%u", s->acts);
    wish(&w, name, n);
    for (unsigned i = 0; i < n && heartbeats; i += 2) {
        w.req[i].ttl_ms = 60000;
        w.req[i].heartbeat_ms = 20000;
    }
    w.req[n - 1].id = w.name[n - 1];
    rc = enq_lock_set(s->open[0], w.reqs, n, w.grants);
    must_be_all_or_none(s->open[0], &before, rc, n);
    s->acts += rc == ENQ_OK;
    return rc;
}

int do_lock_2(struct scene *s)
{
    return lock_set(s, 2, false);
}

int do_lock_8(struct scene *s)
{
    return lock_set(s, 8, true);
}

int do_lock_20(struct scene *s)
{
    return lock_set(s, 20, false);
}

int do_lock_20_with_heartbeats(struct scene *s)
{
    return lock_set(s, 20, true);
}

/* One of them is held by another. */
static void wish_in_vain(struct wishes *w, unsigned n)
{
    wish(w, "vain", n);
    for (unsigned i = 0; i < n; i++)
        w->req[i].wait_ms = 12;
    w->req[n / 2].name = "keep-0";
}

static int wait_in_vain(struct scene *s, unsigned n)
{
    struct stock before = take_stock(s->open[0]);
    static struct wishes w;
    int rc;

    wish_in_vain(&w, n);
    rc = enq_lock_set(s->open[0], w.reqs, n, w.grants);
    must_be_all_or_none(s->open[0], &before, rc, n);
    return rc;
}

int do_wait_for_2(struct scene *s)
{
    return wait_in_vain(s, 2);
}

int do_wait_for_20(struct scene *s)
{
    return wait_in_vain(s, 20);
}

/* Its result comes, whatever fails once it is pending. */
static int result_of(struct scene *s, uint64_t ticket)
{
    struct enq_event event;

    eventually(enq_next(s->open[0], &event) == ENQ_OK);
    must(event.ticket == ticket && event.kind == ENQ_EVENT_RESULT,
        "an event (%d) comes instead of the result", event.kind);
    return event.result;
}

static int start_in_vain(struct scene *s, unsigned n)
{
    struct stock before = take_stock(s->open[0]);
    static struct wishes w;
    uint64_t ticket;
    int rc;

    wish_in_vain(&w, n);
    rc = enq_start_set(s->open[0], w.reqs, n, w.grants, &ticket);
    if (rc == ENQ_PENDING)
        return result_of(s, ticket);
    must_be_all_or_none(s->open[0], &before, rc, n);
    return rc;
}

int do_start_2(struct scene *s)
{
    return start_in_vain(s, 2);
}

int do_start_20(struct scene *s)
{
    return start_in_vain(s, 20);
}

int do_start_20_granted(struct scene *s)
{
    struct stock before = take_stock(s->open[0]);
    static struct wishes w;
    char name[16];
    uint64_t ticket;
    int rc;

    snprintf(name, sizeof(name), "new-%u", s->acts);
    wish(&w, name, 20);
    for (unsigned i = 0; i < w.n; i++)
        w.req[i].wait_ms = 1000;
    rc = enq_start_set(s->open[0], w.reqs, w.n, w.grants, &ticket);
    must_be_all_or_none(s->open[0], &before, rc, w.n);
    s->acts += rc == ENQ_OK;
    return rc;
}

int do_unlock_set(struct scene *s)
{
    struct enq_grant two[2] = {s->mine[s->used], s->mine[s->used + 1]};
    int rc;

    if (s->used + 2 > SCENE_MINE)
        return ENQ_OK;
    rc = enq_unlock_set(s->open[0], two, 2);
    s->used += rc == ENQ_OK ? 2 : 0;
    return rc;
}

/* --- a full table --- */

#define SLOTS 84

static struct enq_grant had[SLOTS];

static void take(struct enq *e, unsigned from, unsigned n)
{
    char key[16];

    for (unsigned i = from; i < from + n; i++) {
        snprintf(key, sizeof(key), "%u", i);
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "fill", .key = {key}, .mode = ENQ_MODE_O),
                &had[i]));
    }
}

static int start_one(struct enq *e, struct wishes *w)
{
    uint64_t ticket = 1;

    for (unsigned i = 0; i < w->n; i++)
        w->req[i].wait_ms = 50;
    return enq_start_set(e, w->reqs, w->n, w->grants, &ticket);
}

/* A set for which there is room, or not quite; then the room is there. */
static void set_of(struct enq *e, unsigned n, unsigned room, bool starts)
{
    int expected = n <= room ? ENQ_OK : ENQ_EFULL;
    static struct wishes w;
    struct enq_grant more;
    struct stock before;

    want(ENQ_OK, enq_unlock_set(e, had + SLOTS - room, room));
    before = take_stock(e);
    wish(&w, "set", n);
    if (starts)
        tried(expected, start_one(e, &w));
    else
        tried(expected, enq_lock_set(e, w.reqs, n, w.grants));
    must_be_all_or_none(e, &before, expected, n);
    if (expected == ENQ_OK)
        tried(ENQ_OK, enq_unlock_set(e, w.grants, n));
    else
        must(strstr(enq_why(), "is full") != NULL, "\"%s\"", enq_why());
    take(e, SLOTS - room, room);
    tried(ENQ_EFULL, lock_x(e, "one more", &more));
}

static void full_in_the_middle(void)
{
    static const unsigned sizes[] = {2, 8, 20, ENQ_SET_MAX};
    struct enq *e = open_small(test_space(), SLOTS);

    take(e, 0, SLOTS);
    for (unsigned i = 0; i < LENGTH(sizes); i++) {
        for (unsigned room = 0; room <= sizes[i] + 1; room++)
            set_of(e, sizes[i], room, room % 2 == 1);
        count(FIGURE_LIMITS);
    }
    enq_close(e);
}

/* --- how many --- */

static void how_many(void)
{
    struct enq *e = open_at(test_space());
    static struct wishes w;
    uint64_t ticket;

    for (unsigned n = 1; n <= ENQ_SET_MAX; n++) {
        wish(&w, "n", n);
        tried(ENQ_OK, enq_lock_set(e, w.reqs, n, w.grants));
        tried(ENQ_OK, enq_unlock_set(e, w.grants, n));
    }
    count(FIGURE_LIMITS);
    wish(&w, "n", MOST);
    tried(-EINVAL, enq_lock_set(e, w.reqs, MOST, w.grants));
    tried(-EINVAL, enq_lock_set(e, w.reqs, 0, w.grants));
    tried(-EINVAL, enq_start_set(e, w.reqs, MOST, w.grants, &ticket));
    tried(-EINVAL, enq_start_set(e, w.reqs, 0, w.grants, &ticket));
    must_be_healthy(e);
    enq_close(e);
}

const struct test set_tests[] = {
    {"P12: a table that is full in the middle of a set keeps none of it",
        full_in_the_middle},
    {"P12: sets of 0, 1 to 64, and 65 locks", how_many},
    {NULL, NULL},
};
