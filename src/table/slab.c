/*
 * slab.c - floor 4: entries from magazines, and magazines from slabs.
 */
#include "table/slab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/point.h"
#include "base/process.h"
#include "base/why.h"
#include "sync/sys.h"
#include "table/page.h"

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
    s->n_pages = s->room_pages = s->cursor = 0;
    s->barren_until = (mono_t){0};
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
    cds_list_for_each_entry_safe(m, next, &s->magazines, of_session)
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
}

static uint64_t freed_state(const struct entry *e, enum phase phase)
{
    return STATE(STATE_GENERATION(shm_load(&e->state)) + 1, phase, 0, 0);
}

void slab_thread_ends(struct thread *t)
{
    struct magazine *m, *next;
    bool fresh;

    process_enter(&fresh);
    cds_list_for_each_entry_safe(m, next, &t->magazines, of_thread)
    {
        while (m->n > 0) {
            struct entry *e = at_entry(t->map, m->entries[--m->n]);
            if (e != NULL)
                give_loose(t->map, e, freed_state(e, PHASE_FREE));
        }
        magazine_free(m);
    }
    process_leave();
}

static struct magazine *magazine_make(struct session *s, struct thread *t)
{
    struct magazine *m = NULL, *other;
    bool fresh;

    process_enter(&fresh);
    cds_list_for_each_entry(other, &t->magazines,
        of_thread) if (other->serial == s->serial) m = other;
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

static inline struct magazine *magazine_of(struct session *s, struct thread *t)
{
    if (likely(t->magazine_of == s->serial))
        return t->magazine;
    t->magazine = magazine_make(s, t);
    t->magazine_of = t->magazine == NULL ? 0 : s->serial;
    return t->magazine;
}

/* --- refilling --- */

/* May its slab's owner take it? Others act on live entries only; so once free,
   or gone for long, it is ours by a swap. */
static bool harvest_one(struct entry *e, mono_t gone_before)
{
    uint64_t state = shm_load_acquire(&e->state);
    unsigned phase = STATE_PHASE(state);
    bool old = phase == PHASE_GONE && e->since_ns <= gone_before.ns;

    if (phase != PHASE_FREE && !old)
        return false;
    return shm_cas(&e->state, &state,
        STATE(STATE_GENERATION(state) + 1, PHASE_CACHED, 0, 0));
}

/* Small entries of one page into the magazine. */
static unsigned harvest_page(struct session *s, struct magazine *m,
    uint32_t page, mono_t gone_before)
{
    unsigned found = 0;

    if (shm_load(&s->map->pages[page].kind) != PAGE_SMALL)
        return 0;
    for (unsigned i = 0; i < SMALL_PER_PAGE && m->n < MAGAZINE_ENTRIES; i++) {
        ref_t ref = page_entry_ref(s->map, page, i, SMALL_UNITS);
        if (!harvest_one(at_entry(s->map, ref), gone_before))
            continue;
        m->entries[m->n++] = ref;
        found++;
    }
    return found;
}

static void took_loose(struct session *s, unsigned found)
{
    uint32_t loose = shm_load(&s->slot->loose);

    while (loose > 0 &&
        !shm_cas(&s->slot->loose, &loose, loose > found ? loose - found : 0))
        continue;
}

static unsigned harvest_all(struct session *s, struct magazine *m,
    mono_t gone_before)
{
    unsigned found = 0;

    for (uint32_t i = 0; i < s->n_pages && m->n < MAGAZINE_ENTRIES; i++) {
        s->cursor = s->cursor + 1 < s->n_pages ? s->cursor + 1 : 0;
        found += harvest_page(s, m, s->pages[s->cursor], gone_before);
    }
    took_loose(s, found);
    return found;
}

static mono_t long_gone(void)
{
    return mono_add_ns(sys.now(), -GONE_KEPT_NS);
}

/* What others have freed, if any. Under s->mutex. */
static unsigned harvest(struct session *s, struct magazine *m)
{
    mono_t now = sys.now();
    unsigned found;

    if (shm_load(&s->slot->loose) == 0 || !mono_reached(s->barren_until, now))
        return 0;
    found = harvest_all(s, m, long_gone());
    if (found == 0)
        s->barren_until = mono_add_ns(now, BARREN_NS);
    return found;
}

static int remember_page(struct session *s, uint32_t page)
{
    if (s->n_pages == s->room_pages) {
        uint32_t room = s->room_pages == 0 ? 16 : s->room_pages * 2;
        uint32_t *pages = realloc(s->pages, room * sizeof(*pages));

        if (pages == NULL)
            return why(-ENOMEM, "out of memory");
        s->pages = pages;
        s->room_pages = room;
    }
    s->pages[s->n_pages++] = page;
    return 0;
}

/* A page more for the session. Under s->mutex. */
static int claim(struct session *s, struct thread *t, enum page_kind kind,
    uint32_t *page)
{
    int rc = page_claim(s->map, t, kind, s->ref, page);

    if (rc == ENQ_EFULL)
        return why(rc,
            "%s is full: its %u slots are taken, in pages of %u that belong "
            "to one session each",
            s->map->path, s->map->h->slab_pages_max * SMALL_PER_PAGE,
            SMALL_PER_PAGE);
    if (rc != 0)
        return why(rc, "cannot grow %s: %s", s->map->path, enq_strerror(rc));
    return remember_page(s, *page);
}

static int refill_locked(struct session *s, struct thread *t,
    struct magazine *m)
{
    uint32_t page;
    int rc;

    if (harvest(s, m) > 0)
        return 0;
    /* a page taken over from the dead may be full of what they left */
    do {
        rc = claim(s, t, PAGE_SMALL, &page);
        if (rc == 0)
            harvest_page(s, m, page, long_gone());
    } while (rc == 0 && m->n == 0);
    /* in need: what is remembered for those who may still ask goes as well */
    if (rc == ENQ_EFULL && harvest_all(s, m, sys.now()) > 0)
        return 0;
    return rc;
}

static int refill(struct session *s, struct thread *t, struct magazine *m)
{
    int rc;

    pthread_mutex_lock(&s->mutex);
    rc = refill_locked(s, t, m);
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

/* --- large entries --- */

/* Long names and keys are rare: no magazine, a look through the slabs. */
static struct entry *large_harvest(struct session *s, uint32_t page,
    mono_t gone_before)
{
    if (shm_load(&s->map->pages[page].kind) != PAGE_LARGE)
        return NULL;
    for (unsigned i = 0; i < LARGE_PER_PAGE; i++) {
        ref_t ref = page_entry_ref(s->map, page, i, LARGE_UNITS);
        struct entry *e = at_entry(s->map, ref);
        if (harvest_one(e, gone_before))
            return e;
    }
    return NULL;
}

static struct entry *large_harvest_all(struct session *s, mono_t gone_before)
{
    struct entry *e = NULL;

    for (uint32_t i = s->n_pages; i > 0 && e == NULL; i--)
        e = large_harvest(s, s->pages[i - 1], gone_before);
    return e;
}

/* Under s->mutex. */
static int large_take_locked(struct session *s, struct thread *t,
    struct entry **out)
{
    uint32_t page;
    int rc = 0;

    *out = large_harvest_all(s, long_gone());
    while (*out == NULL && rc == 0) {
        rc = claim(s, t, PAGE_LARGE, &page);
        if (rc == 0)
            *out = large_harvest(s, page, long_gone());
    }
    if (rc == ENQ_EFULL)
        *out = large_harvest_all(s, sys.now());
    return *out != NULL ? 0 : rc;
}

static int large_take(struct session *s, struct thread *t, struct entry **out)
{
    int rc;

    pthread_mutex_lock(&s->mutex);
    rc = large_take_locked(s, t, out);
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

/* --- take and give --- */

int slab_take(struct session *s, struct thread *t, size_t payload,
    struct entry **out)
{
    struct magazine *m;

    if (unlikely(payload > SMALL_PAYLOAD))
        return large_take(s, t, out);
    m = magazine_of(s, t);
    if (unlikely(m == NULL))
        return why(-ENOMEM, "out of memory");
    if (unlikely(m->n == 0)) {
        int rc = refill(s, t, m);
        if (rc != 0)
            return rc;
    }
    *out = at_entry(s->map, m->entries[--m->n]);
    return likely(*out != NULL) ? 0 : ENQ_ECORRUPT;
}

/* Is this entry in a slab of ours, and small? Then its page says so. */
static bool is_ours(const struct session *s, const struct entry *e)
{
    uint32_t page = map_page_of(s->map, map_ref(s->map, e));

    return shm_load(&s->map->pages[page].owner) == s->ref &&
        shm_load(&s->map->pages[page].kind) == PAGE_SMALL;
}

void slab_give(struct session *s, struct thread *t, struct entry *e)
{
    struct magazine *m = NULL;

    if (s != NULL && is_ours(s, e))
        m = magazine_of(s, t);
    if (m == NULL || m->n == MAGAZINE_ENTRIES) {
        give_loose(t->map, e, freed_state(e, PHASE_FREE));
        return;
    }
    shm_store_release(&e->state, freed_state(e, PHASE_CACHED));
    ENQ_POINT("unlock.freed");
    m->entries[m->n++] = map_ref(s->map, e);
}

void slab_bury(struct map *map, struct entry *e, enum gone why_gone, mono_t now)
{
    uint64_t state = shm_load(&e->state);

    e->since_ns = now.ns;
    give_loose(map, e,
        STATE(STATE_GENERATION(state), PHASE_GONE, STATE_MODE(state),
            why_gone));
}

/* --- walking --- */

static bool each_of_page(const struct map *map, uint32_t page,
    entry_see_fn *see, void *context)
{
    uint32_t kind = shm_load_acquire(&map->pages[page].kind);
    unsigned units = kind == PAGE_SMALL ? SMALL_UNITS : LARGE_UNITS;
    unsigned n = kind == PAGE_SMALL ? SMALL_PER_PAGE : LARGE_PER_PAGE;

    if (kind != PAGE_SMALL && kind != PAGE_LARGE)
        return true;
    for (unsigned i = 0; i < n; i++) {
        struct entry *e = at_entry(map, page_entry_ref(map, page, i, units));
        if (e != NULL && !see(context, e))
            return false;
    }
    return true;
}

static uint32_t pages_used(const struct map *map)
{
    uint32_t used = shm_load_acquire(&map->h->pages_used);

    return used < map->pages_max ? used : map->pages_max;
}

void slab_each(const struct map *map, entry_see_fn *see, void *context)
{
    uint32_t used = pages_used(map);

    for (uint32_t page = 0; page < used; page++)
        if (!each_of_page(map, page, see, context))
            return;
}

void slab_each_of(const struct map *map, session_ref_t ref, entry_see_fn *see,
    void *context)
{
    uint32_t used = pages_used(map);

    for (uint32_t page = 0; page < used; page++)
        if (shm_load(&map->pages[page].owner) == ref &&
            !each_of_page(map, page, see, context))
            return;
}
