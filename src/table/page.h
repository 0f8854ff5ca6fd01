/*
 * page.h - floor 4: pages of the arena: claimed, given up, walked.
 *
 * The page directory is TRUE: one 64-bit store says whose a page is and what
 * it holds. The counters beside the grow word are DERIVED from it.
 */
#ifndef TABLE_PAGE_H
#define TABLE_PAGE_H

#include "segment/map.h"
#include "sync/thread.h"

/* The i-th entry of a page, each so many units long. */
static inline ref_t page_entry_ref(const struct map *map, uint32_t page,
    unsigned i, unsigned units)
{
    return (ref_t)(map->arena_at / UNIT_BYTES) + page * UNITS_PER_PAGE + 1 +
        i * units;
}

/*
 * A slab page for `owner`: one that a session left behind, or a new one.
 * A kernel call each 2 MiB, under the grow word (a leaf).
 * Returns: 0. Faults: ENQ_EFULL, -ENOSPC, -EBADF.
 */
int page_claim(struct map *map, struct thread *t, enum page_kind kind,
    session_ref_t owner, uint32_t *page);

/* One more segment of lines for a shard that wants one; none: it goes on with
   what it has, only slower. With no lock word held. */
void page_add_segment(struct map *map, struct thread *t, uint32_t shard);

void page_orphan_all(struct map *map, session_ref_t owner);
void page_recount(struct map *map);

#endif
