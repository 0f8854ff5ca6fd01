/*
 * worker.c - one process of the rush: until told to stop it picks an object
 * and a deed by chance, does it at full speed, and checks every answer.
 */
#include "demo.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_MS = 5000 }; /* nobody has to wait that long */

static uint64_t chance(struct worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random >> 16;
}

/* Some hundred nanoseconds of editing. */
static void edit(struct worker *w)
{
    static volatile uint32_t text[64];

    for (unsigned i = 0; i < 64; i++)
        text[i] = text[i] + (uint32_t)w->index;
}

static void note_grant(struct worker *w, unsigned object, uint64_t ns)
{
    struct tally *t = w->tally;
    bool hot = objects[object].first == OBJECT_HOT;
    uint64_t nobody = 0;

    t->sample_ns[t->n_samples++ % SAMPLES] =
        ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
    if (ns > t->longest_ns)
        t->longest_ns = ns;
    if (!hot || atomic_load(&w->page->kill_ns) == 0)
        return;
    if (atomic_compare_exchange_strong(&w->page->heir_ns, &nobody, now_ns()))
        atomic_store(&w->page->heir, w->index);
}

static void note_refusal(struct worker *w, int rc)
{
    if (rc == ENQ_BUSY && w->req.wait_ms == 0)
        w->tally->refused++;
    else
        broken(w->page, "%c asks for %s [%s]: %s, %s", w->owner[0], w->req.name,
            w->req.key[0], enq_result_name(rc), enq_why());
    if (rc > 0 && w->grant.blocker.owner[0] == 0)
        broken(w->page, "%c is refused, and nobody is named", w->owner[0]);
}

static bool take(struct worker *w, unsigned object, enum enq_mode mode)
{
    w->req.name = objects[object].name;
    w->req.key[0] = objects[object].key;
    w->req.mode = mode;
    w->req.wait_ms = chance(w) % 4 == 0 ? 0 : PATIENCE_MS;
    atomic_store(&w->tally->waits_for, w->req.wait_ms > 0 ? object + 1 : 0);
    uint64_t begin = now_ns();
    int rc = enq_lock(w->e, &w->req, &w->grant);
    uint64_t took = now_ns() - begin;
    atomic_store(&w->tally->waits_for, 0);
    if (rc != ENQ_OK) {
        note_refusal(w, rc);
        return false;
    }
    note_grant(w, object, took);
    w->tally->grants[mode]++;
    w->tally->generic += objects[object].n > 1;
    return true;
}

static void give(struct worker *w, const struct enq_grant *g)
{
    int rc = enq_unlock(w->e, g->handle, g->token);

    if (rc != ENQ_OK)
        broken(w->page, "%c unlocks what it holds: %s", w->owner[0],
            enq_result_name(rc));
}

static void display(struct worker *w, unsigned object)
{
    if (!take(w, object, ENQ_MODE_S))
        return;
    uint64_t seen = guard_share(w, object, w->grant.token);
    edit(w);
    guard_unshare(w, object, seen);
    give(w, &w->grant);
}

static void change(struct worker *w, unsigned object, enum enq_mode mode)
{
    if (!take(w, object, mode))
        return;
    guard_enter(w, object, w->grant.token);
    edit(w);
    guard_write(w, object);
    guard_leave(w, object);
    give(w, &w->grant);
}

/* The owner's E on top of its own: granted at once, with a newer token, and
   the first one still excludes when the second is gone. */
static void change_twice(struct worker *w, unsigned object)
{
    if (!take(w, object, ENQ_MODE_E))
        return;
    struct enq_grant first = w->grant;
    guard_enter(w, object, first.token);
    if (take(w, object, ENQ_MODE_E)) {
        if (w->grant.token <= first.token)
            broken(w->page, "the second token is not the newer one");
        w->page->guards[object].token = w->grant.token;
        w->tally->cumulated++;
        give(w, &w->grant);
    } else {
        broken(w->page, "%c's own E refuses its E", w->owner[0]);
    }
    edit(w);
    guard_write(w, object);
    guard_leave(w, object);
    give(w, &first);
}

static void promoted(struct worker *w, unsigned object, uint64_t seen)
{
    guard_enter(w, object, w->grant.token);
    if (guard_writes(w, object) != seen)
        broken(w->page, "%c promotes over a change that it has not seen",
            w->owner[0]);
    guard_write(w, object);
    guard_leave(w, object);
    w->tally->promoted++;
    give(w, &w->grant);
}

/* Reads only: either nothing changed, or the lock is known to be lost. */
static void read_only(struct worker *w, unsigned object, uint64_t seen)
{
    uint64_t now = guard_writes(w, object);
    int rc = enq_valid(w->e, w->grant.handle);

    if (rc == ENQ_OK && now != seen)
        broken(w->page, "%s [%s] changed under a valid optimistic lock",
            objects[object].name, objects[object].key);
    rc = enq_unlock(w->e, w->grant.handle, w->grant.token);
    w->tally->lost += rc == ENQ_LOST;
    if (rc != ENQ_OK && rc != ENQ_LOST)
        broken(w->page, "%c unlocks its O: %s", w->owner[0],
            enq_result_name(rc));
}

static void optimistic(struct worker *w, unsigned object)
{
    if (!take(w, object, ENQ_MODE_O))
        return;
    uint64_t seen = guard_writes(w, object);
    struct enq_grant o = w->grant;
    edit(w);
    if (chance(w) % 2 == 0) {
        read_only(w, object, seen);
        return;
    }
    int rc = enq_promote(w->e, o.handle, o.token, &w->grant);
    if (rc == ENQ_OK) {
        promoted(w, object, seen);
        return;
    }
    w->tally->lost += rc == ENQ_LOST;
    if (rc != ENQ_LOST)
        broken(w->page, "%c promotes its O: %s, %s", w->owner[0],
            enq_result_name(rc), enq_why());
    else if (w->grant.blocker.owner[0] == 0)
        broken(w->page, "%c lost, and nobody is named", w->owner[0]);
}

static void deed(struct worker *w)
{
    unsigned object =
        chance(w) % 2 == 0 ? OBJECT_HOT : (unsigned)(chance(w) % (OBJECTS - 1));
    unsigned which = (unsigned)(chance(w) % 100);

    if (which < 35)
        display(w, object);
    else if (which < 65)
        change(w, object, ENQ_MODE_E);
    else if (which < 75)
        change(w, object, ENQ_MODE_X);
    else if (which < 83)
        change_twice(w, object);
    else if (which < 98)
        optimistic(w, object);
    else
        change(w, OBJECTS - 1, ENQ_MODE_E);
}

/* Holds the hot object until it is killed. */
static void pose(struct worker *w)
{
    while (!take(w, OBJECT_HOT, ENQ_MODE_E))
        continue;
    guard_enter(w, OBJECT_HOT, w->grant.token);
    atomic_store(&w->tally->posed, true);
    for (;;)
        pause();
}

_Noreturn void worker_run(struct page *p, unsigned index, uint64_t seed)
{
    struct worker w = {
        .page = p,
        .tally = &p->tallies[index],
        .index = index,
        .random = (seed + index + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1,
        .owner = {(char)('A' + index), 0},
    };

    int rc = enq_open(&w.e, stage_space(), NULL);
    if (rc != ENQ_OK) {
        broken(p, "%s: enq_open: %s, %s", w.owner, enq_result_name(rc),
            enq_why());
        _exit(EXIT_BROKEN);
    }
    w.req.size = sizeof(w.req);
    w.req.owner = w.owner;
    while (atomic_load_explicit(&p->stop, memory_order_relaxed) == 0) {
        if (atomic_load_explicit(&w.tally->pose, memory_order_relaxed))
            pose(&w);
        deed(&w);
    }
    enq_close(w.e);
    _exit(0);
}
