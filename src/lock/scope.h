/*
 * scope.h - lock: what a request must look at, and the words that guard it.
 *
 * Concrete keys are spread over shards by their hash, so that workers on
 * different products of one name never meet. Generic keys ('@') overlap many
 * keys; they live in the GATE of their name. While the gate is down (no
 * generic entry of that name, nearly always) a concrete request decides under
 * its shard's word alone: the NARROW way. While it is raised, every request
 * for that name goes the WIDE way: the gate's word first and for the whole
 * operation, then shards one at a time.
 *
 * Why no conflict is missed: a generic request holds the gate, raises it, and
 * only then visits the shards, taking each one's word; a concrete request
 * reads the gate under its shard's word. Whichever has that word first, the
 * other sees what it did. (PostgreSQL's strong-lock counters are the same
 * idea.)
 *
 * So an entry changes only under its shard's word (a generic one's: the
 * gate's), and while the gate is raised only by whoever holds the gate as
 * well: in a wide scope entries of the name stand still between the steps.
 */
#ifndef LOCK_SCOPE_H
#define LOCK_SCOPE_H

#include "base/point.h"
#include "store/index.h"
#include "store/slab.h"
#include "sync/word.h"

struct scope {
    struct map *map;
    struct thread *t;
    struct session *session; /* whose magazine entries go back to */
    struct spot spot;        /* of the concrete key it was entered for */
    struct gate *gate;
    bool wide;
    bool known;          /* narrow: `first` is the object's first entry */
    struct entry *first; /* or NULL: nobody has it */
    bool vacant; /* narrow: nobody has the object (decided, and not changed) */
    mono_t last_due;   /* of those who wait for what overlaps (decided) */
    enq_handle behind; /* refused (decided): the lock set that waits in the way,
                          or 0 */
    session_ref_t dying; /* refused (decided): whose lock is in the way, if
                            that is dead and not known to be over; or 0 */
    const struct bypass *bypass; /* or NULL */
    mono_t now;
    mono_t tick; /* the coarse clock, where it was read for several; or 0 */
    bool looks;  /* in the name of one who waits: see serve_looking() */
    uint32_t changes;
};

/*
 * R7 lets pass who is waited for. Whether a lock set waits for somebody must
 * be seen at all its keys, of which this scope guards one: so it is looked up
 * outside (lock/bypass.h), and those that wait for the asker are noted here.
 */
#define BYPASS_FEW 8

struct bypass {
    uint64_t asker; /* his ticket, as in his struct ask */
    unsigned n, room;
    uint64_t few[BYPASS_FEW];
    uint64_t *more; /* or NULL: they are in `few` */
};

static inline bool bypass_has(const struct bypass *b, uint64_t ticket)
{
    const uint64_t *tickets = b->more != NULL ? b->more : b->few;

    for (unsigned i = 0; i < b->n; i++)
        if (tickets[i] == ticket)
            return true;
    return false;
}

HOT void scope_begin(struct scope *s, struct session *session, struct thread *t)
{
    s->map = session->map;
    s->t = t;
    s->session = session;
    s->bypass = NULL;
    s->tick = (mono_t){0};
    s->looks = false;
}

int scope_enter_slow(struct scope *s, bool generic);
void scope_leave_slow(struct scope *s);

HOT int scope_enter_at(struct scope *s, uint32_t name_hash, uint64_t hash,
    bool generic)
{
    s->gate = &s->map->gates[gate_of_hash(name_hash)];
    s->spot = spot_of(name_hash, hash);
    s->wide = s->vacant = s->known = false;
    s->now = (mono_t){0};
    if (likely(!generic &&
            word_try(s->t, &s->map->shards[s->spot.shard].word, RANK_SHARD))) {
        /* Partner: scope_raise() in scope.c. */
        if (likely(shm_load_acquire(&s->gate->raised) == 0))
            return 0;
        word_unlock(s->t, &s->map->shards[s->spot.shard].word);
    }
    return scope_enter_slow(s, generic);
}

/*
 * Enters the scope of a key: that of a request, or of an entry found by its
 * handle, after scope_begin(). On 0 the words are held until
 * scope_leave(). s->now is not set: see scope_clock(). Faults: ENQ_ECORRUPT.
 */
HOT int scope_enter(struct scope *s, const struct key *key)
{
    return scope_enter_at(s, key->name_hash, key->hash, key->generic != 0);
}

/* What is read here may be of an entry used anew meanwhile: the caller looks
   at its generation again, inside. */
HOT int scope_enter_entry(struct scope *s, const struct entry *e)
{
    return scope_enter_at(s, shm_load(&e->name_hash), shm_load(&e->hash),
        shm_load(&e->generic) != 0);
}

/* For who holds the words of several keys at once (wait/set.c): a gate's is
   taken and the gate raised, until it is lowered. */
int scope_raise(struct scope *s);
void scope_lower(struct scope *s);
/* When all words have been let go. */
void scope_send_wakes(struct thread *t);

/* Lets go of the words; then sends the wakes. */
HOT void scope_leave(struct scope *s)
{
    struct shard *shard = &s->map->shards[s->spot.shard];

    if (unlikely(s->wide || s->t->n_wakes > 0 || shard->cramped)) {
        scope_leave_slow(s);
        return;
    }
    word_unlock(s->t, &shard->word);
    ENQ_POINT("grant.before_wake");
}

/* The exact time, read at most once in a scope. */
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
    if (unlikely(ttl_ms >= 0 && ttl_ms < TTL_EXACT_MS))
        return scope_clock(s);
    if (unlikely(s->now.ns != 0))
        return s->now;
    return likely(s->tick.ns == 0) ? sys.coarse() : s->tick;
}

/* Has this waiter waited for so long that nobody may overtake it (R7)? */
static inline bool scope_is_due(struct scope *s, const struct entry *e)
{
    return mono_reached((mono_t){e->deadline_ns}, scope_clock(s));
}

/* Someone is to be woken when the words are let go. */
void scope_wake(struct scope *s, struct entry *e);

/*
 * Shows every live entry that overlaps the key: in a narrow scope those of
 * its own object. `see` must not lock; false stops. Faults: ENQ_ECORRUPT.
 */
/* `see` false: stop. */
typedef bool entry_see_fn(void *context, struct entry *e);
int scope_visit(struct scope *s, const struct key *key, entry_see_fn *see,
    void *context);

/* A lock for the key ends sooner than those who wait saw: they look anew, also
   who has looked just now and does not sleep yet. Faults: ENQ_ECORRUPT. */
int scope_wake_waiters(struct scope *s, const struct key *key);

/* The first entry of a concrete key's object, in a narrow scope. Looked up
   once, until the object changes: scope_changed(). */
struct entry *scope_object(struct scope *s, const struct key *key);

static inline void scope_changed(struct scope *s)
{
    s->known = false;
}

#endif
