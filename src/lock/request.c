/*
 * request.c - lock: asking for a lock.
 */
#include "lock/request.h"

#include "base/point.h"
#include "lock/bypass.h"
#include "lock/copy_out.h"
#include "lock/grant_scan.h"
#include "lock/ids.h"
#include "store/grow.h"

/* What has run out is in nobody's way, but it must be out of the table before
   another lock is there: its old holder, which unlocks it a moment later, has
   to find it gone (R16). And others may have waited longer for what it held: so
   it is dropped, its waiters are granted (R8), and the request is judged again.
   In a sound table each round drops an entry; the bound is for a damaged one.
   */
int request_decide(struct scope *s, const struct ask *ask,
    const struct entry *self, struct verdict *v)
{
    enq_assert(scope_is_entered(s));
    /* each round drops something, or is the last */
    for (uint32_t left = s->map->entries_max; left > 0; left--) {
        int rc = conflict_check(s, ask, self, v);
        if (rc != 0 || !v->over)
            return rc;
        rc = grant_scan(s, &ask->key, NULL);
        if (rc != 0)
            return rc;
    }
    return ENQ_ECORRUPT;
}

/* Granted where others wait. They may wait for its owner now, whose earlier
   requests may pass them then (R7); or these cumulate (R6). */
static __attribute__((noinline)) int tell_of_grant(struct scope *s,
    const struct ask *ask, struct entry *e)
{
    int rc = transition_note_waiters(s, e);

    enq_assert(scope_is_entered(s));
    return rc != 0 || !transition_may_let_pass(s, e)
        ? rc
        : grant_scan(s, &ask->key, NULL);
}

/* A second request with the id of a live lock is told so before anything
   else, whatever it asks for. */
int request_same_id(struct scope *s, const struct ask *ask,
    struct enq_blocker *blocker)
{
    struct spot spot = spot_of_id(s->map, ask->id, ask->id_bytes);
    uint32_t *latch = &s->map->shards[spot.shard].latch;
    uint64_t state;
    struct entry *e;
    int rc = latch_acquire(s->t, latch, RANK_ID);

    enq_assert(scope_is_entered(s) && ask->id_bytes > 0);
    if (rc != 0)
        return rc;
    e = ids_holder_locked(s->map, &spot, ask->id, &state);
    if (e != NULL && blocker != NULL)
        copy_blocker(s, e, 0, blocker);
    if (e != NULL && !entry_used_anew(e, state))
        rc = ENQ_EXISTS;
    else if (blocker != NULL)
        blocker->owner[0] = '\0'; /* what was copied is of another lock */
    latch_release(s->t, latch);
    return rc;
}

/* Where the object was vacant its id is found to be taken when it is placed:
   which lock has it is still to be told. The id's latch was released in
   between, so that it may be free by now: then nobody is named. */
static __attribute__((noinline)) int exists(struct scope *s,
    const struct ask *ask, struct enq_blocker *blocker)
{
    int rc;

    enq_assert(scope_is_entered(s));
    s->dying = 0;
    rc = request_same_id(s, ask, blocker);
    return rc == 0 ? ENQ_EXISTS : rc;
}

/* The object has entries, held or waiting, or the scope is wide. Sets what
   place and answer need: last_due (window_ns), behind (bypass), dying. */
int request_decide_slowly(struct scope *s, const struct ask *ask,
    struct enq_blocker *blocker)
{
    struct verdict v;
    int rc = 0;

    enq_assert(scope_is_entered(s));
    s->behind = 0;
    s->dying = 0;
    if (ask->id_bytes > 0)
        rc = request_same_id(s, ask, blocker);
    if (rc == 0 && conflict_is_none(s, ask))
        return 0;
    if (rc == 0)
        rc = request_decide(s, ask, NULL, &v);
    if (rc != 0)
        return rc;
    s->last_due = v.last_due;
    if (verdict_blocker(&v) == NULL)
        return 0;
    s->behind = verdict_set(s->map, &v);
    if (blocker != NULL)
        copy_blocker(s, verdict_blocker(&v), v.queue, blocker);
    return ENQ_BUSY;
}

/* The verdict and the step that follows from it are of one scope. `vacant` is
   read before the transition, which makes it false. Where something is held,
   others may wait: for the new holder that is news, and for waiters of its
   owner perhaps a way to pass (tell_of_grant()). */
HOT int request_hold_or_queue(struct scope *s, const struct ask *ask,
    bool queue, struct entry *e, struct enq_blocker *blocker)
{
    int rc = request_may(s, ask, blocker);
    bool vacant;

    enq_assert(scope_is_entered(s));
    if (likely(rc == ENQ_OK)) {
        vacant = s->vacant;
        rc = transition_hold(s, ask, e);
        if (unlikely(rc == ENQ_EXISTS))
            return exists(s, ask, blocker);
        /* where nobody had it, nobody waits for it */
        if (likely(rc != 0 || vacant || nobody_waits(s, e)))
            return rc;
        return tell_of_grant(s, ask, e);
    }
    if (rc != ENQ_BUSY || !queue)
        return rc;
    rc = transition_queue(s, ask, e);
    if (rc == 0)
        rc = transition_note_asked(s, ask);
    return rc == 0 ? ENQ_PENDING : rc;
}

void request_grow_ids(struct map *map, struct thread *t, const struct ask *ask)
{
    struct spot spot = spot_of_id(map, ask->id, ask->id_bytes);

    enq_assert(t->n_held == 0 && ask->id_bytes > 0);
    if (shm_load(&map->shards[spot.shard].cramped))
        index_grow(map, t, spot.shard);
}

/* The entry is still private when it is filled: PHASE_CACHED, and linked by the
   transition only. Once the scope has been left it may be another's at once, so
   that ticket and token are copied before. */
HOT int request_latched(struct scope *s, const struct ask *ask, bool queue,
    struct place *place, struct enq_blocker *blocker)
{
    struct entry *e = place->e;
    int rc = scope_enter(s, &ask->key);

    enq_assert(place->e != NULL && ask->mode > 0 && ask->mode < MODES);
    if (unlikely(rc != 0))
        return rc;
    ENQ_POINT("lock.latched");
    entry_fill(e, ask);
    rc = request_hold_or_queue(s, ask, queue, e, blocker);
    place->ticket = e->ticket;
    place->token = e->token;
    scope_leave(s);
    if (unlikely(ask->id_bytes > 0))
        request_grow_ids(s->map, s->t, ask);
    return rc;
}

/* Refused as a lock set waits in the way: perhaps for the asking owner. Each
   round learns of one set more, or is the last. It does not queue: ENQ_BUSY is
   the answer only to a request that shall not. */
static __attribute__((noinline)) int ask_past_sets(struct scope *s,
    const struct ask *ask, struct place *place, struct enq_blocker *blocker)
{
    uint64_t owner = ask_owner_hash(s->map, ask);
    struct bypass bypass;
    int rc = ENQ_BUSY;

    enq_assert(s->t->n_held == 0);
    bypass_begin(&bypass, ask->ticket);
    s->bypass = &bypass;
    while (rc == ENQ_BUSY &&
        bypass_learn(&bypass, s->session, s->t, s->behind, owner))
        rc = request_latched(s, ask, false, place, blocker);
    s->bypass = NULL;
    bypass_end(&bypass);
    return rc;
}

/* enq_lock() below api/. The first look decides nearly always; the rest is for
   a request that was refused, where something can be learned with no latch
   held. `generation` is taken before the entry is placed: a grant does not
   change it, so that it makes the handle of whatever comes of this request. */
int request_lock(struct session *s, struct thread *t, const struct ask *ask,
    bool queue, struct place *place, struct enq_blocker *blocker)
{
    struct scope scope;
    int rc;

    enq_assert(t->n_held == 0 && place->e != NULL);
    scope_begin(&scope, s, t);
    place->generation = STATE_GENERATION(shm_load(&place->e->state));
    ENQ_POINT("lock.entry_taken");
    rc = request_latched(&scope, ask, queue, place, blocker);
    if (likely(rc == ENQ_OK))
        return ENQ_OK;
    while (request_is_free_now(&scope, rc))
        rc = request_latched(&scope, ask, queue, place, blocker);
    if (unlikely(rc == ENQ_BUSY && scope.behind != 0))
        rc = ask_past_sets(&scope, ask, place, blocker);
    if (rc == ENQ_PENDING)
        place->owner = ask_owner_hash(s->map, ask);
    else if (rc != ENQ_OK)
        slab_give(s, t, place->e);
    return rc;
}

/* What has run out is dropped all the same, and its waiters are granted: no
   trace of the request means none that others could not have caused. */
int request_test(struct session *s, struct thread *t, const struct ask *ask,
    struct enq_blocker *blocker)
{
    uint64_t owner = ask_owner_hash(s->map, ask);
    struct bypass bypass;
    struct scope scope;
    int rc;

    enq_assert(t->n_held == 0);
    bypass_begin(&bypass, ask->ticket);
    scope_begin(&scope, s, t);
    scope.bypass = &bypass;
    do {
        rc = scope_enter(&scope, &ask->key);
        if (rc != 0)
            break;
        scope.dying = 0;
        if (ask->id_bytes > 0)
            rc = request_same_id(&scope, ask, blocker);
        if (rc == 0)
            rc = request_may(&scope, ask, blocker);
        scope_leave(&scope);
    } while (request_is_free_now(&scope, rc) ||
        (rc == ENQ_BUSY && bypass_learn(&bypass, s, t, scope.behind, owner)));
    bypass_end(&bypass);
    return rc;
}
