/*
 * request.c - lock: asking for a lock.
 */
#include "lock/request.h"

#include "base/point.h"
#include "lock/bypass.h"
#include "lock/ids.h"
#include "lock/serve.h"
#include "lock/tell.h"
#include "store/page.h"

int request_decide(struct scope *s, const struct ask *ask,
    const struct entry *self, struct verdict *v)
{
    /* each round drops something, or is the last */
    for (uint32_t left = s->map->entries_max; left > 0; left--) {
        int rc = judge(s, ask, self, v);
        if (rc != 0 || !v->over)
            return rc;
        rc = serve(s, &ask->key, NULL);
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
    int rc = change_note_suitors(s, e);

    return rc != 0 || !change_may_let_pass(s, e) ? rc
                                                 : serve(s, &ask->key, NULL);
}

/* A second request with the id of a live lock is told so before anything
   else, whatever it asks for. */
int request_same_id(struct scope *s, const struct ask *ask,
    struct enq_blocker *blocker)
{
    struct spot spot = spot_of_id(s->map, ask->id, ask->id_bytes);
    uint32_t *word = &s->map->shards[spot.shard].word;
    struct entry *e;
    int rc = word_lock(s->t, word, RANK_ID);

    if (rc != 0)
        return rc;
    e = ids_holder_locked(s->map, &spot, ask->id);
    if (e != NULL) {
        rc = ENQ_EXISTS;
        if (blocker != NULL)
            tell_blocker(s, e, 0, blocker);
    }
    word_unlock(s->t, word);
    return rc;
}

/* Where the object was vacant its id is found to be taken when it is placed:
   whose it is has still to be told, if it is still his. */
static __attribute__((noinline)) int exists(struct scope *s,
    const struct ask *ask, struct enq_blocker *blocker)
{
    int rc;

    s->dying = 0;
    rc = request_same_id(s, ask, blocker);
    return rc == 0 ? ENQ_EXISTS : rc;
}

/* Somebody has the object, or waits for it, or the scope is wide. */
int request_decide_slowly(struct scope *s, const struct ask *ask,
    struct enq_blocker *blocker)
{
    struct verdict v;
    int rc = 0;

    s->behind = 0;
    s->dying = 0;
    if (ask->id_bytes > 0)
        rc = request_same_id(s, ask, blocker);
    if (rc == 0)
        rc = request_decide(s, ask, NULL, &v);
    if (rc != 0)
        return rc;
    s->last_due = v.last_due;
    if (verdict_blocker(&v) == NULL)
        return 0;
    s->behind = verdict_set(s->map, &v);
    if (blocker != NULL)
        tell_blocker(s, verdict_blocker(&v), v.queue, blocker);
    return ENQ_BUSY;
}

HOT int request_inside(struct scope *s, const struct ask *ask, bool queue,
    struct entry *e, struct enq_blocker *blocker)
{
    int rc = request_may(s, ask, blocker);
    bool vacant;

    if (likely(rc == ENQ_OK)) {
        vacant = s->vacant;
        rc = change_hold(s, ask, e);
        if (unlikely(rc == ENQ_EXISTS))
            return exists(s, ask, blocker);
        /* where nobody had it, nobody waits for it */
        if (likely(rc != 0 || vacant || nobody_waits(s)))
            return rc;
        return tell_of_grant(s, ask, e);
    }
    if (rc != ENQ_BUSY || !queue)
        return rc;
    rc = change_queue(s, ask, e);
    if (rc == 0)
        rc = change_note_asked(s, ask);
    return rc == 0 ? ENQ_PENDING : rc;
}

void request_grow_ids(struct map *map, struct thread *t, const struct ask *ask)
{
    struct spot spot = spot_of_id(map, ask->id, ask->id_bytes);

    if (shm_load(&map->shards[spot.shard].cramped))
        page_add_segment(map, t, spot.shard);
}

HOT int ask_once(struct scope *s, const struct ask *ask, bool queue,
    struct place *place, struct enq_blocker *blocker)
{
    struct entry *e = place->e;
    int rc = scope_enter(s, &ask->key);

    if (unlikely(rc != 0))
        return rc;
    ENQ_POINT("lock.shard_locked");
    entry_fill(e, ask);
    rc = request_inside(s, ask, queue, e, blocker);
    place->ticket = e->ticket;
    place->token = e->token;
    scope_leave(s);
    if (unlikely(ask->id_bytes > 0))
        request_grow_ids(s->map, s->t, ask);
    return rc;
}

/* Refused as a lock set waits in the way: perhaps for the asker himself. */
static __attribute__((noinline)) int ask_past_sets(struct scope *s,
    const struct ask *ask, struct place *place, struct enq_blocker *blocker)
{
    uint64_t owner = ask_owner_hash(s->map, ask);
    struct bypass bypass;
    int rc = ENQ_BUSY;

    bypass_begin(&bypass, ask->ticket);
    s->bypass = &bypass;
    while (rc == ENQ_BUSY &&
        bypass_learn(&bypass, s->session, s->t, s->behind, owner))
        rc = ask_once(s, ask, false, place, blocker);
    s->bypass = NULL;
    bypass_end(&bypass);
    return rc;
}

int request_lock(struct session *s, struct thread *t, const struct ask *ask,
    bool queue, struct place *place, struct enq_blocker *blocker)
{
    struct scope scope;
    int rc;

    scope_begin(&scope, s, t);
    place->generation = STATE_GENERATION(shm_load(&place->e->state));
    ENQ_POINT("lock.entry_taken");
    rc = ask_once(&scope, ask, queue, place, blocker);
    if (likely(rc == ENQ_OK))
        return ENQ_OK;
    while (request_is_free_now(&scope, rc))
        rc = ask_once(&scope, ask, queue, place, blocker);
    if (unlikely(rc == ENQ_BUSY && scope.behind != 0))
        rc = ask_past_sets(&scope, ask, place, blocker);
    if (rc != ENQ_OK && rc != ENQ_PENDING)
        slab_give(s, t, place->e);
    return rc;
}

int request_test(struct session *s, struct thread *t, const struct ask *ask,
    struct enq_blocker *blocker)
{
    uint64_t owner = ask_owner_hash(s->map, ask);
    struct bypass bypass;
    struct scope scope;
    int rc;

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
