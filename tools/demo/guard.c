/*
 * guard.c - the invariants of the rush, verified from outside the library:
 * marks and counters that a lock is there to protect. A worker marks itself
 * after the grant and unmarks before the release, so two marks that exclude
 * each other mean two grants that do. Writers count without atomics: a lost
 * count is two writers.
 */
#include "demo.h"

const struct object objects[OBJECTS] = {
    [OBJECT_HOT] = {"product", "Computer", 0, 1},
    {"product", "Async", 1, 1},
    {"product", "Lamp", 2, 1},
    {"product", "Chair", 3, 1},
    {"customer", "Miller", 4, 1},
    {"customer", "Smith", 5, 1},
    {"order", "4711", 6, 1},
    {"product", "@", 0, 4},
};

/* The killed worker's mark stays; its lock does not. */
static bool condemned(struct worker *w, uint32_t mark)
{
    return atomic_load(&w->page->tallies[mark - 1].condemned);
}

static void not_held(struct worker *w, unsigned object)
{
    uint32_t mark = atomic_load(&w->page->guards[object].holder);

    if (mark != 0 && mark != w->index + 1 && !condemned(w, mark))
        broken(w->page, "%c shares %s [%s] while %c holds it exclusively",
            w->owner[0], objects[object].name, objects[object].key,
            (int)('A' + mark - 1));
}

static void token_grows(struct worker *w, unsigned object, uint64_t token)
{
    struct guard *g = &w->page->guards[object];
    uint64_t shared = atomic_load(&g->token_shared);

    if (token <= g->token || token <= shared)
        broken(w->page, "token %llu of %s [%s] after %llu and %llu",
            (unsigned long long)token, objects[object].name,
            objects[object].key, (unsigned long long)g->token,
            (unsigned long long)shared);
    g->token = token;
}

static void enter_one(struct worker *w, unsigned object)
{
    struct guard *g = &w->page->guards[object];
    uint32_t mark = atomic_exchange(&g->holder, w->index + 1);
    uint32_t readers = atomic_load(&g->readers);

    if (mark != 0 && !condemned(w, mark))
        broken(w->page, "%c and %c both hold %s [%s] exclusively", w->owner[0],
            (int)('A' + mark - 1), objects[object].name, objects[object].key);
    if (readers != 0)
        broken(w->page, "%c holds %s [%s] exclusively while %u share it",
            w->owner[0], objects[object].name, objects[object].key, readers);
}

void guard_enter(struct worker *w, unsigned object, uint64_t token)
{
    const struct object *o = &objects[object];

    token_grows(w, object, token);
    for (unsigned i = o->first; i < o->first + o->n; i++)
        enter_one(w, i);
}

void guard_write(struct worker *w, unsigned object)
{
    const struct object *o = &objects[object];

    for (unsigned i = o->first; i < o->first + o->n; i++) {
        struct guard *g = &w->page->guards[i];
        g->writes = g->writes + 1;
        w->tally->wrote[i]++;
    }
}

void guard_leave(struct worker *w, unsigned object)
{
    const struct object *o = &objects[object];

    for (unsigned i = o->first; i < o->first + o->n; i++) {
        struct guard *g = &w->page->guards[i];
        uint32_t mark = atomic_exchange(&g->holder, 0);
        if (mark != w->index + 1)
            broken(w->page, "%c leaves %s [%s] and finds another's mark",
                w->owner[0], objects[i].name, objects[i].key);
    }
}

uint64_t guard_writes(struct worker *w, unsigned object)
{
    return w->page->guards[object].writes;
}

/* Returns what guard_unshare() has to find again. */
uint64_t guard_share(struct worker *w, unsigned object, uint64_t token)
{
    struct guard *g = &w->page->guards[object];
    uint64_t highest = atomic_load(&g->token_shared);

    atomic_fetch_add(&g->readers, 1);
    not_held(w, object);
    if (token <= g->token)
        broken(w->page, "shared token %llu of %s [%s] after %llu",
            (unsigned long long)token, objects[object].name,
            objects[object].key, (unsigned long long)g->token);
    while (token > highest &&
        !atomic_compare_exchange_weak(&g->token_shared, &highest, token))
        continue;
    return g->writes;
}

void guard_unshare(struct worker *w, unsigned object, uint64_t seen)
{
    struct guard *g = &w->page->guards[object];

    not_held(w, object);
    if (g->writes != seen)
        broken(w->page, "%s [%s] changed under a shared lock",
            objects[object].name, objects[object].key);
    atomic_fetch_sub(&g->readers, 1);
}
