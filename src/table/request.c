/*
 * request.c - floor 4: asking for a lock.
 */
#include "table/request.h"

#include "base/point.h"
#include "table/ids.h"
#include "table/serve.h"
#include "table/tell.h"

int request_decide(struct scope *s, const struct ask *ask,
    const struct entry *self, struct verdict *v)
{
    /* each round drops something, or is the last */
    for (uint32_t left = s->map->h->slots_max; left > 0; left--) {
        int rc = judge(s, ask, self, v);
        if (rc != 0 || !v->over)
            return rc;
        rc = serve(s, &ask->key, NULL);
        if (rc != 0)
            return rc;
    }
    return ENQ_ECORRUPT;
}

/* A second request with the id of a live lock is told so before anything
   else, whatever it asks for. */
static int refuse_same_id(struct scope *s, const struct ask *ask,
    struct enq_blocker *blocker)
{
    struct spot spot = spot_of_id(s->map, ask->id, ask->id_bytes);
    uint32_t *word = &s->map->shards[spot.shard].word;
    struct entry *e;
    int rc = word_lock(s->t, word, RANK_ID);

    if (rc != 0)
        return rc;
    e = ids_holder_locked(s->map, &spot, ask->id, scope_clock(s));
    if (e != NULL) {
        rc = ENQ_EXISTS;
        if (blocker != NULL)
            tell_blocker(s, e, 0, blocker);
    }
    word_unlock(s->t, word);
    return rc;
}

/* Somebody has the object, or waits for it, or the scope is wide. */
static int decide_slowly(struct scope *s, const struct ask *ask,
    struct enq_blocker *blocker)
{
    struct verdict v;
    int rc = 0;

    if (ask->id_bytes > 0)
        rc = refuse_same_id(s, ask, blocker);
    if (rc == 0)
        rc = request_decide(s, ask, NULL, &v);
    if (rc != 0 || verdict_blocker(&v) == NULL)
        return rc;
    if (blocker != NULL)
        tell_blocker(s, verdict_blocker(&v), v.queue, blocker);
    return ENQ_BUSY;
}

static inline int decide(struct scope *s, const struct ask *ask,
    struct enq_blocker *blocker)
{
    if (likely(!s->wide) && ask->id_bytes == 0)
        s->vacant = scope_object(s, &ask->key) == NULL;
    if (likely(s->vacant))
        return ENQ_OK;
    return decide_slowly(s, ask, blocker);
}

static int request_inside(struct scope *s, const struct ask *ask, bool queue,
    struct entry *e, struct enq_blocker *blocker)
{
    int rc = decide(s, ask, blocker);

    if (likely(rc == ENQ_OK))
        return change_hold(s, ask, e);
    if (rc != ENQ_BUSY || !queue)
        return rc;
    rc = change_queue(s, ask, e);
    return rc == 0 ? ENQ_PENDING : rc;
}

int request_lock(struct session *s, struct thread *t, const struct ask *ask,
    bool queue, struct place *out, struct enq_blocker *blocker)
{
    struct scope scope = {.map = s->map, .t = t, .session = s};
    int rc = slab_take(s, t, ask_payload_bytes(ask), &out->e);

    if (unlikely(rc != 0))
        return rc;
    entry_fill(out->e, ask);
    out->generation = STATE_GENERATION(shm_load(&out->e->state));
    ENQ_POINT("lock.entry_filled");
    rc = scope_enter(&scope, &ask->key);
    if (likely(rc == 0)) {
        ENQ_POINT("lock.shard_locked");
        rc = request_inside(&scope, ask, queue, out->e, blocker);
        out->ticket = out->e->ticket;
        out->token = out->e->token;
        scope_leave(&scope);
    }
    if (unlikely(rc != ENQ_OK && rc != ENQ_PENDING))
        slab_give(s, t, out->e);
    return rc;
}

int request_test(struct session *s, struct thread *t, const struct ask *ask,
    struct enq_blocker *blocker)
{
    struct scope scope = {.map = s->map, .t = t, .session = s};
    int rc = scope_enter(&scope, &ask->key);

    if (rc != 0)
        return rc;
    rc = decide(&scope, ask, blocker);
    scope_leave(&scope);
    return rc;
}
