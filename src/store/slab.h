/*
 * slab.h - store: where entries come from.
 *
 * A SLAB is a page of entries that belongs to one session: only its threads
 * take entries from it, so that taking one touches nothing shared, and the
 * slabs of a dead session are found at once. Free entries are listed nowhere
 * in the segment: an entry is free when its state says so. Each thread keeps
 * a few in a private MAGAZINE; when that is empty it looks through the
 * session's slabs for those that others have freed, or claims a page.
 *
 * A slab stays its session's while there is room for everybody. Where there is
 * none, what is over is taken first; then whoever is in need asks all sessions
 * (slab_want), and the helper thread of each gives back what it does not use
 * (slab_shed): what lies in magazines, also of threads that are asleep or
 * elsewhere, and slabs with nothing in them. A process that is stopped keeps
 * them, as it keeps its locks.
 *
 * The page directory is TRUE; what counts its pages is DERIVED.
 */
#ifndef STORE_SLAB_H
#define STORE_SLAB_H

#include <pthread.h>
#include <urcu/list.h>

#include "base/point.h"
#include "store/entry.h"

/* One attachment as this process knows it. The shared part is its slot. */
struct session {
    struct map *map;
    struct session_slot *slot;
    session_ref_t ref;
    uint64_t serial; /* never the same in this process */
    uint64_t id_half;

    /* The helper thread watches the deadlines of the session's own locks, so
       that nobody has to read a clock who asks whether his lock is over: see
       watch.h. Private to the process; atomic. */
    int64_t passed_ns, earliest_ns;
    int64_t margin_ns; /* a look that much before a deadline may be due */
    int64_t second_ns; /* the helper's own: another look then; 0 = none */
    int64_t deaf_ns;   /* until then nobody waits for room of others */

    pthread_mutex_t mutex; /* guards what follows */
    struct cds_list_head magazines;
    uint32_t *pages; /* its slabs */
    uint32_t n_pages, room_pages;
    struct slab_search {
        uint32_t cursor;     /* next slab to look through */
        mono_t barren_until; /* looking before this found nothing */
    } small, large;
};

#define MAGAZINE_ENTRIES 64

/* PHASE_CACHED, all of one size. Those below `base` the helper thread has
   taken away; it moves that under the session's mutex only. */
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

/* What sync/thread.h calls when a thread ends. */
void slab_thread_ends(struct thread *t);

/*
 * By the thread whose it is. False: there is none, or the helper thread is just
 * taking them away. He says first what he takes, and looks then what the helper
 * has claimed; the helper the other way round, with a barrier in all threads in
 * between (shelf_strip). So one of them sees the other, and this side pays
 * nothing: the look is also the one whether there is any.
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

/* @n  as many as there are */
HOT void shelf_put(struct shelf *shelf, uint32_t n, struct entry *e)
{
    shelf->entries[n] = e;
    shm_store_release(&shelf->n, n + 1);
}

HOT void shelf_push(struct shelf *shelf, struct entry *e)
{
    shelf_put(shelf, shm_load(&shelf->n), e);
}

/* A small entry from the magazine at hand, if there is one. */
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
 * An entry with SMALL_PAYLOAD bytes for texts, PHASE_CACHED; nobody else can
 * see it. Faults, explained: ENQ_EFULL, -ENOSPC, -ENOMEM.
 * No system call while the magazine has one.
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

/* Its directory word says in whose slab an entry lies, and of what size. */
HOT bool slab_is_own(const struct session *s, const struct entry *e,
    enum page_kind kind)
{
    uint32_t page = map_page_at(s->map, e);

    return shm_load((const uint64_t *)&s->map->pages[page]) ==
        page_word(s->ref, kind);
}

/* STATE() of the next generation, in one addition. */
static inline uint64_t slab_freed_state(const struct entry *e, enum phase phase)
{
    return (shm_load(&e->state) | UINT32_MAX) + 1 + phase;
}

/*
 * Gives an entry back that is linked nowhere any more: its generation grows,
 * so that its handles are stale. The caller is of the entry's session, or not
 * (then `s` may be another or NULL): in that case the owner of the slab will
 * find it.
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

/* The same for one whose holder shall be told why: it becomes PHASE_GONE
   until its holder looks, or some time later. */
void slab_bury(struct map *map, struct entry *e, enum gone why, mono_t now);

/* Who keeps room that he does not use: it may come back if it is asked for. */
struct slab_hoard {
    uint32_t pages;
    session_ref_t of; /* one of them */
};

/* Pages that others could give back, or where an entry of this kind lies in
   another thread's magazine. Walks the table. */
struct slab_hoard slab_hoard_of(const struct map *map, session_ref_t own,
    enum page_kind kind);

/* Asks all sessions for what they do not use. They wake `given`. */
void slab_want(const struct map *map);

/* By the session's helper thread, asked so: gives it back. */
void slab_shed(struct session *s);

/* Every entry of every slab, whatever its phase. `see` false: stop.
   @state  what the entry's was. Its page may hold entries of the other size by
           the time that `see` looks, and texts where this one stood: whoever
           acts does so on this very state, by a swap or with the words held. */
typedef bool slab_see_fn(void *context, struct entry *e, uint64_t state);
void slab_each(const struct map *map, slab_see_fn *see, void *context);
/* The same for up to n pages from this one on; the next, or 0 after the last.
 */
uint32_t slab_each_from(const struct map *map, uint32_t page, uint32_t n,
    slab_see_fn *see, void *context);
/* The same for one session's slabs. */
void slab_each_of(const struct map *map, session_ref_t ref, slab_see_fn *see,
    void *context);

#endif
