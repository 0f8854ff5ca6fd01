/*
 * mark.h - store: which pages a search for started requests looks at.
 *
 * A search for cycles wants all requests that wait. Those of threads are in
 * their slots; those that were started lie in the slabs of their sessions, among
 * all that these hold: a million locks, say, of a bridge whose clients wait for
 * ten. So a request that is queued marks its page, and a search
 * (slab_each_waiting()) looks at marked pages only.
 *
 *	the waiter, under its latches     the search
 *	state = WAITING                   mark = its own thread
 *	full fence                        full fence
 *	mark is not MARKED? = MARKED      looks at the states of the page
 *	                                  none waits: mark = 0, by a swap, if it
 *	                                  is still its own thread
 *
 * No waiter is missed for good. Its load of the mark
 *
 *   - comes before a search's store of its own: then, by the two fences, that
 *     search sees the waiter, and leaves the mark
 *   - or comes after it: then what it reads is the search's or another's, and
 *     it stores MARKED, with which that search's swap fails. Where the swap came
 *     first the mark stays as well
 *
 * Of several searches each has a mark of its own, so that one which looked
 * before the waiter came cannot take what another has left there. A search that
 * stores its own over MARKED, as it had read the mark long before, is the first
 * case. And a mark too many costs a look: one that dies leaves its own, and who
 * leaves the queue leaves the mark to the next search.
 *
 * A waiter looks for a cycle itself after it was marked, behind another full
 * fence: of several that close one at once the last to be marked sees all. A
 * death before the mark is one with the latch; recovery marks (relink.c).
 */
#ifndef STORE_MARK_H
#define STORE_MARK_H

#include "store/entry.h"

#define MARKS_PER_LINE (64u / sizeof(page_mark_t))

/* Once the state of @e, which was started, is WAITING. Under its latches. */
static inline void mark_page(const struct map *map, const struct entry *e)
{
    page_mark_t *mark = &map->marks[map_page_at(map, e)];

    shm_fence(); /* partner: look_at_marked() in walk.c */
    if (shm_load(mark) != PAGE_MARKED)
        shm_store(mark, PAGE_MARKED);
}

/* Of one that waits: no thread does. Under its latches. */
static inline bool mark_is_wanted(const struct entry *e)
{
    return entry_sleeps(e) >= ASLEEP_STARTED;
}

static inline bool mark_is_there(const struct map *map, const struct entry *e)
{
    return shm_load(&map->marks[map_page_at(map, e)]) != 0;
}

#endif
