/*
 * scope.h - lock: what a request must look at, and the latches that guard it.
 *
 * Concrete keys are spread over buckets by their hash, so that workers on
 * different products of one name never meet. Generic keys ('@') overlap many
 * keys; they live in the GATE of their name. While the gate is down (no
 * generic entry of that name, nearly always) a concrete request decides under
 * its bucket's latch alone: the NARROW way. While it is raised, every request
 * for that name goes the WIDE way: the gate's latch first and for the whole
 * operation, then buckets one at a time.
 *
 * Why no conflict is missed: a generic request holds the gate, raises it, and
 * only then looks at the buckets, each of which it latches or finds free; a
 * concrete request latches its bucket, and then reads the gate. Each stores
 * first and loads then, with a full barrier in between, so that at least one of
 * the two sees what the other did: the concrete request the raised gate, or the
 * generic one the latch, for which it waits. (Dekker's algorithm; PostgreSQL's
 * strong-lock counters are the same idea.) Nobody waits for all requests that
 * are under way when a gate is raised: each is over before a wide scope has
 * seen anything of its bucket, and a wide scope that begins with an entry, not
 * with a look, passes through the latch of its bucket first (scope_pass()).
 *
 * So an entry changes only under its bucket's latch (a generic one's: the
 * gate's), and where it overlaps a generic one only in a thread that holds the
 * gate as well. Whoever holds the gate keeps all others out that have not
 * latched their bucket yet: in a wide scope entries of the name that it has seen
 * stand still between the steps.
 *
 * Where this differs from lmgr: there a conflict is read from counts in the
 * LOCK (grantMask, waitMask); here the entries of the object are walked, as
 * conflicts depend on owners and deadlines, too. And there a fast path keeps
 * weak locks out of the table; here every lock is in it, as any process must
 * find it after a death.
 *
 * What is in a struct scope is private to its thread, and true as long as the
 * latches are held: `known`, `first`, `vacant` and `spot.bucket` are copies of
 * the index, which a step of this same scope may make wrong. Each step that
 * links or unlinks calls scope_changed(), and a lock set, of which two scopes
 * may share a bucket, calls look_anew() between its members.
 */
#ifndef LOCK_SCOPE_H
#define LOCK_SCOPE_H

#include "base/point.h"
#include "store/index.h"
#include "store/slab.h"
#include "sync/latch.h"

/* In one byte, which scope_begin() clears. */
enum scope_mark {
    SCOPE_LOOKS = 1, /* in the name of a waiter: see grant_scan_looking() */
    SCOPE_MOVED = 2, /* a waiter was granted, or has left: transition_retry() */
};

struct scope {
    struct map *map;
    struct thread *t;
    struct session *session; /* whose magazine entries go back to */
    struct spot spot;        /* of the concrete key it was entered for */
    struct bucket *guarded;  /* wide: in guard_enter()'s hands */
    struct gate *gate;
    bool wide;
    bool known;          /* narrow: `first` is the object's first entry */
    struct entry *first; /* or NULL: it has no entry */
    bool vacant; /* narrow: nobody has the object (decided, and not changed) */
    mono_t last_due;   /* of the waiters for what overlaps (decided) */
    enq_handle behind; /* refused (decided): the lock set that waits in the way,
                          or 0 */
    session_ref_t dying; /* refused (decided): the session of the lock in the
                            way, if that is dead and not known to be over */
    const struct bypass *bypass; /* or NULL */
    mono_t now;
    mono_t tick;   /* the coarse clock, where it was read for several; or 0 */
    uint8_t marks; /* enum scope_mark */
    uint32_t changes;
};

/*
 * R7 lets an owner pass the waiters that wait for it. Whether a lock set does
 * must be seen at all its keys, of which this scope guards one: so it is looked
 * up outside (lock/bypass.h), and the sets that wait for the asking owner are
 * noted here, by ticket: a ticket is never given twice, so that a note which is
 * out of date names a set that has gone, and lets nobody else be passed.
 */
#define BYPASS_FEW 8

struct bypass {
    uint64_t asker; /* its ticket, as in its struct ask */
    unsigned n, room;
    uint64_t few[BYPASS_FEW];
    uint64_t *more; /* or NULL: they are in `few` */
};

static inline bool bypass_has(const struct bypass *b, uint64_t ticket)
{
    const uint64_t *tickets = b->more != NULL ? b->more : b->few;

    enq_assert(b->n <= b->room);
    for (unsigned i = 0; i < b->n; i++)
        if (tickets[i] == ticket)
            return true;
    return false;
}

/* For enq_assert() only: the latch is held that makes this scope one. */
static inline bool scope_is_entered(const struct scope *s)
{
    return holds_latch(s->t,
        s->wide ? &s->gate->latch : &s->spot.bucket->latch);
}

HOT void scope_begin(struct scope *s, struct session *session, struct thread *t)
{
    enq_assert(t->map == session->map);
    s->map = session->map;
    s->t = t;
    s->session = session;
    s->bypass = NULL;
    s->tick = (mono_t){0};
    s->marks = 0;
}

int scope_enter_slow(struct scope *s, const struct key *key);
int scope_enter_entry_slow(struct scope *s, const struct entry *e,
    bool generic);
void scope_leave_slow(struct scope *s);

/*
 * The narrow way, if the latch is free and the gate down: two atomic operations
 * and two loads. The gate is read inside the bucket's latch and never before
 * it, or a generic request could raise the gate, look at this bucket and find
 * it empty, all between our look and our latch.
 */
HOT bool scope_enter_at_once(struct scope *s, uint32_t name_hash, uint64_t hash,
    bool generic)
{
    enq_assert(s->t->n_held == 0);
    s->gate = &s->map->gates[gate_of_hash(name_hash)];
    s->spot = spot_of(name_hash, hash);
    s->wide = s->vacant = s->known = false;
    s->now = (mono_t){0};
    if (unlikely(generic || !spot_latch_try(s->map, s->t, &s->spot)))
        return false;
    /* Partner: scope_raise() in scope.c. The swap of the latch and this load are
       sequentially consistent, as are the addition there and the load of the
       latch: see above. */
    if (likely(shm_load_fence(&s->gate->raised) == 0))
        return true;
    spot_unlatch(s->t, &s->spot);
    return false;
}

/*
 * Enters the scope of a key: that of a request, or of an entry found by its
 * handle, after scope_begin(). On 0 the latches are held until
 * scope_leave(). s->now is not set: see scope_clock(). Faults: ENQ_ECORRUPT.
 */
HOT int scope_enter(struct scope *s, const struct key *key)
{
    return likely(scope_enter_at_once(s, key->name_hash, key->hash,
               key->generic != 0))
        ? 0
        : scope_enter_slow(s, key);
}

/* What is read here may be of an entry used anew meanwhile: the caller looks
   at its generation again, inside. Partner: entry_fill(), which stores the
   three under another latch perhaps; nothing orders the two. If they are of
   different uses, the scope is that of neither, and the generation tells. */
HOT int scope_enter_entry(struct scope *s, const struct entry *e)
{
    bool generic = shm_load(&e->generic) != 0;

    return likely(scope_enter_at_once(s, shm_load(&e->name_hash),
               shm_load(&e->hash), generic))
        ? 0
        : scope_enter_entry_slow(s, e, generic);
}

/* For a thread that holds the latches of several keys at once (wait/set.c): a
   gate's is acquired and the gate raised, until it is lowered. */
int scope_raise(struct scope *s);
void scope_lower(struct scope *s);
int scope_pass(struct scope *s);
/* When all latches have been released. */
void scope_send_wakes(struct thread *t);

/* Releases the latches; then sends the wakes. In this order, as a wake is a
   system call, and as the waiter that it wakes wants the latch. A death in
   between leaves a granted waiter asleep, which watches our liveness word. */
HOT void scope_leave(struct scope *s)
{
    struct shard *shard = &s->map->shards[s->spot.shard];

    enq_assert(scope_is_entered(s));
    if (unlikely(s->wide || s->t->n_wakes > 0 || shm_load(&shard->cramped))) {
        scope_leave_slow(s);
        return;
    }
    spot_unlatch(s->t, &s->spot);
    ENQ_POINT("grant.before_wake");
}

/* The exact time, read at most once in a scope: all that is judged in it is
   judged of one moment, so that no lock runs out between two looks at it. */
mono_t scope_clock(struct scope *s);

/* The time as far as it is known for nothing: exact if that was read anyway,
   else the coarse clock's, which is behind by a tick at most. What has run out
   by it has run out. */
static inline mono_t scope_time(const struct scope *s)
{
    return s->now.ns != 0 ? s->now : sys.coarse();
}

/*
 * When a ttl begins: by the coarse clock, which costs 5 ns instead of 23, if
 * the ttl is so long that the second it may lag behind is next to nothing, and
 * the exact one was not read anyway. s->now tells which it was.
 */
#define TTL_EXACT_MS 60000
static inline mono_t scope_start(struct scope *s, int64_t ttl_ms)
{
    enq_assert(scope_is_entered(s));
    if (unlikely(ttl_ms >= 0 && ttl_ms < TTL_EXACT_MS))
        return scope_clock(s);
    if (unlikely(s->now.ns != 0))
        return s->now;
    return likely(s->tick.ns == 0) ? sys.coarse() : s->tick;
}

/* Has this waiter waited for so long that nobody may overtake it (R7)? Until
   when it waits is known to its own thread only. */
static inline bool scope_is_due(struct scope *s, const struct entry *e)
{
    return mono_reached(entry_due(e), scope_clock(s));
}

/* The entry's waiter, or the session that listens to it, is to be woken when
   the latches have been released. */
void scope_wake(struct scope *s, struct entry *e);

/*
 * Shows every live entry that overlaps the key: in a narrow scope those of its
 * own object, what is held and then who waits, in order of arrival (I2); in a
 * wide one those of the gate, then of
 * one bucket after the other, each under its latch. `see` must not lock; false
 * stops. Nor must it link or unlink: the walk goes on from the entry that it
 * has shown. What is to be dropped or granted is noted, and done afterwards.
 * Faults: ENQ_ECORRUPT.
 */
int scope_visit(struct scope *s, const struct key *key, entry_see_fn *see,
    void *context);
/* What is held; in a wide scope others as well. */
int scope_visit_held(struct scope *s, const struct key *key, entry_see_fn *see,
    void *context);

/*
 * A walk over buckets by name, of a shard of which no bucket is split meanwhile.
 *
 * It is as quick as memory is, as nearly all that it reads is read for the first
 * time. So lines are asked for some buckets ahead, and there what the bucket
 * leads to, if it may be of the name. Of what is read for that, under no latch,
 * nothing is kept.
 */
#define BUCKETS_AHEAD BUCKETS_FIRST
#define OBJECTS_AHEAD 12

/* Buckets that stand side by side, and where those stand that come after. */
struct bucket_row {
    struct bucket *first;
    const struct bucket *after;
    uint32_t n;
};

/* From the i-th of n on; true: there is at least one. False: damaged. */
bool scope_row(const struct map *map, uint32_t shard, uint32_t i, uint32_t n,
    struct bucket_row *row);

/* Asks for what is to be read next, at the i-th of the row. */
void scope_fetch_ahead(const struct map *map, const struct bucket_row *row,
    uint32_t i, unsigned name);

/* Has this one none of the name, for certain? */
bool scope_may_skip(const struct map *map, struct bucket *bucket, unsigned name,
    uint32_t remade);

/* A lock for the key ends sooner than its waiters saw: they look anew, also a
   waiter that has looked just now and does not sleep yet. Faults:
   ENQ_ECORRUPT. */
int scope_wake_waiters(struct scope *s, const struct key *key);

/* The first entry of a concrete key's object, in a narrow scope. Looked up
   once, until the object changes: scope_changed(). */
struct entry *scope_object_slow(struct scope *s, const struct key *key);

static inline struct entry *scope_object(struct scope *s, const struct key *key)
{
    enq_assert(!s->wide);
    return likely(s->known) ? s->first : scope_object_slow(s, key);
}

static inline void scope_changed(struct scope *s)
{
    s->known = false;
}

#endif
