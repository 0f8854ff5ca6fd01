/*
 * slab.c - store: entries from magazines, and magazines from slabs (see
 * slab.h).
 */
#include "store/slab.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/point.h"
#include "base/process.h"
#include "base/why.h"
#include "store/full.h"
#include "store/notify.h"
#include "store/page.h"
#include "sync/sys.h"

/* How long a GONE entry is kept for a holder that does not ask. */
#define GONE_KEPT_NS (60 * NS_PER_S)
/* How many slabs a harvest looks through, and how long there is none after one
   that found nothing, or less than an entry in four of them. */
#define HARVEST_PAGES 64
#define BARREN_NS (NS_PER_S)
/* How much of a magazine goes to the depot at once, or comes from there: half of
   it, so that the next one to take and the next one to give find room. */
#define HALF (MAGAZINE_ENTRIES / 2)

void slab_session_init(struct session *s)
{
    static uint64_t serials;

    s->serial = shm_add(&serials, 1);
    pthread_mutex_init(&s->mutex, NULL);
    CDS_INIT_LIST_HEAD(&s->magazines);
    s->pages = NULL;
    s->n_pages = s->room_pages = 0;
    s->small = s->large = (struct depot){0};
    s->passed_ns = s->earliest_ns = INT64_MAX;
    s->margin_ns = 0;
    s->second_ns = 0;
    s->deaf_ns = 0;
}

/* Magazines belong to a session and a thread: both lists are guarded by the
   process's mutex, as threads and sessions end in any order. */
static void magazine_free(struct magazine *m)
{
    cds_list_del(&m->of_session);
    cds_list_del(&m->of_thread);
    free(m);
}

void slab_session_fini(struct session *s)
{
    struct magazine *m, *next;
    bool fresh;

    process_enter(&fresh);
    cds_list_for_each_entry_safe (m, next, &s->magazines, of_session)
        magazine_free(m);
    process_leave();
    pthread_mutex_destroy(&s->mutex);
    free(s->pages);
    free(s->small.entries);
    free(s->large.entries);
}

/* Leaves the entry to the owner of its slab, which `loose` tells to look; an
   orphan's is for the next that claims it. The state is stored first: a death
   before the count costs the owner a harvest, not the entry. Whose the slab is
   is read behind a fence: where it becomes an orphan at this moment, either this
   counts it or the one that stored that (partner: page_orphan_all). */
static void give_loose(struct map *map, struct entry *e, uint64_t state)
{
    uint32_t page = map_page_of(map, map_ref(map, e));
    struct page_info of;

    shm_store_release(&e->state, state);
    ENQ_POINT("unlock.freed");
    shm_fence();
    of = map_page_info(map, page);
    if (of.owner != 0)
        shm_add(&at_session(map, of.owner)->loose, 1);
    else
        shm_add(&orphans_of(map, (enum page_kind)of.kind)->pages, 1);
}

/* Frees an entry of a magazine. Another thread may be closing the session
   meanwhile: then the page may be another session's by now, and the entry too.
   It is still ours if the page is, after its state was read, and the swap finds
   that very state. */
static void give_cached(const struct session *s, struct entry *e,
    enum page_kind kind)
{
    uint64_t state = shm_load_acquire(&e->state);

    ENQ_POINT("thread.cached_read");
    if (slab_is_own(s, e, kind) &&
        shm_cas(&e->state, &state,
            STATE(STATE_GENERATION(state) + 1, PHASE_FREE, 0, 0)))
        shm_add(&s->slot->loose, 1);
}

static struct shelf *shelf_of(struct magazine *m, enum page_kind kind)
{
    return kind == PAGE_SMALL ? &m->small : &m->large;
}

static void empty(struct magazine *m, enum page_kind kind)
{
    struct shelf *shelf = shelf_of(m, kind);
    struct entry *e;

    while (shelf_pop(shelf, &e))
        give_cached(m->session, e, kind);
}

/* Moves the thread's entries down over what the helper has taken away. By the
   shelf's thread, under s->mutex: the helper is not in shelf_strip(). */
static void settle(struct shelf *shelf)
{
    uint32_t n = shelf->n - shelf->base;

    memmove(shelf->entries, shelf->entries + shelf->base,
        n * sizeof(shelf->entries[0]));
    shm_store(&shelf->base, 0);
    shm_store_release(&shelf->n, n);
}

/* The oldest entries of a shelf go to the depot. By the shelf's thread, which
   may have a shard's latch or the process's mutex: so it never waits for the
   session's. False: none went, as another thread has that mutex; or there is no
   room, where a damaged table has given the same entry out twice. */
static bool spill(struct session *s, struct shelf *shelf, enum page_kind kind,
    uint32_t n)
{
    struct depot *depot = slab_depot(s, kind);

    if (pthread_mutex_trylock(&s->mutex) != 0)
        return false;
    settle(shelf);
    if (n > shelf->n)
        n = shelf->n;
    if (n > depot->room - depot->n)
        n = depot->room - depot->n;
    for (uint32_t i = 0; i < n; i++)
        depot->entries[depot->n++] = shelf->entries[i];
    shm_store(&shelf->base, n);
    settle(shelf);
    pthread_mutex_unlock(&s->mutex);
    return n > 0;
}

/* Up to half a magazine. Under s->mutex. */
static uint32_t draw(struct depot *depot, struct shelf *shelf)
{
    uint32_t n = depot->n < HALF ? depot->n : HALF;

    for (uint32_t i = 0; i < n; i++)
        shelf_push(shelf, depot->entries[--depot->n]);
    return n;
}

/* Nobody's from now on. Under s->mutex. */
static void empty_depot(struct session *s, enum page_kind kind)
{
    struct depot *depot = slab_depot(s, kind);

    while (depot->n > 0)
        give_cached(s, depot->entries[--depot->n], kind);
}

static void leave(struct magazine *m, enum page_kind kind)
{
    (void)spill(m->session, shelf_of(m, kind), kind, MAGAZINE_ENTRIES);
    empty(m, kind); /* of what is left */
}

/* Under the process's mutex: no session ends, and frees the magazine, while its
   entries are left to others. */
void slab_thread_ends(struct thread *t)
{
    struct magazine *m, *next;
    bool fresh;

    process_enter(&fresh);
    cds_list_for_each_entry_safe (m, next, &t->magazines, of_thread) {
        leave(m, PAGE_SMALL);
        leave(m, PAGE_LARGE);
        magazine_free(m);
    }
    process_leave();
}

static struct magazine *magazine_make(struct session *s, struct thread *t)
{
    struct magazine *m = NULL, *other;
    bool fresh;

    process_enter(&fresh);
    cds_list_for_each_entry (other, &t->magazines, of_thread)
        if (other->serial == s->serial)
            m = other;
    if (m == NULL)
        m = calloc(1, sizeof(*m));
    if (m != NULL && m->serial == 0) {
        m->session = s;
        m->serial = s->serial;
        cds_list_add(&m->of_session, &s->magazines);
        cds_list_add(&m->of_thread, &t->magazines);
    }
    process_leave();
    return m;
}

static struct magazine *magazine_of(struct session *s, struct thread *t)
{
    if (likely(t->magazine_of == s->serial))
        return t->magazine;
    t->magazine = magazine_make(s, t);
    t->magazine_of = t->magazine == NULL ? 0 : s->serial;
    return t->magazine;
}

/* --- refilling --- */

/* What is being filled: entries of one size, and where to look for them. */
struct refill {
    struct session *s;
    enum page_kind kind;
    struct shelf *shelf;
    struct depot *depot;
};

/* Does its session listen, and has it not heard of this end yet? */
static bool is_untold(const struct map *map, const struct entry *e,
    uint64_t state)
{
    return (state & STATE_TOLD) == 0 &&
        notify_is_wanted(map, shm_load(&e->session));
}

/* Takes an entry of an own slab if it is FREE, or GONE since before
   @gone_before and told, unless a waiter is about to look. In need of room
   (@gone_before is never) also what its session has not heard of yet. Other
   processes act on live entries only, and a holder that asks why its lock is gone
   swaps the same state: the swap decides. As in give_cached() the page may be
   another's by now. */
static bool harvest_one(const struct refill *r, struct entry *e,
    mono_t gone_before)
{
    const struct map *map = r->s->map;
    uint64_t state = shm_load_acquire(&e->state);
    unsigned phase = STATE_PHASE(state);
    bool old = phase == PHASE_GONE && e->since_ns <= gone_before.ns &&
        !entry_is_awaited(e, r->s->ref) &&
        (mono_is_never(gone_before) || !is_untold(map, e, state));

    if ((phase != PHASE_FREE && !old) || !slab_is_own(r->s, e, r->kind))
        return false;
    return shm_cas(&e->state, &state,
        STATE(STATE_GENERATION(state) + 1, PHASE_CACHED, 0, 0));
}

/* Entries of one page, if they are of this size. */
static unsigned harvest_page(const struct refill *r, uint32_t page,
    mono_t gone_before)
{
    const struct map *map = r->s->map;
    unsigned units = r->kind == PAGE_SMALL ? SMALL_UNITS : LARGE_UNITS;
    unsigned n = r->kind == PAGE_SMALL ? SMALL_PER_PAGE : LARGE_PER_PAGE;
    unsigned before = r->shelf->n;

    visit(VISIT_PAGE);
    if (shm_load(&map->pages[page].kind) != r->kind)
        return 0;
    for (unsigned i = 0; i < n && r->shelf->n < MAGAZINE_ENTRIES; i++) {
        struct entry *e = at_entry(map, page_entry_ref(map, page, i, units));
        if (e != NULL && harvest_one(r, e, gone_before))
            shelf_push(r->shelf, e);
    }
    return r->shelf->n - before;
}

/* `loose` goes down by what was found, never below 0: it is a hint, and others
   add to it meanwhile. */
static void took_loose(struct session *s, unsigned found)
{
    uint32_t loose = shm_load(&s->slot->loose);

    while (loose > 0 &&
        !shm_cas(&s->slot->loose, &loose, loose > found ? loose - found : 0))
        continue;
}

/* Up to so many slabs, from where the last one ended. */
static unsigned harvest_some(const struct refill *r, uint32_t n,
    mono_t gone_before)
{
    struct depot *depot = r->depot;
    struct session *s = r->s;
    unsigned found = 0;

    for (; n > 0 && r->shelf->n < MAGAZINE_ENTRIES; n--) {
        depot->cursor = depot->cursor + 1 < s->n_pages ? depot->cursor + 1 : 0;
        found += harvest_page(r, s->pages[depot->cursor], gone_before);
    }
    took_loose(s, found);
    return found;
}

static mono_t long_gone(void)
{
    return mono_add_ns(sys.now(), -GONE_KEPT_NS);
}

/* What others have freed, if it is worth a look at so few of many slabs. Under
   s->mutex. */
static unsigned harvest(const struct refill *r)
{
    struct session *s = r->s;
    uint32_t n = s->n_pages < HARVEST_PAGES ? s->n_pages : HARVEST_PAGES;
    uint32_t loose = shm_load(&s->slot->loose);
    mono_t now = sys.now();
    unsigned found;

    if (loose == 0 || loose < (n < HARVEST_PAGES ? n / 4 : s->n_pages) ||
        !mono_reached(r->depot->barren_until, now))
        return 0;
    found = harvest_some(r, n, long_gone());
    if (found == 0 || (n == HARVEST_PAGES && found < n / 4))
        r->depot->barren_until = mono_add_ns(now, BARREN_NS);
    return found;
}

static bool enlarge(struct depot *depot, uint32_t room)
{
    struct entry **entries = realloc(depot->entries, room * sizeof(*entries));

    if (entries == NULL)
        return false;
    depot->entries = entries;
    depot->room = room;
    return true;
}

/* Room to remember one page more, and all its entries: made before the page is
   claimed, as a page that nobody remembers would be lost until the session ends.
   What is not used of it costs no memory. */
static int make_room(struct session *s)
{
    uint32_t room = s->room_pages == 0 ? 16 : s->room_pages * 2;
    uint32_t *pages;

    if (s->n_pages < s->room_pages)
        return 0;
    pages = realloc(s->pages, room * sizeof(*pages));
    if (pages == NULL)
        return why(-ENOMEM, "out of memory");
    s->pages = pages;
    if (!enlarge(&s->small, room * SMALL_PER_PAGE) ||
        !enlarge(&s->large, room * LARGE_PER_PAGE))
        return why(-ENOMEM, "out of memory");
    s->room_pages = room;
    return 0;
}

static int explain_full(const struct map *map)
{
    return why(ENQ_EFULL,
        "%s is full: its %u slots are taken, in pages of %u; each page belongs "
        "to one session",
        map->path, map->h->slab_pages_max * SMALL_PER_PAGE, SMALL_PER_PAGE);
}

/* A page more for the session. Under s->mutex. */
static int claim(struct session *s, struct thread *t, enum page_kind kind,
    uint32_t *page)
{
    int rc = make_room(s);

    if (rc != 0)
        return rc;
    rc = page_claim(s->map, t, kind, s->ref, page);
    if (rc == ENQ_EFULL)
        return explain_full(s->map);
    if (rc != 0)
        return why(rc, "cannot grow %s: %s", s->map->path, enq_strerror(rc));
    s->pages[s->n_pages++] = *page;
    return 0;
}

/* A page more that has something in it for us. */
static int claim_some(const struct refill *r, struct thread *t)
{
    uint32_t page;
    int rc;

    /* A page taken over from the dead may be full of what they hold. What is
       remembered there was to be told to them: it is free if need be, or one
       session would take all such pages and keep them from the others. */
    do {
        rc = claim(r->s, t, r->kind, &page);
        if (rc == 0 && harvest_page(r, page, long_gone()) == 0)
            harvest_page(r, page, sys.now());
    } while (rc == 0 && r->shelf->n == 0);
    return rc;
}

/* Slabs with nothing in them are nobody's from now on. Under s->mutex. */
static uint32_t give_up_pages(struct session *s)
{
    uint32_t given = 0;

    for (uint32_t i = 0; i < s->n_pages;) {
        if (page_give_up(s->map, s->pages[i], s->ref)) {
            s->pages[i] = s->pages[--s->n_pages];
            given++;
        } else {
            i++;
        }
    }
    return given;
}

/* In need: also takes what is remembered for holders that may still ask, and
   gives up the thread's free entries, and then slabs, of the other size. */
static int refill_in_need(const struct refill *r, struct thread *t, int rc)
{
    enum page_kind other = r->kind == PAGE_SMALL ? PAGE_LARGE : PAGE_SMALL;

    if (harvest_some(r, r->s->n_pages, MONO_NEVER) > 0)
        return 0;
    empty(t->magazine, other);
    empty_depot(r->s, other);
    return give_up_pages(r->s) > 0 ? claim_some(r, t) : rc;
}

static int refill_locked(const struct refill *r, struct thread *t)
{
    int rc;

    if (draw(r->depot, r->shelf) > 0 || harvest(r) > 0)
        return 0;
    if (full_is_known(r->s, r->depot))
        return explain_full(r->s->map);
    rc = claim_some(r, t);
    return page_is_short(rc) ? refill_in_need(r, t, rc) : rc;
}

/* The mutex also waits for a helper that is stripping this shelf: afterwards
   the shelf may have entries after all. */
static int refill(struct session *s, struct thread *t, enum page_kind kind,
    struct entry **out)
{
    struct shelf *shelf = shelf_of(t->magazine, kind);
    const struct refill r = {s, kind, shelf, slab_depot(s, kind)};
    int rc = 0;

    pthread_mutex_lock(&s->mutex);
    settle(shelf);
    if (shelf->n == 0)
        rc = refill_locked(&r, t);
    if (rc == 0)
        (void)shelf_pop(shelf, out); /* there is one, and nobody strips it */
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

/* --- take and give: what slab.h leaves over --- */

int slab_take_slow(struct session *s, struct thread *t, enum page_kind kind,
    struct entry **out)
{
    struct magazine *m = magazine_of(s, t);

    if (m == NULL)
        return why(-ENOMEM, "out of memory");
    return shelf_pop(shelf_of(m, kind), out) ? 0 : refill(s, t, kind, out);
}

/* The shelf that it goes back to; NULL: it is not ours, or there is no room. */
static struct shelf *shelf_for(struct session *s, struct thread *t,
    const struct entry *e)
{
    bool large = slab_is_own(s, e, PAGE_LARGE);
    enum page_kind kind = large ? PAGE_LARGE : PAGE_SMALL;
    struct shelf *shelf;
    struct magazine *m;

    if (!large && !slab_is_own(s, e, PAGE_SMALL))
        return NULL;
    m = magazine_of(s, t);
    if (m == NULL)
        return NULL;
    shelf = shelf_of(m, kind);
    return shm_load(&shelf->n) < MAGAZINE_ENTRIES || spill(s, shelf, kind, HALF)
        ? shelf
        : NULL;
}

void slab_give_slow(struct session *s, struct thread *t, struct entry *e)
{
    struct shelf *shelf = s == NULL ? NULL : shelf_for(s, t, e);

    if (shelf == NULL) {
        give_loose(t->map, e, slab_freed_state(e, PHASE_FREE));
        return;
    }
    shm_store_release(&e->state, slab_freed_state(e, PHASE_CACHED));
    ENQ_POINT("unlock.freed");
    shelf_push(shelf, e);
}

void slab_reap(struct map *map, struct entry *e, enum gone why_gone, mono_t now)
{
    uint64_t state = shm_load(&e->state);

    shm_store(&e->since_ns, now.ns);
    give_loose(map, e,
        STATE(STATE_GENERATION(state), PHASE_GONE, STATE_MODE(state),
            why_gone) |
            (state & STATE_ENDED));
}

/* --- asking for what others do not use, and giving it --- */

void slab_want(const struct map *map)
{
    shm_add(&map->h->wanted, 1);
    sys.wake(&map->h->wanted, INT_MAX);
}

/* Says that all entries now on the shelf are the helper's. The shelf's thread
   may be taking one at this moment: see shelf_pop(). */
static void shelf_claim(struct shelf *shelf)
{
    uint32_t n = shm_load(&shelf->n);

    shelf->was = shelf->base;
    ENQ_POINT("shed.counted");
    if ((int32_t)n > (int32_t)shelf->base)
        shm_store(&shelf->base, n);
}

/*
 * Frees what was claimed, but for what the thread has taken before it could see
 * the claim: that shows in `n`, loaded behind the barrier. Where the barrier
 * was refused (@seen false) nothing is certain, and nothing is taken. Entries
 * are given back from `was` to `end`, and `base` ends there, so that the shelf
 * is the thread's again above it.
 */
static void shelf_strip(struct magazine *m, enum page_kind kind, bool seen)
{
    struct shelf *shelf = shelf_of(m, kind);
    int32_t n = (int32_t)shm_load_acquire(&shelf->n);
    uint32_t end = seen ? shelf->base : shelf->was;

    if (n < (int32_t)end)
        end = n < (int32_t)shelf->was ? shelf->was : (uint32_t)n;
    for (uint32_t i = shelf->was; i < end; i++)
        give_cached(m->session, shelf->entries[i], kind);
    shm_store(&shelf->base, end);
}

/* Under s->mutex, and the process's: no magazine comes or goes. */
static void strip_magazines(struct session *s)
{
    struct magazine *m;
    bool seen;

    cds_list_for_each_entry (m, &s->magazines, of_session) {
        shelf_claim(&m->small);
        shelf_claim(&m->large);
    }
    seen = sys_barrier();
    cds_list_for_each_entry (m, &s->magazines, of_session) {
        shelf_strip(m, PAGE_SMALL, seen);
        shelf_strip(m, PAGE_LARGE, seen);
    }
}

void slab_shed(struct session *s)
{
    struct map *map = s->map;
    bool fresh;

    pthread_mutex_lock(&s->mutex);
    process_enter(&fresh);
    strip_magazines(s);
    process_leave();
    empty_depot(s, PAGE_SMALL);
    empty_depot(s, PAGE_LARGE);
    give_up_pages(s);
    pthread_mutex_unlock(&s->mutex);
    shm_add(&map->h->given, 1);
    sys.wake(&map->h->given, INT_MAX);
}
