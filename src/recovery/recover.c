/*
 * recover.c - recovery: what the dead have left (see recover.h).
 *
 * No half-made step is finished, and none is undone. In the parts that the dead
 * had latched all that is derived is cleared, and made anew from the entries'
 * states. Each transition stores the state last, so that it does not matter at
 * which of its stores the thread died: before that one the step has not
 * happened, after it, it has. The one thing that is undone is a lock set, as
 * its steps are several entries' (store/journal.h).
 *
 * The others go on meanwhile. A thread that wants a latch of the dead comes
 * here, and waits for the recovery latch; all other parts are untouched, but
 * for the ids, of which entries of any part may have one. What is read of
 * living parts may change at any moment, and is read as by a list: state first,
 * and again afterwards.
 *
 * And the recovering thread may be killed as well, at each store (DEATHS.md,
 * `recover.*`). Nothing is freed before all is made, so that the next one finds
 * the same dead latches and begins again: the steps are idempotent, and none
 * needs to know how far the former came.
 */
#include "recovery/recover.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/point.h"
#include "lock/ids.h"
#include "lock/transition.h"
#include "store/journal.h"
#include "store/notify.h"
#include "store/page.h"
#include "store/walk.h"
#include "sync/latch.h"
#include "sync/life.h"
#include "sync/reclaim.h"

#define BITS(n) (((n) + 63) / 64)

/* Private: what this thread has noted. Another that takes over notes for
   itself. */
struct repair {
    struct map *map;
    struct thread *me;
    bool all;                      /* doctor's orders */
    bool needed;                   /* a thread died inside a latch */
    bool grow;                     /* of the pages: to be counted anew */
    uint64_t shards[BITS(SHARDS)]; /* of keys: to be made anew */
    uint64_t gates[BITS(GATES)];
    uint32_t raised[GATES]; /* what they shall be */
    mono_t now;             /* when it began to link them anew */
    int rc;
};

static bool bit(const uint64_t *set, uint32_t i)
{
    return set[i / 64] >> (i % 64) & 1;
}

static void set_bit(uint64_t *set, uint32_t i)
{
    enq_assert(i < 64 * BITS(SHARDS > GATES ? SHARDS : GATES));
    set[i / 64] |= UINT64_C(1) << (i % 64);
}

/* The latch again: its owner may have let go of it and ended, slot and all,
   between our two looks, and the latch may be a living thread's by now. A dead
   thread gives nothing back. Acquire, as the partner of latch_release(): what
   a latch's last holder did is done when it names another. */
static bool dead_holds(const struct map *map, const uint32_t *latch)
{
    uint32_t value = shm_load_acquire(latch), again;

    ENQ_POINT("recover.liveness_read");
    if (value == 0 || !thread_is_dead(map, latch_owner(value)))
        return false;
    again = shm_load_acquire(latch);
    return again != 0 && latch_owner(again) == latch_owner(value);
}

/* Free, or a dead thread's; or it names us, though we do not hold it:
   damaged. */
static bool may_take(const struct map *map, const struct thread *me,
    uint32_t value)
{
    return value == 0 || latch_owner(value) == me->ref ||
        thread_is_dead(map, latch_owner(value));
}

/* --- the recovery latch --- */

/*
 * The one latch that is taken over from the dead as it is: what it guards is
 * done again from the start by the next recovering thread. So it needs no
 * recovery, which would have no end. Always with the mark of sleepers, as
 * nobody knows here whether there are any; and each sleeps for a millisecond at
 * most, since the death of the recovering thread wakes none of them.
 *
 * It is the last in the order of ranks: a caller may hold any others. The swap
 * that takes it acquires; partner: the one of recover_unlock(), which releases.
 */
void recover_lock(struct map *map, struct thread *me)
{
    uint32_t *latch = &map->h->recovery_latch;

    enq_assert(me->map == map);
    for (;;) {
        uint32_t value = shm_load(latch);
        struct sys_watch watch = {latch, value};

        if (may_take(map, me, value)) {
            if (shm_cas(latch, &value, me->ref | LATCH_WAITERS))
                return;
        } else {
            sys.wait(&watch, 1, mono_add_ns(sys.now(), NS_PER_MS));
        }
    }
}

void recover_unlock(struct map *map)
{
    shm_swap(&map->h->recovery_latch, 0);
    sys.wake(&map->h->recovery_latch, INT_MAX);
}

/* --- links made anew --- */

/* Keeps a ring in order of arrival (I2): what never waited first, in order of
   the grants. */
static bool comes_before(const struct entry *a, const struct entry *b)
{
    if (a->ticket != b->ticket)
        return a->ticket < b->ticket;
    return a->token < b->token;
}

/* Into the ring that begins with `first`; returns what it begins with now. From
   the end: an entry that came later than all before it is in its place at once.
   The ring was made by this very recovery and is sound; its links are bytes
   that any process can write, so that the steps are counted nevertheless. */
static struct entry *ring_insert(const struct map *map, struct entry *first,
    struct entry *e)
{
    struct entry *at = at_entry(map, first->prev);
    uint32_t left = map->entries_max;

    enq_assert(first != NULL && first != e);
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

/* R7, after a death in transition_grant(): the end of the ttl was stored, the
   state was not, and both ends are one word (due_ns, deadline_ns). So the bypass
   window would last as long as the ttl, and nobody behind this waiter be granted
   before. A window that ends later than any does ends now; the others are what
   they were. A ttl that ends no later does no harm. */
static void end_window(const struct repair *r, struct entry *e)
{
    int64_t longest = r->map->strict ? 0 : WINDOW_MOST_NS;

    if (e->due_ns > mono_add_ns(r->now, longest).ns)
        shm_store(&e->due_ns, r->now.ns);
}

/* The first entry of an object that is met founds its ring and is put into the
   index; the index has to lead to the ring's first, which may be another one
   after each insertion. The count goes up with each waiter, from the 0 of
   index_clear(). The shard may want more buckets (`cramped`): it takes spilled
   objects until a living thread adds some. */
static int relink_concrete(struct map *map, struct entry *e)
{
    struct shard *shard = &map->shards[shard_of_hash(e->hash)];
    struct spot spot = spot_of(e->name_hash, e->hash);
    struct entry *first, *now;
    struct key key;

    if (!entry_key(map, e, &key))
        return ENQ_ECORRUPT;
    if (e->ring_modes != 0)
        shm_store(&e->ring_modes, 0);
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

/* `raised` is counted in private, and stored once all are linked: see
   set_gates(). Requests that were under way in a wide scope had raised the gate
   as well; their threads are dead, or wait for the gate's latch and have not
   raised it yet. */
static void relink_generic(struct repair *r, struct entry *e)
{
    struct map *map = r->map;
    struct gate *gate = &map->gates[gate_of_hash(e->name_hash)];
    struct entry *first = at_entry(map, gate->head);
    struct key key;

    if (entry_key(map, e, &key))
        shm_store(&e->hash, key_digest(&key, map->hash_seed));
    shm_store(&gate->n_waiting, gate->n_waiting + entry_is(e, PHASE_WAITING));
    r->raised[gate - map->gates]++;
    if (first == NULL)
        ring_append(map, NULL, e);
    else
        e = ring_insert(map, first, e);
    shm_store(&gate->head, map_ref(map, e));
}

/* Reads that went before may be of the entry's next use: then its generation
   has grown. The fence keeps them before the second load of the state; partner:
   the store that frees the entry, after which others fill it. */
static bool used_anew(const struct entry *e, uint64_t state)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return STATE_GENERATION(shm_load(&e->state)) != STATE_GENERATION(state);
}

/*
 * Of two with one id, one has run out, and the other came after it.
 *
 * An entry with an id stands still, as all id latches are held. One without may
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

/* Entries of the parts under repair stand still: their latches are held, by us
   or by the dead. Others may change under our eyes, which the generation tells.
   Each entry of the table is looked at, as nothing leads to those of one part
   but the links that are being made: that is the price of a table without lists
   of entries, 10 ns for each. */
static bool relink(void *context, struct entry *e, uint64_t state)
{
    struct repair *r = context;
    uint32_t gate, shard;
    bool generic;

    enq_assert(r->rc == 0);
    if (!state_is_live(state))
        return true;
    generic = entry_is_generic(e);
    gate = gate_of_hash(shm_load(&e->name_hash));
    shard = shard_of_hash(shm_load(&e->hash));
    if (used_anew(e, state))
        return true;
    r->rc = relink_id(r->map, e, state);
    if (r->rc != 0 ||
        !bit(generic ? r->gates : r->shards, generic ? gate : shard))
        return r->rc == 0;
    if (STATE_PHASE(state) == PHASE_WAITING)
        end_window(r, e);
    if (generic)
        relink_generic(r, e);
    else
        r->rc = relink_concrete(r->map, e);
    ENQ_POINT("recover.relinked");
    return r->rc == 0;
}

/* From here until they are made anew these parts say too little. Nobody sees
   that: narrow scopes need the shards' latches, wide ones the gates', and a
   walk over all shards (see_shard()) takes each latch. The ids' are all held by
   us. */
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
   it were down to requests that go the narrow way. Partner: enter_concrete(),
   which loads `raised` under a shard's latch that may be no dead thread's. */
static void set_gates(struct repair *r)
{
    for (uint32_t i = 0; i < GATES; i++)
        if (bit(r->gates, i))
            shm_store(&r->map->gates[i].raised, r->raised[i]);
    ENQ_POINT("recover.gates_set");
}

/* --- which parts --- */

/*
 * What is noted here is repaired and freed, nothing else: a latch whose owner
 * dies later names it still, and the next thread that wants it recovers again.
 * Gates first: of a thread that dies meanwhile with a gate and a shard, the
 * shard is noted at least. No noted latch changes hands, as nobody but us frees
 * those of the dead: the recovery latch guards that.
 */
static void note_dead_latches(struct repair *r)
{
    enq_assert(!r->needed && r->rc == 0);
    r->grow = r->all || dead_holds(r->map, &r->map->h->grow_latch);
    r->needed = r->grow;
    for (uint32_t i = 0; i < GATES; i++) {
        if (!r->all && !dead_holds(r->map, &r->map->gates[i].latch))
            continue;
        r->needed = true;
        set_bit(r->gates, i);
    }
    for (uint32_t i = 0; i < SHARDS_ALL; i++) {
        if (!r->all && !dead_holds(r->map, &r->map->shards[i].latch))
            continue;
        r->needed = true;
        if (i < SHARDS)
            set_bit(r->shards, i);
    }
}

/*
 * Ids are made anew always, as entries of any part may have one. Their latches
 * are leaves: their holder waits for nothing, so that we may wait for it.
 */
static void take_id_latches(struct repair *r)
{
    enq_assert(r->needed);
    for (uint32_t i = SHARDS; i < SHARDS_ALL; i++) {
        uint32_t *latch = &r->map->shards[i].latch, value;

        for (;;) {
            value = shm_load(latch);
            if (may_take(r->map, r->me, value) &&
                shm_cas(latch, &value, r->me->ref | LATCH_WAITERS))
                break;
            sys.wait(&(struct sys_watch){latch, value}, 1,
                mono_add_ns(sys.now(), NS_PER_MS));
        }
    }
}

/* All sleepers are woken: of those that watched the dead holder's liveness word
   the kernel woke one. The swap releases: what was made anew is seen by
   whichever thread has the latch next (partner: latch_try()). */
static void free_latch(uint32_t *latch)
{
    shm_swap(latch, 0);
    sys.wake(latch, INT_MAX);
    ENQ_POINT("recover.latch_freed");
}

/*
 * Of nobody, and so of a dead one: a thread that wants the latch recovers
 * again, and is told, as we are, that what it guards cannot be repaired. Free,
 * half of a shard would pass for all of it; ours, others would wait for us. (No
 * thread has generation 0.)
 */
#define NOBODY 1u

static void ruin_latch(uint32_t *latch)
{
    shm_swap(latch, NOBODY);
    sys.wake(latch, INT_MAX);
}

/* A noted latch of a dead thread is still the dead thread's. Where all are
   repaired (recover_all()) the noted ones are our own, and their holder frees
   them. */
static void free_if_dead_holds(struct repair *r, uint32_t *latch)
{
    enq_assert(r->needed && r->rc == 0);
    if (dead_holds(r->map, latch))
        free_latch(latch);
}

/* Those that were noted, and no other: a thread that died meanwhile has left a
   part that nobody has repaired. The ids' are ours, and are freed in any case.
   Each is free as soon as it is stored, and may be taken while the next is
   still to be freed: by then all parts are whole. */
static void free_dead_latches(struct repair *r)
{
    enq_assert(r->needed && r->rc == 0);
    for (uint32_t i = 0; i < SHARDS; i++)
        if (bit(r->shards, i))
            free_if_dead_holds(r, &r->map->shards[i].latch);
    for (uint32_t i = SHARDS; i < SHARDS_ALL; i++)
        free_latch(&r->map->shards[i].latch);
    for (uint32_t i = 0; i < GATES; i++)
        if (bit(r->gates, i))
            free_if_dead_holds(r, &r->map->gates[i].latch);
    if (r->grow)
        free_if_dead_holds(r, &r->map->h->grow_latch);
}

/* A waiter that may have been granted, or may go now, looks for itself. One
   that has looked, and is about to sleep, is not woken: its note keeps it from
   sleeping. Others run again by now, hence no plain write of a state that was
   read. */
static bool rouse(void *context, struct entry *e, uint64_t state)
{
    const struct map *map = context;

    while (STATE_PHASE(state) == PHASE_WAITING &&
        !shm_cas(&e->state, &state, state | STATE_SOONER))
        continue;
    if (STATE_PHASE(state) == PHASE_WAITING &&
        shm_load(&e->asleep) == ASLEEP_NOBODY)
        sys.wake((const uint32_t *)&e->state, 1);
    notify(map, e);
    return true;
}

/*
 * In this order. The pages first: the walk over the slabs goes by their counts.
 * Then the links; then `raised`, which the next holder of the gate's latch adds
 * to; then the latches. Last, all waiters of the table are told to look: a dead
 * thread may have made way, or granted, and not have woken anybody (P3), and
 * nobody knows which.
 *
 * Damage that the states do not explain ends it: nothing is freed. The latches
 * go on naming the dead, so that each thread that wants one comes here, and is
 * told ENQ_ECORRUPT; the ids', which we hold, get a name that leads here as
 * well.
 */
static void rebuild(struct repair *r)
{
    struct map *map = r->map;

    enq_assert(r->needed && r->rc == 0);
    take_id_latches(r);
    if (r->grow)
        page_recount(map);
    clear_derived(r);
    r->now = sys.now();
    slab_each(map, relink, r);
    if (r->rc != 0) {
        for (uint32_t i = SHARDS; i < SHARDS_ALL; i++)
            ruin_latch(&map->shards[i].latch);
        return;
    }
    set_gates(r);
    free_dead_latches(r);
    slab_each(map, rouse, map);
    thread_count(r->me, COUNT_RECOVERIES);
}

/* The order is what makes it idempotent. Journals are undone while the latches
   of their sets still name the dead, so that nobody has seen a half set. Links
   are made anew before a latch is freed; thread slots, which say what is dead,
   are given up last. A death in between leaves the recovery latch, and all that
   was noted, to the next. */
static int repair(struct repair *r)
{
    enq_assert(!r->needed && r->rc == 0);
    recover_lock(r->map, r->me);
    note_dead_latches(r);
    journal_undo(r->map);
    if (r->needed)
        rebuild(r);
    if (r->rc == 0)
        reclaim_threads(r->map);
    recover_unlock(r->map);
    return r->rc;
}

int recover(struct map *map, struct thread *me)
{
    struct repair r = {.map = map, .me = me};

    return repair(&r);
}

/* --- doctor --fix: all latches are taken, in order --- */

#define WORDS_ALL (GATES + SHARDS + 1)

/* In the order of their ranks. The ids' are not among them: every recovery
   takes those. */
static uint32_t *word_at(struct map *map, uint32_t i)
{
    enq_assert(i < WORDS_ALL);
    if (i < GATES)
        return &map->gates[i].latch;
    return i < GATES + SHARDS ? &map->shards[i - GATES].latch
                              : &map->h->grow_latch;
}

/* As all threads acquire latches in the order of ranks, none that we wait for
   waits for us. A dead holder's is recovered by latch_acquire_slow(). */
static int take_all_latches(struct map *map, struct thread *me, uint32_t *taken)
{
    enq_assert(me->n_held == 0);
    for (*taken = 0; *taken < WORDS_ALL; ++*taken) {
        uint32_t *latch = word_at(map, *taken);
        uint32_t free = 0;
        int rc = 0;

        /* no rank is checked: there are more of them than a thread may hold */
        if (!shm_cas(latch, &free, me->ref))
            rc = latch_acquire_slow(me, latch);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* For damage that no dead thread explains. All threads that want a latch wait
   as long as it takes. If even this fails, no part may pass for whole: all
   latches are ruined. */
int recover_all(struct map *map, struct thread *me)
{
    struct repair r = {.map = map, .me = me, .all = true};
    uint32_t taken;
    int rc = take_all_latches(map, me, &taken);

    if (rc == 0)
        rc = repair(&r);
    while (taken-- > 0) {
        if (r.rc == 0)
            free_latch(word_at(map, taken));
        else
            ruin_latch(word_at(map, taken));
    }
    return rc;
}
