/*
 * segment.c - the segment under the simulation: made once, and as new again
 * for each schedule. It has no name any more as soon as it is mapped.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/why.h"
#include "lib/mark.h"
#include "recovery/recover.h"
#include "segment/attach.h"
#include "segment/file.h"
#include "sim/sim.h"
#include "sync/hooks.h"
#include "wait/wait.h"

static char *pristine; /* SEG_FIXED_END bytes */

/* A death that a watcher has seen: its process's helper would reap it. */
static void report_death(struct session *s)
{
    (void)s;
    if (sim.me != NULL)
        sim.me->told = true;
}

static bool attach(void)
{
    struct map_wish wish = {.make = {.slots = 20000, .mode = 0600}};
    char address[64], path[FILE_PATH_BYTES];
    bool fresh;
    int rc;

    snprintf(address, sizeof(address), "shm:enq-%ssim-%d", test_mark(),
        (int)getpid());
    rc = file_path(address, path, &(const char *){NULL});
    process_enter(&fresh);
    if (rc == 0)
        rc = map_attach(path, &wish, &sim.map);
    process_leave();
    if (rc != 0)
        return false;
    unlink(path);
    return true;
}

static bool start_tokens(void *base, uint32_t shard, struct bucket *bucket)
{
    bucket->token = *(const uint64_t *)base;
    sim.map->shards[shard].ceiling = bucket->token;
    return true;
}

/* Nothing of this run may tell it from another. */
static void forget_the_run(struct seg_header *h)
{
    h->hash_seed = UINT64_C(0x5eed);
    h->token_base = 1000;
    for (unsigned i = 0; i < SHARDS; i++)
        map_each_bucket(sim.map, i, start_tokens, &h->token_base);
    for (unsigned i = 0; i < GATES; i++)
        sim.map->gates[i].token = h->token_base;
    sim.map->hash_seed = h->hash_seed;
    memset(&sim.map->self, 0, sizeof(sim.map->self));
}

void segment_listen(void)
{
    hooks.report_death = report_death;
}

bool segment_open(void)
{
    hooks.drop_magazines = slab_thread_ends;
    pristine = malloc(SEG_FIXED_END);
    if (pristine == NULL || !attach())
        return false;
    forget_the_run(sim.map->h);
    memcpy(pristine, sim.map->h, SEG_FIXED_END);
    hooks.recover = recover;
    sim.map->attachments = 1;
    sim.base = (uintptr_t)sim.map->h;
    return true;
}

static void restore(uint64_t from, uint64_t to)
{
    memcpy((char *)sim.map->h + from, pristine + from, to - from);
}

void segment_reset(void)
{
    struct seg_header *h = sim.map->h;
    uint32_t pages = h->pages_used + 1;

    if (pages > sim.map->pages_max)
        pages = sim.map->pages_max;
    memset(sim.map->pages, 0, pages * sizeof(*sim.map->pages));
    memset(sim.map->marks, 0, pages * sizeof(*sim.map->marks));
    memset((char *)h + sim.map->arena_at, 0, (size_t)pages * PAGE_BYTES);
    restore(SEG_THREADS,
        SEG_THREADS + h->threads_high * sizeof(struct thread_slot));
    restore(SEG_SESSIONS,
        SEG_SESSIONS + h->sessions_high * sizeof(struct session_slot));
    restore(SEG_GATES, SEG_DIRS); /* these are read up to n_segments only */
    restore(0, PAGE_BYTES);
    sim.map->users = 1;
}
