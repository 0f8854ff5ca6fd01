/*
 * grip.h - lock: an entry found by its handle, with the words held that
 * guard it.
 */
#ifndef LOCK_GRIP_H
#define LOCK_GRIP_H

#include "lock/change.h"

struct grip {
    struct scope scope;
    struct entry *e;
    uint64_t state;
};

/* Why an entry in this state is not, or no longer, what its handle meant. */
int grip_gone(uint64_t state);

static inline enq_handle grip_handle(const struct map *map, struct entry *e,
    uint64_t state)
{
    return (uint64_t)STATE_GENERATION(state) << HANDLE_REF_BITS |
        map_ref(map, e);
}

/* Reads the state again, inside: whatever happened before, it stays so now. */
HOT int grip_check(struct grip *g, uint32_t generation, uint64_t token)
{
    g->state = shm_load_acquire(&g->e->state);
    if (STATE_GENERATION(g->state) != generation)
        return ENQ_NOTHELD;
    if (!state_is_live(g->state))
        return grip_gone(g->state);
    if (token != 0 && token != shm_load(&g->e->token))
        return ENQ_NOTHELD;
    return ENQ_OK;
}

/* A live entry. After this, on ENQ_OK only, scope_leave() is due. */
HOT int grip_take_at_once(struct grip *g, struct session *s, struct thread *t,
    enq_handle handle, uint64_t token)
{
    uint32_t generation = (uint32_t)(handle >> HANDLE_REF_BITS);
    int rc;

    scope_begin(&g->scope, s, t);
    g->e = entry_of_handle(s->map, handle, &g->state);
    if (unlikely(g->e == NULL))
        return ENQ_NOTHELD;
    if (unlikely(!state_is_live(g->state)))
        return grip_gone(g->state);
    rc = scope_enter_entry(&g->scope, g->e);
    if (unlikely(rc != 0))
        return rc;
    rc = grip_check(g, generation, token);
    if (unlikely(rc != ENQ_OK))
        scope_leave(&g->scope);
    return rc;
}

int grip_take(struct grip *g, struct session *s, struct thread *t,
    enq_handle handle, uint64_t token);

/* Is it over? Our own session lives, so that nothing but the deadline counts.
   Not by watch.h: a process that was stopped must not renew, nor claim to have
   given back, what ran out. One with a lock delay is not dropped when it runs
   out, but its owner may have been granted another since then, by the exact
   clock: so that counts.
   @now  by the coarse clock, which is never ahead, where what has run out a
         moment ago, and nobody has taken, may pass for held: to give it back */
HOT int grip_over(const struct grip *g, mono_t now)
{
    if (entry_delays(g->e))
        now = sys.now();
    if (likely(g->e->session == g->scope.session->ref) &&
        (STATE_PHASE(g->state) != PHASE_HELD ||
            !mono_reached((mono_t){g->e->deadline_ns}, now)))
        return ENQ_OK;
    return entry_ended(g->scope.map, g->e, now);
}

/* Who waits for the key of an entry that goes? The entry's own bytes may be
   another's by then. */
struct heirs {
    bool any;
    struct key key;
    char bytes[KEY_BYTES_MAX];
};

static inline bool may_have_heirs(const struct grip *g)
{
    const struct shard *shard = &g->scope.map->shards[g->scope.spot.shard];

    return g->scope.wide || shm_load(&shard->n_waiting) > 0;
}

int heirs_note(struct grip *g, struct heirs *h);
int heirs_serve(struct grip *g, const struct heirs *h);

/* Drops the gripped entry and serves its heirs; leaves the scope. */
int grip_drop_serving(struct grip *g, enum gone gone);
HOT int grip_drop(struct grip *g, enum gone gone)
{
    int rc;

    if (unlikely(may_have_heirs(g)))
        return grip_drop_serving(g, gone);
    rc = change_drop(&g->scope, g->e, gone);
    scope_leave(&g->scope);
    return rc;
}

/* Drops what has ended, whoever asked, unless it is delayed; leaves the scope.
   Returns what it has ended for. */
int grip_end(struct grip *g, int over);

/* One that is held, and has not run out: else why. After this, on ENQ_OK only,
   scope_leave() is due. */
int grip_held(struct grip *g, struct session *s, struct thread *t,
    enq_handle handle, uint64_t token);

#endif
