/*
 * slab.h - floor 4: where entries come from.
 *
 * A SLAB is a page of entries that belongs to one session: only its threads
 * take entries from it, so that taking one touches nothing shared, and the
 * slabs of a dead session are found at once. Free entries are listed nowhere
 * in the segment: an entry is free when its state says so. Each thread keeps
 * a few in a private MAGAZINE; when that is empty it looks through the
 * session's slabs for those that others have freed, or claims a page.
 *
 * The page directory is TRUE; what counts its pages is DERIVED.
 */
#ifndef TABLE_SLAB_H
#define TABLE_SLAB_H

#include <pthread.h>
#include <urcu/list.h>

#include "base/point.h"
#include "table/entry.h"

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

/* PHASE_CACHED, all of one size. */
struct shelf {
    unsigned n;
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

/* thread_drop_magazines of floor 3. */
void slab_thread_ends(struct thread *t);

/* Is there an entry in the magazine at hand? */
static inline bool slab_is_ready(const struct session *s,
    const struct thread *t)
{
    return t->magazine_of == s->serial && t->magazine->small.n > 0;
}

static inline struct entry *slab_pop(struct thread *t)
{
    struct shelf *shelf = &t->magazine->small;

    return shelf->entries[--shelf->n];
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
    if (unlikely(!slab_is_ready(s, t)))
        return slab_take_slow(s, t, PAGE_SMALL, out);
    *out = slab_pop(t);
    return 0;
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
    uint32_t page = map_page_of(s->map, map_ref(s->map, e));

    return shm_load((const uint64_t *)&s->map->pages[page]) ==
        page_word(s->ref, kind);
}

static inline uint64_t slab_freed_state(const struct entry *e, enum phase phase)
{
    return STATE(STATE_GENERATION(shm_load(&e->state)) + 1, phase, 0, 0);
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

    if (unlikely(s == NULL || t->magazine_of != s->serial ||
            m->small.n == MAGAZINE_ENTRIES || !slab_is_own(s, e, PAGE_SMALL))) {
        slab_give_slow(s, t, e);
        return;
    }
    shm_store_release(&e->state, slab_freed_state(e, PHASE_CACHED));
    ENQ_POINT("unlock.freed");
    m->small.entries[m->small.n++] = e;
}

/* The same for one whose holder shall be told why: it becomes PHASE_GONE
   until its holder looks, or some time later. */
void slab_bury(struct map *map, struct entry *e, enum gone why, mono_t now);

/* Every entry of every slab, whatever its phase. `see` false: stop. */
typedef bool entry_see_fn(void *context, struct entry *e);
void slab_each(const struct map *map, entry_see_fn *see, void *context);
/* The same for one session's slabs. */
void slab_each_of(const struct map *map, session_ref_t ref, entry_see_fn *see,
    void *context);

#endif
