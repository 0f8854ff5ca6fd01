/*
 * page.c - store: pages of the arena (see page.h).
 *
 * What a death leaves here is never more than a page that is claimed and not
 * counted yet: the directory's word is the commit, and both counts are one. The
 * grow latch stays in the dead thread's name, and recovery counts the page
 * (page_finish_claim).
 */
#include "store/page.h"

#include <errno.h>

#include "base/hash.h"
#include "base/point.h"
#include "store/entry.h"
#include "sync/latch.h"

#define CHUNK_PAGES 512u /* 2 MiB: taken from the kernel at once */
/* How many pages a claim looks through for an orphan while there is room. */
#define NEAR 64u

/* Release: the states of the page's entries were stored before. Partner: the
   acquire load of `kind` by those that walk the page (slab_each). */
static void page_set(struct map *map, uint32_t page, enum page_kind kind,
    uint32_t owner)
{
    shm_store_release((uint64_t *)&map->pages[page], page_word(owner, kind));
}

/* In one store: a death leaves the next page uncounted, or nothing. */
static void count_pages(struct map *map, uint32_t used, uint32_t slabs)
{
    shm_store((uint64_t *)&map->h->pages_used, used | (uint64_t)slabs << 32);
}

/* Memory for so many pages from `first` on: their words, marks and entries. */
static int back(const struct map *map, uint64_t first, uint64_t n)
{
    uint64_t marks_at =
        map->h->pages_at + (uint64_t)map->pages_max * sizeof(struct page_info);
    int rc =
        map_reserve(map, map->h->pages_at + first * sizeof(struct page_info),
            n * sizeof(struct page_info));

    if (rc == 0)
        rc = map_reserve(map, marks_at + first * sizeof(page_mark_t),
            n * sizeof(page_mark_t));
    if (rc == 0)
        rc = map_reserve(map, map->arena_at + first * PAGE_BYTES,
            n * PAGE_BYTES);
    return rc;
}

/* Backs the next pages, and their part of the directory, with memory, before
   anything is written there: a full tmpfs is an error here and a SIGBUS there.
   A nearly full file system may still have room for a few. The release store
   is what at_entry() checks refs against. Under the grow latch, the only one
   under which the kernel is called. */
static int make_ready(struct map *map)
{
    uint32_t ready = map_pages_ready(map), n = CHUNK_PAGES;
    int rc;

    if (n > map->pages_max - ready)
        n = map->pages_max - ready;
    do
        rc = back(map, ready, n);
    while (rc == -ENOSPC && (n /= 8) > 0);
    if (rc != 0)
        return rc;
    shm_store_release(&map->h->pages_ready, ready + n);
    ENQ_POINT("page.ready");
    return 0;
}

/* The next page never used. Under the grow latch, which makes `pages_used`
   exact: a page behind it that is not PAGE_FREE is damage. */
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

/* Makes all entries of a page FREE. Their generations start anywhere: a handle
   of another space, or of an earlier use of this page, names nothing here. */
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
    session_ref_t owner = shm_load(&map->pages[page].owner);
    unsigned units = kind == PAGE_LARGE ? LARGE_UNITS : SMALL_UNITS;
    unsigned n = kind == PAGE_LARGE ? LARGE_PER_PAGE : SMALL_PER_PAGE;
    struct page_use use = {0, 0, 0};

    for (unsigned i = 0; i < n; i++) {
        struct entry *e = at_entry(map, page_entry_ref(map, page, i, units));
        /* what cannot be read counts as live: the page is left alone */
        unsigned phase =
            e == NULL ? PHASE_HELD : STATE_PHASE(shm_load_acquire(&e->state));

        use.free += phase == PHASE_FREE ||
            (phase == PHASE_GONE && !entry_is_awaited(e, owner));
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

/* An orphan with something free in it; if @whole, with nothing else in it. The
   whole word is compared: owner and kind of one moment. */
static bool is_orphan(const struct map *map, uint32_t page, enum page_kind kind,
    bool whole)
{
    struct page_use use;

    visit(VISIT_PAGE);
    if (shm_load((const uint64_t *)&map->pages[page]) != page_word(0, kind))
        return false;
    use = page_use(map, page);
    return use.free > 0 && !(whole && use.cached + use.live > 0);
}

/* Among the next so many pages. Goes on where the last search ended: a thousand
   claims are not a thousand walks. Under the grow latch: no other thread claims
   what is found. */
static bool find_orphan(struct map *map, enum page_kind kind, bool whole,
    uint32_t left, uint32_t *out)
{
    struct orphans *orphans = orphans_of(map, kind);
    uint32_t used = map_pages_used(map), page = map_at_most(&orphans->at, used);

    for (; left > 0; left--, page++) {
        if (page >= used)
            page = 0;
        if (!is_orphan(map, page, kind, whole))
            continue;
        shm_store(&orphans->at, page);
        *out = page;
        return true;
    }
    shm_store(&orphans->at, page);
    return false;
}

static void one_orphan_less(struct orphans *orphans)
{
    shm_store(&orphans->missed, 0);
    if (shm_load(&orphans->pages) > 0)
        shm_add(&orphans->pages, -1);
}

/* Claims a slab that its session left behind, or gave up, if one is among so
   many pages. Live entries in it stay what they are: locks that outlived their
   session (LEASE, KEEP). */
static bool page_take_orphan(struct map *map, enum page_kind kind,
    session_ref_t owner, uint32_t among, uint32_t *out)
{
    if (!find_orphan(map, kind, false, among, out))
        return false;
    page_set(map, *out, kind, owner);
    one_orphan_less(orphans_of(map, kind));
    return true;
}

/* None was among the next pages. After a round of all of them those that were
   counted when it began are none; what was added since may lie behind it. */
static void missed(struct map *map, struct orphans *orphans, uint32_t pages)
{
    uint32_t before = shm_load(&orphans->missed);

    if (before == 0)
        shm_store(&orphans->known, shm_load(&orphans->pages));
    if (before + pages < map_pages_used(map)) {
        shm_store(&orphans->missed, before + pages);
        return;
    }
    shm_store(&orphans->missed, 0);
    shm_add(&orphans->pages,
        -map_at_most(&orphans->known, shm_load(&orphans->pages)));
}

/* One that is counted, if it is not far: most of the others may be full of what
   outlived their sessions, and the search goes on with the next claim. */
static bool page_take_near_orphan(struct map *map, enum page_kind kind,
    session_ref_t owner, uint32_t *out)
{
    struct orphans *orphans = orphans_of(map, kind);
    uint32_t used = map_pages_used(map), near = used < NEAR ? used : NEAR;

    if (shm_load(&orphans->pages) == 0)
        return false;
    if (page_take_orphan(map, kind, owner, near, out))
        return true;
    missed(map, orphans, near);
    return false;
}

/*
 * In need: claims an empty orphan whose entries are of the other size.
 *
 * Small from large: states are made where texts stood, at generations that no
 * handle is likely to name. Large from small: each large entry begins where a
 * small one did, and its state goes on as it is, FREE; texts will be written
 * over the states of the other small ones.
 *
 * A thread without a latch may be reading such a state at this moment, through
 * a stale handle or in a walk. It loads the state first and the directory's
 * word after it, here the word is stored before any text, and the fence keeps
 * the two apart: so it sees the new kind and believes nothing it has read.
 * Partners: entry_read(), each_of_page().
 */
static bool page_convert(struct map *map, enum page_kind kind,
    session_ref_t owner, uint32_t *out)
{
    enum page_kind other = kind == PAGE_SMALL ? PAGE_LARGE : PAGE_SMALL;

    if (!find_orphan(map, other, true, map_pages_used(map), out))
        return false;
    if (kind == PAGE_SMALL)
        seed_entries(map, *out, kind, (uint64_t)sys.now().ns);
    page_set(map, *out, kind, owner);
    shm_fence(); /* before any text is stored: entry_read() */
    ENQ_POINT("page.converted");
    one_orphan_less(orphans_of(map, other));
    return true;
}

/* States, then the directory's word, then the counts: a death in between leaves
   a page that is claimed, and recovery counts it. */
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
    count_pages(map, *page + 1, map->h->slab_pages + 1);
    return 0;
}

/* Orphans before new pages: the table grows only when nothing else is left, and
   pages full of what outlived its session are shared by the next ones. */
int page_claim(struct map *map, struct thread *t, enum page_kind kind,
    session_ref_t owner, uint32_t *page)
{
    int rc = latch_acquire(t, &map->h->grow_latch, RANK_GROW);

    if (rc != 0)
        return rc;
    /* the count is a hint, written under two latches and by swaps: in need all
       pages are searched, whatever it says */
    if (!page_take_near_orphan(map, kind, owner, page))
        rc = page_claim_new(map, kind, owner, page);
    if (page_is_short(rc) &&
        (page_take_orphan(map, kind, owner, map_pages_used(map), page) ||
            page_convert(map, kind, owner, page)))
        rc = 0;
    latch_release(t, &map->h->grow_latch);
    return rc;
}

static ref_t page_ref(const struct map *map, uint32_t page)
{
    return (ref_t)((map->arena_at + (uint64_t)page * PAGE_BYTES) / UNIT_BYTES);
}

/* Is the page one of the shard's segments already? Without the shard's latch a
   guess, which page_add_segment() repeats under it. */
static bool is_installed(const struct map *map, uint32_t shard, uint32_t page)
{
    uint32_t n = shm_load(&map->shards[shard].n_segments);

    for (uint32_t i = 0; i < n && i < SEGMENTS_MAX; i++)
        if (shm_load(&map->dirs[shard].segment[i]) == page_ref(map, page))
            return true;
    return false;
}

/* Is there a page of buckets that is no shard's segment? By the counts, as there
   is none nearly always, and a look at all pages would cost what others hold.
   The first segment of a shard is no page. */
static bool any_claimed(const struct map *map)
{
    uint32_t installed = 0;

    for (unsigned shard = 0; shard < SHARDS_ALL; shard++)
        installed += shm_load(&map->shards[shard].n_segments) - 1;
    return map_pages_used(map) - map->h->slab_pages != installed;
}

/* A page that was claimed for the shard and is not installed: its thread died
   in between, or is about to install it. Under the grow latch. */
static bool find_claimed(const struct map *map, uint32_t shard, uint32_t *out)
{
    uint64_t wanted = page_word(shard, PAGE_BUCKETS);

    if (likely(!any_claimed(map)))
        return false;
    for (uint32_t page = 0; page < map_pages_used(map); page++) {
        visit(VISIT_PAGE);
        if (shm_load((const uint64_t *)&map->pages[page]) != wanted ||
            is_installed(map, shard, page))
            continue;
        *out = page;
        return true;
    }
    return false;
}

/* A page never used is all zero, and so are a free latch and empty slots. Those
   of the slabs are left: threads want more buckets than the locks of a small
   table do. */
static int buckets_new(struct map *map, uint32_t shard, uint32_t *page)
{
    uint32_t share = map->pages_max - map->h->slab_pages_max;
    int rc;

    if (map_pages_used(map) - map->h->slab_pages >= share)
        return ENQ_EFULL;
    rc = page_fresh(map, page);
    if (rc != 0)
        return rc;
    page_set(map, *page, PAGE_BUCKETS, shard);
    count_pages(map, *page + 1, map->h->slab_pages);
    return 0;
}

static int claim_segment(struct map *map, struct thread *t, uint32_t shard,
    uint32_t *page)
{
    int rc = latch_acquire(t, &map->h->grow_latch, RANK_GROW);

    if (rc != 0)
        return rc;
    if (!find_claimed(map, shard, page))
        rc = buckets_new(map, shard, page);
    latch_release(t, &map->h->grow_latch);
    return rc;
}

/* A page for a segment, and memory for the shard's directory, which is a hole in
   the file as long as the first segment is enough. Where there is no room each
   lock of a crowded shard would ask again: so this process does not for a
   second. */
static int segment_page(struct map *map, struct thread *t, uint32_t shard,
    uint32_t *page)
{
    mono_t now = sys.coarse();
    int rc;

    if (shm_load(&map->buckets_barren_ns) > now.ns)
        return ENQ_EFULL;
    rc = map_reserve(map, SEG_DIRS + shard * sizeof(struct shard_dir),
        sizeof(struct shard_dir));
    if (rc == 0)
        rc = claim_segment(map, t, shard, page);
    if (rc != 0)
        shm_store(&map->buckets_barren_ns, mono_add_ns(now, NS_PER_S).ns);
    return rc;
}

/*
 * The page is claimed before the shard's latch is taken, as claiming calls the
 * kernel. Another thread may have been quicker, and may have installed the very
 * page: then nothing is done. The segment is stored before `n_segments`, in
 * case that a reader without the latch (is_installed) follows the number.
 */
void page_add_segment(struct map *map, struct thread *t, uint32_t number)
{
    struct shard *shard = &map->shards[number];
    uint32_t page = 0;

    if (shm_load(&shard->n_segments) >= SEGMENTS_MAX ||
        segment_page(map, t, number, &page) != 0)
        return;
    ENQ_POINT("buckets.claimed");
    if (latch_acquire(t, &shard->latch,
            number < SHARDS ? RANK_SHARD : RANK_ID) != 0)
        return;
    if (shard->n_segments < SEGMENTS_MAX && !is_installed(map, number, page)) {
        shm_store(&map->dirs[number].segment[shard->n_segments],
            page_ref(map, page));
        shm_store_release(&shard->n_segments, shard->n_segments + 1);
    }
    latch_release(t, &shard->latch);
}

/* By a swap: another thread may be closing the session at this moment, and the
   page be another session's. What is in it is FREE or GONE, and only the slab's
   owner takes that, under the mutex that the caller has. */
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
    shm_add(&orphans_of(map, kind)->pages, 1);
    return true;
}

/* By the directory, not by a list of the session's: that was private to its
   process. Buckets have a shard's number where slabs have their session's. By a
   swap: of a session that is closed the helper thread is still there, and may
   give a page up at this moment (page_give_up), and another session take it.
   The word is stored before the entries are looked at; whoever frees one looks
   at the word after it (give_loose): one of the two counts the page. */
void page_orphan_all(struct map *map, session_ref_t owner)
{
    uint32_t used = map_pages_used(map);

    for (uint32_t page = 0; page < used; page++) {
        enum page_kind kind = (enum page_kind)shm_load(&map->pages[page].kind);
        uint64_t theirs = page_word(owner, kind);

        visit(VISIT_PAGE);
        if (shm_load(&map->pages[page].owner) != owner || kind == PAGE_BUCKETS)
            continue;
        ENQ_POINT("page.orphaning");
        if (shm_cas((uint64_t *)&map->pages[page], &theirs,
                page_word(0, kind)) &&
            page_use(map, page).free > 0)
            shm_add(&orphans_of(map, kind)->pages, 1);
    }
}

/* The owner of a page, or 0: also where it is a session that has been reaped.
   Its thread died in page_claim(), with the word set and before it raised
   pages_used, which is where page_orphan_all() ends. */
static session_ref_t page_owner(struct map *map, uint32_t page)
{
    session_ref_t owner = shm_load(&map->pages[page].owner);

    if (owner == 0 || shm_load_acquire(&at_session(map, owner)->ref) == owner)
        return owner;
    page_set(map, page, shm_load(&map->pages[page].kind), 0);
    return 0;
}

/* Is it an orphan with something free in it? */
static bool is_worth_a_look(struct map *map, uint32_t page)
{
    return page_owner(map, page) == 0 && page_use(map, page).free > 0;
}

/* The next page after those that are counted: only the grow latch lets anybody
   claim another. The page is counted last: a death before begins again, and there
   may be one orphan too many, which is a hint. */
void page_finish_claim(struct map *map)
{
    uint32_t page = map_pages_used(map);
    bool slab;

    if (page >= map_pages_ready(map) ||
        shm_load(&map->pages[page].kind) == PAGE_FREE)
        return;
    slab = page_is_slab(map, page);
    if (slab && is_worth_a_look(map, page))
        shm_add(&orphans_of(map, (enum page_kind)map->pages[page].kind)->pages,
            1);
    count_pages(map, page + 1, map->h->slab_pages + slab);
}

void page_recount(struct map *map)
{
    uint32_t used = 0, slabs = 0, orphans[2] = {0, 0};

    for (uint32_t page = 0; page < map_pages_ready(map); page++) {
        uint32_t kind = shm_load(&map->pages[page].kind);

        if (kind != PAGE_FREE)
            used = page + 1;
        if (!page_is_slab(map, page))
            continue;
        slabs++;
        orphans[kind == PAGE_LARGE] += is_worth_a_look(map, page);
    }
    count_pages(map, used, slabs);
    for (unsigned i = 0; i < 2; i++) {
        shm_store(&map->h->orphans[i].missed, 0);
        shm_store(&map->h->orphans[i].pages, orphans[i]);
    }
}
