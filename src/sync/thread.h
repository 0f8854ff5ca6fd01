/*
 * thread.h - sync: this thread, as the segment knows it.
 *
 * A thread that takes latches has a thread slot (lmgr's PGPROC): the slot's
 * reference stands in the latches that the thread holds, and its liveness mutex
 * says whether the thread lives. It is claimed at the thread's first call, and
 * given back when the thread ends (a pthread key's destructor).
 *
 * A reference is slot number and generation. What it stands for never changes:
 * a slot that is claimed again has another one, so that a latch or an entry
 * which names a thread of the past is not taken for the slot's present one.
 *
 * A struct thread is the private side of it, one for each map that the thread
 * uses. Only its own thread touches it, but for the links that say so.
 */
#ifndef SYNC_THREAD_H
#define SYNC_THREAD_H

#include <urcu/list.h>

#include "segment/map.h"

/* Latches are acquired in this order, several of one rank by ascending address.
   Debug builds check it. See sync/README.md for what each guards. */
enum rank {
    RANK_GATE = 1,
    RANK_SHARD,    /* of keys: how many buckets it has */
    RANK_BUCKET,   /* of keys */
    RANK_ID,       /* shards of ids: leaves under a bucket */
    RANK_GROW,     /* leaf; system calls are made under it */
    RANK_RECOVERY, /* the leaf of leaves: under anything */
};

#define HELD_MAX 72 /* a lock set holds a latch for each of its members */
#define WAKES_MAX 128

struct magazine;

struct thread {
    struct map *map;
    struct thread_slot *slot;
    thread_ref_t ref;
    uint64_t life; /* base/process.h */

    /* Entries whose waiters or sessions are to hear of a change, once the
       latches have been released (scope_send_wakes). */
    unsigned n_wakes;
    struct entry *wakes[WAKES_MAX];

    const uint32_t *wanted; /* the latch of a dead thread that it is after */

    /* The magazine last used, and those of all sessions (store/slab.h). */
    uint64_t magazine_of;
    struct magazine *magazine;
    struct cds_list_head magazines;

    /* It has just granted a lock that runs out before the next waiter's tick:
       the other waiters are to look when that is (grant_scan.c). */
    bool brief;

    uint32_t changes; /* grants to others, and drops, as it looked (set.c) */

    int64_t last_grant_ns;  /* orders this thread's grants within a tick */
    int spin_credit;        /* has spinning paid lately? (wait/waiter.c) */
    unsigned spins_vain;    /* the same, of latches: how often not (latch.c) */
    int64_t latch_slept_ns; /* for the last latch that it slept for */

    /* for enq_assert, in debug builds only: see latch_rank_push() */
    unsigned n_held;
    const uint32_t *held[HELD_MAX];
    uint8_t held_rank[HELD_MAX];

    /* What may not wait until a search for cycles has come to its end, which may
       read a hundred sites of milliseconds each: called between two of them,
       with no latch held; or NULL. */
    void (*breathe)(void);

    struct thread *next;         /* this thread in other maps */
    struct cds_list_head of_map; /* map->kept, under process_enter() */
};

extern __thread struct thread *thread_last; /* the one used last */

struct thread *thread_enter_slow(struct map *map);

/* Why this thread could not be registered: -EAGAIN, -ENOMEM, -EPERM ... */
extern __thread int thread_refusal;

/* This thread in `map`; NULL when it could not be registered (explained; the
   result is thread_refusal). */
static inline struct thread *thread_enter(struct map *map)
{
    struct thread *t = thread_last;

    if (likely(t != NULL && t->map == map))
        return t;
    return thread_enter_slow(map);
}

/* Sets the keeper of this process in `map`: the helper's slot from now on, or
   0. Noted for all threads of this process, also those that registered before
   the helper. */
void thread_kept_by(struct map *map, thread_ref_t keeper);

/* Gives back the calling thread's slot in `map`, if it has one. */
void thread_leave(struct map *map);

/* The same for every map that has no attachment left: a thread that lives on
   must not keep segments mapped that nobody uses. */
void thread_leave_idle(void);

/* For recovery, should the thread die: before a latch is acquired, and before
   an entry that is live is taken out of its ring, or changed otherwise. The stores are in the thread's
   own slot, and stay there: what is out of date is found to be (recovery/mend.h). */
static inline void thread_note_inside(struct thread *t, uint64_t where)
{
    shm_store(&t->slot->inside, where);
}

/* Several, of these shards, a bit each; or of any, NULL. */
static inline void thread_note_shards(struct thread *t, const uint64_t *shards)
{
    for (unsigned i = 0; i < SHARDS / 64; i++)
        shm_store(&t->slot->shards[i], shards == NULL ? UINT64_MAX : shards[i]);
    thread_note_inside(t, INSIDE_SEVERAL);
}

/* One of them: of whose buckets one is latched, and others before. */
static inline void thread_note_shard(struct thread *t, unsigned shard)
{
    uint64_t shards[SHARDS / 64] = {0};

    shards[shard / 64] = UINT64_C(1) << shard % 64;
    thread_note_shards(t, shards);
}

/* The shard's bucket `to` is about to be filled, from the one that it splits.
   Under the shard's latch. Release: it is empty before a note leads there. */
static inline void thread_note_split(struct thread *t, uint32_t shard,
    uint32_t to)
{
    shm_store_release(&t->slot->splits, to);
    shm_store_release(&t->slot->inside, INSIDE_SPLIT(shard));
}

static inline void thread_note_in_hand(struct thread *t, ref_t entry)
{
    shm_store(&t->slot->in_hand, entry);
}

/* Somebody has to be told what has changed with this entry, as soon as no latch
   is held: should the thread die before, recovery tells of it. */
static inline void thread_note_telling(struct thread *t, ref_t entry)
{
    ref_t *telling = t->slot->telling;
    unsigned i = 0;

    while (i < TELLING_FEW - 1 && shm_load(&telling[i]) != 0)
        i++;
    shm_store(&telling[i], shm_load(&telling[i]) == 0 ? entry : TELLING_MANY);
}

static inline void thread_note_told(struct thread *t)
{
    for (unsigned i = 0; i < TELLING_FEW; i++)
        shm_store(&t->slot->telling[i], 0);
}

/* The thread's own counter, in its own slot: a load and a store, no atomic
   addition. Readers add up all slots and header.retired, without order. */
static inline void thread_count(struct thread *t, enum counter what)
{
    uint64_t *count = &t->slot->counts[what];

    shm_store(count, shm_load(count) + 1);
}

#endif
