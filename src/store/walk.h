/*
 * walk.h - store: walks over all slabs.
 */
#ifndef STORE_WALK_H
#define STORE_WALK_H

#include "store/entry.h"

/* Calls `see` for every entry of every slab, whatever its phase, until it
   returns false; @state is what the entry's was. No latch is needed, and
   nothing stands still: the page may hold entries of the other size by the time
   that `see` looks, and texts where this one stood. So `see` acts on this very
   state, by a swap, or holds the latches that guard the entry. */
typedef bool slab_see_fn(void *context, struct entry *e, uint64_t state);
void slab_each(const struct map *map, slab_see_fn *see, void *context);
/* The same for up to @n pages from @page on. Returns the next page, or 0 after
   the last. */
uint32_t slab_each_from(const struct map *map, uint32_t page, uint32_t n,
    slab_see_fn *see, void *context);
/* The same for one session's slabs. */
void slab_each_of(const struct map *map, session_ref_t ref, slab_see_fn *see,
    void *context);

/* The same for what waits without a thread: of each page that is marked
   (store/mark.h) all entries that wait, of whatever session. Each that was queued
   and marked before the caller's last full fence is met, if it still waits. @me
   is the caller's own thread; costs a visit for each line of marks, and the
   marked pages. */
void slab_each_waiting(const struct map *map, thread_ref_t me, slab_see_fn *see,
    void *context);

/* Room that sessions keep and do not use: it may come back if it is asked for.
   A guess. */
struct slab_hoard {
    uint32_t pages;
    session_ref_t of; /* one of them */
};

/* Pages that others could give back, or where an entry of this kind lies in
   another thread's magazine. Walks the table. */
struct slab_hoard slab_hoard_of(const struct map *map, session_ref_t own,
    enum page_kind kind);

#endif
