/*
 * transition.c - lock: the transitions of an entry (see transition.h).
 */
#include "lock/transition.h"

#include <string.h>

#include "base/point.h"
#include "lock/ids.h"
#include "lock/token.h"
#include "lock/transition_note.h"
#include "store/mark.h"
#include "store/notify.h"

/* --- the state --- */

/*
 * The commit of hold, queue and grant. Release: fields, token and links were
 * stored before. Partners: the acquire loads of entry_read(), entry_is(),
 * pin_check() and has_grant().
 *
 * No swap is needed. An entry that is placed is private until this store. A
 * waiter that is granted loses its notes (RETRY, FIRST, SOONER), and shall:
 * they are about waiting. The one thread that may set a note on it without
 * these latches, rouse() in recovery, does so by compare-and-swap: it comes
 * before, or finds no waiter any more. Either way the low half of the state
 * changes, on which the waiter sleeps.
 */
HOT void set_state(struct entry *e, enum phase phase, unsigned mode,
    uint64_t notes)
{
    uint32_t generation = STATE_GENERATION(shm_load(&e->state));

    enq_assert(phase == PHASE_WAITING || phase == PHASE_HELD);
    shm_store_release(&e->state,
        STATE(generation, phase, mode, GONE_NOT) | notes);
}

/* The commit of promote and demote: the mode stands nowhere but in the state.
   Of a held entry, whose notes stay (what its session has been told). Under its
   latches; but the session's helper acquires none to set a note: hence the
   swap. A plain store would wipe out a note that comes between load and store,
   and the holder would be told twice. Partner: mark(). */
static void set_mode(struct entry *e, unsigned mode)
{
    uint64_t state = shm_load(&e->state);

    enq_assert(mode > 0 && mode < MODES);
    while (!shm_cas(&e->state, &state,
        STATE(STATE_GENERATION(state), PHASE_HELD, mode, GONE_NOT) |
            (state & STATE_NOTES)))
        continue;
}

/* --- time --- */

/*
 * since_ns orders grants, for the blocker that is named (R12); deadline_ns ends
 * the ttl (R14).
 *
 * Two grants of one thread within a tick of the coarse clock would be alike, so
 * the later one counts a nanosecond more: `last_grant_ns` is the thread's own,
 * and costs no shared line. The deadline is not moved by that. It counts from
 * the clock's value, plus what the coarse clock may lag behind where that was
 * read (s->now is 0): a ttl never ends early.
 */
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

/* --- new entries --- */

/* Whose it is: the session, which a death ends, and the pid, for refusals and
   lists. The id's half names the entry from now on, also when another session
   has adopted it (base/id.h): adopting stores session and pid, and leaves the
   id. */
HOT void sign(struct scope *s, struct entry *e)
{
    enq_assert(s->session->ref != 0);
    shm_store(&e->session, s->session->ref); /* partner: see_deadline */
    shm_store(&e->id_half, s->session->id_half);
    shm_store(&e->pid, shm_load(&s->session->slot->process.pid));
}

/* Link, then commit. The crash points tell the two commits apart, as a death
   behind each leaves something else: a held lock or a waiter of a dead session.
   */
HOT int place(struct scope *s, const struct ask *ask, struct entry *e,
    enum phase phase)
{
    int rc = link_entry(s, ask, e, phase);

    if (unlikely(rc != 0))
        return rc;
    set_state(e, phase, ask->mode, 0);
    if (phase == PHASE_HELD)
        ENQ_POINT("lock.granted");
    else
        ENQ_POINT("lock.queued");
    return 0;
}

/* The id is claimed under its own latch, which is held over the commit: ids and
   entries agree whenever that latch is free. Claimed and released before, the
   id would lead to an entry that is not live yet, and a second request could
   claim it again. The latch is a leaf under the bucket's (RANK_ID). A death in
   here leaves both; recovery makes the ids anew in any case, as entries of all
   buckets have some. */
static int place_with_id(struct scope *s, const struct ask *ask,
    struct entry *e, enum phase phase)
{
    struct spot spot = spot_of_id(s->map, ask->id, ask->id_bytes);
    uint32_t *latch = &s->map->shards[spot.shard].latch;
    int rc = latch_acquire(s->t, latch, RANK_ID);

    enq_assert(ask->id_bytes > 0);
    if (rc != 0)
        return rc;
    thread_note_in_hand(s->t, map_ref(s->map, e));
    rc = ids_claim_locked(s->map, &spot, ask->id, e);
    if (rc == 0)
        rc = place(s, ask, e, phase);
    latch_release(s->t, latch);
    return rc;
}

HOT int place_any(struct scope *s, const struct ask *ask, struct entry *e,
    enum phase phase)
{
    if (likely(ask->id_bytes == 0))
        return place(s, ask, e, phase);
    return place_with_id(s, ask, e, phase);
}

/* The uncontended grant, inlined from here to the index. All fields are stored
   before the links, and nobody can see them before the state: on any answer but
   0 the entry is private still, and its caller gives it back. At worst a token
   is left out. */
int transition_hold(struct scope *s, const struct ask *ask, struct entry *e)
{
    bool generic = ask->key.generic != 0;
    int rc = guard_enter(s, ask->key.hash, generic);

    enq_assert(ask->mode > 0 && ask->mode < MODES);
    if (unlikely(rc != 0))
        return rc;
    sign(s, e);
    start_clock(s, e, ask->ttl_ms);
    next_token(s, e);
    rc = place_any(s, ask, e, PHASE_HELD);
    guard_leave(s, generic);
    return rc;
}

/* The bypass window, and why it is staggered: see transition.h. At the earliest
   WINDOW_NS after the arrival, or a turn after the waiter before (last_due, of
   the verdict of this very scope); at the latest WINDOW_MOST_NS after the
   arrival, however long the queue (R7). So along a queue windows end in the
   order of arrival, on which grant_due() relies. P6 is this and is_rival() in
   conflict.c. */
#define WINDOW_NS INT64_C(200000)
#define WINDOW_TURN_NS INT64_C(50000)

static uint32_t window_ns(struct scope *s)
{
    int64_t turn =
        mono_add_ns(s->last_due, WINDOW_TURN_NS).ns - scope_clock(s).ns;

    enq_assert(scope_is_entered(s));
    if (s->map->strict)
        return 0;
    if (turn > WINDOW_MOST_NS)
        turn = WINDOW_MOST_NS;
    return (uint32_t)(turn > WINDOW_NS ? turn : WINDOW_NS);
}

/* For those that search for cycles: a thread waits for this. Before the state
   is WAITING, so that no request is in a queue and not to be found; a search
   that finds it sooner waits for the latch. The full fence stands between this
   store and the loads of the thread's own search; partner: the fence of
   wait_graph_begin(), before the load of `waiting`. Of two that publish at
   once at least one sees the other. (On x86-64 the swaps of the latches that
   follow would do.) cycle_withdraw() ends it.

   The owner is stored before the handle, and after what cycle_withdraw() has
   stored: who finds the same handle before and behind it has read that of this
   request. Partner: note_thread(). */
static void publish(struct scope *s, struct entry *e, uint64_t owner)
{
    shm_store_release(&s->t->slot->waiting_owner, owner);
    shm_store_fence(&s->t->slot->waiting, entry_handle(s->map, e));
}

/*
 * A place in the queue. Before the state says WAITING everything stands that
 * others do with a waiter: when it is due, how it is woken, its ticket, and
 * that its owner waits (owners_wait()).
 *
 * The ticket is drawn under the latches, so that a ring has its waiters in
 * order of their tickets (I2). One of a set has its set's, drawn under the
 * latches of all keys. `token` is a waiter's link to the next member of its set
 * (link_members()): 0 until there is one.
 */
int transition_queue(struct scope *s, const struct ask *ask, struct entry *e)
{
    bool generic = ask->key.generic != 0;
    uint64_t owner = entry_owner_hash(s->map, e);
    int rc = guard_enter(s, ask->key.hash, generic);

    enq_assert(ask->mode > 0 && ask->mode < MODES);
    if (rc != 0)
        return rc;
    sign(s, e);
    shm_store(&e->since_ns, scope_clock(s).ns);
    shm_store(&e->window_ns, window_ns(s)); /* partner: see_deadline */
    shm_store(&e->queue, entry_is_of_set(e) ? 1 | QUEUE_SETS : 1);
    shm_store(&e->next_member, 0);
    shm_store(&e->asleep,
        ask->started == 0 ? ASLEEP_BY(s->t->ref, ASLEEP_LOOKING)
                          : ask->started);
    shm_store(&e->ticket,
        likely(ask->ticket == UINT64_MAX) ? shm_add(&s->map->h->ticket, 1)
                                          : ask->ticket);
    transition_count_queued(s, owner, generic, 1);
    if (ask->started == 0)
        publish(s, e, owner);
    rc = place_any(s, ask, e, PHASE_WAITING);
    if (rc == 0 && ask->started != 0)
        mark_page(s->map, e);
    if (rc == 0)
        count_waiting(s, e, 1);
    else
        transition_count_queued(s, owner, generic, -1);
    guard_leave(s, generic);
    return rc;
}

/* --- waiting entries --- */

/*
 * WAITING to HELD: by a grant scan, whichever thread runs it, or by the thread
 * of a lock set, for its members.
 *
 * By the exact clock, which the scans have read in any case. The token is
 * stored before the state, as the waiter reads it without the latches, once it
 * has seen HELD (has_grant()). The count of the owner's waiting requests goes
 * last: one too many costs a look, one too few would hide a cycle.
 *
 * The bypass window is ended before anything else, as it counts from `since_ns`:
 * who dies before the state is stored leaves a waiter, and that would be
 * overtaken anew, and with it those behind it (window_ns()). What the end of
 * its ttl leaves of a window recovery ends as well (relink_waiter()).
 *
 * `changes` and `brief` are for what runs above: wait/set.c, which judges its
 * members one after the other, and wake_if_brief().
 */
static void become_held(struct scope *s, struct entry *e)
{
    unsigned mode = STATE_MODE(shm_load(&e->state));
    uint64_t owner = entry_owner_hash(s->map, e);

    enq_assert(scope_is_entered(s));
    scope_clock(s);
    shm_store(&e->window_ns, 0);
    __atomic_thread_fence(__ATOMIC_RELEASE); /* before `since_ns` */
    ENQ_POINT("grant.clock");
    start_clock(s, e, e->ttl_ms);
    if (e->ttl_ms >= 0 && e->ttl_ms < SYS_TICK_USUAL_NS / NS_PER_MS)
        s->t->brief = true;
    next_token(s, e);
    count_waiting(s, e, -1);
    owners_count_in(s->map, owner_awaited(owner)); /* by those behind it */
    set_state(e, PHASE_HELD, mode, STATE_AWAITED);
    ENQ_POINT("grant.stored");
    transition_count_queued(s, owner, entry_is_generic(e), -1);
}

int transition_grant(struct scope *s, struct entry *e)
{
    uint64_t hash = e->hash;
    bool generic = entry_is_generic(e);
    int rc = guard_enter(s, hash, generic);

    if (rc != 0)
        return rc;
    thread_note_in_hand(s->t, map_ref(s->map, e));
    s->t->changes++;
    if (s->wide || entry_is_of_set(e))
        transition_tell_behind(s, e, true); /* else the pass does */
    rc = links_grant(s, e);
    if (rc == 0)
        become_held(s, e);
    guard_leave(s, generic);
    if (rc == 0)
        scope_wake(s, e);
    return rc;
}

/* R8: the waiter is not granted, but told to try. An atomic `or`, as notes of a
   waiter are set without its bucket's latch, too: in a wide scope by this very
   function, of a lock set. The note changes the word on which the waiter
   sleeps: one that has looked and does not sleep yet is kept awake by the
   futex's comparison. SOONER is cleared by each look, so that what has moved in
   the queue is told once for each. A death before the wake-up costs time, until
   the waiter's own next look. */
void transition_retry(struct scope *s, struct entry *e, bool first)
{
    uint64_t note = first ? STATE_RETRY | STATE_FIRST : STATE_RETRY;

    enq_assert(scope_is_entered(s));
    if (s->marks & SCOPE_MOVED)
        note |= STATE_SOONER;
    if ((shm_or(&e->state, note) & note) == note)
        return; /* once in vain is enough: see grant_scan.h */
    ENQ_POINT("grant.retry");
    scope_wake(s, e);
}

/* --- out --- */

/*
 * The last step of the way out, and its commit; the entry is linked nowhere. It
 * is free at once where its own holder or waiter gave it up, or where nobody is
 * left to be told; else GONE, with the reason, for as long as R16 wants that
 * kept.
 *
 * A waiter's `token` is stored as 0, as that tells a request which never was
 * granted from a lock: collect() answers "cancelled" by it, take_gone() makes
 * no event of it. `session` is loaded before, as the entry may be used anew
 * from the commit on.
 */
static inline void let_go(struct scope *s, struct entry *e, enum gone gone)
{
    bool waiting = entry_is(e, PHASE_WAITING);
    session_ref_t session = e->session;

    enq_assert(scope_is_entered(s) && gone < GONE_REASONS);
    if (gone == GONE_NOT || (gone == GONE_DIED && waiting)) {
        slab_give(s->session, s->t, e);
        return;
    }
    ENQ_POINT("expire.unlinked");
    if (waiting)
        shm_store(&e->token, 0); /* never granted: a link, or a witness */
    slab_reap(s->map, e, gone, scope_clock(s));
    ENQ_POINT("expire.gone");
    if (waiting || notify_is_wanted(s->map, session))
        scope_wake(s, e);
}

/* The owner that took the lock (R17), behind the entry's own texts, where there
   is room for the whole name; half of one may be another's. Nobody's truth, so
   that a death in here does no harm: `taker_bytes` was 0 since the entry was
   filled, and is stored when the name is whole. Partner: copy_taker(), which
   checks it again. */
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

/* Out of ring and index, then the taker, then the commit. The taker's name must
   stand before the state says GONE_LOST: from then on the holder may read it.
   */
static int take_out(struct scope *s, struct entry *e, enum gone gone,
    const struct ask *taker)
{
    int rc;

    if (entry_is(e, PHASE_WAITING))
        transition_tell_behind(s, e, false);
    rc = unlink_entry(s, e);
    if (unlikely(rc != 0))
        return rc;
    if (taker != NULL)
        note_taker(s->map, e, taker);
    let_go(s, e, gone);
    if (taker != NULL)
        ENQ_POINT("promote.loser_gone");
    return 0;
}

/* The id goes in one step with the entry, under the id's latch as in
   place_with_id(): a request that brings this id finds a live lock, or a free
   id. */
static int take_out_with_id(struct scope *s, struct entry *e, enum gone gone,
    const struct ask *taker)
{
    struct spot spot;
    uint32_t *latch;
    int rc;

    if (!spot_of_entry_id(s->map, e, &spot))
        return ENQ_ECORRUPT;
    latch = &s->map->shards[spot.shard].latch;
    rc = latch_acquire(s->t, latch, RANK_ID);
    if (rc != 0)
        return rc;
    index_replace(s->map, &spot, e, NULL); /* or it is another's by now */
    rc = take_out(s, e, gone, taker);
    latch_release(s->t, latch);
    return rc;
}

/* What is needed after the commit is read before it: kind, and what its owner is
   counted for. By then the entry may be another request's, in another
   bucket. */
int transition_take_away(struct scope *s, struct entry *e, enum gone gone,
    const struct ask *taker)
{
    uint64_t hash = e->hash;
    bool generic = entry_is_generic(e);
    bool waited = entry_is(e, PHASE_WAITING);
    bool awaited = (shm_load(&e->state) & STATE_AWAITED) != 0;
    uint64_t owner = waited || awaited ? entry_owner_hash(s->map, e) : 0;
    int rc = guard_enter(s, hash, generic);

    enq_assert(scope_is_entered(s) && gone < GONE_REASONS);
    if (unlikely(rc != 0))
        return rc;
    thread_note_in_hand(s->t, map_ref(s->map, e));
    if (unlikely(e->id_bytes > 0))
        rc = take_out_with_id(s, e, gone, taker);
    else
        rc = take_out(s, e, gone, taker);
    if (waited && rc == 0)
        transition_count_queued(s, owner, generic, -1);
    if (awaited && rc == 0)
        owners_count_out(s->map, owner_awaited(owner));
    guard_leave(s, generic);
    return rc;
}

/* A held lock of one object, given back: nearly every release. No guard is to
   be acquired, no id given up, no reason kept, nobody counted. The store of its
   state in slab_give() is the commit of the unlock. */
static inline bool is_held_unawaited(const struct entry *e)
{
    uint64_t state = shm_load_acquire(&e->state);

    return (state & (0xfu | STATE_AWAITED)) == PHASE_HELD;
}

HOT int give_back(struct scope *s, struct entry *e)
{
    int rc = unlink_concrete(s, e);

    enq_assert(!s->wide && scope_is_entered(s));
    if (unlikely(rc != 0))
        return rc;
    ENQ_POINT("unlock.unlinked");
    slab_give(s->session, s->t, e);
    return 0;
}

int transition_drop(struct scope *s, struct entry *e, enum gone gone)
{
    if (likely(gone == GONE_NOT && !s->wide && e->id_bytes == 0 &&
            is_held_unawaited(e)))
        return give_back(s, e);
    return transition_take_away(s, e, gone, NULL);
}

/* --- held entries --- */

/* The token first, the mode last, in the one store that commits. Killed in
   between, the lock has its old mode and a newer token: tokens only grow, so
   that is one left out. Mode first, a death in between would leave an E with
   the token of the O, against R17: a third party that knows this token would
   take the one for the other. */
int transition_mode(struct scope *s, struct entry *e, unsigned mode, bool token)
{
    uint64_t hash = e->hash;
    bool generic = entry_is_generic(e);
    int rc = guard_enter(s, hash, generic);

    enq_assert(scope_is_entered(s) && mode > 0 && mode < MODES);
    if (rc != 0)
        return rc;
    thread_note_in_hand(s->t, map_ref(s->map, e));
    if (token) {
        next_token(s, e);
        ENQ_POINT("promote.token");
    }
    links_forget_modes(s, e);
    if (!nobody_waits(s, e))
        transition_note_awaited(s, e);
    set_mode(e, mode);
    if (token)
        ENQ_POINT("promote.stored");
    else
        ENQ_POINT("demote.stored");
    guard_leave(s, generic);
    return 0;
}

/*
 * One word, which all read as a whole, and no link: so no guard is acquired for
 * it, also in a wide scope, where the gate keeps other requests of the name
 * out.
 *
 * The full fence is for the helper, which acquires no latch: mark_near() sets
 * NEAR by a swap and loads the deadline behind it, we store the deadline and
 * load the state behind it. At least one of the two sees the other, and takes
 * the note away: a renewed lock is announced again.
 */
int transition_deadline(struct scope *s, struct entry *e, int64_t ttl_ms)
{
    mono_t now = scope_clock(s);

    thread_note_in_hand(s->t, map_ref(s->map, e));
    shm_store_fence(&e->deadline_ns, mono_add_ms(now, ttl_ms).ns);
    ENQ_POINT("renew.stored");
    guard_told(s, e);
    if (shm_load(&e->state) & STATE_NEAR)
        shm_and(&e->state, ~STATE_NEAR); /* it will be near again */
    return 0;
}

/*
 * Of a dead session's lock, or one of nobody's: the store of `session` is the
 * commit, and a release. What belongs to the new holder stands before it:
 * `adopted`, which makes its walks go over the whole table and not only its own
 * slabs (the entry stays in the slab of the dead); the token; pid; and that it
 * has been told nothing. What gets a new token gets its whole ttl again, a store
 * later: until then the adopter's helper must not find that its end is near, and
 * it is marked as told so (transition_deadline() takes the mark away).
 *
 * `session` first, and `adopted` after it: of an adopter that is killed in
 * between, the reaper would go through the adopter's slabs only, and miss the
 * lock. Killed before the commit, the lock is the dead session's still, and can
 * be adopted again.
 */
int transition_session(struct scope *s, struct entry *e, bool token)
{
    uint64_t hash = e->hash;
    bool generic = entry_is_generic(e);
    int rc = guard_enter(s, hash, generic);

    enq_assert(scope_is_entered(s) && s->session->ref != 0);
    if (rc != 0)
        return rc;
    shm_store(&s->session->slot->adopted, 1);
    if (token)
        next_token(s, e);
    shm_store(&e->pid, shm_load(&s->session->slot->process.pid));
    ENQ_POINT("adopt.signed");        /* the dead one's still, without a pid */
    shm_and(&e->state, ~STATE_HEARD); /* the new one has been told nothing */
    if (token)
        shm_or(&e->state, STATE_NEAR); /* until it has its whole ttl again */
    shm_store_release(&e->session, s->session->ref);
    ENQ_POINT("adopt.stored");
    guard_leave(s, generic);
    return transition_note_waiters(s, e);
}
