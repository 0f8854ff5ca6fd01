/*
 * scope.c - lock: narrow and wide scopes (see scope.h).
 */
#include "lock/scope.h"

#include "base/point.h"
#include "store/notify.h"
#include "store/page.h"

/* --- entering --- */

/*
 * The gate goes from down to raised: requests that are inside a shard now may
 * have read it as down. Passing through each shard's latch once lets them
 * finish; a request that comes later sees the gate raised. That costs SHARDS
 * latches, one at a time, whenever a gate is raised from 0.
 *
 * Recovery relies on the same: a shard whose latch is a dead thread's is
 * recovered by latch_acquire(), and what that thread placed is in the ring when
 * we are in.
 */
static int drain_shards(struct scope *s)
{
    enq_assert(holds_latch(s->t, &s->gate->latch));
    for (uint32_t i = 0; i < SHARDS; i++) {
        int rc = latch_acquire(s->t, &s->map->shards[i].latch, RANK_SHARD);
        if (rc != 0)
            return rc;
        latch_release(s->t, &s->map->shards[i].latch);
    }
    return 0;
}

/* Under the gate's latch, as each change of `raised`. A thread that dies in
   here leaves that latch, and the gate raised perhaps: recovery stores what the
   gate's ring says (set_gates). */
void scope_lower(struct scope *s)
{
    enq_assert(holds_latch(s->t, &s->gate->latch));
    shm_add(&s->gate->raised, -1);
    ENQ_POINT("gate.lowered");
    latch_release(s->t, &s->gate->latch);
}

/* A wide scope keeps the gate raised until it is left, whatever becomes of the
   generic entries meanwhile: it counts as one of them. A gate that is raised
   already needs no drain: the thread that raised it did so under this latch. */
int scope_raise(struct scope *s)
{
    int rc = latch_acquire(s->t, &s->gate->latch, RANK_GATE);

    if (rc != 0)
        return rc;
    s->wide = true;
    /* Partner: the load in enter_concrete, ordered by each shard's latch. */
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
    enq_assert(s->t->n_held == 0 && !s->wide);
    *rc = latch_acquire(s->t, &s->gate->latch, RANK_GATE);
    if (*rc != 0)
        return true;
    if (shm_load_acquire(&s->gate->raised) == 0) {
        latch_release(s->t, &s->gate->latch);
        return false;
    }
    s->wide = true;
    shm_add(&s->gate->raised, 1);
    return true;
}

/* Narrow if the gate is down, seen inside the shard's latch; else the gate's
   latch first, as its rank is lower. Then it may be down again, hence the loop:
   each round somebody else has had the gate. */
static int enter_concrete(struct scope *s)
{
    uint32_t *latch = &s->map->shards[s->spot.shard].latch;
    int rc;

    enq_assert(s->t->n_held == 0 && !s->wide);
    do {
        rc = latch_acquire(s->t, latch, RANK_SHARD);
        if (unlikely(rc != 0))
            return rc;
        /* Partner: scope_raise. */
        if (likely(shm_load_acquire(&s->gate->raised) == 0))
            return 0;
        latch_release(s->t, latch);
    } while (!enter_if_raised(s, &rc));
    return rc;
}

int scope_enter_slow(struct scope *s, bool generic)
{
    enq_assert(s->t->n_held == 0 && !s->wide);
    return generic ? scope_raise(s) : enter_concrete(s);
}

/*
 * Partner of `asleep`: sleep_on() in wait.c, of which each waiter stores
 * `asleep` before it loads its state. We store the state before we load
 * `asleep` (notify); with a full fence on both sides one of the two sees the
 * other: no wake-up is lost, and none is sent to a thread that is awake.
 *
 * The entry may have been given back and used anew since it was noted: then a
 * stranger is woken in vain, and looks.
 */
void scope_send_wakes(struct thread *t)
{
    enq_assert(t->n_wakes <= WAKES_MAX);
    shm_fence(); /* our stores of states, before the loads of `asleep` */
    for (unsigned i = 0; i < t->n_wakes; i++)
        notify(t->map, t->wakes[i]);
    t->n_wakes = 0;
}

/* `cramped` is read before the latch is released, and is a hint: more buckets
   are added outside of all latches, as that may be a system call. */
void scope_leave_slow(struct scope *s)
{
    uint32_t cramped = shm_load(&s->map->shards[s->spot.shard].cramped);

    enq_assert(scope_is_entered(s));
    if (!s->wide) {
        latch_release(s->t, &s->map->shards[s->spot.shard].latch);
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
    enq_assert(scope_is_entered(s));
    if (s->now.ns == 0)
        s->now = sys.now();
    return s->now;
}

/*
 * More than fit: those so far are woken at once, under the latches. That is a
 * system call where none should be, but after 128 grants in one pass.
 */
void scope_wake(struct scope *s, struct entry *e)
{
    enq_assert(scope_is_entered(s));
    if (s->t->n_wakes == WAKES_MAX)
        scope_send_wakes(s->t);
    s->t->wakes[s->t->n_wakes++] = e;
}

/* --- looking --- */

/* Under the shard's latch the answer holds until a step of this scope changes
   the ring's beginning; scope_changed() says so. */
struct entry *scope_object_slow(struct scope *s, const struct key *key)
{
    enq_assert(!s->wide && scope_is_entered(s));
    s->first = index_find(s->map, &s->spot, key);
    s->known = true;
    return s->first;
}

/* A ring is links, and those another process may have damaged: ring_next()
   counts its steps, and says `damaged` where it does not close. */
static int see_ring(struct scope *s, struct entry *first, entry_see_fn *see,
    void *context, bool *more)
{
    struct ring ring = ring_from(s->map, first);
    struct entry *e;

    enq_assert(scope_is_entered(s));
    while (*more && (e = ring_next(&ring)) != NULL)
        *more = see(context, e);
    return ring.damaged ? ENQ_ECORRUPT : 0;
}

/* The gate's generic entries that overlap. A gate is one of many names, by
   hash, so that its ring has entries of others, too. There may be thousands
   that do not overlap: of these the texts are not read. */
static int see_gate(struct scope *s, const struct key *key, entry_see_fn *see,
    void *context, bool *more)
{
    struct ring ring = ring_from(s->map, at_entry(s->map, s->gate->head));
    uint64_t digest = key->generic != 0 || ring.at == 0
        ? key->hash
        : key_digest(key, s->map->hash_seed);
    struct entry *e;
    struct key other;

    enq_assert(s->wide && scope_is_entered(s));
    while (*more && (e = ring_next(&ring)) != NULL)
        if (e->name_hash == key->name_hash && e->fields == key->fields &&
            key_may_overlap(e->hash, digest, key->fields) &&
            entry_key(s->map, e, &other) && key_overlaps(key, &other))
            *more = see(context, e);
    return ring.damaged ? ENQ_ECORRUPT : 0;
}

static int see_object(struct scope *s, struct entry *first,
    const struct key *key, entry_see_fn *see, void *context, bool *more)
{
    struct key other;

    enq_assert(s->wide && scope_is_entered(s));
    if (first == NULL || !entry_key(s->map, first, &other))
        return ENQ_ECORRUPT;
    return key_overlaps(key, &other) ? see_ring(s, first, see, context, more)
                                     : 0;
}

/* Objects of one bucket whose tag has the name's half. The chain of those that
   found no slot has no tags: each is looked at. */
static int see_line(struct scope *s, const struct bucket *bucket,
    const struct key *key, entry_see_fn *see, void *context, bool *more)
{
    unsigned name = spot_tag(key->name_hash, key->hash) >> 8;
    uint32_t left = s->map->entries_max;
    int rc = 0;

    enq_assert(s->wide && scope_is_entered(s));
    for (unsigned i = 0; i < BUCKET_SLOTS && rc == 0 && *more; i++)
        if (bucket->tag[i] != 0 && bucket->tag[i] >> 8 == name)
            rc = see_object(s, at_entry(s->map, bucket->ref[i]), key, see,
                context, more);
    for (ref_t ref = bucket->more; ref != 0 && rc == 0 && *more;) {
        struct entry *e = at_entry(s->map, ref);
        if (e == NULL || left-- == 0)
            return ENQ_ECORRUPT;
        ref = e->spill;
        rc = see_object(s, e, key, see, context, more);
    }
    return rc;
}

/* All objects of one shard: bucket by bucket, under its latch, so that nobody
   adds or splits one meanwhile. */
static int see_shard(struct scope *s, uint32_t shard, const struct key *key,
    entry_see_fn *see, void *context, bool *more)
{
    uint32_t *latch = &s->map->shards[shard].latch;
    int rc = latch_acquire(s->t, latch, RANK_SHARD);
    uint32_t n;

    if (rc != 0)
        return rc;
    n = s->map->shards[shard].n_objects == 0 ? 0
                                             : s->map->shards[shard].n_buckets;
    for (uint32_t i = 0; i < n; i++) {
        const struct bucket *bucket = at_bucket(s->map, shard, i);
        rc = bucket == NULL ? ENQ_ECORRUPT
                            : see_line(s, bucket, key, see, context, more);
        if (rc != 0 || !*more)
            break;
    }
    latch_release(s->t, latch);
    return rc;
}

static int visit_shard_object(struct scope *s, const struct key *key,
    entry_see_fn *see, void *context, bool *more)
{
    struct spot spot = spot_of(key->name_hash, key->hash);
    uint32_t *latch = &s->map->shards[spot.shard].latch;
    struct entry *first;
    int rc = latch_acquire(s->t, latch, RANK_SHARD);

    if (rc != 0)
        return rc;
    first = index_find(s->map, &spot, key);
    if (first != NULL)
        rc = see_ring(s, first, see, context, more);
    latch_release(s->t, latch);
    return rc;
}

static int visit_wide(struct scope *s, const struct key *key, entry_see_fn *see,
    void *context)
{
    bool more = true;
    int rc = see_gate(s, key, see, context, &more);

    enq_assert(s->wide && scope_is_entered(s));
    if (rc != 0 || !more)
        return rc;
    if (key->generic == 0)
        return visit_shard_object(s, key, see, context, &more);
    /* Under each latch, though none of this name can appear while we hold the
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

    enq_assert(scope_is_entered(s));
    if (s->wide)
        return visit_wide(s, key, see, context);
    first = scope_object(s, key);
    return first == NULL ? 0 : see_ring(s, first, see, context, &more);
}

struct waking {
    struct scope *s;
    bool behind; /* a waiter before them has been woken */
};

/* A waiter that has looked and does not sleep yet is not woken: its note keeps
   it from sleeping (partner: the load of the state in sleep_on()). But in a
   narrow scope a waiter behind another leaves time to that one, unless it is of
   a set, which waits elsewhere as well. */
static bool wake_waiter(void *context, struct entry *e)
{
    struct waking *w = context;

    enq_assert(scope_is_entered(w->s));
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

    enq_assert(scope_is_entered(s));
    return scope_visit(s, key, wake_waiter, &w);
}
