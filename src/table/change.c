/*
 * change.c - floor 4: the changes that an entry can go through (see
 * change.h).
 */
#include "table/change.h"

#include <string.h>

#include "base/point.h"
#include "table/ids.h"

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

static inline void set_state(struct entry *e, enum phase phase, unsigned mode)
{
    uint32_t generation = STATE_GENERATION(shm_load(&e->state));

    shm_store_release(&e->state, STATE(generation, phase, mode, GONE_NOT));
}

/* --- links --- */

static void count_waiting(struct scope *s, struct entry *e, int by)
{
    struct shard *shard = &s->map->shards[shard_of_hash(e->hash)];

    if (entry_is_generic(e))
        s->gate->n_waiting += (uint32_t)by;
    else
        shm_store(&shard->n_waiting, shard->n_waiting + (uint32_t)by);
}

static void link_generic(struct scope *s, struct entry *e)
{
    struct entry *first = at_entry(s->map, s->gate->head);

    ring_append(s->map, first, e);
    if (first == NULL)
        s->gate->head = map_ref(s->map, e);
    shm_add(&s->gate->raised, 1);
    ENQ_POINT("gate.linked");
}

static inline int link_entry(struct scope *s, const struct key *key,
    struct entry *e)
{
    struct spot spot;
    struct entry *first;
    int rc = 0;

    if (key->generic != 0) {
        link_generic(s, e);
        return 0;
    }
    spot = spot_of_key(key);
    first = likely(s->vacant) ? NULL : index_find(s->map, &spot, key);
    ring_append(s->map, first, e);
    if (first == NULL)
        rc = index_add(s->map, &spot, e);
    ENQ_POINT("lock.linked");
    return rc;
}

static void unlink_generic(struct scope *s, struct entry *e)
{
    struct entry *next = ring_remove(s->map, e);

    if (s->gate->head == map_ref(s->map, e))
        s->gate->head = next == NULL ? 0 : map_ref(s->map, next);
    shm_add(&s->gate->raised, -1);
}

/* The index is asked for the object's first entry by reference: the entry
   taken out is it exactly when the index finds it. */
static int unlink_concrete(struct scope *s, struct entry *e)
{
    struct spot spot = spot_of_entry(e);
    struct entry *next = ring_remove(s->map, e);

    if (index_replace(s->map, &spot, e, next) || next != NULL)
        return 0;
    return ENQ_ECORRUPT;
}

static int unlink_entry(struct scope *s, struct entry *e)
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

/* From the coarse clock, unless the exact one was read anyway: what it lags
   behind is added, so that nothing ends early. Grants of one thread within a
   tick are told apart by a nanosecond each; those of two threads are not. */
static void start_clock(struct scope *s, struct entry *e, int64_t ttl_ms)
{
    mono_t from = s->now;

    if (likely(from.ns == 0))
        from = sys.coarse();
    e->since_ns =
        from.ns > s->t->last_grant_ns ? from.ns : s->t->last_grant_ns + 1;
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

static inline void next_token(struct scope *s, struct entry *e)
{
    uint64_t *newest = &s->map->shards[shard_of_hash(e->hash)].token;
    uint64_t token = shm_load(&s->gate->token);

    if (unlikely(entry_is_generic(e))) {
        newest = &s->gate->token;
        token = token_of_all(s->map, token);
    } else if (shm_load(newest) > token) {
        token = shm_load(newest);
    }
    /* the newest first: killed in between, a number is left out */
    shm_store(newest, token + 1);
    ENQ_POINT("grant.token");
    shm_store(&e->token, token + 1);
}

/* --- new entries --- */

static inline void sign(struct scope *s, struct entry *e)
{
    e->session = s->session->ref;
    e->id_half = s->session->id_half;
    e->pid = s->session->slot->pid;
}

static int place(struct scope *s, const struct ask *ask, struct entry *e,
    enum phase phase)
{
    int rc = link_entry(s, &ask->key, e);

    if (unlikely(rc != 0))
        return rc;
    set_state(e, phase, ask->mode);
    ENQ_POINT(phase == PHASE_HELD ? "lock.granted" : "lock.queued");
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
    rc = ids_claim_locked(s->map, &spot, ask->id, e, sys.now());
    if (rc == 0)
        rc = place(s, ask, e, phase);
    word_unlock(s->t, word);
    return rc;
}

static inline int place_any(struct scope *s, const struct ask *ask,
    struct entry *e, enum phase phase)
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

int change_queue(struct scope *s, const struct ask *ask, struct entry *e)
{
    bool generic = ask->key.generic != 0;
    int rc = guard_enter(s, ask->key.hash, generic);

    if (rc != 0)
        return rc;
    sign(s, e);
    e->since_ns = scope_clock(s).ns;
    e->deadline_ns = INT64_MAX;
    e->token = 0;
    e->ticket = shm_add(&s->map->h->ticket, 1);
    rc = place_any(s, ask, e, PHASE_WAITING);
    if (rc == 0)
        count_waiting(s, e, 1);
    guard_leave(s, ask->key.hash, generic);
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
    scope_clock(s);
    start_clock(s, e, e->ttl_ms);
    next_token(s, e);
    count_waiting(s, e, -1);
    set_state(e, PHASE_HELD, mode);
    ENQ_POINT("grant.stored");
    guard_leave(s, hash, generic);
    scope_wake(s, e);
    return 0;
}

void change_poke(struct scope *s, struct entry *e)
{
    if (shm_or(&e->state, STATE_POKED) & STATE_POKED)
        return; /* it has been told, and has not looked yet */
    ENQ_POINT("grant.poked");
    scope_wake(s, e);
}

void change_unpoke(struct scope *s, struct entry *e)
{
    uint64_t state = shm_load(&e->state);

    (void)s;
    if (state & STATE_POKED)
        shm_store_release(&e->state, state & ~STATE_POKED);
}

/* --- out --- */

static void let_go(struct scope *s, struct entry *e, enum gone gone)
{
    bool waiting = entry_is(e, PHASE_WAITING);

    if (gone == GONE_NOT || (gone == GONE_DIED && waiting)) {
        slab_give(s->session, s->t, e);
        return;
    }
    ENQ_POINT("expire.unlinked");
    slab_bury(s->map, e, gone, scope_clock(s));
    ENQ_POINT("expire.gone");
    if (waiting)
        scope_wake(s, e);
}

/* Who took the lock, behind the entry's own texts, as far as there is room:
   nobody's truth, so that a death in here does no harm. */
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
    if (n > room)
        n = room;
    if (n == 0)
        return;
    memcpy(at, taker->owner, n);
    at[n - 1] = '\0';
    e->taker_bytes = (uint8_t)n;
}

static inline int take_out(struct scope *s, struct entry *e, enum gone gone,
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
    int rc = guard_enter(s, hash, generic);

    if (unlikely(rc != 0))
        return rc;
    if (unlikely(e->id_bytes > 0))
        rc = take_out_with_id(s, e, gone, taker);
    else
        rc = take_out(s, e, gone, taker);
    guard_leave(s, hash, generic);
    return rc;
}

int change_drop(struct scope *s, struct entry *e, enum gone gone)
{
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
    set_state(e, PHASE_HELD, mode);
    ENQ_POINT(token ? "promote.stored" : "demote.stored");
    guard_leave(s, hash, generic);
    return 0;
}

int change_deadline(struct scope *s, struct entry *e, int64_t ttl_ms)
{
    mono_t now = scope_clock(s);

    shm_store(&e->deadline_ns, mono_add_ms(now, ttl_ms).ns);
    ENQ_POINT("renew.stored");
    return 0;
}

int change_session(struct scope *s, struct entry *e, uint32_t pid)
{
    uint64_t hash = e->hash;
    bool generic = entry_is_generic(e);
    int rc = guard_enter(s, hash, generic);

    if (rc != 0)
        return rc;
    shm_store(&s->session->slot->adopted, 1);
    next_token(s, e);
    change_deadline(s, e, e->ttl_ms);
    e->pid = pid;
    shm_store_release(&e->session, s->session->ref);
    ENQ_POINT("adopt.stored");
    guard_leave(s, hash, generic);
    return 0;
}
