/*
 * repair.h - recovery: one recovery under way. For noted.c, recover.c and
 * recover_all.c.
 */
#ifndef RECOVERY_REPAIR_H
#define RECOVERY_REPAIR_H

#include "recovery/mend.h"
#include "segment/map.h"
#include "sync/latch.h"

#define BITS(n) (((n) + 63) / 64)

/* Private: what this thread has noted. Another that takes over notes for
   itself. */
struct repair {
    struct map *map;
    struct thread *me;
    bool all;        /* doctor's orders */
    bool needed;     /* a thread died inside a latch */
    bool everywhere; /* each bucket may have the latch of a dead thread */
    bool whole;      /* all entries are looked at: see rebuild() */
    const uint32_t *wanted; /* `me` is after this latch, which is to be found */
    struct part parts[PARTS_FEW]; /* else: these */
    unsigned n_parts;
    struct roused roused;
    bool grow;                      /* of the pages: to be counted anew */
    uint64_t scanned[BITS(SHARDS)]; /* whose buckets' latches are looked at */
    uint64_t shards[BITS(SHARDS)];  /* with buckets to be made anew */
    uint64_t freed[BITS(SHARDS)];   /* whose own latch is to be freed */
    uint64_t freed_ids[BITS(ID_SHARDS)];
    uint64_t gates[BITS(GATES)];
    uint32_t raised[GATES]; /* what they shall be */
    int rc;
};

/*
 * Of nobody, and so of a dead one: a thread that wants the latch recovers, as
 * it would from a dead holder. (No thread has generation 0.) With the mark of
 * sleepers, as nobody knows here whether there are any. The latch of a bucket
 * says so while the bucket is made anew, and any latch where what it guards
 * cannot be repaired: free, half of it would pass for all; ours, others would
 * wait for us.
 */
#define NOBODY (1u | LATCH_WAITERS)

static inline bool bit(const uint64_t *set, uint32_t i)
{
    return set[i / 64] >> (i % 64) & 1;
}

static inline void set_bit(uint64_t *set, uint32_t i)
{
    enq_assert(i < 64 * BITS(SHARDS > GATES ? SHARDS : GATES));
    set[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline bool bucket_is_noted(const struct bucket *bucket)
{
    return shm_load(&bucket->latch) == NOBODY;
}

/* By a thread that is dead, now and for good. */
bool dead_holds(const struct map *map, const uint32_t *latch);

/* Finds, and notes in @r, what there is to repair. Under the recovery latch. */
void note_dead_latches(struct repair *r);

/* Free, or a dead thread's; or it names us, though we do not hold it:
   damaged. */
bool may_take(const struct map *map, const struct thread *me, uint32_t value);

/* See recover.c. Blocks for some 10 ns an entry of the table. Returns: 0.
   Faults: ENQ_ECORRUPT, nothing was freed. */
int repair(struct repair *r);

/* All sleepers are woken: of those that watched the dead holder's liveness word
   the kernel woke one. The swap releases: what was made anew is seen by
   whichever thread has the latch next (partner: latch_try()). */
void free_latch(uint32_t *latch);

/* Nobody's: what it guards cannot be repaired. */
void ruin_latch(uint32_t *latch);

#endif
