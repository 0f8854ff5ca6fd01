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

#include "table/entry.h"

/* One attachment as this process knows it. The shared part is its slot. */
struct session {
    struct map *map;
    struct session_slot *slot;
    session_ref_t ref;
    uint64_t serial; /* never the same in this process */
    uint64_t id_half;

    pthread_mutex_t mutex; /* guards what follows */
    struct cds_list_head magazines;
    uint32_t *pages; /* its slabs */
    uint32_t n_pages, room_pages;
    uint32_t cursor;     /* next slab to look through */
    mono_t barren_until; /* looking before this found nothing */
};

#define MAGAZINE_ENTRIES 64

struct magazine {
    struct cds_list_head of_session, of_thread;
    struct session *session;
    uint64_t serial;
    unsigned n;
    ref_t entries[MAGAZINE_ENTRIES]; /* small ones, PHASE_CACHED */
};

void slab_session_init(struct session *s);
void slab_session_fini(struct session *s); /* its entries are gone already */

/* thread_drop_magazines of floor 3. */
void slab_thread_ends(struct thread *t);

/*
 * An entry with room for so many bytes of payload, PHASE_CACHED; nobody else
 * can see it. Faults, explained: ENQ_EFULL, -ENOSPC, -ENOMEM.
 * No system call while the magazine has one.
 */
int slab_take(struct session *s, struct thread *t, size_t payload,
    struct entry **out);

/*
 * Gives an entry back that is linked nowhere any more: its generation grows,
 * so that its handles are stale. The caller is of the entry's session, or not
 * (then `s` may be another or NULL): in that case the owner of the slab will
 * find it.
 */
void slab_give(struct session *s, struct thread *t, struct entry *e);

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
