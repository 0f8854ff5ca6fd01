/*
 * thread.h - sync: this thread, as the segment knows it.
 *
 * A thread that takes lock words has a thread slot: its number stands in the
 * words it holds, and its life mutex says whether it lives. Registered at its
 * first call, given back when it ends (a pthread key's destructor).
 */
#ifndef SYNC_THREAD_H
#define SYNC_THREAD_H

#include <urcu/list.h>

#include "segment/map.h"

/* In this order lock words are taken, several of one rank by ascending
   address. Checked in debug builds. */
enum rank {
    RANK_GATE = 1,
    RANK_SHARD,    /* of keys */
    RANK_ID,       /* shards of ids: leaves under a shard */
    RANK_GROW,     /* leaf; system calls are made under it */
    RANK_RECOVERY, /* the leaf of leaves: under anything */
};

#define HELD_MAX 72 /* a lock set holds a word for each of its members */
#define WAKES_MAX 128

struct magazine;

struct thread {
    struct map *map;
    struct thread_slot *slot;
    thread_ref_t ref;
    uint64_t life; /* base/process.h */

    /* Who is to be woken once the lock words are let go. */
    unsigned n_wakes;
    struct entry *wakes[WAKES_MAX];

    /* The magazine last used, and those of all sessions (store/slab.h). */
    uint64_t magazine_of;
    struct magazine *magazine;
    struct cds_list_head magazines;

    /* It has just granted a lock that runs out before the next waiter's tick:
       who waits still shall look when (serve.c). */
    bool brief;

    uint32_t changes; /* grants to others, and drops, as it looked (set.c) */

    int64_t last_grant_ns; /* orders this thread's grants within a tick */
    int spin_credit;       /* has spinning paid lately? (wait/wait.c) */

    unsigned n_held;
    const uint32_t *held[HELD_MAX];
    uint8_t held_rank[HELD_MAX];

    struct thread *next; /* this thread in other maps */
    struct cds_list_head of_map;
};

extern __thread struct thread *thread_last;

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

/* The helper thread that has a slot in `map` from now on, or 0: noted for all
   threads of this process, also those that have been there before it. */
void thread_kept_by(struct map *map, thread_ref_t keeper);

/* Gives back the calling thread's slot in `map`, if it has one. */
void thread_leave(struct map *map);

/* The same for every map without an attachment: a thread that lives on must
   not keep segments mapped that nobody uses. */
void thread_leave_idle(void);

/* What to do with the magazines of a thread that ends (store/slab.c's). */
extern void (*thread_drop_magazines)(struct thread *t);

static inline void thread_count(struct thread *t, enum counter what)
{
    uint64_t *count = &t->slot->counts[what];

    shm_store(count, shm_load(count) + 1);
}

#endif
