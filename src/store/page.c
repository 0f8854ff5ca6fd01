/*
 * page.c - store: pages of the arena (see page.h).
 */
#include "store/page.h"

#include <errno.h>

#include "base/hash.h"
#include "base/point.h"
#include "store/entry.h"
#include "sync/word.h"

#define CHUNK_PAGES 512u /* 2 MiB: taken from the kernel at once */

static void page_set(struct map *map, uint32_t page, enum page_kind kind,
    uint32_t owner)
{
    shm_store_release((uint64_t *)&map->pages[page], page_word(owner, kind));
}

/* Backs the next pages, and what the directory says of them, with memory. A
   nearly full file system may still have room for a few. */
static int make_ready(struct map *map)
{
    uint32_t ready = map_pages_ready(map), n = CHUNK_PAGES;
    int rc;

    if (n > map->pages_max - ready)
        n = map->pages_max - ready;
    do {
        rc = map_reserve(map,
            map->h->pages_at + ready * sizeof(struct page_info),
            n * sizeof(struct page_info));
        if (rc == 0)
            rc = map_reserve(map, map->arena_at + (uint64_t)ready * PAGE_BYTES,
                (uint64_t)n * PAGE_BYTES);
    } while (rc == -ENOSPC && (n /= 8) > 0);
    if (rc != 0)
        return rc;
    shm_store_release(&map->h->pages_ready, ready + n);
    ENQ_POINT("page.ready");
    return 0;
}

/* The next page never used. Under the grow word. */
static int page_fresh(struct map *map, uint32_t *page)
{
    uint32_t used = map_pages_used(map);

    if (used >= map->pages_max)
        return ENQ_EFULL;
    if (used == map_pages_ready(map)) {
        int rc = make_ready(map);
        if (rc != 0)
            return rc;
    }
    if (used >= map_pages_ready(map) || map->pages[used].kind != PAGE_FREE)
        return ENQ_ECORRUPT;
    *page = used;
    return 0;
}

/* Generations start anywhere: a handle of another space, or of an earlier
   life of this one, names nothing here. */
static void seed_entries(struct map *map, uint32_t page, enum page_kind kind,
    uint64_t salt)
{
    unsigned units = kind == PAGE_SMALL ? SMALL_UNITS : LARGE_UNITS;
    unsigned n = kind == PAGE_SMALL ? SMALL_PER_PAGE : LARGE_PER_PAGE;

    for (unsigned i = 0; i < n; i++) {
        ref_t ref = page_entry_ref(map, page, i, units);
        struct entry *e = map_at(map, ref * (uint64_t)UNIT_BYTES);
        uint32_t generation = (uint32_t)hash_fold(map->hash_seed ^ ref ^ salt,
            UINT64_C(0x9e3779b97f4a7c15));

        shm_store(&e->state, STATE(generation, PHASE_FREE, 0, 0));
    }
}

struct page_use page_use(const struct map *map, uint32_t page)
{
    uint32_t kind = shm_load_acquire(&map->pages[page].kind);
    unsigned units = kind == PAGE_LARGE ? LARGE_UNITS : SMALL_UNITS;
    unsigned n = kind == PAGE_LARGE ? LARGE_PER_PAGE : SMALL_PER_PAGE;
    struct page_use use = {0, 0, 0};

    for (unsigned i = 0; i < n; i++) {
        struct entry *e = at_entry(map, page_entry_ref(map, page, i, units));
        unsigned phase =
            e == NULL ? PHASE_HELD : STATE_PHASE(shm_load_acquire(&e->state));

        use.free += phase == PHASE_FREE || phase == PHASE_GONE;
        use.cached += phase == PHASE_CACHED;
    }
    use.live = n - use.free - use.cached;
    return use;
}

bool page_is_left(const struct map *map)
{
    if (shm_load(&map->h->slab_pages) < map->h->slab_pages_max)
        return true;
    for (uint32_t page = 0; page < map_pages_used(map); page++) {
        struct page_use use;

        if (!page_is_slab(map, page))
            continue;
        use = page_use(map, page);
        if (use.live == 0 ||
            (shm_load(&map->pages[page].owner) == 0 && use.free > 0))
            return true;
    }
    return false;
}

/* Nobody's, with something free in it; or with nothing else in it. */
static bool is_orphan(const struct map *map, uint32_t page, enum page_kind kind,
    bool whole)
{
    struct page_use use;

    if (shm_load((const uint64_t *)&map->pages[page]) != page_word(0, kind))
        return false;
    use = page_use(map, page);
    return use.free > 0 && !(whole && use.cached + use.live > 0);
}

/* Goes on where the last search ended: a thousand claims are not a thousand
   walks. Under the grow word. */
static bool find_orphan(struct map *map, enum page_kind kind, bool whole,
    uint32_t *out)
{
    uint32_t used = map_pages_used(map);
    uint32_t page = map_at_most(&map->h->orphan_at, used);

    for (uint32_t left = used; left > 0; left--, page++) {
        if (page >= used)
            page = 0;
        if (!is_orphan(map, page, kind, whole))
            continue;
        shm_store(&map->h->orphan_at, page);
        *out = page;
        return true;
    }
    return false;
}

static void one_orphan_less(struct map *map)
{
    if (shm_load(&map->h->orphan_pages) > 0)
        shm_add(&map->h->orphan_pages, -1);
}

/* A slab that its session left behind, or gave back. What its magazines held
   is free. */
static bool page_take_orphan(struct map *map, enum page_kind kind,
    session_ref_t owner, uint32_t *out)
{
    if (!find_orphan(map, kind, false, out))
        return false;
    page_set(map, *out, kind, owner);
    one_orphan_less(map);
    return true;
}

/* A look at all of them that found none is not repeated until there is another
   one, or something becomes free in one. */
static bool page_take_known_orphan(struct map *map, enum page_kind kind,
    session_ref_t owner, uint32_t *out)
{
    if (shm_load(&map->h->orphan_pages) == 0)
        return false;
    if (page_take_orphan(map, kind, owner, out))
        return true;
    shm_store(&map->h->orphan_pages, 0);
    return false;
}

/*
 * In need: a page that is nobody's with nothing in it, though its entries are
 * of the other size. Where there were texts, entries begin a life of their own:
 * at a generation that no handle is likely to name. The large ones stand where
 * small ones stood, and go on from those.
 */
static bool page_convert(struct map *map, enum page_kind kind,
    session_ref_t owner, uint32_t *out)
{
    enum page_kind other = kind == PAGE_SMALL ? PAGE_LARGE : PAGE_SMALL;

    if (!find_orphan(map, other, true, out))
        return false;
    if (kind == PAGE_SMALL)
        seed_entries(map, *out, kind, (uint64_t)sys.now().ns);
    page_set(map, *out, kind, owner);
    shm_fence(); /* before any text is stored: entry_read() */
    ENQ_POINT("page.converted");
    one_orphan_less(map);
    return true;
}

static int page_claim_new(struct map *map, enum page_kind kind,
    session_ref_t owner, uint32_t *page)
{
    int rc;

    if (map->h->slab_pages >= map->h->slab_pages_max)
        return ENQ_EFULL;
    rc = page_fresh(map, page);
    if (rc != 0)
        return rc;
    seed_entries(map, *page, kind, 0);
    page_set(map, *page, kind, owner);
    ENQ_POINT("slab.claimed");
    shm_store(&map->h->pages_used, *page + 1);
    shm_store(&map->h->slab_pages, map->h->slab_pages + 1);
    return 0;
}

int page_claim(struct map *map, struct thread *t, enum page_kind kind,
    session_ref_t owner, uint32_t *page)
{
    int rc = word_lock(t, &map->h->grow_word, RANK_GROW);

    if (rc != 0)
        return rc;
    /* the count is a hint, kept by two words: who is in need looks in any
       case */
    if (!page_take_known_orphan(map, kind, owner, page))
        rc = page_claim_new(map, kind, owner, page);
    if (page_is_short(rc) &&
        (page_take_orphan(map, kind, owner, page) ||
            page_convert(map, kind, owner, page)))
        rc = 0;
    word_unlock(t, &map->h->grow_word);
    return rc;
}

static ref_t page_ref(const struct map *map, uint32_t page)
{
    return (ref_t)((map->arena_at + (uint64_t)page * PAGE_BYTES) / UNIT_BYTES);
}

static bool is_installed(const struct map *map, uint32_t shard, uint32_t page)
{
    uint32_t n = shm_load(&map->shards[shard].n_segments);

    for (uint32_t i = 0; i < n && i < SEGMENTS_MAX; i++)
        if (shm_load(&map->dirs[shard].segment[i]) == page_ref(map, page))
            return true;
    return false;
}

/* A page that was claimed for the shard by one who did not live to install
   it, or who is about to. */
static bool find_claimed(const struct map *map, uint32_t shard, uint32_t *out)
{
    uint64_t wanted = page_word(shard, PAGE_LINES);

    for (uint32_t page = 0; page < map_pages_used(map); page++) {
        if (shm_load((const uint64_t *)&map->pages[page]) != wanted ||
            is_installed(map, shard, page))
            continue;
        *out = page;
        return true;
    }
    return false;
}

static int lines_new(struct map *map, uint32_t shard, uint32_t *page)
{
    int rc = page_fresh(map, page);

    if (rc != 0)
        return rc;
    page_set(map, *page, PAGE_LINES, shard);
    shm_store(&map->h->pages_used, *page + 1);
    return 0;
}

/* Where there is no room each lock of a crowded shard would ask again. */
static int segment_page(struct map *map, struct thread *t, uint32_t shard,
    uint32_t *page)
{
    mono_t now = sys.coarse();
    int rc;

    if (shm_load(&map->lines_barren_ns) > now.ns)
        return ENQ_EFULL;
    rc = word_lock(t, &map->h->grow_word, RANK_GROW);
    if (rc != 0)
        return rc;
    if (!find_claimed(map, shard, page))
        rc = lines_new(map, shard, page);
    word_unlock(t, &map->h->grow_word);
    if (rc != 0)
        shm_store(&map->lines_barren_ns, mono_add_ns(now, NS_PER_S).ns);
    return rc;
}

/* The page is claimed before the shard is locked, as claiming calls the
   kernel. Another may have been quicker, and may have installed it. */
void page_add_segment(struct map *map, struct thread *t, uint32_t number)
{
    struct shard *shard = &map->shards[number];
    uint32_t page = 0;

    if (shm_load(&shard->n_segments) >= SEGMENTS_MAX ||
        segment_page(map, t, number, &page) != 0)
        return;
    ENQ_POINT("lines.claimed");
    if (word_lock(t, &shard->word, number < SHARDS ? RANK_SHARD : RANK_ID) != 0)
        return;
    if (shard->n_segments < SEGMENTS_MAX && !is_installed(map, number, page)) {
        shm_store(&map->dirs[number].segment[shard->n_segments],
            page_ref(map, page));
        shm_store_release(&shard->n_segments, shard->n_segments + 1);
    }
    shm_store(&shard->cramped, 0);
    word_unlock(t, &shard->word);
}

/* A swap: the session may be ending just now, and the page be another's. */
bool page_give_up(struct map *map, uint32_t page, session_ref_t owner)
{
    enum page_kind kind = (enum page_kind)shm_load(&map->pages[page].kind);
    uint64_t ours = page_word(owner, kind);
    struct page_use use;

    if (!page_is_slab(map, page))
        return false;
    use = page_use(map, page);
    if (use.live + use.cached > 0 ||
        !shm_cas((uint64_t *)&map->pages[page], &ours, page_word(0, kind)))
        return false;
    ENQ_POINT("page.given_up");
    shm_add(&map->h->orphan_pages, 1);
    return true;
}

void page_orphan_all(struct map *map, session_ref_t owner)
{
    uint32_t used = map_pages_used(map);

    for (uint32_t page = 0; page < used; page++) {
        if (shm_load(&map->pages[page].owner) != owner ||
            shm_load(&map->pages[page].kind) == PAGE_LINES)
            continue;
        page_set(map, page, shm_load(&map->pages[page].kind), 0);
        shm_add(&map->h->orphan_pages, 1);
    }
}

/* A session whose thread died in here may have been seen off before its thread
   was known to be dead. */
static session_ref_t page_owner(struct map *map, uint32_t page)
{
    session_ref_t owner = shm_load(&map->pages[page].owner);

    if (owner == 0 || shm_load_acquire(&at_session(map, owner)->ref) == owner)
        return owner;
    page_set(map, page, shm_load(&map->pages[page].kind), 0);
    return 0;
}

void page_recount(struct map *map)
{
    uint32_t used = 0, slabs = 0, orphans = 0;

    for (uint32_t page = 0; page < map_pages_ready(map); page++) {
        uint32_t kind = shm_load(&map->pages[page].kind);
        bool slab = kind == PAGE_SMALL || kind == PAGE_LARGE;

        if (kind != PAGE_FREE)
            used = page + 1;
        slabs += slab;
        orphans += slab && page_owner(map, page) == 0;
    }
    shm_store(&map->h->pages_used, used);
    shm_store(&map->h->slab_pages, slabs);
    shm_store(&map->h->orphan_pages, orphans);
}
