/*
 * page.c - floor 4: pages of the arena (see page.h).
 */
#include "table/page.h"

#include <errno.h>

#include "base/hash.h"
#include "base/point.h"
#include "sync/word.h"
#include "table/entry.h"

#define CHUNK_PAGES 512u /* 2 MiB: taken from the kernel at once */

static void page_set(struct map *map, uint32_t page, enum page_kind kind,
    uint32_t owner)
{
    struct page_info info = {owner, kind};
    uint64_t word;

    memcpy(&word, &info, sizeof(word));
    shm_store_release((uint64_t *)&map->pages[page], word);
}

/* Backs the next pages, and what the directory says of them, with memory. A
   nearly full file system may still have room for a few. */
static int make_ready(struct map *map)
{
    uint32_t ready = shm_load(&map->h->pages_ready), n = CHUNK_PAGES;
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
    if (map->h->pages_used >= map->pages_max)
        return ENQ_EFULL;
    if (map->h->pages_used == map->h->pages_ready) {
        int rc = make_ready(map);
        if (rc != 0)
            return rc;
    }
    *page = map->h->pages_used;
    return 0;
}

/* Generations start anywhere: a handle of another space, or of an earlier
   life of this one, names nothing here. */
static void seed_entries(struct map *map, uint32_t page, enum page_kind kind)
{
    unsigned units = kind == PAGE_SMALL ? SMALL_UNITS : LARGE_UNITS;
    unsigned n = kind == PAGE_SMALL ? SMALL_PER_PAGE : LARGE_PER_PAGE;

    for (unsigned i = 0; i < n; i++) {
        ref_t ref = page_entry_ref(map, page, i, units);
        struct entry *e = map_at(map, ref * (uint64_t)UNIT_BYTES);
        uint32_t generation = (uint32_t)hash_fold(map->hash_seed ^ ref,
            UINT64_C(0x9e3779b97f4a7c15));

        e->state = STATE(generation, PHASE_FREE, 0, 0);
    }
}

/* A slab that its session left behind. What its magazines held is free. */
static bool page_take_orphan(struct map *map, enum page_kind kind,
    session_ref_t owner, uint32_t *out)
{
    for (uint32_t page = 0; page < map->h->pages_used; page++) {
        if (shm_load(&map->pages[page].kind) != kind ||
            shm_load(&map->pages[page].owner) != 0)
            continue;
        page_set(map, page, kind, owner);
        if (shm_load(&map->h->orphan_pages) > 0)
            shm_add(&map->h->orphan_pages, -1);
        *out = page;
        return true;
    }
    return false;
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
    seed_entries(map, *page, kind);
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
    /* the count is a hint, kept by two words: a full table looks in any case */
    if (shm_load(&map->h->orphan_pages) == 0 ||
        !page_take_orphan(map, kind, owner, page))
        rc = page_claim_new(map, kind, owner, page);
    if (rc == ENQ_EFULL && page_take_orphan(map, kind, owner, page))
        rc = 0;
    word_unlock(t, &map->h->grow_word);
    return rc;
}

static int segment_page(struct map *map, struct thread *t, uint32_t shard,
    uint32_t *page)
{
    int rc = word_lock(t, &map->h->grow_word, RANK_GROW);

    if (rc != 0)
        return rc;
    rc = page_fresh(map, page);
    if (rc == 0) {
        page_set(map, *page, PAGE_LINES, shard);
        shm_store(&map->h->pages_used, *page + 1);
    }
    word_unlock(t, &map->h->grow_word);
    return rc;
}

/* The page is claimed before the shard is locked, as claiming calls the
   kernel. Another may have been quicker: then both segments are used. */
void page_add_segment(struct map *map, struct thread *t, uint32_t number)
{
    struct shard *shard = &map->shards[number];
    uint32_t page;

    if (shm_load(&shard->n_segments) >= SEGMENTS_MAX ||
        segment_page(map, t, number, &page) != 0)
        return;
    if (word_lock(t, &shard->word, number < SHARDS ? RANK_SHARD : RANK_ID) != 0)
        return;
    if (shard->n_segments < SEGMENTS_MAX) {
        map->dirs[number].segment[shard->n_segments] =
            (ref_t)((map->arena_at + (uint64_t)page * PAGE_BYTES) / UNIT_BYTES);
        shm_store_release(&shard->n_segments, shard->n_segments + 1);
    }
    shard->cramped = 0;
    word_unlock(t, &shard->word);
}

void page_orphan_all(struct map *map, session_ref_t owner)
{
    uint32_t used = shm_load(&map->h->pages_used);

    for (uint32_t page = 0; page < used; page++) {
        if (shm_load(&map->pages[page].owner) != owner ||
            shm_load(&map->pages[page].kind) == PAGE_LINES)
            continue;
        page_set(map, page, shm_load(&map->pages[page].kind), 0);
        shm_add(&map->h->orphan_pages, 1);
    }
}

void page_recount(struct map *map)
{
    uint32_t used = 0, slabs = 0, orphans = 0;

    for (uint32_t page = 0; page < shm_load(&map->h->pages_ready); page++) {
        uint32_t kind = map->pages[page].kind;
        bool slab = kind == PAGE_SMALL || kind == PAGE_LARGE;

        if (kind != PAGE_FREE)
            used = page + 1;
        slabs += slab;
        orphans += slab && map->pages[page].owner == 0;
    }
    shm_store(&map->h->pages_used, used);
    shm_store(&map->h->slab_pages, slabs);
    shm_store(&map->h->orphan_pages, orphans);
}
