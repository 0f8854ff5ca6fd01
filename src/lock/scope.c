/*
 * scope.c - lock: narrow and wide scopes (see scope.h).
 */
#include "lock/scope.h"

#include "base/point.h"
#include "store/call.h"
#include "store/page.h"

/* --- entering --- */

/*
 * The gate goes from down to raised: requests that are inside a shard now may
 * have read it as down. Passing through each shard's word once lets them
 * finish; whoever comes later sees the gate raised.
 */
static int drain_shards(struct scope *s)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        int rc = word_lock(s->t, &s->map->shards[i].word, RANK_SHARD);
        if (rc != 0)
            return rc;
        word_unlock(s->t, &s->map->shards[i].word);
    }
    return 0;
}

void scope_lower(struct scope *s)
{
    shm_add(&s->gate->raised, -1);
    ENQ_POINT("gate.lowered");
    word_unlock(s->t, &s->gate->word);
}

/* A wide scope keeps the gate raised until it is left, whatever becomes of
   the generic entries meanwhile. */
int scope_raise(struct scope *s)
{
    int rc = word_lock(s->t, &s->gate->word, RANK_GATE);

    if (rc != 0)
        return rc;
    s->wide = true;
    /* Partner: the load in enter_concrete, ordered by each shard's word. */
    if (shm_add(&s->gate->raised, 1) == 1)
        rc = drain_shards(s);
    ENQ_POINT("gate.raised");
    if (rc != 0)
        scope_lower(s);
    return rc;
}

/* Raised when we looked, but perhaps not any more: then there is no need to
   go the wide way. True: decided. */
static bool enter_if_raised(struct scope *s, int *rc)
{
    *rc = word_lock(s->t, &s->gate->word, RANK_GATE);
    if (*rc != 0)
        return true;
    if (shm_load_acquire(&s->gate->raised) == 0) {
        word_unlock(s->t, &s->gate->word);
        return false;
    }
    s->wide = true;
    shm_add(&s->gate->raised, 1);
    return true;
}

static int enter_concrete(struct scope *s)
{
    uint32_t *word = &s->map->shards[s->spot.shard].word;
    int rc;

    do {
        rc = word_lock(s->t, word, RANK_SHARD);
        if (unlikely(rc != 0))
            return rc;
        /* Partner: scope_raise. */
        if (likely(shm_load_acquire(&s->gate->raised) == 0))
            return 0;
        word_unlock(s->t, word);
    } while (!enter_if_raised(s, &rc));
    return rc;
}

int scope_enter_slow(struct scope *s, bool generic)
{
    return generic ? scope_raise(s) : enter_concrete(s);
}

/* Partner of `asleep`: sleep_on() in wait.c. */
void scope_send_wakes(struct thread *t)
{
    shm_fence(); /* our stores of states, before the loads of `asleep` */
    for (unsigned i = 0; i < t->n_wakes; i++)
        call_up(t->map, t->wakes[i]);
    t->n_wakes = 0;
}

void scope_leave_slow(struct scope *s)
{
    uint32_t cramped = shm_load(&s->map->shards[s->spot.shard].cramped);

    if (!s->wide) {
        word_unlock(s->t, &s->map->shards[s->spot.shard].word);
    } else {
        scope_lower(s);
    }
    ENQ_POINT("grant.before_wake");
    if (s->t->n_wakes > 0)
        scope_send_wakes(s->t);
    if (cramped)
        page_add_segment(s->map, s->t, s->spot.shard);
}

mono_t scope_clock(struct scope *s)
{
    if (s->now.ns == 0)
        s->now = sys.now();
    return s->now;
}

/*
 * More than fit: those so far are woken at once, under the words. That is a
 * system call where none should be, but after 128 grants in one pass.
 */
void scope_wake(struct scope *s, struct entry *e)
{
    if (s->t->n_wakes == WAKES_MAX)
        scope_send_wakes(s->t);
    s->t->wakes[s->t->n_wakes++] = e;
}

/* --- looking --- */

struct entry *scope_object(struct scope *s, const struct key *key)
{
    if (!s->known) {
        s->first = index_find(s->map, &s->spot, key);
        s->known = true;
    }
    return s->first;
}

static int see_ring(struct scope *s, struct entry *first, entry_see_fn *see,
    void *context, bool *more)
{
    struct ring ring = ring_from(s->map, first);
    struct entry *e;

    while (*more && (e = ring_next(&ring)) != NULL)
        *more = see(context, e);
    return ring.damaged ? ENQ_ECORRUPT : 0;
}

/* The gate's generic entries that overlap. */
static int see_gate(struct scope *s, const struct key *key, entry_see_fn *see,
    void *context, bool *more)
{
    struct ring ring = ring_from(s->map, at_entry(s->map, s->gate->head));
    struct entry *e;
    struct key other;

    while (*more && (e = ring_next(&ring)) != NULL)
        if (entry_key(s->map, e, &other) && key_overlaps(key, &other))
            *more = see(context, e);
    return ring.damaged ? ENQ_ECORRUPT : 0;
}

static int see_object(struct scope *s, struct entry *first,
    const struct key *key, entry_see_fn *see, void *context, bool *more)
{
    struct key other;

    if (first == NULL || !entry_key(s->map, first, &other))
        return ENQ_ECORRUPT;
    return key_overlaps(key, &other) ? see_ring(s, first, see, context, more)
                                     : 0;
}

/* Objects of one line whose tag has the name's half. */
static int see_line(struct scope *s, const struct line *line,
    const struct key *key, entry_see_fn *see, void *context, bool *more)
{
    unsigned name = spot_tag(key->name_hash, key->hash) >> 8;
    uint32_t left = s->map->entries_max;
    int rc = 0;

    for (unsigned i = 0; i < LINE_SLOTS && rc == 0 && *more; i++)
        if (line->tag[i] != 0 && line->tag[i] >> 8 == name)
            rc = see_object(s, at_entry(s->map, line->ref[i]), key, see,
                context, more);
    for (ref_t ref = line->more; ref != 0 && rc == 0 && *more;) {
        struct entry *e = at_entry(s->map, ref);
        if (e == NULL || left-- == 0)
            return ENQ_ECORRUPT;
        ref = e->spill;
        rc = see_object(s, e, key, see, context, more);
    }
    return rc;
}

static int see_shard(struct scope *s, uint32_t shard, const struct key *key,
    entry_see_fn *see, void *context, bool *more)
{
    uint32_t *word = &s->map->shards[shard].word;
    int rc = word_lock(s->t, word, RANK_SHARD);
    uint32_t n;

    if (rc != 0)
        return rc;
    n = s->map->shards[shard].n_objects == 0 ? 0
                                             : s->map->shards[shard].n_lines;
    for (uint32_t i = 0; i < n; i++) {
        const struct line *line = at_line(s->map, shard, i);
        rc = line == NULL ? ENQ_ECORRUPT
                          : see_line(s, line, key, see, context, more);
        if (rc != 0 || !*more)
            break;
    }
    word_unlock(s->t, word);
    return rc;
}

static int visit_shard_object(struct scope *s, const struct key *key,
    entry_see_fn *see, void *context, bool *more)
{
    struct spot spot = spot_of(key->name_hash, key->hash);
    uint32_t *word = &s->map->shards[spot.shard].word;
    struct entry *first;
    int rc = word_lock(s->t, word, RANK_SHARD);

    if (rc != 0)
        return rc;
    first = index_find(s->map, &spot, key);
    if (first != NULL)
        rc = see_ring(s, first, see, context, more);
    word_unlock(s->t, word);
    return rc;
}

static int visit_wide(struct scope *s, const struct key *key, entry_see_fn *see,
    void *context)
{
    bool more = true;
    int rc = see_gate(s, key, see, context, &more);

    if (rc != 0 || !more)
        return rc;
    if (key->generic == 0)
        return visit_shard_object(s, key, see, context, &more);
    /* Under each word, though none of this name can appear while we hold the
       gate: a shard that is being remade, as somebody died in it, looks empty.
     */
    for (uint32_t i = 0; i < SHARDS && rc == 0 && more; i++)
        rc = see_shard(s, i, key, see, context, &more);
    return rc;
}

int scope_visit(struct scope *s, const struct key *key, entry_see_fn *see,
    void *context)
{
    bool more = true;
    struct entry *first;

    if (s->wide)
        return visit_wide(s, key, see, context);
    first = scope_object(s, key);
    return first == NULL ? 0 : see_ring(s, first, see, context, &more);
}

struct waking {
    struct scope *s;
    bool behind; /* one that waits before them has been woken */
};

/* One that has looked and does not sleep yet is not woken: its note keeps it
   from sleeping. But in a narrow scope who stands behind another leaves time to
   him, unless it is of a set, which waits elsewhere as well. */
static bool wake_waiter(void *context, struct entry *e)
{
    struct waking *w = context;

    if (!entry_is(e, PHASE_WAITING))
        return true;
    if (!w->behind || w->s->wide || entry_is_of_set(e))
        shm_or(&e->state, STATE_SOONER);
    w->behind = true;
    scope_wake(w->s, e);
    return true;
}

int scope_wake_waiters(struct scope *s, const struct key *key)
{
    struct waking w = {s, false};

    return scope_visit(s, key, wake_waiter, &w);
}
