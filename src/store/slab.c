/*
 * slab.c - store: entries from magazines, and magazines from slabs.
 */
#include "store/slab.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/point.h"
#include "base/process.h"
#include "base/why.h"
#include "store/call.h"
#include "store/page.h"
#include "sync/sys.h"

/* How long a taken-away lock is remembered for a holder who does not ask. */
#define GONE_KEPT_NS (60 * NS_PER_S)
/* How long not to look again where nothing was found. */
#define BARREN_NS (NS_PER_S)

void slab_session_init(struct session *s)
{
    static uint64_t serials;

    s->serial = shm_add(&serials, 1);
    pthread_mutex_init(&s->mutex, NULL);
    CDS_INIT_LIST_HEAD(&s->magazines);
    s->pages = NULL;
    s->n_pages = s->room_pages = 0;
    s->small = s->large = (struct slab_search){0};
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
}

/* Leaves it to whoever owns the slab. */
static void give_loose(struct map *map, struct entry *e, uint64_t state)
{
    uint32_t page = map_page_of(map, map_ref(map, e));
    session_ref_t owner = shm_load(&map->pages[page].owner);

    shm_store_release(&e->state, state);
    ENQ_POINT("unlock.freed");
    if (owner != 0)
        shm_add(&at_session(map, owner)->loose, 1);
    else
        shm_add(&map->h->orphan_pages, 1); /* worth another look */
}

/* An entry of a magazine. Another thread may be closing the session, and the
   page be another session's by now: not if it is ours after its state was
   read, and that is the same still. */
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

/* Over what the helper thread has taken away. Under s->mutex. */
static void settle(struct shelf *shelf)
{
    uint32_t n = shelf->n - shelf->base;

    memmove(shelf->entries, shelf->entries + shelf->base,
        n * sizeof(shelf->entries[0]));
    shm_store(&shelf->base, 0);
    shm_store_release(&shelf->n, n);
}

void slab_thread_ends(struct thread *t)
{
    struct magazine *m, *next;
    bool fresh;

    process_enter(&fresh);
    cds_list_for_each_entry_safe (m, next, &t->magazines, of_thread) {
        empty(m, PAGE_SMALL);
        empty(m, PAGE_LARGE);
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
    struct slab_search *search;
};

/* Whoever listens has yet to hear of it. */
static bool is_untold(const struct map *map, const struct entry *e,
    uint64_t state)
{
    return (state & STATE_TOLD) == 0 &&
        call_is_wanted(map, shm_load(&e->session));
}

/* May its slab's owner take it? Others act on live entries only; so once free,
   or gone for long, it is ours by a swap. In need of room (gone_before is
   never) also what its session has not heard of yet. As in give_cached() the
   page may be another's by now. */
static bool harvest_one(const struct refill *r, struct entry *e,
    mono_t gone_before)
{
    const struct map *map = r->s->map;
    uint64_t state = shm_load_acquire(&e->state);
    unsigned phase = STATE_PHASE(state);
    bool old = phase == PHASE_GONE && e->since_ns <= gone_before.ns &&
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

    if (shm_load(&map->pages[page].kind) != r->kind)
        return 0;
    for (unsigned i = 0; i < n && r->shelf->n < MAGAZINE_ENTRIES; i++) {
        struct entry *e = at_entry(map, page_entry_ref(map, page, i, units));
        if (e != NULL && harvest_one(r, e, gone_before))
            shelf_push(r->shelf, e);
    }
    return r->shelf->n - before;
}

static void took_loose(struct session *s, unsigned found)
{
    uint32_t loose = shm_load(&s->slot->loose);

    while (loose > 0 &&
        !shm_cas(&s->slot->loose, &loose, loose > found ? loose - found : 0))
        continue;
}

static unsigned harvest_all(const struct refill *r, mono_t gone_before)
{
    struct slab_search *search = r->search;
    struct session *s = r->s;
    unsigned found = 0;

    for (uint32_t i = 0; i < s->n_pages && r->shelf->n < MAGAZINE_ENTRIES;
         i++) {
        search->cursor =
            search->cursor + 1 < s->n_pages ? search->cursor + 1 : 0;
        found += harvest_page(r, s->pages[search->cursor], gone_before);
    }
    took_loose(s, found);
    return found;
}

static mono_t long_gone(void)
{
    return mono_add_ns(sys.now(), -GONE_KEPT_NS);
}

/* What others have freed, if any. Under s->mutex. */
static unsigned harvest(const struct refill *r)
{
    mono_t now = sys.now();
    unsigned found;

    if (shm_load(&r->s->slot->loose) == 0 ||
        !mono_reached(r->search->barren_until, now))
        return 0;
    found = harvest_all(r, long_gone());
    if (found == 0)
        r->search->barren_until = mono_add_ns(now, BARREN_NS);
    return found;
}

/* To remember one page more. */
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
    s->room_pages = room;
    return 0;
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
        return why(rc,
            "%s is full: its %u slots are taken, in pages of %u that belong "
            "to one session each",
            s->map->path, s->map->h->slab_pages_max * SMALL_PER_PAGE,
            SMALL_PER_PAGE);
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

/* In need: what is remembered for those who may still ask goes as well, and
   entries of the other size make way. */
static int refill_in_need(const struct refill *r, struct thread *t, int rc)
{
    if (harvest_all(r, MONO_NEVER) > 0)
        return 0;
    empty(t->magazine, r->kind == PAGE_SMALL ? PAGE_LARGE : PAGE_SMALL);
    return give_up_pages(r->s) > 0 ? claim_some(r, t) : rc;
}

static int refill_locked(const struct refill *r, struct thread *t)
{
    int rc;

    if (harvest(r) > 0)
        return 0;
    rc = claim_some(r, t);
    return page_is_short(rc) ? refill_in_need(r, t, rc) : rc;
}

static int refill(struct session *s, struct thread *t, enum page_kind kind,
    struct entry **out)
{
    struct shelf *shelf = shelf_of(t->magazine, kind);
    const struct refill r = {
        s, kind, shelf, kind == PAGE_SMALL ? &s->small : &s->large};
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

/* Where it goes back to; NULL: it is not ours, or there is no room. */
static struct shelf *shelf_for(struct session *s, struct thread *t,
    const struct entry *e)
{
    bool large = slab_is_own(s, e, PAGE_LARGE);
    struct shelf *shelf;
    struct magazine *m;

    if (!large && !slab_is_own(s, e, PAGE_SMALL))
        return NULL;
    m = magazine_of(s, t);
    if (m == NULL)
        return NULL;
    shelf = large ? &m->large : &m->small;
    return shm_load(&shelf->n) == MAGAZINE_ENTRIES ? NULL : shelf;
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

void slab_bury(struct map *map, struct entry *e, enum gone why_gone, mono_t now)
{
    uint64_t state = shm_load(&e->state);

    shm_store(&e->since_ns, now.ns);
    give_loose(map, e,
        STATE(STATE_GENERATION(state), PHASE_GONE, STATE_MODE(state),
            why_gone) |
            (state & STATE_ENDED));
}

/* --- asking for what others do not use, and giving it --- */

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

void slab_want(const struct map *map)
{
    shm_add(&map->h->wanted, 1);
    sys.wake(&map->h->wanted, INT_MAX);
}

/* The magazine is its thread's, who may be at it just now: see shelf_pop(). */
static void shelf_claim(struct shelf *shelf)
{
    uint32_t n = shm_load(&shelf->n);

    shelf->was = shelf->base;
    ENQ_POINT("shed.counted");
    if ((int32_t)n > (int32_t)shelf->base)
        shm_store(&shelf->base, n);
}

/* Who took some before he could see it has said so. */
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
    give_up_pages(s);
    pthread_mutex_unlock(&s->mutex);
    shm_add(&map->h->given, 1);
    sys.wake(&map->h->given, INT_MAX);
}

/* --- walking --- */

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

    for (uint32_t page = 0; page < used; page++)
        if (shm_load(&map->pages[page].owner) == ref &&
            !each_of_page(map, page, see, context))
            return;
}
