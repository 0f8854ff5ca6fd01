/*
 * traffic.c - processes that use a place all the time: pairs, fights, '@'
 * requests, lists, deadlocks, ids; one kind is killed over and over.
 */
#include "mixed/mixed.h"

#include <string.h>
#include <unistd.h>

enum {
    PAUSE_US = 2000,
    FIGHT_KEYS = 3,
    LIVES_MS = 100, /* of a mortal, at most */
};

static int some_pairs(struct actor *a)
{
    actor_name(a, "plain %u", (unsigned)actor_random(a, a->place->names));
    snprintf(a->field, sizeof(a->field), "own %d", (int)getpid());
    a->req.mode = ENQ_MODE_X;
    return actor_pairs(a, 10);
}

/* Of a name that has an '@', held or waiting: S does not conflict with it. */
static int pairs_beside_any(struct actor *a)
{
    actor_name(a, "name %u", (unsigned)actor_random(a, a->place->names));
    snprintf(a->field, sizeof(a->field), "own %d", (int)getpid());
    a->req.mode = ENQ_MODE_S;
    return actor_pairs(a, 3);
}

static int fight(struct actor *a)
{
    actor_name(a, "fight");
    actor_field(a, actor_random(a, FIGHT_KEYS));
    a->req.mode = ENQ_MODE_E;
    a->req.wait_ms = ENQ_FOREVER;
    int rc = actor_take(a);
    a->req.wait_ms = 0;
    if (rc != 0)
        return -1;
    usleep(200);
    return actor_give(a);
}

static int ask_any(struct actor *a)
{
    actor_name(a, "name %u",
        (unsigned)(actor_random(a, (a->place->names + 1) / 2) * 2 + 1));
    snprintf(a->field, sizeof(a->field), "@");
    a->req.mode = ENQ_MODE_S;
    return a->place->names < 2 ? 0 : actor_pairs(a, 1);
}

static int list_one(struct actor *a)
{
    size_t total = 0;
    struct enq_info info;

    int rc = enq_list(a->e, "single", NULL, &info, 1, &total);
    return rc == ENQ_OK ? 0 : actor_failed(a, "enq_list", rc);
}

static int with_id(struct actor *a)
{
    enq_handle found;

    actor_name(a, "plain 0");
    snprintf(a->id, sizeof(a->id), "of %d", (int)getpid());
    a->req.id = a->id;
    a->req.mode = ENQ_MODE_X;
    snprintf(a->field, sizeof(a->field), "id %d", (int)getpid());
    int rc = actor_take(a);
    a->req.id = NULL;
    if (rc != 0)
        return -1;
    rc = enq_find(a->e, a->id, &found);
    return rc == ENQ_OK ? actor_give(a) : actor_failed(a, "enq_find", rc);
}

static int close_a_cycle(struct actor *a)
{
    return cycle_close(a, NULL);
}

static int work(struct actor *a)
{
    static int (*const all[])(struct actor *) = {some_pairs, pairs_beside_any,
        fight, with_id, some_pairs, close_a_cycle, list_one, ask_any};
    uint64_t which = actor_random(a, 100);

    a->place->works++;
    /* those that look at all of the table are the seldom ones */
    return all[which < 90 ? which % 6 : which < 95 ? 6 : 7](a);
}

static int work_for_ever(struct actor *a)
{
    for (;;) {
        if (a->place->lively && work(a) != 0)
            return -1;
        usleep(a->place->lively ? PAUSE_US : LOOK_US);
    }
}

int traffic_life(struct actor *a)
{
    return actor_open(a) != 0 ? -1 : work_for_ever(a);
}

/* Its lock is another's as soon as it is dead. */
static int mortal_life(struct actor *a)
{
    if (actor_open(a) != 0)
        return -1;
    for (;;)
        if (work(a) != 0)
            return -1;
}

/* Never attached itself: so each of those that it kills is a fresh one. */
int reaper_life(struct actor *a)
{
    for (;;) {
        if (!a->place->lively) {
            usleep(LOOK_US);
            continue;
        }
        pid_t pid = actor_start(a->place, a->index, mortal_life);
        if (pid < 0)
            return -1;
        usleep((useconds_t)(1000 * (1 + actor_random(a, LIVES_MS))));
        kill(pid, SIGKILL);
        a->place->killed++;
        usleep(100000);
    }
}
