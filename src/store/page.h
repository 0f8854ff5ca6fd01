/*
 * page.h - store: pages of the arena: claimed, given up, walked.
 *
 *	never used --> slab of a session <--> orphan: a slab of nobody
 *	          `--> buckets of a shard, for ever
 *
 * The page directory has one 64-bit word for each page: its owner and what it
 * holds. It is TRUE: that one store claims a page or gives it up. The counters
 * beside the grow latch are DERIVED from it.
 *
 * Pages are claimed under the grow latch, in order, and never go back to the
 * kernel: an ORPHAN, which its session has left or given up, is claimed anew.
 * `pages_ready` of them have memory behind them (posix_fallocate, 2 MiB at
 * once), `pages_used` were claimed at least once; walks end there.
 *
 * Two ways out of ownership go without the grow latch: the session's helper
 * gives a page up by a swap of its word (page_give_up), and a dead session's
 * pages are orphaned under the recovery latch (page_orphan_all). An orphan's
 * word changes under the grow latch only.
 */
#ifndef STORE_PAGE_H
#define STORE_PAGE_H

#include <errno.h>

#include "segment/map.h"
#include "sync/thread.h"

/* The i-th entry of a page whose entries are so many units long. The page's
   first unit is free of entries: see layout.h. */
static inline ref_t page_entry_ref(const struct map *map, uint32_t page,
    unsigned i, unsigned units)
{
    return (ref_t)map->arena_unit + page * UNITS_PER_PAGE + 1 + i * units;
}

static inline bool page_is_slab(const struct map *map, uint32_t page)
{
    uint32_t kind = shm_load(&map->pages[page].kind);

    visit(VISIT_PAGE);
    return kind == PAGE_SMALL || kind == PAGE_LARGE;
}

/* Orphans of this kind, as far as they are counted: each adds that leaves an
   entry free in one. */
static inline struct orphans *orphans_of(const struct map *map,
    enum page_kind kind)
{
    return &map->h->orphans[kind == PAGE_LARGE];
}

/* How many entries of a slab are FREE or GONE, in magazines, held or waiting; a
   GONE one that its waiter has yet to look at counts as live. A guess, as other
   threads go on meanwhile; what is free can only be taken by the slab's owner,
   under the session's mutex. */
struct page_use {
    uint32_t free, cached, live;
};
struct page_use page_use(const struct map *map, uint32_t page);

/* Could a request that needs an entry still get one: from a new slab, or from
   one that is empty or an orphan? For people (lockctl). Walks the table. */
bool page_is_left(const struct map *map);

/* Does this result mean that room is short, in the table or in memory? Then
   what is over is taken away first, before the caller is told so. */
static inline bool page_is_short(int rc)
{
    return rc == ENQ_EFULL || rc == -ENOSPC || rc == -ENOMEM || rc == -EDQUOT;
}

/*
 * A slab page for `owner`: an orphan with something free in it, or a new page;
 * where there is no room for that, also an orphan of the other size with
 * nothing in it. Takes the grow latch (a leaf), and calls the kernel under it
 * once for each 2 MiB.
 * Returns: 0. Faults: ENQ_EFULL, -ENOSPC, -ENOMEM, -EBADF.
 */
int page_claim(struct map *map, struct thread *t, enum page_kind kind,
    session_ref_t owner, uint32_t *page);

/* One more segment of buckets for a shard, if there is room. With no latch held:
   takes grow and then the shard's. */
void page_add_segment(struct map *map, struct thread *t, uint32_t shard);

/*
 * Gives up a slab of a living session that has nothing in it: it is an orphan
 * from now on, for entries of either size. Under the session's mutex, without
 * which nobody takes entries of the slab. False: it stays the session's.
 */
bool page_give_up(struct map *map, uint32_t page, session_ref_t owner);

/* All slabs of a session that is over become orphans, what they hold stays.
   Under the recovery latch, when none of its threads can claim any more. */
void page_orphan_all(struct map *map, session_ref_t owner);

/* Counts the page that a thread had claimed which died with the grow latch. By
   recovery; idempotent. */
void page_finish_claim(struct map *map);

/* Counts anew all that is DERIVED from the directory. By recovery, where all of
   the table is looked at. */
void page_recount(struct map *map);

#endif
