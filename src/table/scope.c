/*
 * scope.c - floor 4: narrow and wide scopes (see scope.h).
 */
#include "table/scope.h"

#include "base/point.h"
#include "table/page.h"

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

static void leave_wide(struct scope *s)
{
    shm_add(&s->gate->raised, -1);
    ENQ_POINT("gate.lowered");
    word_unlock(s->t, &s->gate->word);
}

/* A wide scope keeps the gate raised until it is left, whatever becomes of
   the generic entries meanwhile. */
static int enter_wide(struct scope *s)
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
        leave_wide(s);
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

static inline int enter_concrete(struct scope *s, uint64_t hash)
{
    uint32_t *word;
    int rc;

    s->shard = shard_of_hash(hash);
    word = &s->map->shards[s->shard].word;
    do {
        rc = word_lock(s->t, word, RANK_SHARD);
        if (unlikely(rc != 0))
            return rc;
        /* Partner: enter_wide. */
        if (likely(shm_load_acquire(&s->gate->raised) == 0))
            return 0;
        word_unlock(s->t, word);
    } while (!enter_if_raised(s, &rc));
    return rc;
}

static inline void scope_init(struct scope *s, uint32_t gate)
{
    s->gate = &s->map->gates[gate];
    s->wide = s->vacant = false;
    s->now = (mono_t){0};
}

int scope_enter(struct scope *s, const struct key *key)
{
    scope_init(s, gate_of_hash(key->name_hash));
    return key->generic != 0 ? enter_wide(s) : enter_concrete(s, key->hash);
}

/* What is read here may be of an entry used anew meanwhile: the caller looks
   at its generation again, inside. */
int scope_enter_entry(struct scope *s, const struct entry *e)
{
    scope_init(s, gate_of_hash(shm_load(&e->name_hash)));
    return shm_load(&e->generic) != 0 ? enter_wide(s)
                                      : enter_concrete(s, shm_load(&e->hash));
}

static void send_wakes(struct thread *t)
{
    for (unsigned i = 0; i < t->n_wakes; i++)
        if (shm_load(&t->wakes[i]->asleep))
            sys.wake((const uint32_t *)&t->wakes[i]->state, 1);
    t->n_wakes = 0;
}

void scope_leave(struct scope *s)
{
    uint32_t cramped = 0;

    if (likely(!s->wide)) {
        cramped = s->map->shards[s->shard].cramped;
        word_unlock(s->t, &s->map->shards[s->shard].word);
    } else {
        leave_wide(s);
    }
    ENQ_POINT("grant.before_wake");
    if (unlikely(s->t->n_wakes > 0))
        send_wakes(s->t);
    if (unlikely(cramped))
        page_add_segment(s->map, s->t, s->shard);
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
    if (s->t->n_wakes == WAKES_MAX) {
        shm_fence();
        send_wakes(s->t);
    }
    s->t->wakes[s->t->n_wakes++] = e;
}

/* --- looking --- */

struct entry *scope_object(struct scope *s, const struct key *key)
{
    struct spot spot = spot_of_key(key);

    return index_find(s->map, &spot, key);
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
    unsigned name = spot_of_key(key).tag >> 8;
    uint32_t left = s->map->h->slots_max;
    int rc = 0;

    for (unsigned i = 0; i < LINE_SLOTS && rc == 0 && *more; i++)
        if (line->ref[i] != 0 && line->tag[i] >> 8 == name)
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

    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < s->map->shards[shard].n_lines; i++) {
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
    uint32_t shard = shard_of_hash(key->hash);
    uint32_t *word = &s->map->shards[shard].word;
    struct entry *first;
    int rc = word_lock(s->t, word, RANK_SHARD);

    if (rc != 0)
        return rc;
    first = scope_object(s, key);
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
    /* Without the word: shards with no object at all have none of this name,
       and none can appear while we hold the gate. */
    for (uint32_t i = 0; i < SHARDS && rc == 0 && more; i++)
        if (shm_load(&s->map->shards[i].n_objects) > 0)
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
