/*
 * change.c - lock: the changes that an entry can go through (see
 * change.h).
 */
#include "lock/change.h"

#include <string.h>

#include "base/point.h"
#include "lock/ids.h"
#include "lock/judge.h"
#include "segment/header.h"
#include "store/call.h"

/* --- the word that guards an entry --- */

static uint32_t *guard_of(struct scope *s, uint64_t hash)
{
    return &s->map->shards[shard_of_hash(hash)].word;
}

/* A generic entry's gate is held in every wide scope. */
static inline int guard_enter(struct scope *s, uint64_t hash, bool generic)
{
    if (likely(!s->wide) || generic)
        return 0;
    return word_lock(s->t, guard_of(s, hash), RANK_SHARD);
}

static inline void guard_leave(struct scope *s, uint64_t hash, bool generic)
{
    if (unlikely(s->wide) && !generic)
        word_unlock(s->t, guard_of(s, hash));
}

HOT void set_state(struct entry *e, enum phase phase, unsigned mode)
{
    uint32_t generation = STATE_GENERATION(shm_load(&e->state));

    shm_store_release(&e->state, STATE(generation, phase, mode, GONE_NOT));
}

/* A held one's: what its session has been told stays. Under its words, but
   the session's helper thread takes none to note that. */
static void set_mode(struct entry *e, unsigned mode)
{
    uint64_t state = shm_load(&e->state);

    while (!shm_cas(&e->state, &state,
        STATE(STATE_GENERATION(state), PHASE_HELD, mode, GONE_NOT) |
            (state & STATE_NOTES)))
        continue;
}

/* --- links --- */

static void count_waiting(struct scope *s, struct entry *e, int by)
{
    struct shard *shard = &s->map->shards[shard_of_hash(e->hash)];

    if (entry_is_generic(e))
        shm_store(&s->gate->n_waiting, s->gate->n_waiting + (uint32_t)by);
    else
        shm_store(&shard->n_waiting, shard->n_waiting + (uint32_t)by);
}

static void link_generic(struct scope *s, struct entry *e)
{
    struct entry *first = at_entry(s->map, s->gate->head);

    ring_append(s->map, first, e);
    if (first == NULL)
        shm_store(&s->gate->head, map_ref(s->map, e));
    shm_add(&s->gate->raised, 1);
    ENQ_POINT("gate.linked");
}

/* A narrow scope is that of one object; in a wide one there are many. */
HOT struct spot *spot_in(struct scope *s, const struct entry *e,
    struct spot *wide)
{
    if (likely(!s->wide))
        return &s->spot;
    *wide = spot_of(e->name_hash, e->hash);
    return wide;
}

HOT int link_entry(struct scope *s, const struct key *key, struct entry *e)
{
    struct spot wide, *spot;
    struct entry *first;
    int rc = 0;

    if (unlikely(key->generic != 0)) {
        link_generic(s, e);
        return 0;
    }
    spot = spot_in(s, e, &wide);
    if (likely(s->vacant))
        first = NULL;
    else
        first = s->wide ? index_find(s->map, spot, key) : scope_object(s, key);
    scope_changed(s);
    if (likely(first == NULL)) {
        ring_begin(s->map, e);
        rc = index_add(s->map, spot, e);
    } else {
        ring_append(s->map, first, e);
    }
    ENQ_POINT("lock.linked");
    return rc;
}

static void unlink_generic(struct scope *s, struct entry *e)
{
    struct entry *next = ring_remove(s->map, e);

    if (s->gate->head == map_ref(s->map, e))
        shm_store(&s->gate->head, next == NULL ? 0 : map_ref(s->map, next));
    shm_add(&s->gate->raised, -1);
}

/* The index is asked for the object's first entry by reference: the entry
   taken out is it exactly when the index finds it. */
HOT int unlink_concrete(struct scope *s, struct entry *e)
{
    struct spot wide, *spot = spot_in(s, e, &wide);
    struct entry *next = ring_remove(s->map, e);

    scope_changed(s);
    if (index_replace(s->map, spot, e, next) || next != NULL)
        return 0;
    return ENQ_ECORRUPT;
}

static inline int unlink_entry(struct scope *s, struct entry *e)
{
    int rc = 0;

    if (entry_is(e, PHASE_WAITING))
        count_waiting(s, e, -1);
    if (entry_is_generic(e))
        unlink_generic(s, e);
    else
        rc = unlink_concrete(s, e);
    ENQ_POINT("unlock.unlinked");
    return rc;
}

/* --- time and token --- */

/* Of the coarse clock, what it may lag behind is added, so that nothing ends
   early. Grants of one thread within a tick are told apart by a nanosecond
   each; those of two threads are not. */
HOT void start_clock(struct scope *s, struct entry *e, int64_t ttl_ms)
{
    mono_t from = scope_start(s, ttl_ms);

    if (unlikely(from.ns <= s->t->last_grant_ns))
        shm_store(&e->since_ns, s->t->last_grant_ns + 1);
    else
        shm_store(&e->since_ns, from.ns);
    s->t->last_grant_ns = e->since_ns;
    if (likely(s->now.ns == 0))
        from = mono_add_ns(from, sys_coarse_lag_ns);
    shm_store(&e->deadline_ns, mono_add_ms(from, ttl_ms).ns);
}

/* Of a generic grant: above those of all shards, so of every key it overlaps.
   In a wide scope no key of this name gets one meanwhile. */
static uint64_t token_of_all(const struct map *map, uint64_t token)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        uint64_t other = shm_load(&map->shards[i].token);
        if (other > token)
            token = other;
    }
    return token;
}

/* The clock first, the flag after it: not removed by then, the space has no
   successor that could have read an earlier clock. */
static __attribute__((noinline)) uint64_t first_token(const struct map *map)
{
    uint64_t now = header_token_start(map->h->token_base);

    shm_fence();
    return shm_load(&map->h->unlinked) ? map->h->token_base : now;
}

HOT void next_token(struct scope *s, struct entry *e)
{
    uint64_t *newest = &s->map->shards[shard_of_hash(e->hash)].token;
    uint64_t token = shm_load(&s->gate->token);

    if (unlikely(entry_is_generic(e))) {
        newest = &s->gate->token;
        token = token_of_all(s->map, token);
    } else if (shm_load(newest) > token) {
        token = shm_load(newest);
    }
    if (unlikely(token == 0))
        token = first_token(s->map);
    /* the newest first: killed in between, a number is left out */
    shm_store(newest, token + 1);
    ENQ_POINT("grant.token");
    shm_store(&e->token, token + 1);
}

/* --- new entries --- */

HOT void sign(struct scope *s, struct entry *e)
{
    shm_store(&e->session, s->session->ref); /* partner: see_deadline */
    shm_store(&e->id_half, s->session->id_half);
    shm_store(&e->pid, shm_load(&s->session->slot->process.pid));
}

HOT int place(struct scope *s, const struct ask *ask, struct entry *e,
    enum phase phase)
{
    int rc = link_entry(s, &ask->key, e);

    if (unlikely(rc != 0))
        return rc;
    set_state(e, phase, ask->mode);
    if (phase == PHASE_HELD)
        ENQ_POINT("lock.granted");
    else
        ENQ_POINT("lock.queued");
    return 0;
}

/* The id is claimed under its own word, which is held over the commit: ids
   and entries agree whenever that word is free. */
static int place_with_id(struct scope *s, const struct ask *ask,
    struct entry *e, enum phase phase)
{
    struct spot spot = spot_of_id(s->map, ask->id, ask->id_bytes);
    uint32_t *word = &s->map->shards[spot.shard].word;
    int rc = word_lock(s->t, word, RANK_ID);

    if (rc != 0)
        return rc;
    rc = ids_claim_locked(s->map, &spot, ask->id, e);
    if (rc == 0)
        rc = place(s, ask, e, phase);
    word_unlock(s->t, word);
    return rc;
}

HOT int place_any(struct scope *s, const struct ask *ask, struct entry *e,
    enum phase phase)
{
    if (likely(ask->id_bytes == 0))
        return place(s, ask, e, phase);
    return place_with_id(s, ask, e, phase);
}

int change_hold(struct scope *s, const struct ask *ask, struct entry *e)
{
    bool generic = ask->key.generic != 0;
    int rc = guard_enter(s, ask->key.hash, generic);

    if (unlikely(rc != 0))
        return rc;
    sign(s, e);
    start_clock(s, e, ask->ttl_ms);
    next_token(s, e);
    rc = place_any(s, ask, e, PHASE_HELD);
    guard_leave(s, ask->key.hash, generic);
    return rc;
}

/*
 * Until when a new waiter may be overtaken (R7): for 200 us; in a queue until
 * 50 us after the one before him. Hand-overs to sleepers take 10 to 20 us
 * each: were all of a queue due at once, nobody would ever barge again, as the
 * next round of it would be due when this one is through (16 processes on 2
 * CPUs: 50,000 grants a second). Like this each gets its turn 50 us after the
 * other, and whoever runs meanwhile has the lock as often as he likes:
 * 1.5 million grants a second, and all fare alike (bench: one, 16 processes).
 */
#define WINDOW_NS INT64_C(200000)
#define WINDOW_TURN_NS INT64_C(50000)
#define WINDOW_MOST_NS INT64_C(5000000)

static mono_t due_at(struct scope *s)
{
    mono_t now = scope_clock(s), due = mono_add_ns(now, WINDOW_NS);
    mono_t turn = mono_add_ns(s->last_due, WINDOW_TURN_NS);

    if (s->map->strict)
        return now;
    turn = mono_min(turn, mono_add_ns(now, WINDOW_MOST_NS));
    return turn.ns > due.ns ? turn : due;
}

int change_queue(struct scope *s, const struct ask *ask, struct entry *e)
{
    bool generic = ask->key.generic != 0;
    int rc = guard_enter(s, ask->key.hash, generic);

    if (rc != 0)
        return rc;
    sign(s, e);
    shm_store(&e->since_ns, scope_clock(s).ns);
    shm_store(&e->deadline_ns, due_at(s).ns); /* partner: see_deadline */
    shm_store(&e->token, 0);
    shm_store(&e->asleep, ask->started);
    shm_store(&e->ticket,
        likely(ask->ticket == UINT64_MAX) ? shm_add(&s->map->h->ticket, 1)
                                          : ask->ticket);
    shm_add(change_waits_of(s, e), 1);
    rc = place_any(s, ask, e, PHASE_WAITING);
    if (rc == 0)
        count_waiting(s, e, 1);
    else
        shm_add(change_waits_of(s, e), -1);
    guard_leave(s, ask->key.hash, generic);
    return rc;
}

/* --- who is asked for what he holds --- */

struct asked {
    struct scope *s;
    const struct ask *ask;
};

static bool see_asked(void *context, struct entry *e)
{
    struct asked *a = context;
    uint64_t state = shm_load(&e->state);

    if (STATE_PHASE(state) != PHASE_HELD || (state & STATE_ASKED) != 0 ||
        !call_is_wanted(a->s->map, shm_load(&e->session)) ||
        !mode_conflicts(a->s->map->modes, STATE_MODE(state) % MODES,
            a->ask->mode, entry_owned_by(a->s->map, e, a->ask)))
        return true;
    shm_or(&e->state, STATE_ASKED);
    scope_wake(a->s, e);
    return true;
}

int change_note_asked(struct scope *s, const struct ask *ask)
{
    struct asked a = {s, ask};

    if (likely(shm_load(&s->map->h->listeners) == 0))
        return 0;
    return scope_visit(s, &ask->key, see_asked, &a);
}

struct suitor {
    struct scope *s;
    const struct entry *held;
    bool found;
};

static bool see_suitor(void *context, struct entry *e)
{
    struct suitor *x = context;

    x->found = judge_wants(x->s->map, e, x->held);
    return !x->found;
}

int change_note_suitors_slow(struct scope *s, struct entry *e)
{
    struct suitor x = {s, e, false};
    struct key key;
    int rc;

    if (!entry_key(s->map, e, &key))
        return ENQ_ECORRUPT;
    rc = scope_visit(s, &key, see_suitor, &x);
    if (x.found) {
        shm_or(&e->state, STATE_ASKED);
        scope_wake(s, e);
    }
    return rc;
}

/* --- waiting entries --- */

int change_grant(struct scope *s, struct entry *e)
{
    uint64_t hash = e->hash;
    bool generic = entry_is_generic(e);
    unsigned mode = STATE_MODE(shm_load(&e->state));
    int rc = guard_enter(s, hash, generic);

    if (rc != 0)
        return rc;
    s->t->changes++;
    scope_clock(s);
    start_clock(s, e, e->ttl_ms);
    if (e->ttl_ms >= 0 && e->ttl_ms < SYS_TICK_USUAL_NS / NS_PER_MS)
        s->t->brief = true;
    next_token(s, e);
    count_waiting(s, e, -1);
    set_state(e, PHASE_HELD, mode);
    ENQ_POINT("grant.stored");
    shm_add(change_waits_of(s, e), -1);
    guard_leave(s, hash, generic);
    rc = change_note_suitors(s, e);
    scope_wake(s, e);
    return rc;
}

void change_poke(struct scope *s, struct entry *e, bool first)
{
    uint64_t note = first ? STATE_POKED | STATE_FIRST : STATE_POKED;

    if ((shm_or(&e->state, note) & note) == note)
        return; /* once in vain is enough: see serve.h */
    ENQ_POINT("grant.poked");
    scope_wake(s, e);
}

/* --- out --- */

static inline void let_go(struct scope *s, struct entry *e, enum gone gone)
{
    bool waiting = entry_is(e, PHASE_WAITING);
    session_ref_t session = e->session;

    if (gone == GONE_NOT || (gone == GONE_DIED && waiting)) {
        slab_give(s->session, s->t, e);
        return;
    }
    ENQ_POINT("expire.unlinked");
    if (waiting)
        shm_store(&e->token, 0); /* never granted: a set's is a link */
    slab_bury(s->map, e, gone, scope_clock(s));
    ENQ_POINT("expire.gone");
    if (waiting || call_is_wanted(s->map, session))
        scope_wake(s, e);
}

/* Who took the lock, behind the entry's own texts, where there is room for the
   whole name; half of one may be another's. Nobody's truth, so that a death in
   here does no harm. */
static void note_taker(struct map *map, struct entry *e,
    const struct ask *taker)
{
    struct ask ask;
    size_t room, n = taker->owner_bytes;
    char *at;

    if (!entry_ask(map, e, &ask))
        return;
    at = e->payload + ask_payload_bytes(&ask);
    room = entry_payload_room(map, e) - ask_payload_bytes(&ask);
    if (n == 0 || n > room)
        return;
    memcpy(at, taker->owner, n);
    ENQ_POINT("promote.taker_written");
    shm_store(&e->taker_bytes, (uint8_t)n);
}

static int take_out(struct scope *s, struct entry *e, enum gone gone,
    const struct ask *taker)
{
    int rc = unlink_entry(s, e);

    if (unlikely(rc != 0))
        return rc;
    if (taker != NULL)
        note_taker(s->map, e, taker);
    let_go(s, e, gone);
    if (taker != NULL)
        ENQ_POINT("promote.loser_gone");
    return 0;
}

static int take_out_with_id(struct scope *s, struct entry *e, enum gone gone,
    const struct ask *taker)
{
    struct spot spot;
    uint32_t *word;
    int rc;

    if (!spot_of_entry_id(s->map, e, &spot))
        return ENQ_ECORRUPT;
    word = &s->map->shards[spot.shard].word;
    rc = word_lock(s->t, word, RANK_ID);
    if (rc != 0)
        return rc;
    index_replace(s->map, &spot, e, NULL); /* or it is another's by now */
    rc = take_out(s, e, gone, taker);
    word_unlock(s->t, word);
    return rc;
}

int change_take_away(struct scope *s, struct entry *e, enum gone gone,
    const struct ask *taker)
{
    uint64_t hash = e->hash;
    bool generic = entry_is_generic(e);
    uint32_t *waits = entry_is(e, PHASE_WAITING) ? change_waits_of(s, e) : NULL;
    int rc = guard_enter(s, hash, generic);

    if (unlikely(rc != 0))
        return rc;
    if (unlikely(e->id_bytes > 0))
        rc = take_out_with_id(s, e, gone, taker);
    else
        rc = take_out(s, e, gone, taker);
    if (waits != NULL && rc == 0)
        shm_add(waits, -1);
    guard_leave(s, hash, generic);
    return rc;
}

/* A held lock of one object, given back: nearly every release. */
HOT int give_back(struct scope *s, struct entry *e)
{
    int rc = unlink_concrete(s, e);

    if (unlikely(rc != 0))
        return rc;
    ENQ_POINT("unlock.unlinked");
    slab_give(s->session, s->t, e);
    return 0;
}

int change_drop(struct scope *s, struct entry *e, enum gone gone)
{
    if (likely(gone == GONE_NOT && !s->wide && e->id_bytes == 0 &&
            entry_is(e, PHASE_HELD)))
        return give_back(s, e);
    return change_take_away(s, e, gone, NULL);
}

/* --- held entries --- */

int change_mode(struct scope *s, struct entry *e, unsigned mode, bool token)
{
    uint64_t hash = e->hash;
    bool generic = entry_is_generic(e);
    int rc = guard_enter(s, hash, generic);

    if (rc != 0)
        return rc;
    if (token) {
        next_token(s, e);
        ENQ_POINT("promote.token");
    }
    set_mode(e, mode);
    if (token)
        ENQ_POINT("promote.stored");
    else
        ENQ_POINT("demote.stored");
    guard_leave(s, hash, generic);
    return 0;
}

int change_deadline(struct scope *s, struct entry *e, int64_t ttl_ms)
{
    mono_t now = scope_clock(s);

    /* Partner: mark_near() in notice.c. */
    shm_store_fence(&e->deadline_ns, mono_add_ms(now, ttl_ms).ns);
    ENQ_POINT("renew.stored");
    if (shm_load(&e->state) & STATE_NEAR)
        shm_and(&e->state, ~STATE_NEAR); /* it will be near again */
    return 0;
}

int change_session(struct scope *s, struct entry *e, bool token)
{
    uint64_t hash = e->hash;
    bool generic = entry_is_generic(e);
    int rc = guard_enter(s, hash, generic);

    if (rc != 0)
        return rc;
    shm_store(&s->session->slot->adopted, 1);
    if (token)
        next_token(s, e);
    shm_store(&e->pid, shm_load(&s->session->slot->process.pid));
    ENQ_POINT("adopt.signed");        /* the dead one's still, who has no pid */
    shm_and(&e->state, ~STATE_NOTES); /* the new one has been told nothing */
    shm_store_release(&e->session, s->session->ref);
    ENQ_POINT("adopt.stored");
    guard_leave(s, hash, generic);
    return change_note_suitors(s, e);
}
