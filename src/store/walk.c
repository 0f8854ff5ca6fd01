/*
 * walk.c - store: walks over all slabs (see walk.h).
 */
#include "store/walk.h"

#include "base/assert.h"
#include "base/point.h"
#include "store/mark.h"
#include "store/page.h"

/* Partners: page_set() (the states are there), page_convert() (what was read as
   a state is none any more). */
static bool each_of_page(const struct map *map, uint32_t page, slab_see_fn *see,
    void *context)
{
    uint32_t kind = shm_load_acquire(&map->pages[page].kind);
    unsigned units = kind == PAGE_SMALL ? SMALL_UNITS : LARGE_UNITS;
    unsigned n = kind == PAGE_SMALL ? SMALL_PER_PAGE : LARGE_PER_PAGE;

    if (kind != PAGE_SMALL && kind != PAGE_LARGE)
        return true;
    ENQ_POINT("slab.page_read");
    for (unsigned i = 0; i < n; i++) {
        struct entry *e = at_entry(map, page_entry_ref(map, page, i, units));
        uint64_t state = e == NULL ? 0 : shm_load_acquire(&e->state);

        /* as in entry_read(): nothing is left there of what we came for */
        if (shm_load(&map->pages[page].kind) != kind)
            return true;
        if (e != NULL && !see(context, e, state))
            return false;
    }
    return true;
}

void slab_each(const struct map *map, slab_see_fn *see, void *context)
{
    uint32_t used = map_pages_used(map);

    for (uint32_t page = 0; page < used; page++)
        if (!each_of_page(map, page, see, context))
            return;
}

uint32_t slab_each_from(const struct map *map, uint32_t page, uint32_t n,
    slab_see_fn *see, void *context)
{
    uint32_t used = map_pages_used(map);

    for (; page < used && n > 0; page++, n--)
        if (!each_of_page(map, page, see, context))
            return page;
    return page < used ? page : 0;
}

void slab_each_of(const struct map *map, session_ref_t ref, slab_see_fn *see,
    void *context)
{
    uint32_t used = map_pages_used(map);

    for (uint32_t page = 0; page < used; page++) {
        visit(VISIT_PAGE);
        if (shm_load(&map->pages[page].owner) == ref &&
            !each_of_page(map, page, see, context))
            return;
    }
}

/* --- what waits --- */

struct waiting_look {
    slab_see_fn *see;
    void *context;
    bool any;
};

static bool see_if_waiting(void *context, struct entry *e, uint64_t state)
{
    struct waiting_look *look = context;

    if (STATE_PHASE(state) != PHASE_WAITING)
        return true;
    look->any = true;
    return look->see(look->context, e, state);
}

/* The mark is ours before the page is looked at, and goes only if it is ours
   still: see store/mark.h. Partner of the fence: that of mark_page(). */
static bool look_at_marked(const struct map *map, uint32_t page,
    thread_ref_t me, struct waiting_look *look)
{
    uint32_t mine = me;

    ENQ_POINT("mark.found");
    shm_store(&map->marks[page], me);
    shm_fence();
    ENQ_POINT("mark.taken");
    look->any = false;
    if (!each_of_page(map, page, see_if_waiting, look))
        return false;
    ENQ_POINT("mark.looked");
    if (!look->any)
        shm_cas(&map->marks[page], &mine, 0);
    return true;
}

void slab_each_waiting(const struct map *map, thread_ref_t me, slab_see_fn *see,
    void *context)
{
    struct waiting_look look = {.see = see, .context = context};
    uint32_t used = map_pages_used(map);

    enq_assert(me != 0 && me != PAGE_MARKED);
    for (uint32_t page = 0; page < used; page++) {
        if (page % MARKS_PER_LINE == 0)
            visit(VISIT_PAGE);
        if (shm_load(&map->marks[page]) != 0 &&
            !look_at_marked(map, page, me, &look))
            return;
    }
}

/* --- what is kept --- */

static bool is_kept(const struct map *map, uint32_t page, session_ref_t own,
    enum page_kind kind, session_ref_t *of)
{
    struct page_use use;

    *of = shm_load(&map->pages[page].owner);
    if (!page_is_slab(map, page) || *of == 0)
        return false;
    use = page_use(map, page);
    return use.live == 0 ||
        (*of == own && shm_load(&map->pages[page].kind) == kind &&
            use.cached > 0);
}

struct slab_hoard slab_hoard_of(const struct map *map, session_ref_t own,
    enum page_kind kind)
{
    struct slab_hoard hoard = {0, 0};
    uint32_t used = map_pages_used(map);
    session_ref_t of;

    for (uint32_t page = 0; page < used; page++) {
        if (!is_kept(map, page, own, kind, &of))
            continue;
        hoard.of = of;
        hoard.pages++;
    }
    return hoard;
}
