/*
 * slab.h - store: where entries come from.
 *
 * A SLAB is a page of entries that belongs to one session (slab and magazine are
 * terms of Bonwick): only its threads take entries from it, so that taking one
 * touches nothing shared, and the slabs of a dead session are found at once.
 * Free entries are listed nowhere in the segment: an entry is free when its
 * state says so. So there is no free list that a death could break.
 *
 * Each thread keeps up to 64 entries of either size in a private MAGAZINE. A
 * lock takes the last of them (slab_take), an unlock puts one there
 * (slab_give): plain loads and stores, no atomic read-modify-write. A magazine
 * that is full leaves half of it to the session's DEPOT (Bonwick), from which
 * its other threads fill theirs: so what one thread locks another may unlock.
 * When the magazine is empty, in this order:
 *
 *	depot		what threads of the session had too much of
 *	harvest		entries of own slabs that others have freed
 *	page_claim	an orphan, or a new page
 *	in need		what is remembered for holders that have not asked, then
 *			the thread's own entries of the other size
 *
 * Entries of a session may be freed by any process: by one that breaks the lock
 * or finds it over. It may not put them in its own magazine; it sets the state
 * and counts them in the owner's slot (`loose`), which tells the owner that a
 * harvest is worth it. For a session with many slabs it is where they have one
 * such entry each, on average: it must not look through all that it holds to
 * find a few.
 *
 * A slab stays its session's while there is room for everybody. Where there is
 * none, what is over is taken first. Then the thread in need asks all sessions
 * (slab_want), and the helper of each gives back what it does not use
 * (slab_shed): what lies in the depot and in magazines, also of threads that are
 * asleep or elsewhere, and slabs with nothing in them. A process that is stopped
 * keeps them, as it keeps its locks.
 *
 * The page directory is TRUE; what counts its pages is DERIVED. Magazines and
 * depots are private memory: the entries in those of a dead process are CACHED,
 * and free once its session is reaped.
 */
#ifndef STORE_SLAB_H
#define STORE_SLAB_H

#include <pthread.h>
#include <urcu/list.h>

#include "base/point.h"
#include "store/entry.h"

/* What is given back shows in these (full.h). */
struct full_signs {
    uint32_t loose, given, orphans[2];
};

/* Until then there is no room, unless the signs are others by now; 0: that is
   not known. */
struct full {
    mono_t until;
    struct full_signs signs;
};

/* Of one kind. Under the session's mutex. */
struct depot {
    struct entry **entries; /* PHASE_CACHED */
    uint32_t n, room;       /* for all that its slabs have */
    uint32_t cursor;        /* next slab to harvest */
    mono_t barren_until;    /* a harvest before this found too little */
    struct full full;
};

/* One attachment as this process knows it. The shared part is its slot. */
struct session {
    struct map *map;
    struct session_slot *slot;
    session_ref_t ref;
    uint64_t serial; /* never the same in this process */
    uint64_t id_half;

    /* The helper watches the deadlines of the session's own locks, so that no
       clock is read to find out whether one is over: see watch.h. Private to
       the process; atomic. */
    int64_t passed_ns, earliest_ns;
    int64_t margin_ns; /* a look that much before a deadline may be due */
    int64_t second_ns; /* the helper's own: another look then; 0 = none */
    int64_t deaf_ns;   /* until then no thread waits for room of others */

    pthread_mutex_t mutex; /* guards what follows */
    struct cds_list_head magazines;
    uint32_t *pages; /* its slabs */
    uint32_t n_pages, room_pages;
    struct depot small, large;
};

static inline struct depot *slab_depot(struct session *s, enum page_kind kind)
{
    return kind == PAGE_SMALL ? &s->small : &s->large;
}

#define MAGAZINE_ENTRIES 64

/*
 * Entries in PHASE_CACHED, all of one size. Its thread pushes and pops at `n`,
 * without a lock; the helper takes away from below, by moving `base` up, under
 * the session's mutex. Entries below `base` are no longer the thread's.
 */
struct shelf {
    uint32_t n, base;
    uint32_t was; /* the helper's own: base before */
    struct entry *entries[MAGAZINE_ENTRIES];
};

struct magazine {
    struct cds_list_head of_session, of_thread;
    struct session *session;
    uint64_t serial;
    struct shelf small, large;
};

void slab_session_init(struct session *s);
void slab_session_fini(struct session *s); /* its entries are gone already */

/* hooks.drop_magazines: by a thread that ends, gives all its entries back. */
void slab_thread_ends(struct thread *t);

/*
 * By the shelf's thread. False: it is empty, or the helper is taking its
 * entries away at this moment.
 *
 * This is Dekker's protocol with the whole cost on one side. The thread stores
 * `n`, which says what it takes, and then loads `base`. The helper stores
 * `base`, which says what it takes, and then loads `n` (shelf_claim,
 * shelf_strip), with membarrier(2) in between: a full barrier in every thread.
 * So at least one of them sees the other, and this side needs no fence
 * instruction, only the compiler's order. The load costs nothing extra either,
 * as it also tells whether there is any entry. A thread that was turned away
 * waits for the helper at the session's mutex (refill).
 */
HOT bool shelf_pop(struct shelf *shelf, struct entry **out)
{
    uint32_t n = shm_load(&shelf->n) - 1;

    shm_store_release(&shelf->n, n);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (unlikely((int32_t)n < (int32_t)shm_load(&shelf->base))) {
        shm_store_release(&shelf->n, n + 1);
        return false;
    }
    *out = shelf->entries[n];
    return true;
}

/* @n  how many there are; the caller has seen that there is room */
HOT void shelf_put(struct shelf *shelf, uint32_t n, struct entry *e)
{
    shelf->entries[n] = e;
    shm_store_release(&shelf->n, n + 1);
}

HOT void shelf_push(struct shelf *shelf, struct entry *e)
{
    shelf_put(shelf, shm_load(&shelf->n), e);
}

/* A small entry from the magazine that the thread used last, if that is the
   session's and has one. The serial is compared and not the session's address,
   which may be used again. */
HOT bool slab_pop(const struct session *s, const struct thread *t,
    struct entry **out)
{
    return likely(t->magazine_of == s->serial) &&
        likely(shelf_pop(&t->magazine->small, out));
}

int slab_take_slow(struct session *s, struct thread *t, enum page_kind kind,
    struct entry **out);
void slab_give_slow(struct session *s, struct thread *t, struct entry *e);

/*
 * An entry with SMALL_PAYLOAD bytes for texts, in PHASE_CACHED: the calling
 * thread's own until a transition places it. No system call while the magazine
 * has one; else under the session's mutex, and with no latch held.
 * Faults, explained: ENQ_EFULL, -ENOSPC, -ENOMEM.
 */
HOT int slab_take(struct session *s, struct thread *t, struct entry **out)
{
    return likely(slab_pop(s, t, out)) ? 0
                                       : slab_take_slow(s, t, PAGE_SMALL, out);
}

/* The same with LARGE_PAYLOAD bytes, which are enough for any request. */
static inline int slab_take_large(struct session *s, struct thread *t,
    struct entry **out)
{
    return slab_take_slow(s, t, PAGE_LARGE, out);
}

/* Does the entry lie in a slab of this session, of this kind? One load of the
   directory's word: owner and kind of one moment. */
HOT bool slab_is_own(const struct session *s, const struct entry *e,
    enum page_kind kind)
{
    uint32_t page = map_page_at(s->map, e);

    return shm_load((const uint64_t *)&s->map->pages[page]) ==
        page_word(s->ref, kind);
}

/* STATE() of the next generation, in one addition: the low half becomes all
   ones, and the carry does the rest. */
static inline uint64_t slab_freed_state(const struct entry *e, enum phase phase)
{
    return (shm_load(&e->state) | UINT32_MAX) + 1 + phase;
}

/*
 * Gives back an entry that is linked nowhere any more, under the latches that
 * guarded it: its generation grows, so that its handles are stale. In a slab of
 * `s` it goes to the thread's magazine; else (`s` is another session, or NULL)
 * it becomes FREE, and the slab's owner will find it. The store of `state` is
 * the commit of the whole unlock.
 */
HOT void slab_give(struct session *s, struct thread *t, struct entry *e)
{
    struct magazine *m = t->magazine; /* NULL: of no session */
    uint32_t n;

    if (unlikely(s == NULL || t->magazine_of != s->serial ||
            (n = shm_load(&m->small.n)) == MAGAZINE_ENTRIES ||
            !slab_is_own(s, e, PAGE_SMALL))) {
        slab_give_slow(s, t, e);
        return;
    }
    shm_store_release(&e->state, slab_freed_state(e, PHASE_CACHED));
    ENQ_POINT("unlock.freed");
    shelf_put(&m->small, n, e);
}

/* The same for an entry whose holder shall be told why: it becomes PHASE_GONE,
   and keeps its generation, until the holder looks or a minute has passed. */
void slab_reap(struct map *map, struct entry *e, enum gone why, mono_t now);

/* Asks all sessions for what they do not use: `wanted` is a futex on which
   their helpers sleep. They answer by `given`, the caller's futex. */
void slab_want(const struct map *map);

/* By the session's helper when `wanted` has changed: gives it back. */
void slab_shed(struct session *s);

#endif
