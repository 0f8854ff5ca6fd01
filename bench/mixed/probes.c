/*
 * probes.c - what one process finds out alone: pairs, ids, '@', lists, the
 * first lock of a process, a full table.
 */
#include "mixed/mixed.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAIRS = 2000, BATCHES = 9 };

/* Of one pair, ns: the median of some batches. */
static int time_pairs(struct actor *a, unsigned n, double *ns)
{
    double each[BATCHES];

    for (unsigned b = 0; b < BATCHES; b++) {
        uint64_t begin = busy_ns();
        if (actor_pairs(a, n) != 0)
            return -1;
        each[b] = (double)(busy_ns() - begin) / n;
    }
    *ns = median(each, BATCHES);
    return 0;
}

/* A key that nobody else has, of this name. */
static void own_key(struct actor *a, const char *name, enum enq_mode mode)
{
    actor_name(a, "%s", name);
    snprintf(a->field, sizeof(a->field), "probe %u", a->index);
    a->req.mode = mode;
}

int probe_pair(struct actor *a)
{
    own_key(a, "plain 0", ENQ_MODE_X);
    return actor_open(a) != 0 ? -1 : time_pairs(a, PAIRS, a->place->value);
}

/* As a multiple of one without. */
int probe_id(struct actor *a)
{
    double with, without;

    own_key(a, "plain 0", ENQ_MODE_X);
    if (actor_open(a) != 0 || time_pairs(a, PAIRS, &without) != 0)
        return -1;
    snprintf(a->id, sizeof(a->id), "probe");
    a->req.id = a->id;
    if (time_pairs(a, PAIRS, &with) != 0)
        return -1;
    a->place->value[0] = with / without;
    return 0;
}

/* A pair of S of a name for all of which somebody waits, as a multiple. */
int probe_beside(struct actor *a)
{
    double beside, free;

    own_key(a, "plain 0", ENQ_MODE_S);
    if (actor_open(a) != 0 || time_pairs(a, PAIRS, &free) != 0)
        return -1;
    own_key(a, "name 0", ENQ_MODE_S);
    if (time_pairs(a, PAIRS, &beside) != 0)
        return -1;
    a->place->value[0] = beside / free;
    return 0;
}

/* Of a name that has nothing, and what one that has much takes more. */
int probe_wide(struct actor *a)
{
    double others, own;

    own_key(a, "nothing", ENQ_MODE_S);
    snprintf(a->field, sizeof(a->field), "@");
    if (actor_open(a) != 0 || time_pairs(a, 1, &others) != 0)
        return -1;
    actor_name(a, "wide");
    if (time_pairs(a, 1, &own) != 0)
        return -1;
    a->place->value[0] = others;
    a->place->value[1] = own > others ? own - others : 0;
    return 0;
}

/* --- what others do meanwhile --- */

/* That of a moment in which we were not on a processor is not the table's. */
static int pairs_until_stopped(struct actor *a, const char *const names[2])
{
    struct place *p = a->place;
    uint64_t delay = run_delay_ns();

    while (!atomic_load(&p->stop)) {
        own_key(a, names[p->turns++ % 2], ENQ_MODE_S);
        uint64_t begin = now_ns();
        if (actor_pairs(a, 1) != 0)
            return -1;
        uint64_t ns = now_ns() - begin, before = delay;
        if (ns <= p->longest_ns)
            continue;
        delay = run_delay_ns();
        ns -= ns < delay - before ? ns : delay - before;
        if (ns > p->longest_ns)
            p->longest_ns = ns;
    }
    return 0;
}

int beside_wide(struct actor *a)
{
    static const char *const names[] = {"wide", "plain 0"};

    return actor_open(a) != 0 ? -1 : pairs_until_stopped(a, names);
}

int beside_list(struct actor *a)
{
    static const char *const names[] = {"single", "single"};

    return actor_open(a) != 0 ? -1 : pairs_until_stopped(a, names);
}

/* @look some times, while another process makes pairs. */
static int stand_by(struct actor *a, actor_life *beside,
    int (*look)(struct actor *))
{
    enum { LOOKS = 5 };
    struct place *p = a->place;
    int rc = 0;

    p->stop = 0;
    p->longest_ns = 0;
    p->turns = 0;
    pid_t pid = actor_start(p, a->index + 1, beside);
    if (pid < 0 || actor_open(a) != 0)
        return -1;
    while (p->turns < 1000 && !p->failed)
        usleep(100);
    p->longest_ns = 0;
    for (unsigned i = 0; i < LOOKS && rc == 0; i++)
        rc = look(a);
    p->stop = 1;
    if (actor_end(a->place, pid) != 0)
        rc = -1;
    p->value[0] = (double)p->longest_ns;
    return rc;
}

static int ask_for_any_twice(struct actor *a)
{
    a->req.mode = ENQ_MODE_S;
    snprintf(a->field, sizeof(a->field), "@");
    actor_name(a, "wide");
    if (actor_pairs(a, 1) != 0)
        return -1;
    actor_name(a, "nothing");
    return actor_pairs(a, 1);
}

int probe_wide_stands(struct actor *a)
{
    return stand_by(a, beside_wide, ask_for_any_twice);
}

static int list_single(struct actor *a)
{
    struct enq_info info;
    size_t total = 0;
    uint64_t begin = busy_ns();
    int rc = enq_list(a->e, "single", NULL, &info, 1, &total);

    a->place->value[1] = (double)(busy_ns() - begin);
    return rc == ENQ_OK && total > 0 ? 0 : actor_failed(a, "enq_list", rc);
}

int probe_list(struct actor *a)
{
    return stand_by(a, beside_list, list_single);
}

/* --- the first lock of a process --- */

static int first_of_all(struct actor *a)
{
    own_key(a, "plain 0", ENQ_MODE_X);
    uint64_t begin = busy_ns();
    if (actor_open(a) != 0)
        return -1;
    uint64_t opened = busy_ns();
    if (actor_take(a) != 0)
        return -1;
    a->place->value[0] = (double)(busy_ns() - opened);
    a->place->value[1] = (double)(opened - begin);
    return 0;
}

int probe_first(struct actor *a)
{
    enum { PROCESSES = 9 };
    double lock[PROCESSES], open[PROCESSES];

    for (unsigned i = 0; i < PROCESSES; i++) {
        pid_t pid = actor_start(a->place, a->index + i, first_of_all);
        if (pid < 0 || actor_end(a->place, pid) != 0)
            return -1;
        lock[i] = a->place->value[0];
        open[i] = a->place->value[1];
    }
    a->place->value[0] = median(lock, PROCESSES);
    a->place->value[1] = median(open, PROCESSES);
    return 0;
}

/* --- a full table --- */

int probe_full(struct actor *a)
{
    enum { REFUSALS = 1000 };
    double ns[REFUSALS];
    struct enq_grant g;
    uint64_t i = 0;
    int rc = actor_open(a);

    own_key(a, "more", ENQ_MODE_X);
    while (rc == ENQ_OK) {
        actor_field(a, i++);
        rc = enq_lock(a->e, &a->req, &g);
    }
    /* what the last dead have left may come back meanwhile */
    for (unsigned k = 0; k < REFUSALS && (rc == ENQ_EFULL || rc == ENQ_OK);) {
        actor_field(a, i++);
        uint64_t begin = busy_ns();
        rc = enq_lock(a->e, &a->req, &g);
        if (rc == ENQ_EFULL)
            ns[k++] = (double)(busy_ns() - begin);
    }
    if (rc != ENQ_EFULL)
        return actor_failed(a, "enq_lock (until the table is full)", rc);
    a->place->value[0] = median(ns, REFUSALS);
    a->place->value[1] = greatest(ns, REFUSALS);
    return 0;
}
