/*
 * scenarios.c - the table of what enq-bench measures. A new measurement is a
 * new line here and, if it is a new kind of work, an act in the subjects.
 */
#include "bench.h"

#include <string.h>

const struct scenario scenarios[] = {
    {.name = "pair",
        .bench = "pair",
        .keys = "hot",
        .mode = "E",
        .work = WORK_PAIR,
        .batch = 1024,
        .procs = {1},
        .what = "lock and unlock one free key: owner, default ttl, token, id"},
    {.name = "distinct",
        .bench = "pair",
        .keys = "distinct",
        .mode = "E",
        .work = WORK_PAIR,
        .batch = 1024,
        .procs = {1, 2, 16},
        .follows_procs = true,
        .what = "each process its own key, all of one object name"},
    {.name = "one",
        .bench = "fight",
        .keys = "one",
        .mode = "E",
        .work = WORK_FIGHT,
        .batch = 16,
        .procs = {1, 2, 16},
        .follows_procs = true,
        .what = "all processes fight for one key and wait for it; guarded"},
    {.name = "cumulate",
        .bench = "cumulate",
        .keys = "hot",
        .mode = "E",
        .work = WORK_CUMULATE,
        .batch = 1024,
        .procs = {1},
        .what = "the owner's E on top of its own E (floor: recursive mutex)"},
    {.name = "shared",
        .bench = "shared",
        .keys = "one",
        .mode = "S",
        .work = WORK_SHARE,
        .batch = 256,
        .procs = {2},
        .follows_procs = true,
        .what = "S locks of several processes on one key (floor: rwlock)"},
    {.name = "busy",
        .bench = "refuse",
        .keys = "hot",
        .mode = "E",
        .work = WORK_REFUSE,
        .batch = 1024,
        .procs = {1},
        .what = "refused at once, with the blocker's details (floor: trylock)"},
    {.name = "valid",
        .bench = "valid",
        .keys = "hot",
        .mode = "E",
        .work = WORK_VALID,
        .batch = 8192,
        .procs = {1},
        .what = "enq_valid() of a held lock"},
    {.name = "random",
        .bench = "pair",
        .keys = "random",
        .mode = "E",
        .work = WORK_RANDOM,
        .batch = 256,
        .procs = {1},
        .follows_held = true,
        .what = "pairs on random free keys while --held others are held"},
    {.name = "memory",
        .bench = "memory",
        .keys = "distinct",
        .mode = "E",
        .work = WORK_WEIGH,
        .procs = {1},
        .follows_held = true,
        .what = "bytes of the segment for each of --held locks"},
    {.name = NULL},
};

const struct scenario *scenario_find(const char *name)
{
    for (const struct scenario *s = scenarios; s->name != NULL; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

void scenarios_list(FILE *out)
{
    for (const struct scenario *s = scenarios; s->name != NULL; s++)
        fprintf(out, "%-10s %s\n", s->name, s->what);
}
