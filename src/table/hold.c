/*
 * hold.c - floor 4: what can be done with a lock once there is one.
 */
#include "table/hold.h"

#include <string.h>

#include "base/point.h"
#include "sync/life.h"
#include "table/request.h"
#include "table/serve.h"
#include "table/tell.h"

static const int gone_results[GONE_REASONS] = {
    [GONE_NOT] = ENQ_NOTHELD,
    [GONE_EXPIRED] = ENQ_EXPIRED,
    [GONE_LOST] = ENQ_LOST,
    [GONE_FORCED] = ENQ_FORCED,
    [GONE_DIED] = ENQ_OWNERDIED,
    [GONE_CANCELLED] = ENQ_CANCELLED,
};

static int gone_result(uint64_t state)
{
    unsigned gone = STATE_GONE(state);

    if (STATE_PHASE(state) != PHASE_GONE || gone >= GONE_REASONS)
        return ENQ_NOTHELD;
    return gone_results[gone];
}

/* --- grips --- */

/* An entry, with the words held that guard it. */
struct grip {
    struct scope scope;
    struct entry *e;
    uint64_t state;
};

/* Reads the state again, inside: whatever happened before, it stays so now.
   An entry that has run out is dropped, whoever asks. */
static int grip_check(struct grip *g, uint32_t generation, uint64_t token)
{
    g->state = shm_load_acquire(&g->e->state);
    if (STATE_GENERATION(g->state) != generation)
        return ENQ_NOTHELD;
    if (!state_is_live(g->state))
        return gone_result(g->state);
    if (token != 0 && token != shm_load(&g->e->token))
        return ENQ_NOTHELD;
    return ENQ_OK;
}

/* After this, on ENQ_OK only, scope_leave() is due. */
static int grip_take(struct grip *g, struct session *s, struct thread *t,
    enq_handle handle, uint64_t token)
{
    uint32_t generation = (uint32_t)(handle >> HANDLE_REF_BITS);
    int rc;

    g->scope.map = s->map;
    g->scope.t = t;
    g->scope.session = s;
    g->e = entry_of_handle(s->map, handle, &g->state);
    if (unlikely(g->e == NULL))
        return ENQ_NOTHELD;
    if (unlikely(!state_is_live(g->state)))
        return gone_result(g->state);
    rc = scope_enter_entry(&g->scope, g->e);
    if (unlikely(rc != 0))
        return rc;
    rc = grip_check(g, generation, token);
    if (unlikely(rc != ENQ_OK))
        scope_leave(&g->scope);
    return rc;
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
    const struct shard *shard = &g->scope.map->shards[g->scope.shard];

    return g->scope.wide || shm_load(&shard->n_waiting) > 0;
}

static inline int heirs_note(struct grip *g, struct heirs *h)
{
    h->any = may_have_heirs(g);
    if (likely(!h->any))
        return 0;
    if (!entry_key(g->scope.map, g->e, &h->key) ||
        key_bytes(&h->key) > sizeof(h->bytes))
        return ENQ_ECORRUPT;
    memcpy(h->bytes, h->key.bytes, key_bytes(&h->key));
    h->key.bytes = h->bytes;
    return 0;
}

static inline int heirs_serve(struct grip *g, const struct heirs *h)
{
    return likely(!h->any) ? 0 : serve(&g->scope, &h->key, NULL);
}

/* Apart, as its buffer would cost every unlock a check of the stack. */
static __attribute__((noinline)) int grip_drop_serving(struct grip *g,
    enum gone gone)
{
    struct heirs heirs;
    int rc = heirs_note(g, &heirs);

    if (rc == 0)
        rc = change_drop(&g->scope, g->e, gone);
    if (rc == 0)
        rc = heirs_serve(g, &heirs);
    scope_leave(&g->scope);
    return rc;
}

/* Drops the gripped entry and serves its heirs; leaves the scope. */
static inline int grip_drop(struct grip *g, enum gone gone)
{
    int rc;

    if (unlikely(may_have_heirs(g)))
        return grip_drop_serving(g, gone);
    rc = change_drop(&g->scope, g->e, gone);
    scope_leave(&g->scope);
    return rc;
}

/* Is it over? Our own session lives, so that nothing but the deadline counts:
   by the coarse clock, which is never ahead. */
static inline int grip_over(const struct grip *g)
{
    mono_t now = sys.coarse();

    if (likely(g->e->session == g->scope.session->ref) &&
        (STATE_PHASE(g->state) != PHASE_HELD ||
            !mono_reached((mono_t){g->e->deadline_ns}, now)))
        return ENQ_OK;
    return entry_over(g->scope.map, g->e, now);
}

/* Drops it, whoever asked; returns what it is over for. */
static int grip_end(struct grip *g, int over)
{
    int rc;

    if (over == ENQ_EXPIRED)
        thread_count(g->scope.t, COUNT_EXPIRIES);
    rc = grip_drop(g, over == ENQ_EXPIRED ? GONE_EXPIRED : GONE_DIED);
    return rc == 0 ? over : rc;
}

/* A lock that is not held, or not in a mode fit for this: why. */
static int grip_held(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token, struct grip *g)
{
    int rc = grip_take(g, s, t, handle, token), over;

    if (rc != ENQ_OK)
        return rc;
    over = grip_over(g);
    if (over != ENQ_OK)
        return grip_end(g, over);
    if (STATE_PHASE(g->state) == PHASE_HELD)
        return ENQ_OK;
    scope_leave(&g->scope);
    return ENQ_REFUSED;
}

/* The holder has been told why his lock is gone: its entry is free again. But
   a cancelled request is its waiter's, who has yet to be told. */
static int forget_gone(struct session *s, enq_handle handle, int rc)
{
    uint64_t state;
    struct entry *e = entry_of_handle(s->map, handle, &state);

    if (e != NULL && STATE_PHASE(state) == PHASE_GONE &&
        STATE_GONE(state) != GONE_CANCELLED && shm_load(&e->session) == s->ref)
        shm_cas(&e->state, &state,
            STATE(STATE_GENERATION(state) + 1, PHASE_FREE, 0, 0));
    return rc;
}

/* --- unlock --- */

int hold_unlock(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token)
{
    struct grip g;
    int rc = grip_take(&g, s, t, handle, token), over;

    if (unlikely(rc != ENQ_OK))
        return rc < 0 ? rc : forget_gone(s, handle, rc);
    over = grip_over(&g);
    if (unlikely(over != ENQ_OK))
        return forget_gone(s, handle, grip_end(&g, over));
    if (unlikely(STATE_PHASE(g.state) == PHASE_WAITING)) {
        thread_count(t, COUNT_CANCELS);
        return grip_drop(&g, GONE_CANCELLED);
    }
    thread_count(t, COUNT_RELEASES);
    return grip_drop(&g, GONE_NOT);
}

/* --- promote --- */

struct contest {
    struct scope *s;
    struct entry *winner;
    const struct ask *ask; /* the winner's, as if it asked for the new mode */
    struct entry *loser, *blocker;
    uint32_t queue;
    bool generic_lost;
};

/* Others that could be promoted as well are losers; what else conflicts with
   the new mode is in the way. */
static bool see_rivals(void *context, struct entry *e)
{
    struct contest *c = context;
    unsigned mode = STATE_MODE(shm_load(&e->state));
    bool same;

    if (e == c->winner || entry_over(c->s->map, e, scope_clock(c->s)) != ENQ_OK)
        return true;
    if (!entry_is(e, PHASE_HELD)) {
        c->queue++;
        return true;
    }
    if (mode_promoted(mode) == c->ask->mode) {
        c->loser = e;
        return true;
    }
    same = entry_owned_by(c->s->map, e, c->ask);
    if (mode_conflicts(c->s->map->modes, mode, c->ask->mode, same) &&
        granted_earlier(e, c->blocker))
        c->blocker = e;
    return true;
}

static int remove_losers(struct contest *c)
{
    int rc;

    do {
        c->loser = NULL;
        rc = scope_visit(c->s, &c->ask->key, see_rivals, c);
        if (rc != 0 || c->loser == NULL)
            return rc;
        thread_count(c->s->t, COUNT_LOST);
        c->generic_lost |= entry_is_generic(c->loser);
        rc = change_take_away(c->s, c->loser, GONE_LOST, c->ask);
    } while (rc == 0);
    return rc;
}

/*
 * The losers first, the winner last. Killed in between, some have lost to one
 * who did not live to win: the same to them as if he had won and died. The
 * other order would leave two who hold what excludes each other.
 */
static int promote_gripped(struct grip *g, uint64_t *token,
    struct enq_blocker *blocker)
{
    struct ask ask;
    struct contest c = {.s = &g->scope, .winner = g->e, .ask = &ask};
    int rc;

    if (!entry_ask(g->scope.map, g->e, &ask))
        return ENQ_ECORRUPT;
    ask.mode = mode_promoted(STATE_MODE(g->state));
    if (ask.mode == 0)
        return ENQ_REFUSED;
    rc = scope_visit(&g->scope, &ask.key, see_rivals, &c);
    if (rc != 0)
        return rc;
    if (c.blocker != NULL) {
        tell_blocker(&g->scope, c.blocker, c.queue, blocker);
        return ENQ_REFUSED;
    }
    rc = remove_losers(&c);
    if (rc == 0)
        rc = change_mode(&g->scope, g->e, ask.mode, true);
    *token = g->e->token;
    if (rc == 0 && c.generic_lost)
        rc = serve_beside(&g->scope, &ask.key);
    return rc;
}

/* Who took it, if there was room to note it. */
static void tell_taker(const struct map *map, enq_handle handle,
    struct enq_blocker *blocker)
{
    uint64_t state;
    struct entry *e = entry_of_handle(map, handle, &state);
    struct ask ask;
    const char *taker;
    size_t n;

    if (e == NULL || STATE_GONE(state) != GONE_LOST || !entry_ask(map, e, &ask))
        return;
    taker = e->payload + ask_payload_bytes(&ask);
    n = e->taker_bytes;
    if (n > 0 && n <= entry_payload_room(map, e) - ask_payload_bytes(&ask) &&
        n <= sizeof(blocker->owner) && taker[n - 1] == '\0')
        memcpy(blocker->owner, taker, n);
}

int hold_promote(struct session *s, struct thread *t, enq_handle handle,
    uint64_t *token, struct enq_blocker *blocker)
{
    struct grip g;
    int rc = grip_held(s, t, handle, *token, &g);

    blocker->owner[0] = blocker->id[0] = '\0';
    if (rc == ENQ_LOST)
        tell_taker(s->map, handle, blocker);
    if (rc == ENQ_OK) {
        rc = promote_gripped(&g, token, blocker);
        scope_leave(&g.scope);
    }
    if (rc == ENQ_OK)
        thread_count(t, COUNT_PROMOTES);
    else if (rc > 0)
        thread_count(t, COUNT_PROMOTES_REFUSED);
    return rc;
}

/* --- demote, renew, valid --- */

int hold_demote(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token)
{
    struct heirs heirs;
    struct grip g;
    unsigned mode;
    int rc = grip_held(s, t, handle, token, &g);

    if (rc != ENQ_OK)
        return rc;
    mode = mode_demoted(STATE_MODE(g.state));
    rc = mode == 0 ? ENQ_REFUSED : heirs_note(&g, &heirs);
    if (rc == 0)
        rc = change_mode(&g.scope, g.e, mode, false);
    if (rc == 0)
        rc = heirs_serve(&g, &heirs);
    scope_leave(&g.scope);
    return rc;
}

int hold_renew(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token, int64_t ttl_ms)
{
    struct grip g;
    int rc = grip_held(s, t, handle, token, &g);

    if (rc != ENQ_OK)
        return rc;
    rc = change_deadline(&g.scope, g.e, ttl_ms == 0 ? g.e->ttl_ms : ttl_ms);
    scope_leave(&g.scope);
    return rc;
}

int hold_valid(const struct map *map, session_ref_t own, enq_handle handle)
{
    uint64_t state;
    struct entry *e = entry_of_handle(map, handle, &state);
    mono_t deadline;
    int over;

    if (e == NULL)
        return ENQ_NOTHELD;
    if (STATE_PHASE(state) != PHASE_HELD)
        return gone_result(state);
    deadline = (mono_t){shm_load(&e->deadline_ns)};
    if (likely(shm_load(&e->session) == own) &&
        (mono_is_never(deadline) || !mono_reached(deadline, sys.coarse())))
        return ENQ_OK;
    over = entry_over(map, e, sys.coarse());
    /* unless it has been used anew since we looked */
    return shm_load_acquire(&e->state) == state ? over : ENQ_NOTHELD;
}

int hold_alive(const struct map *map, enq_handle handle)
{
    uint64_t state;
    struct entry *e = entry_of_handle(map, handle, &state);

    if (e == NULL)
        return ENQ_NOTHELD;
    if (!state_is_live(state))
        return gone_result(state);
    return entry_over(map, e, sys.now());
}

/* --- adopt and break --- */

int hold_adopt(struct session *s, struct thread *t, enq_handle handle,
    struct enq_grant *grant)
{
    struct grip g;
    int rc = grip_held(s, t, handle, 0, &g);

    if (rc != ENQ_OK)
        return rc;
    if (session_is_dead(s->map, g.e->session))
        rc = change_session(&g.scope, g.e, s->slot->pid);
    else
        rc = ENQ_REFUSED;
    if (rc == ENQ_OK) {
        grant->handle = entry_handle(s->map, g.e);
        grant->token = g.e->token;
    }
    scope_leave(&g.scope);
    return rc;
}

int hold_break(struct session *s, struct thread *t, enq_handle handle)
{
    struct grip g;
    int rc = grip_take(&g, s, t, handle, 0);

    if (rc != ENQ_OK)
        return rc;
    thread_count(t, COUNT_FORCED);
    return grip_drop(&g, GONE_FORCED);
}

/* --- the end of a session --- */

struct end {
    struct session *s;
    struct thread *t;
    session_ref_t ref;
    enum gone gone;
    int rc;
};

/* Does it outlive its session? */
static bool outlives(const struct map *map, const struct entry *e)
{
    return entry_is(e, PHASE_HELD) && e->on_death != ENQ_DEATH_RELEASE &&
        entry_over(map, e, sys.now()) == ENQ_OK;
}

/* What becomes of one that does not. A thread that waits while another closes
   is told. */
static enum gone fate(const struct end *end, const struct entry *e)
{
    if (entry_is(e, PHASE_WAITING) && end->gone == GONE_NOT)
        return GONE_CANCELLED;
    if (entry_is(e, PHASE_WAITING) || e->on_death == ENQ_DEATH_RELEASE)
        return end->gone;
    return GONE_EXPIRED;
}

static int end_gripped(struct end *end, struct grip *g)
{
    int rc = 0;

    if (g->e->session != end->ref) {
        scope_leave(&g->scope); /* adopted meanwhile */
        return 0;
    }
    if (!outlives(end->s->map, g->e))
        return grip_drop(g, fate(end, g->e));
    /* fail closed: from now only an operator ends it */
    if (g->e->on_death == ENQ_DEATH_KEEP)
        rc = change_deadline(&g->scope, g->e, ENQ_FOREVER);
    scope_leave(&g->scope);
    return rc;
}

static bool end_one(void *context, struct entry *e)
{
    struct end *end = context;
    uint64_t state = shm_load_acquire(&e->state);
    struct grip g;

    if (!state_is_live(state) || shm_load(&e->session) != end->ref)
        return true;
    if (grip_take(&g, end->s, end->t,
            (uint64_t)STATE_GENERATION(state) << HANDLE_REF_BITS |
                map_ref(end->s->map, e),
            0) != ENQ_OK)
        return true;
    end->rc = end_gripped(end, &g);
    return end->rc == 0;
}

int hold_release_all(struct session *s, struct thread *t, session_ref_t ref,
    enum gone gone)
{
    struct end end = {s, t, ref, gone, 0};

    if (shm_load(&at_session(s->map, ref)->adopted))
        slab_each(s->map, end_one, &end);
    else
        slab_each_of(s->map, ref, end_one, &end);
    return end.rc;
}
