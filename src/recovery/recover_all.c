/*
 * recover_all.c - recovery: doctor --fix: all latches are taken, in order, and
 * all that is derived is made anew.
 */
#include "recovery/recover.h"

#include "recovery/repair.h"

#define LATCHES_ALL (GATES + SHARDS + 1)

/* In the order of their ranks; the buckets' come between shards and grow. The
   ids' are not among them: every recovery takes those. */
static uint32_t *latch_at(struct map *map, uint32_t i)
{
    enq_assert(i < LATCHES_ALL);
    if (i < GATES)
        return &map->gates[i].latch;
    return i < GATES + SHARDS ? &map->shards[i - GATES].latch
                              : &map->h->grow_latch;
}

typedef int latch_fn(struct thread *me, uint32_t *latch);

/* No rank is checked: there are more of them than a thread may hold. */
static int take(struct thread *me, uint32_t *latch)
{
    uint32_t free = 0;

    return shm_cas(latch, &free, me->ref) ? 0 : latch_acquire_slow(me, latch);
}

/* A dead thread's is taken over as it is, as all buckets are made anew: recover()
   would not find those of a page that no directory names. */
static int take_bucket(struct thread *me, uint32_t *latch)
{
    uint32_t value = shm_load(latch);

    return may_take(me->map, me, value) && shm_cas(latch, &value, me->ref)
        ? 0
        : take(me, latch);
}

static int free_own(struct thread *me, uint32_t *latch)
{
    if (latch_owner(shm_load(latch)) == me->ref)
        free_latch(latch);
    return 0;
}

static int ruin(struct thread *me, uint32_t *latch)
{
    (void)me;
    ruin_latch(latch);
    return 0;
}

static int each_of(struct thread *me, struct bucket *bucket, uint32_t n,
    latch_fn *act)
{
    int rc = 0;

    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = act(me, &bucket[i].latch);
    return rc;
}

/* By ascending address: the first segments, then the pages. With all shards'
   latches held no bucket comes into use. Those of a page that is not installed,
   or of an id shard, are nobody's, and do no harm. */
static int each_bucket_latch(struct map *map, struct thread *me, latch_fn *act)
{
    int rc = each_of(me, map->buckets, SHARDS * BUCKETS_FIRST, act);

    for (uint32_t i = 0; i < map_pages_used(map) && rc == 0; i++)
        if (map_page_info(map, i).kind == PAGE_BUCKETS)
            rc = each_of(me,
                map_at(map, map->arena_at + (uint64_t)i * PAGE_BYTES),
                BUCKETS_PER_SEGMENT, act);
    return rc;
}

/* As all threads acquire latches in the order of ranks, none that we wait for
   waits for us. A dead holder's is recovered by latch_acquire_slow(). */
static int take_all_latches(struct map *map, struct thread *me, uint32_t *taken)
{
    enq_assert(me->n_held == 0);
    for (*taken = 0; *taken < LATCHES_ALL; ++*taken) {
        int rc = 0;

        if (*taken == GATES + SHARDS)
            rc = each_bucket_latch(map, me, take_bucket);
        if (rc == 0)
            rc = take(me, latch_at(map, *taken));
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* For damage that no dead thread explains. All threads that want a latch wait
   as long as it takes. If even this fails, no part may pass for whole: all
   latches are ruined. */
int recover_all(struct map *map, struct thread *me)
{
    struct repair r = {.map = map, .me = me, .all = true, .everywhere = true};
    uint32_t taken;
    int rc;

    thread_note_inside(me, INSIDE_MANY);
    rc = take_all_latches(map, me, &taken);

    if (rc == 0)
        rc = repair(&r);
    each_bucket_latch(map, me, r.rc == 0 ? free_own : ruin);
    while (taken-- > 0) {
        if (r.rc == 0)
            free_latch(latch_at(map, taken));
        else
            ruin_latch(latch_at(map, taken));
    }
    return rc;
}
