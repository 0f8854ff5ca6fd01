/*
 * page.h - store: pages of the arena: claimed, given up, walked.
 *
 * The page directory is TRUE: one 64-bit store says whose a page is and what
 * it holds. The counters beside the grow word are DERIVED from it.
 */
#ifndef STORE_PAGE_H
#define STORE_PAGE_H

#include <errno.h>

#include "segment/map.h"
#include "sync/thread.h"

/* The i-th entry of a page, each so many units long. */
static inline ref_t page_entry_ref(const struct map *map, uint32_t page,
    unsigned i, unsigned units)
{
    return (ref_t)map->arena_unit + page * UNITS_PER_PAGE + 1 + i * units;
}

static inline bool page_is_slab(const struct map *map, uint32_t page)
{
    uint32_t kind = shm_load(&map->pages[page].kind);

    return kind == PAGE_SMALL || kind == PAGE_LARGE;
}

/* How many of a slab's entries are free or over, in magazines, held or waited
   for. A guess: others go on meanwhile. */
struct page_use {
    uint32_t free, cached, live;
};
struct page_use page_use(const struct map *map, uint32_t page);

/* Is there any slab left from which somebody who needs one could have
   something? */
bool page_is_left(const struct map *map);

/* Does this answer mean that room is needed, be it in the table or in memory?
   Then what is over is taken first, before anybody is told so. */
static inline bool page_is_short(int rc)
{
    return rc == ENQ_EFULL || rc == -ENOSPC || rc == -ENOMEM || rc == -EDQUOT;
}

/*
 * A slab page for `owner`: one that a session left behind or gave back, with
 * something free in it, or a new one; where there is no room for that, also one
 * of the other size with nothing in it.
 * A kernel call each 2 MiB, under the grow word (a leaf).
 * Returns: 0. Faults: ENQ_EFULL, -ENOSPC, -ENOMEM, -EBADF.
 */
int page_claim(struct map *map, struct thread *t, enum page_kind kind,
    session_ref_t owner, uint32_t *page);

/* One more segment of lines for a shard that wants one; none: it goes on with
   what it has, only slower. With no lock word held. */
void page_add_segment(struct map *map, struct thread *t, uint32_t shard);

/*
 * Gives a slab of a living session back that has nothing in it: it is anybody's
 * from now on, for entries of either size. Under the session's
 * mutex, without which nobody takes its entries. False: it stays whose it is.
 */
bool page_give_up(struct map *map, uint32_t page, session_ref_t owner);

void page_orphan_all(struct map *map, session_ref_t owner);
void page_recount(struct map *map);

#endif
