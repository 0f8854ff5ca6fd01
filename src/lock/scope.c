/*
 * scope.c - lock: narrow and wide scopes (see scope.h).
 */
#include "lock/scope.h"

#include <string.h>

#include "base/point.h"
#include "lock/gate.h"
#include "lock/listing.h"
#include "store/grow.h"
#include "store/notify.h"

/* --- entering --- */

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

/* Nothing has been changed under this gate: recovery need tell nobody. */
static void begin_wide(struct scope *s)
{
    thread_note_in_hand(s->t, 0);
    s->wide = true;
}

/*
 * A wide scope keeps the gate raised until it is left, whatever becomes of the
 * generic entries meanwhile: it counts as one of them. Requests that have read
 * it as down may be under way in any bucket. They are not waited for here:
 * whoever looks at a bucket does (see_bucket(), visit_object(), scope_pass()).
 */
int scope_raise(struct scope *s)
{
    int rc = latch_acquire(s->t, &s->gate->latch, RANK_GATE);

    if (rc != 0)
        return rc;
    begin_wide(s);
    /* Partners: the loads in scope_enter_at_once() and enter_concrete(). */
    shm_add(&s->gate->raised, 1);
    ENQ_POINT("gate.raised");
    return 0;
}

/* A wide scope of a concrete key: requests that have seen the gate down, and are
   inside its bucket, are over when this returns. Who looks for entries in a
   bucket waits for them anyway; who has come with an entry in its hand, by its
   handle, has to. Others cannot come: the gate is raised. */
int scope_pass(struct scope *s)
{
    int rc = spot_latch(s->map, s->t, &s->spot);

    enq_assert(s->wide);
    if (rc == 0)
        spot_unlatch(s->t, &s->spot);
    return rc;
}

/* Under the gate's latch, with no generic entry that overlaps: narrow, as if the
   gate had been down. A generic request that comes now finds our bucket's latch,
   as of those that were under way when it raised the gate. */
static int enter_beside(struct scope *s)
{
    int rc = spot_latch(s->map, s->t, &s->spot);

    if (rc == 0)
        listing_mark(s->map, shm_load_fence(&s->gate->raised), s->spot.hash);
    latch_release(s->t, &s->gate->latch);
    return rc;
}

/* Raised when we looked, but perhaps not any more: then there is no need to
   go the wide way. True: decided. */
static bool enter_if_raised(struct scope *s, const struct key *key, int *rc)
{
    enq_assert(s->t->n_held == 0 && !s->wide);
    *rc = latch_acquire(s->t, &s->gate->latch, RANK_GATE);
    if (*rc != 0)
        return true;
    if ((shm_load_acquire(&s->gate->raised) & GATE_COUNT) == 0) {
        latch_release(s->t, &s->gate->latch);
        return false;
    }
    if (key != NULL && !gate_overlaps(s->map, s->gate, key)) {
        *rc = enter_beside(s);
        return true;
    }
    begin_wide(s);
    shm_add(&s->gate->raised, 1);
    *rc = scope_pass(s);
    if (*rc != 0)
        scope_lower(s);
    return true;
}

/* Under the bucket's latch: an entry that lives and is of this bucket stands
   still. False: it was given back, and whoever entered by it finds that out. */
static bool copy_key(const struct scope *s, const struct entry *e,
    struct key *key, char *bytes)
{
    enq_assert(holds_latch(s->t, &s->spot.bucket->latch));
    if (!state_is_live(shm_load_acquire(&e->state)) ||
        shm_load(&e->hash) != s->spot.hash || !entry_key(s->map, e, key) ||
        key_bytes(key) > KEY_BYTES_MAX)
        return false;
    memcpy(bytes, key->bytes, key_bytes(key));
    key->bytes = bytes;
    return true;
}

/* Narrow if the gate is down, seen inside the bucket's latch; else the gate's
   latch first, as its rank is lower. Then it may be down again, hence the loop:
   each round somebody else has had the gate.
   @key  or NULL: that of `e` */
static int enter_concrete(struct scope *s, const struct key *key,
    const struct entry *e)
{
    char bytes[KEY_BYTES_MAX];
    struct key own;
    uint32_t raised;
    int rc;

    enq_assert(s->t->n_held == 0 && !s->wide);
    do {
        rc = spot_latch(s->map, s->t, &s->spot);
        if (unlikely(rc != 0))
            return rc;
        /* Partners: scope_raise(), listing_begin(). */
        raised = shm_load_fence(&s->gate->raised);
        if (likely((raised & GATE_COUNT) == 0)) {
            listing_mark(s->map, raised, s->spot.hash);
            return 0;
        }
        if (e != NULL)
            key = copy_key(s, e, &own, bytes) ? &own : NULL;
        spot_unlatch(s->t, &s->spot);
    } while (!enter_if_raised(s, key, &rc));
    return rc;
}

int scope_enter_slow(struct scope *s, const struct key *key)
{
    enq_assert(s->t->n_held == 0 && !s->wide);
    return key->generic != 0 ? scope_raise(s) : enter_concrete(s, key, NULL);
}

int scope_enter_entry_slow(struct scope *s, const struct entry *e, bool generic)
{
    enq_assert(s->t->n_held == 0 && !s->wide);
    return generic ? scope_raise(s) : enter_concrete(s, NULL, e);
}

/*
 * Partner of `asleep`: sleep_on() in waiter.c, of which each waiter stores
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
    thread_note_told(t);
}

/* More buckets are added outside of all latches, as that may be a system call. */
void scope_leave_slow(struct scope *s)
{
    uint32_t cramped = shm_load(&s->map->shards[s->spot.shard].cramped);

    enq_assert(scope_is_entered(s));
    if (!s->wide) {
        spot_unlatch(s->t, &s->spot);
    } else {
        scope_lower(s);
    }
    ENQ_POINT("grant.before_wake");
    if (s->t->n_wakes > 0)
        scope_send_wakes(s->t);
    if (cramped)
        index_grow(s->map, s->t, s->spot.shard);
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
    thread_note_telling(s->t, map_ref(s->map, e));
    s->t->wakes[s->t->n_wakes++] = e;
}

/* --- looking --- */

/* Under the bucket's latch the answer holds until a step of this scope changes
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

static int see_held(struct scope *s, struct entry *first, entry_see_fn *see,
    void *context)
{
    struct ring ring = ring_from(s->map, first);
    struct entry *e;

    enq_assert(!s->wide && scope_is_entered(s));
    while ((e = ring_next(&ring)) != NULL && !entry_is(e, PHASE_WAITING) &&
        see(context, e))
        continue;
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
   found no slot has no tags: each is looked at. Under the bucket's latch. */
static int see_objects(struct scope *s, const struct bucket *bucket,
    const struct key *key, entry_see_fn *see, void *context, bool *more)
{
    unsigned name = spot_name_tag(key->name_hash), set;
    uint32_t left = s->map->entries_max;
    int rc = 0;

    enq_assert(s->wide && holds_latch(s->t, &bucket->latch));
    for (set = bucket_slots_of_name(bucket, name); set != 0 && rc == 0 && *more;
         set &= set - 1)
        rc = see_object(s, at_entry(s->map, bucket->ref[__builtin_ctz(set)]),
            key, see, context, more);
    for (ref_t ref = bucket->more; ref != 0 && rc == 0 && *more;) {
        struct entry *e = at_entry(s->map, ref);
        if (e == NULL || left-- == 0)
            return ENQ_ECORRUPT;
        ref = e->spill;
        rc = see_object(s, e, key, see, context, more);
    }
    return rc;
}

/*
 * Has the bucket no key of this name, for certain? Nearly all have none, and
 * are not latched for that: the latch is seen to be free instead. A request for
 * the name that comes later finds the gate raised, so that no object of the
 * name can appear; what others do to their objects does not matter, but for
 * these two:
 *
 *	a slot gets free	and the first of the spill chain moves into it:
 *				so the chain is read before the slots (acquire;
 *				partner: replace_in_slot() in index.c)
 *	one dies		and recovery makes the bucket anew, so that it
 *				looks empty: then `remade` has grown before
 *				(partner: clear_derived() in recover.c)
 *
 * A split cannot come, as the shard's latch is held.
 */
HOT bool may_skip(const struct map *map, struct bucket *bucket, unsigned name,
    uint32_t remade)
{
    /* Partner: latch_try(), before the load of `raised`; see scope.h. */
    if (shm_load_fence(&bucket->latch) != 0 ||
        shm_load_acquire(&bucket->more) != 0 ||
        bucket_slots_of_name(bucket, name) != 0)
        return false;
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* the slots before `remade` */
    return shm_load(&map->h->remade) == remade;
}

bool scope_may_skip(const struct map *map, struct bucket *bucket, unsigned name,
    uint32_t remade)
{
    return may_skip(map, bucket, name, remade);
}

static int see_bucket(struct scope *s, struct bucket *bucket,
    const struct key *key, entry_see_fn *see, void *context, bool *more)
{
    int rc = latch_acquire(s->t, &bucket->latch, RANK_BUCKET);

    if (rc != 0)
        return rc;
    ENQ_POINT("scope.bucket_latched");
    rc = see_objects(s, bucket, key, see, context, more);
    latch_release(s->t, &bucket->latch);
    return rc;
}

/* Nor is anybody inside. The latch first: who has left it has left its lock. */
static bool is_vacant(const struct bucket *bucket)
{
    return shm_load_fence(&bucket->latch) == 0 && bucket_is_empty(bucket);
}

/*
 * Nothing was found in the shard: if there is nothing at all in it, the next
 * scan need not look. That is said before the look (both behind full barriers):
 * a request that is inside is seen by its latch; one that enters later sees
 * that it was said, and takes it back (spot_is_current()). Other scans wait for
 * the shard's latch meanwhile.
 */
static void say_if_empty(struct map *map, uint32_t number, uint32_t n)
{
    uint32_t *n_buckets = &map->shards[number].n_buckets;
    struct bucket *bucket;

    shm_or(n_buckets, SHARD_EMPTY);
    for (uint32_t i = 0; i < n; i++) {
        bucket = at_bucket(map, number, i);
        if (bucket == NULL || !is_vacant(bucket)) {
            shm_and(n_buckets, ~SHARD_EMPTY);
            return;
        }
    }
}

/* All three lines of a small one: its state, its key, its owner. */
static void fetch_entry(const struct map *map, ref_t ref)
{
    const struct entry *e = ref == 0 ? NULL : at_entry(map, ref);

    for (unsigned unit = 0; e != NULL && unit < SMALL_UNITS; unit++)
        __builtin_prefetch((const char *)e + unit * UNIT_BYTES);
}

static __attribute__((noinline)) void fetch_objects(const struct map *map,
    const struct bucket *bucket, unsigned set)
{
    for (; set != 0; set &= set - 1)
        fetch_entry(map, shm_load(&bucket->ref[__builtin_ctz(set)]));
    fetch_entry(map, shm_load(&bucket->more));
}

/* At most BUCKETS_AHEAD beyond the row, so that it is there: behind the first row
   of a shard, of which each has as many, stands the next one's. */
static const struct bucket *bucket_ahead(const struct bucket_row *row,
    uint32_t i)
{
    return i < row->n ? &row->first[i] : &row->after[i - row->n];
}

bool scope_row(const struct map *map, uint32_t shard, uint32_t i, uint32_t n,
    struct bucket_row *row)
{
    row->n = map_buckets_in_row(i, n);
    row->first = at_bucket(map, shard, i);
    i += row->n;
    row->after = i < n ? at_bucket(map, shard, i)
                       : &map->buckets[(shard + 1) * BUCKETS_FIRST];
    return row->first != NULL && row->after != NULL;
}

/* What a look at a bucket will read: who found no slot, too, whatever the name
   is. */
HOT void fetch_ahead(const struct map *map, const struct bucket_row *row,
    uint32_t i, unsigned name)
{
    const struct bucket *bucket = bucket_ahead(row, i + OBJECTS_AHEAD);
    unsigned set = bucket_slots_of_name(bucket, name);

    __builtin_prefetch(bucket_ahead(row, i + BUCKETS_AHEAD));
    if (set != 0 || shm_load(&bucket->more) != 0)
        fetch_objects(map, bucket, set);
}

void scope_fetch_ahead(const struct map *map, const struct bucket_row *row,
    uint32_t i, unsigned name)
{
    fetch_ahead(map, row, i, name);
}

struct bucket_scan {
    struct scope *s;
    const struct key *key;
    entry_see_fn *see;
    void *context;
    uint32_t remade;
    bool more;
    bool empty; /* no bucket had anything so far */
};

static int scan_row(struct bucket_scan *x, const struct bucket_row *row)
{
    struct map *map = x->s->map;
    unsigned name = spot_name_tag(x->key->name_hash);
    int rc = 0;

    for (uint32_t i = 0; i < row->n && rc == 0 && x->more; i++) {
        struct bucket *bucket = &row->first[i];

        visit(VISIT_BUCKET);
        fetch_ahead(map, row, i, name);
        x->empty = x->empty && is_vacant(bucket);
        if (!may_skip(map, bucket, name, x->remade))
            rc = see_bucket(x->s, bucket, x->key, x->see, x->context, &x->more);
    }
    return rc;
}

static int scan_buckets(struct bucket_scan *x, uint32_t shard, uint32_t n)
{
    struct bucket_row row;
    int rc = 0;

    for (uint32_t i = 0; i < n && rc == 0 && x->more; i += row.n)
        rc = scope_row(x->s->map, shard, i, n, &row) ? scan_row(x, &row)
                                                     : ENQ_ECORRUPT;
    return rc;
}

/* All objects of one shard: bucket by bucket, under the shard's latch, so that
   none is split meanwhile. */
static int see_shard(struct bucket_scan *x, uint32_t number)
{
    struct map *map = x->s->map;
    struct shard *shard = &map->shards[number];
    int rc = latch_acquire(x->s->t, &shard->latch, RANK_SHARD);
    uint32_t n;

    if (rc != 0)
        return rc;
    /* Partner: spot_mend(), before a request's load of `raised`. */
    n = shm_load_fence(&shard->n_buckets);
    if ((n & SHARD_EMPTY) == 0) {
        thread_note_shard(x->s->t, number);
        x->empty = true;
        rc = scan_buckets(x, number, n);
        if (rc == 0 && x->more && x->empty)
            say_if_empty(map, number, n);
    }
    latch_release(x->s->t, &shard->latch);
    return rc;
}

static int visit_object(struct scope *s, const struct key *key,
    entry_see_fn *see, void *context, bool *more)
{
    struct spot spot = spot_of(key->name_hash, key->hash);
    struct entry *first;
    int rc = spot_latch(s->map, s->t, &spot);

    if (rc != 0)
        return rc;
    first = index_find(s->map, &spot, key);
    if (first != NULL)
        rc = see_ring(s, first, see, context, more);
    spot_unlatch(s->t, &spot);
    return rc;
}

static int visit_wide(struct scope *s, const struct key *key, entry_see_fn *see,
    void *context)
{
    struct bucket_scan x = {.s = s, .key = key, .see = see, .context = context};
    bool more = true;
    int rc = gate_visit(s->map, s->gate, key, see, context, &more);

    enq_assert(s->wide && scope_is_entered(s));
    if (rc != 0 || !more)
        return rc;
    if (key->generic == 0)
        return visit_object(s, key, see, context, &more);
    x.more = true;
    x.remade = shm_load_acquire(&s->map->h->remade);
    for (uint32_t i = 0; i < SHARDS && rc == 0 && x.more; i++)
        rc = see_shard(&x, i);
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

int scope_visit_held(struct scope *s, const struct key *key, entry_see_fn *see,
    void *context)
{
    struct entry *first;

    enq_assert(scope_is_entered(s));
    if (s->wide)
        return visit_wide(s, key, see, context);
    first = scope_object(s, key);
    if (first == NULL)
        return 0;
    if (first->next != map_ref(s->map, first))
        return see_held(s, first, see, context);
    if (!entry_is(first, PHASE_WAITING))
        see(context, first);
    return 0;
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
