/*
 * heal.c - recovery: what the dead have left (see heal.h).
 */
#include "recovery/heal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/point.h"
#include "lock/hold.h"
#include "lock/ids.h"
#include "store/call.h"
#include "store/journal.h"
#include "store/page.h"
#include "sync/life.h"
#include "sync/reclaim.h"
#include "sync/word.h"

#define BITS(n) (((n) + 63) / 64)

struct repair {
    struct map *map;
    struct thread *me;
    bool all;                      /* doctor's orders */
    bool needed;                   /* somebody died inside a word */
    bool grow;                     /* of the pages: to be counted anew */
    uint64_t shards[BITS(SHARDS)]; /* of keys: to be made anew */
    uint64_t gates[BITS(GATES)];
    uint32_t raised[GATES]; /* what they shall be */
    int rc;
};

static bool bit(const uint64_t *set, uint32_t i)
{
    return set[i / 64] >> (i % 64) & 1;
}

static void set_bit(uint64_t *set, uint32_t i)
{
    set[i / 64] |= UINT64_C(1) << (i % 64);
}

/* The word again: its owner may have let go of it and ended, slot and all,
   between our two looks, and the word may be a living one's by now. Who is
   dead gives nothing back. */
static bool dead_holds(const struct map *map, const uint32_t *word)
{
    uint32_t value = shm_load_acquire(word), again;

    ENQ_POINT("recover.word_read");
    if (value == 0 || !thread_is_dead(map, word_owner(value)))
        return false;
    again = shm_load_acquire(word);
    return again != 0 && word_owner(again) == word_owner(value);
}

/* Free, or a dead one's; or it names us, who do not hold it: it is damaged. */
static bool may_take(const struct map *map, const struct thread *me,
    uint32_t value)
{
    return value == 0 || word_owner(value) == me->ref ||
        thread_is_dead(map, word_owner(value));
}

/* --- the recovery word --- */

/* The one word that is taken over from the dead as it is: what it guards is
   done again from the start by whoever comes next. */
static void recovery_lock(struct map *map, struct thread *me)
{
    uint32_t *word = &map->h->recovery_word;

    for (;;) {
        uint32_t value = shm_load(word);
        struct sys_watch watch = {word, value};

        if (may_take(map, me, value)) {
            if (shm_cas(word, &value, me->ref | WORD_WAITERS))
                return;
        } else {
            sys.wait(&watch, 1, mono_add_ns(sys.now(), NS_PER_MS));
        }
    }
}

static void recovery_unlock(struct map *map)
{
    shm_swap(&map->h->recovery_word, 0);
    sys.wake(&map->h->recovery_word, INT_MAX);
}

/* --- links made anew --- */

/* Keeps a ring in order of arrival: those who never waited first, in order
   of their grants. */
static bool comes_before(const struct entry *a, const struct entry *b)
{
    if (a->ticket != b->ticket)
        return a->ticket < b->ticket;
    return a->token < b->token;
}

/* Into the ring that begins with `first`; returns what it begins with now. */
static struct entry *ring_insert(const struct map *map, struct entry *first,
    struct entry *e)
{
    struct entry *at = at_entry(map, first->prev);
    uint32_t left = map->entries_max;

    while (at != NULL && comes_before(e, at)) {
        if (at == first) {
            ring_append(map, first, e); /* before the first: the last's next */
            return e;
        }
        at = left-- == 0 ? NULL : at_entry(map, at->prev);
    }
    if (at == NULL)
        at = at_entry(map, first->prev);
    if (at != NULL)
        ring_append(map, at_entry(map, at->next), e);
    return first;
}

static int relink_concrete(struct map *map, struct entry *e)
{
    struct shard *shard = &map->shards[shard_of_hash(e->hash)];
    struct spot spot = spot_of(e->name_hash, e->hash);
    struct entry *first, *now;
    struct key key;

    if (!entry_key(map, e, &key))
        return ENQ_ECORRUPT;
    if (entry_is(e, PHASE_WAITING))
        shm_store(&shard->n_waiting, shard->n_waiting + 1);
    first = index_find(map, &spot, &key);
    if (first == NULL) {
        ring_append(map, NULL, e);
        return index_add(map, &spot, e);
    }
    now = ring_insert(map, first, e);
    if (now != first && !index_replace(map, &spot, first, now))
        return ENQ_ECORRUPT;
    return 0;
}

static void relink_generic(struct repair *r, struct entry *e)
{
    struct map *map = r->map;
    struct gate *gate = &map->gates[gate_of_hash(e->name_hash)];
    struct entry *first = at_entry(map, gate->head);

    shm_store(&gate->n_waiting, gate->n_waiting + entry_is(e, PHASE_WAITING));
    r->raised[gate - map->gates]++;
    if (first == NULL)
        ring_append(map, NULL, e);
    else
        e = ring_insert(map, first, e);
    shm_store(&gate->head, map_ref(map, e));
}

static bool used_anew(const struct entry *e, uint64_t state)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return STATE_GENERATION(shm_load(&e->state)) != STATE_GENERATION(state);
}

/*
 * Of two with one id, one has run out, and the other came after it.
 *
 * An entry with an id stands still, as all id words are held. One without may
 * be given back while we look, and be filled for a request with an id.
 */
static int relink_id(struct map *map, struct entry *e, uint64_t state)
{
    struct entry *other;
    struct spot spot;
    struct ask ask;
    bool sound;

    if (e->id_bytes == 0)
        return 0;
    sound = entry_ask(map, e, &ask) && spot_of_entry_id(map, e, &spot);
    if (used_anew(e, state))
        return 0;
    if (!sound)
        return ENQ_ECORRUPT;
    other = index_find_id(map, &spot, ask.id);
    if (other == NULL)
        return index_add(map, &spot, e);
    if (entry_over(map, other, sys.now()) == ENQ_OK)
        return 0;
    return index_replace(map, &spot, other, e) ? 0 : ENQ_ECORRUPT;
}

/* Entries of the parts under repair stand still: their words are held, by us
   or by the dead. Others may change under our eyes, which the generation
   tells. */
static bool relink(void *context, struct entry *e, uint64_t state)
{
    struct repair *r = context;
    uint32_t gate, shard;
    bool generic;

    if (!state_is_live(state))
        return true;
    generic = entry_is_generic(e);
    gate = gate_of_hash(shm_load(&e->name_hash));
    shard = shard_of_hash(shm_load(&e->hash));
    if (used_anew(e, state))
        return true;
    r->rc = relink_id(r->map, e, state);
    if (r->rc == 0 && generic && bit(r->gates, gate))
        relink_generic(r, e);
    else if (r->rc == 0 && !generic && bit(r->shards, shard))
        r->rc = relink_concrete(r->map, e);
    ENQ_POINT("recover.relinked");
    return r->rc == 0;
}

static void clear_derived(struct repair *r)
{
    for (uint32_t i = 0; i < SHARDS_ALL; i++)
        if (i >= SHARDS || bit(r->shards, i))
            index_clear(r->map, i);
    for (uint32_t i = 0; i < GATES; i++) {
        if (!bit(r->gates, i))
            continue;
        shm_store(&r->map->gates[i].head, 0);
        shm_store(&r->map->gates[i].n_waiting, 0);
    }
    ENQ_POINT("recover.index_cleared");
}

/* Last, and in one store: a gate that is being repaired must not look as if
   it were down to those who go the narrow way. */
static void set_gates(struct repair *r)
{
    for (uint32_t i = 0; i < GATES; i++)
        if (bit(r->gates, i))
            shm_store(&r->map->gates[i].raised, r->raised[i]);
    ENQ_POINT("recover.gates_set");
}

/* --- which parts --- */

/*
 * What is noted here is repaired and freed, nothing else: a word whose owner
 * dies later names him still, and whoever wants it heals again. Gates first:
 * of one who dies meanwhile with a gate and a shard, the shard is noted at
 * least. No noted word changes hands, as nobody but us frees those of the
 * dead.
 */
static void note_dead_words(struct repair *r)
{
    r->grow = r->all || dead_holds(r->map, &r->map->h->grow_word);
    r->needed = r->grow;
    for (uint32_t i = 0; i < GATES; i++) {
        if (!r->all && !dead_holds(r->map, &r->map->gates[i].word))
            continue;
        r->needed = true;
        set_bit(r->gates, i);
    }
    for (uint32_t i = 0; i < SHARDS_ALL; i++) {
        if (!r->all && !dead_holds(r->map, &r->map->shards[i].word))
            continue;
        r->needed = true;
        if (i < SHARDS)
            set_bit(r->shards, i);
    }
}

/*
 * Ids are made anew always, as entries of any part may have one. Their words
 * are leaves: who holds one waits for nothing, so that we may wait for him.
 */
static void take_id_words(struct repair *r)
{
    for (uint32_t i = SHARDS; i < SHARDS_ALL; i++) {
        uint32_t *word = &r->map->shards[i].word, value;

        for (;;) {
            value = shm_load(word);
            if (may_take(r->map, r->me, value) &&
                shm_cas(word, &value, r->me->ref | WORD_WAITERS))
                break;
            sys.wait(&(struct sys_watch){word, value}, 1,
                mono_add_ns(sys.now(), NS_PER_MS));
        }
    }
}

static void free_word(uint32_t *word)
{
    shm_swap(word, 0);
    sys.wake(word, INT_MAX);
    ENQ_POINT("recover.word_freed");
}

/*
 * Of nobody, and so of a dead one: whoever wants the word heals again, and is
 * told, as we are, that what it guards cannot be repaired. Free, half of a
 * shard would pass for all of it; ours, others would wait for us. (No thread
 * has generation 0.)
 */
#define NOBODY 1u

static void ruin_word(uint32_t *word)
{
    shm_swap(word, NOBODY);
    sys.wake(word, INT_MAX);
}

static void free_if_dead_holds(struct repair *r, uint32_t *word)
{
    if (dead_holds(r->map, word))
        free_word(word);
}

static void free_dead_words(struct repair *r)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        if (bit(r->shards, i))
            free_if_dead_holds(r, &r->map->shards[i].word);
    for (uint32_t i = SHARDS; i < SHARDS_ALL; i++)
        free_word(&r->map->shards[i].word);
    for (uint32_t i = 0; i < GATES; i++)
        if (bit(r->gates, i))
            free_if_dead_holds(r, &r->map->gates[i].word);
    if (r->grow)
        free_if_dead_holds(r, &r->map->h->grow_word);
}

/* Whoever may have been granted, or may go now, looks for itself. One that has
   looked, and is about to sleep, is not woken: its note keeps it from sleeping.
   Others run again by now, hence no plain write of a state that was read. */
static bool rouse(void *context, struct entry *e, uint64_t state)
{
    const struct map *map = context;

    while (STATE_PHASE(state) == PHASE_WAITING &&
        !shm_cas(&e->state, &state, state | STATE_SOONER))
        continue;
    if (STATE_PHASE(state) == PHASE_WAITING &&
        shm_load(&e->asleep) == ASLEEP_NOBODY)
        sys.wake((const uint32_t *)&e->state, 1);
    call_up(map, e);
    return true;
}

static void rebuild(struct repair *r)
{
    struct map *map = r->map;

    take_id_words(r);
    if (r->grow)
        page_recount(map);
    clear_derived(r);
    slab_each(map, relink, r);
    if (r->rc != 0) {
        for (uint32_t i = SHARDS; i < SHARDS_ALL; i++)
            ruin_word(&map->shards[i].word);
        return;
    }
    set_gates(r);
    free_dead_words(r);
    slab_each(map, rouse, map);
    thread_count(r->me, COUNT_RECOVERIES);
}

static int repair(struct repair *r)
{
    recovery_lock(r->map, r->me);
    note_dead_words(r);
    journal_undo(r->map);
    if (r->needed)
        rebuild(r);
    if (r->rc == 0)
        reclaim_threads(r->map);
    recovery_unlock(r->map);
    return r->rc;
}

int heal(struct map *map, struct thread *me)
{
    struct repair r = {.map = map, .me = me};

    return repair(&r);
}

/* --- doctor --fix: all words are taken, in order --- */

#define WORDS_ALL (GATES + SHARDS + 1)

static uint32_t *word_at(struct map *map, uint32_t i)
{
    if (i < GATES)
        return &map->gates[i].word;
    return i < GATES + SHARDS ? &map->shards[i - GATES].word
                              : &map->h->grow_word;
}

static int take_all_words(struct map *map, struct thread *me, uint32_t *taken)
{
    for (*taken = 0; *taken < WORDS_ALL; ++*taken) {
        uint32_t *word = word_at(map, *taken);
        uint32_t free = 0;
        int rc = 0;

        /* no rank is checked: there are more of them than a thread may hold */
        if (!shm_cas(word, &free, me->ref))
            rc = word_lock_slow(me, word);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int heal_all(struct map *map, struct thread *me)
{
    struct repair r = {.map = map, .me = me, .all = true};
    uint32_t taken;
    int rc = take_all_words(map, me, &taken);

    if (rc == 0)
        rc = repair(&r);
    while (taken-- > 0) {
        if (r.rc == 0)
            free_word(word_at(map, taken));
        else
            ruin_word(word_at(map, taken));
    }
    return rc;
}

/* --- sessions --- */

static bool any_dead_thread(const struct map *map)
{
    for (uint32_t i = 0; i < map_threads(map); i++) {
        thread_ref_t ref = shm_load_acquire(&map->threads[i].ref);
        if (ref != 0 && thread_is_dead(map, ref))
            return true;
    }
    return false;
}

/* What lay in the magazines of the dead is free. */
static bool uncache(void *context, struct entry *e, uint64_t state)
{
    (void)context;
    if (STATE_PHASE(state) == PHASE_CACHED)
        shm_cas(&e->state, &state,
            STATE(STATE_GENERATION(state) + 1, PHASE_FREE, 0, 0));
    return true;
}

/* Under the recovery word: its slabs are nobody's, its slot is free. */
static void erase(struct map *map, struct thread *t, session_ref_t ref,
    bool free_slot)
{
    struct session_slot *slot = at_session(map, ref);

    recovery_lock(map, t);
    if (shm_load(&slot->ref) == ref) {
        slab_each_of(map, ref, uncache, NULL);
        page_orphan_all(map, ref);
        shm_store(&slot->adopted, 0);
        shm_store(&slot->loose, 0);
        if (shm_swap(&slot->listens, 0))
            shm_add(&map->h->listeners, -1);
        if (free_slot) {
            shm_store_release(&slot->ref, 0);
            thread_count(t, COUNT_OWNER_DEATHS);
        }
        ENQ_POINT("session.reaped");
    }
    recovery_unlock(map);
}

/* Its last words may not have come: whoever listens looks at all of his. */
static void call_all(const struct map *map)
{
    if (shm_load(&map->h->listeners) == 0)
        return;
    for (uint32_t i = 0; i < map_sessions(map); i++) {
        session_ref_t ref = shm_load_acquire(&map->sessions[i].ref);

        if (ref != 0 && call_is_wanted(map, ref))
            call_session(map, ref, CALL_ALL);
    }
}

/* No thread of its process adds any locks, or takes pages in its name, any
   more: it is over. */
int bury(struct session *s, struct thread *t, session_ref_t ref)
{
    int rc = hold_release_all(s, t, ref, GONE_DIED);

    if (rc == 0)
        erase(s->map, t, ref, true);
    call_all(s->map);
    return rc;
}

int retire(struct session *s, struct thread *t)
{
    int rc;

    /* all of it ends here: a lock of ours that goes must not be handed to a
       waiter of ours, nor excuse one */
    shm_store_release(&s->slot->state, SESSION_ENDING);
    rc = hold_release_all(s, t, s->ref, GONE_NOT);
    if (rc == 0)
        erase(s->map, t, s->ref, false);
    return rc;
}

unsigned bury_dead(struct session *s, struct thread *t)
{
    struct map *map = s->map;
    bool dying = false;
    unsigned n = 0;

    /* threads first: one may have died inside a word, or before its session
       began */
    if (any_dead_thread(map) && heal(map, t) != 0)
        return 0;
    for (uint32_t i = 0; i < map_sessions(map); i++) {
        session_ref_t ref = shm_load_acquire(&map->sessions[i].ref);

        if (ref == 0 || !session_is_dead(map, ref) ||
            shm_load(&map->sessions[i].ref) != ref)
            continue;
        if (!session_prove(map, ref, true))
            dying = true;
        else if (bury(s, t, ref) == 0)
            n++;
    }
    shm_store(&map->dying, dying);
    return n;
}
