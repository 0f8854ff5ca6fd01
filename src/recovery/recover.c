/*
 * recover.c - recovery: what the dead have left (see recover.h).
 *
 * Nearly always that is one bucket, which its dead thread has noted: it is made
 * anew from its own links (mend.h), whatever the size of the table. What follows
 * is for all else: gates, several buckets, a split, a death in here.
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
#include "recovery/relink.h"
#include "recovery/repair.h"
#include "store/journal.h"
#include "store/notify.h"
#include "store/page.h"
#include "store/walk.h"
#include "sync/latch.h"
#include "sync/life.h"
#include "sync/reclaim.h"

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

static bool bucket_is_noted(const struct bucket *bucket)
{
    return shm_load(&bucket->latch) == NOBODY;
}

bool may_take(const struct map *map, const struct thread *me, uint32_t value)
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
bool recover_lock(struct map *map, struct thread *me)
{
    uint32_t *latch = &map->h->recovery_latch;

    enq_assert(me->map == map);
    for (;;) {
        uint32_t value = shm_load(latch);
        struct sys_watch watch = {latch, value};

        if (may_take(map, me, value)) {
            if (shm_cas(latch, &value, me->ref | LATCH_WAITERS))
                return value != 0;
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

    relink_waiter(map, e);
    if (entry_key(map, e, &key))
        shm_store(&e->hash, key_digest(&key, map->hash_seed));
    shm_store(&gate->n_waiting, gate->n_waiting + entry_is(e, PHASE_WAITING));
    r->raised[gate - map->gates]++;
    if (first == NULL || first == e)
        ring_append(map, NULL, e);
    else
        e = ring_insert(map, first, e);
    shm_store(&gate->head, map_ref(map, e));
}

/* A bucket under repair stays what it is, as its latch is held: none of its keys
   moves to another (partner: split() in store/grow.c). How many buckets there
   are may change meanwhile, by splits of others. The shards' bits come first,
   as nearly all entries are of others, and a bucket is a line that is not in
   the cache. */
static bool is_noted(const struct repair *r, uint64_t hash)
{
    uint32_t shard = shard_of_hash(hash);
    const struct bucket *bucket;

    if (!bit(r->shards, shard))
        return false;
    bucket = bucket_of_hash(r->map, shard, hash);
    return r->all || (bucket != NULL && bucket_is_noted(bucket));
}

/* Entries of the parts under repair stand still: their latches are held, by us
   or by the dead. Others may change under our eyes, which the generation tells.
   Each entry of the table is looked at, as nothing leads to those of one part
   but the links that are being made: that is the price of a table without lists
   of entries, 10 ns for each. */
static bool relink(void *context, struct entry *e, uint64_t state)
{
    struct repair *r = context;
    bool generic, noted;

    enq_assert(r->rc == 0);
    if (!state_is_live(state))
        return true;
    generic = entry_is_generic(e);
    noted = generic ? bit(r->gates, gate_of_hash(shm_load(&e->name_hash)))
                    : is_noted(r, shm_load(&e->hash));
    if (entry_used_anew(e, state))
        return true;
    r->rc = relink_id(r->map, e, state);
    if (r->rc != 0 || !noted)
        return r->rc == 0;
    if (generic)
        relink_generic(r, e);
    else
        r->rc = relink_concrete(r->map, e);
    ENQ_POINT("recover.relinked");
    return r->rc == 0;
}

static bool clear_noted(void *context, uint32_t shard, struct bucket *bucket)
{
    const struct repair *r = context;

    if (shard >= SHARDS || r->all || bucket_is_noted(bucket))
        bucket_clear(bucket);
    return true;
}

/* From here until they are made anew these parts say too little. Nobody sees
   that: narrow scopes need the buckets' latches, wide ones the gates', and a
   walk over all buckets finds the latch taken, or that `remade` has grown
   meanwhile (may_skip() in lock/scope.c). The ids' are all held by us. */
static void clear_derived(struct repair *r)
{
    shm_add(&r->map->h->remade, 1);
    for (uint32_t i = 0; i < SHARDS_ALL; i++)
        if (i >= SHARDS || bit(r->shards, i))
            map_each_bucket(r->map, i, clear_noted, r);
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
   which loads `raised` under a bucket's latch that may be no dead thread's. */
static void set_gates(struct repair *r)
{
    for (uint32_t i = 0; i < GATES; i++)
        if (bit(r->gates, i))
            shm_store(&r->map->gates[i].raised, r->raised[i]);
    ENQ_POINT("recover.gates_set");
}

/* --- which parts --- */

/* Of a bucket the latch itself is the note, as there may be a million: from now
   on it names nobody. A thread that takes over from us finds it so. */
static void note_bucket(struct repair *r, uint32_t shard, struct bucket *bucket)
{
    if (!r->all)
        shm_swap(&bucket->latch, NOBODY);
    ENQ_POINT("recover.bucket_noted");
    r->needed = true;
    set_bit(r->shards, shard);
}

static bool look_at_bucket(void *context, uint32_t shard, struct bucket *bucket)
{
    struct repair *r = context;

    if (!r->all &&
        (shm_load(&bucket->latch) == 0 || !dead_holds(r->map, &bucket->latch)))
        return true;
    r->whole = true;
    note_bucket(r, shard, bucket);
    return true;
}

/* By what the dead have noted (mend.h). The latch has to name the very thread:
   nobody's, it is what a recovering thread has left that died. */
static void note_part(struct repair *r, const struct thread_slot *slot,
    thread_ref_t ref)
{
    uint64_t inside = shm_load(&slot->inside);
    struct part part = {.shard = shard_of_hash(inside)};

    if (inside == INSIDE_MANY)
        r->everywhere = true;
    if (inside == INSIDE_MANY || inside == INSIDE_NONE)
        return;
    part.bucket = bucket_of_hash(r->map, part.shard, inside);
    part.in_hand = shm_load(&slot->in_hand);
    if (part.bucket == NULL ||
        latch_owner(shm_load_acquire(&part.bucket->latch)) != ref)
        return;
    if (&part.bucket->latch == r->wanted)
        r->wanted = NULL;
    note_bucket(r, part.shard, part.bucket);
    if (r->n_parts < PARTS_FEW)
        r->parts[r->n_parts++] = part;
    else
        r->whole = true;
}

static void note_parts(struct repair *r)
{
    for (uint32_t i = 0; i < map_threads(r->map) && !r->everywhere; i++) {
        const struct thread_slot *slot = &r->map->threads[i];
        thread_ref_t ref = shm_load_acquire(&slot->ref);

        if (ref != 0 && thread_is_dead(r->map, ref))
            note_part(r, slot, ref);
    }
}

static bool note_latch(struct repair *r, const uint32_t *latch)
{
    if (!r->all && !dead_holds(r->map, latch))
        return false;
    if (latch == r->wanted)
        r->wanted = NULL;
    r->needed = true;
    return true;
}

/* Its holder had an entry in hand, or has changed nothing. */
static void note_id_shard(struct repair *r, uint32_t i)
{
    thread_ref_t ref = latch_owner(shm_load_acquire(&r->map->shards[i].latch));
    const struct thread_slot *slot = at_thread(r->map, ref);
    ref_t in_hand = shm_load(&slot->in_hand);

    set_bit(r->freed_ids, i - SHARDS);
    if (r->everywhere || shm_load_acquire(&slot->ref) != ref ||
        r->n_parts == PARTS_FEW)
        r->whole = true;
    else if (mend_id_part(r->map, i, in_hand, &r->parts[r->n_parts]))
        r->n_parts++;
    if (!r->all)
        shm_swap(&r->map->shards[i].latch, NOBODY); /* as note_bucket() does */
}

/*
 * What is noted here is repaired and freed, nothing else: a latch whose owner
 * dies later names it still, and the next thread that wants it recovers again.
 * Gates first: of a thread that dies meanwhile with a gate and a bucket, the
 * bucket is noted at least. No noted latch changes hands, as nobody but us
 * frees those of the dead: the recovery latch guards that.
 *
 * A shard's latch guards nothing that has to be repaired: of a split that was
 * under way the old bucket is noted, and the new one not there yet; and
 * that it is empty is taken back (free_shard()).
 */
static void note_dead_latches(struct repair *r)
{
    enq_assert(!r->needed && r->rc == 0);
    r->grow = note_latch(r, &r->map->h->grow_latch);
    for (uint32_t i = 0; i < GATES; i++)
        if (note_latch(r, &r->map->gates[i].latch)) {
            set_bit(r->gates, i);
            r->whole = true;
        }
    if (!r->everywhere)
        note_parts(r);
    for (uint32_t i = 0; i < SHARDS_ALL; i++) {
        if (!dead_holds(r->map, &r->map->shards[i].latch))
            continue;
        note_latch(r, &r->map->shards[i].latch);
        if (i < SHARDS)
            set_bit(r->freed, i);
        else
            note_id_shard(r, i);
    }
    if (r->wanted != NULL && dead_holds(r->map, r->wanted))
        r->everywhere = true;
    for (uint32_t i = 0; i < SHARDS && r->everywhere; i++)
        map_each_bucket(r->map, i, look_at_bucket, r);
    r->whole = r->needed && (r->whole || r->grow || r->all);
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

void free_latch(uint32_t *latch)
{
    shm_swap(latch, 0);
    sys.wake(latch, INT_MAX);
    ENQ_POINT("recover.latch_freed");
}

void ruin_latch(uint32_t *latch)
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

/* Its thread may have died in say_if_empty(), between mark and look. */
static void free_shard(struct repair *r, struct shard *shard)
{
    shm_and(&shard->n_buckets, ~SHARD_EMPTY);
    free_if_dead_holds(r, &shard->latch);
}

static bool free_noted(void *context, uint32_t shard, struct bucket *bucket)
{
    (void)context, (void)shard;
    if (bucket_is_noted(bucket))
        free_latch(&bucket->latch);
    return true;
}

/* Those that were noted, and no other: a thread that died meanwhile has left a
   part that nobody has repaired. The ids' are ours, and are freed in any case.
   Each is free as soon as it is stored, and may be taken while the next is
   still to be freed: by then all parts are whole. */
static void free_dead_latches(struct repair *r)
{
    enq_assert(r->needed && r->rc == 0);
    for (uint32_t i = 0; i < SHARDS; i++) {
        if (bit(r->shards, i))
            map_each_bucket(r->map, i, free_noted, r);
        if (bit(r->freed, i))
            free_shard(r, &r->map->shards[i]);
    }
    for (uint32_t i = SHARDS; i < SHARDS_ALL; i++)
        free_latch(&r->map->shards[i].latch);
    for (uint32_t i = 0; i < GATES; i++)
        if (bit(r->gates, i))
            free_if_dead_holds(r, &r->map->gates[i].latch);
    if (r->grow)
        free_if_dead_holds(r, &r->map->h->grow_latch);
    ENQ_POINT("recover.latches_freed");
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
        entry_sleeps(e) <= ASLEEP_LOOKING)
        notify_sleepers(e);
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
static void rebuild_all(struct repair *r)
{
    struct map *map = r->map;

    enq_assert(r->needed && r->rc == 0);
    take_id_latches(r);
    if (r->grow)
        page_recount(map);
    clear_derived(r);
    slab_each(map, relink, r);
    if (r->rc != 0) {
        for (uint32_t i = SHARDS; i < SHARDS_ALL; i++)
            ruin_latch(&map->shards[i].latch);
        return;
    }
    set_gates(r);
    free_dead_latches(r);
    slab_each(map, rouse, map);
}

/* True: it is done, but for those that are to be told. No wide scope may have
   seen a bucket empty that is not: see clear_derived(). */
static bool mend_parts(struct repair *r)
{
    shm_add(&r->map->h->remade, 1);
    for (unsigned i = 0; i < r->n_parts; i++)
        if (mend(r->map, &r->parts[i], &r->roused) != 0)
            return false;
    for (unsigned i = 0; i < r->n_parts; i++)
        if (r->parts[i].shard < SHARDS)
            free_latch(&r->parts[i].bucket->latch);
    for (uint32_t i = 0; i < SHARDS; i++)
        if (bit(r->freed, i))
            free_shard(r, &r->map->shards[i]);
    for (uint32_t i = 0; i < ID_SHARDS; i++)
        if (bit(r->freed_ids, i))
            free_if_dead_holds(r, &r->map->shards[SHARDS + i].latch);
    ENQ_POINT("recover.latches_freed");
    return true;
}

static void rouse_few(struct repair *r)
{
    if (r->roused.n > ROUSED_FEW)
        slab_each(r->map, rouse, r->map);
    for (uint32_t i = 0; i < r->roused.n && r->roused.n <= ROUSED_FEW; i++) {
        struct entry *e = at_entry(r->map, r->roused.refs[i]);

        if (e != NULL)
            rouse(r->map, e, shm_load(&e->state));
    }
}

/* What the dead have noted is little, and costs as much, however large the table
   is. Without notes, and where they are not enough, each entry is looked at. */
static void rebuild(struct repair *r)
{
    if (!r->whole && mend_parts(r))
        rouse_few(r);
    else
        rebuild_all(r);
    if (r->rc == 0)
        thread_count(r->me, COUNT_RECOVERIES);
}

/* The order is what makes it idempotent. Journals are undone while the latches
   of their sets still name the dead, so that nobody has seen a half set. Links
   are made anew before a latch is freed; thread slots, which say what is dead,
   are given up last. A death in between leaves the recovery latch, and all that
   was noted, to the next. */
int repair(struct repair *r)
{
    enq_assert(!r->needed && r->rc == 0);
    if (recover_lock(r->map, r->me))
        r->everywhere = true; /* who died has made half of it */
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
    struct repair r = {.map = map,
        .me = me,
        .everywhere = me->wanted == NULL,
        .wanted = me->wanted};

    return repair(&r);
}

int recover_noted(struct map *map, struct thread *me)
{
    struct repair r = {.map = map, .me = me};

    return repair(&r);
}
