/*
 * recover.c - recovery: what the dead have left (see recover.h).
 *
 * Nearly always that is some buckets, or a gate, which their dead thread has
 * noted: they are made anew from their own links (mend.h), whatever the size of
 * the table. What follows is for all else: damage, a death in here.
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

bool may_take(const struct map *map, const struct thread *me, uint32_t value)
{
    return value == 0 || latch_owner(value) == me->ref ||
        thread_is_dead(map, latch_owner(value));
}

/* --- the recovery latch --- */

/* Until it is given back, or whoever recovers dies; a SYS_TICK_NS at most. */
static void sleep_behind(const struct map *map, uint32_t value, int64_t tick_ns)
{
    const struct thread_slot *owner = at_thread(map, latch_owner(value));
    const uint32_t *life = liveness_word(&owner->life);
    const struct sys_watch watch[2] = {
        {&map->h->recovery_latch, value},
        {life, shm_load_acquire(life)},
    };

    if (!liveness_is_dead(watch[1].value))
        sys.wait(watch, 2, mono_add_ns(sys.now(), tick_ns));
}

/*
 * The one latch that is taken over from the dead as it is: what it guards is
 * done again from the start by the next recovering thread. So it needs no
 * recovery, which would have no end. Always with the mark of sleepers, as
 * nobody knows here whether there are any.
 *
 * It is the last in the order of ranks: a caller may hold any others. The swap
 * that takes it acquires; partner: the one of recover_unlock(), which releases.
 *
 * A thousand processes may want what the dead thread held. They must not keep
 * the one that recovers from running: each sleeps twice as long as before, and
 * for each but the first the latch that it wants is free by then.
 */
enum recover_turn recover_lock(struct map *map, struct thread *me,
    const uint32_t *wanted)
{
    uint32_t *latch = &map->h->recovery_latch;
    int64_t tick_ns = NS_PER_MS;

    enq_assert(me->map == map);
    for (;;) {
        uint32_t value = shm_load(latch);

        if (may_take(map, me, value)) {
            if (!shm_cas(latch, &value, me->ref | LATCH_WAITERS))
                continue;
            return value == 0 ? RECOVER_BEGIN : RECOVER_AGAIN;
        }
        sleep_behind(map, value, tick_ns);
        if (tick_ns < SYS_TICK_NS)
            tick_ns *= 2;
        if (wanted != NULL && !dead_holds(map, wanted))
            return RECOVER_NEEDLESS;
    }
}

void recover_unlock(struct map *map)
{
    shm_swap(&map->h->recovery_latch, 0);
    sys.wake(&map->h->recovery_latch, INT_MAX);
}

/* --- links made anew --- */

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
        r->raised[relink_generic(r->map, e)]++;
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

/* --- made anew --- */

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
 * In this order. The links first; then `raised`, which the next holder of the
 * gate's latch adds to; then the latches. Last, all waiters of the table are
 * told to look: a dead thread may have made way, or granted, and not have
 * woken anybody (P3), and nobody knows which.
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

/* What is counted is stored once all is linked, as set_gates() does. */
static void free_part(struct repair *r, const struct part *part)
{
    if (part->gate != NULL) {
        shm_store(&part->gate->raised, part->linked);
        ENQ_POINT("recover.gates_set");
        free_if_dead_holds(r, &part->gate->latch);
    } else if (part->shard < SHARDS) {
        free_latch(&part->bucket->latch);
    }
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
        free_part(r, &r->parts[i]);
    for (uint32_t i = 0; i < SHARDS; i++)
        if (bit(r->freed, i))
            free_shard(r, &r->map->shards[i]);
    for (uint32_t i = 0; i < ID_SHARDS; i++)
        if (bit(r->freed_ids, i))
            free_if_dead_holds(r, &r->map->shards[SHARDS + i].latch);
    if (r->grow)
        free_if_dead_holds(r, &r->map->h->grow_latch);
    ENQ_POINT("recover.latches_freed");
    return true;
}

/* Whoever dies under a bucket's latch has made way for those of that key, and
   under a gate's for those of one of its names. */
static bool is_of_parts(const struct repair *r, const struct entry *e)
{
    const struct gate *gate =
        &r->map->gates[gate_of_hash(shm_load(&e->name_hash))];
    uint32_t shard = shard_of_hash(shm_load(&e->hash));

    for (unsigned i = 0; i < r->n_parts; i++)
        if (r->parts[i].gate != NULL ? r->parts[i].gate == gate
                                     : r->parts[i].shard == shard)
            return true;
    return false;
}

static bool rouse_of_parts(void *context, struct entry *e, uint64_t state)
{
    const struct repair *r = context;

    return !is_of_parts(r, e) || rouse(r->map, e, state);
}

/* Of a lock set one member is published, and any may be meant. */
static void rouse_thread(const struct repair *r, const struct thread_slot *slot)
{
    enq_handle handle = shm_load_acquire(&slot->waiting);
    uint64_t state;
    struct entry *e =
        handle == 0 ? NULL : entry_of_handle(r->map, handle, &state);
    const struct entry *member = e;

    for (unsigned left = ENQ_SET_MAX; member != NULL && left > 0; left--) {
        if (is_of_parts(r, member)) {
            rouse(r->map, e, state);
            return;
        }
        member =
            entry_is_of_set(member) ? entry_next_of_set(r->map, member) : NULL;
    }
}

/* Who waits, by what a search for cycles goes by: what a thread has published,
   and marked pages (store/mark.h). */
static void rouse_waiters(struct repair *r)
{
    struct map *map = r->map;

    shm_fence(); /* partners: publish() in transition.c, mark_page() */
    for (uint32_t i = 0; i < map_threads(map); i++)
        rouse_thread(r, &map->threads[i]);
    for (uint32_t i = 0; i < map_pages_used(map); i++)
        if (shm_load(&map->marks[i]) != 0)
            slab_each_from(map, i, 1, rouse_of_parts, r);
}

static void rouse_entry(const struct repair *r, ref_t ref)
{
    struct entry *e = ref == 0 ? NULL : at_entry(r->map, ref);

    if (e != NULL)
        rouse(r->map, e, shm_load(&e->state));
}

/* Under a gate's latch a thread makes way, and grants, in any bucket: then all
   look that wait for its names, as it may not have come to them. Most who die
   there have only looked so far. What it has changed it had in hand, or noted as
   yet to be told of (tell_for()). */
static void rouse_few(struct repair *r)
{
    bool gates = false;

    for (unsigned i = 0; i < r->n_parts; i++) {
        gates |= r->parts[i].gate != NULL && r->parts[i].in_hand != 0;
        rouse_entry(r, r->parts[i].in_hand);
    }
    if (gates || r->roused.n > ROUSED_FEW)
        rouse_waiters(r);
    for (uint32_t i = 0; i < r->roused.n && i < ROUSED_FEW; i++)
        rouse_entry(r, r->roused.refs[i]);
}

/* What the dead have noted is little, and costs as much, however large the table
   is. Without notes, and where they are not enough, each entry is looked at. The
   pages first: a walk over the slabs goes by their counts. */
static void rebuild(struct repair *r)
{
    if (r->grow && r->whole)
        page_recount(r->map);
    else if (r->grow)
        page_finish_claim(r->map);
    if (!r->whole && mend_parts(r))
        rouse_few(r);
    else
        rebuild_all(r);
    if (r->rc == 0)
        thread_count(r->me, COUNT_RECOVERIES);
}

/* --- what the dead have not told --- */

/* Its session, too: an end that came nearer is nothing that the entry shows
   (hold_renew()). It may be another request's by now, which looks in vain. */
static void tell_of(const struct repair *r, ref_t ref)
{
    struct entry *e = at_entry(r->map, ref);
    session_ref_t session = e == NULL ? 0 : shm_load(&e->session);

    rouse_entry(r, ref);
    if (session != 0 && shm_load(&at_session(r->map, session)->ref) == session)
        notify_session(r->map, session, ref);
}

/* Nobody knows of which: each that waits looks, and each that listens looks at
   all of its locks. */
static void tell_of_all(const struct repair *r)
{
    struct map *map = r->map;

    slab_each(map, rouse, map);
    for (uint32_t i = 0; i < map_sessions(map); i++) {
        session_ref_t ref = shm_load_acquire(&map->sessions[i].ref);

        if (notify_is_wanted(map, ref)) /* not of a free slot */
            notify_session(map, ref, NOTIFICATION_ALL);
    }
}

/* The first goes last: a death in here leaves them to the next, as the slot is
   not given up before (reclaim.c). */
static void tell_for(const struct repair *r, struct thread_slot *slot)
{
    for (unsigned i = TELLING_FEW; i-- > 0;) {
        ref_t ref = shm_load(&slot->telling[i]);

        if (ref == TELLING_MANY)
            tell_of_all(r);
        else if (ref != 0)
            tell_of(r, ref);
        ENQ_POINT("recover.told");
        shm_store(&slot->telling[i], 0);
    }
}

static void tell_for_the_dead(const struct repair *r)
{
    for (uint32_t i = 0; i < map_threads(r->map); i++) {
        struct thread_slot *slot = &r->map->threads[i];
        thread_ref_t ref = shm_load_acquire(&slot->ref);

        if (ref != 0 && shm_load(&slot->telling[0]) != 0 &&
            thread_is_dead(r->map, ref))
            tell_for(r, slot);
    }
}

/* The order is what makes it idempotent. Journals are undone while the latches
   of their sets still name the dead, so that nobody has seen a half set. Links
   are made anew before a latch is freed; thread slots, which say what is dead,
   are given up last. A death in between leaves the recovery latch, and all that
   was noted, to the next. */
int repair(struct repair *r)
{
    enum recover_turn turn = recover_lock(r->map, r->me, r->wanted);

    enq_assert(!r->needed && r->rc == 0);
    if (turn == RECOVER_NEEDLESS)
        return 0;
    if (turn == RECOVER_AGAIN)
        r->everywhere = r->whole = true; /* who died has made half of it */
    note_dead_latches(r);
    journal_undo(r->map);
    if (r->needed)
        rebuild(r);
    tell_for_the_dead(r);
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
        .whole = me->wanted == NULL,
        .wanted = me->wanted};

    return repair(&r);
}

int recover_noted(struct map *map, struct thread *me)
{
    struct repair r = {.map = map, .me = me};

    return repair(&r);
}
