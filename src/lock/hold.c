/*
 * hold.c - lock: what can be done with a lock once there is one.
 */
#include "lock/hold.h"

#include <string.h>

#include "base/point.h"
#include "lock/grip.h"
#include "lock/request.h"
#include "lock/serve.h"
#include "lock/tell.h"
#include "store/call.h"
#include "sync/life.h"

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

/* He has been told by this answer, if it is the very reason: not by an event as
   well. */
static int note_told(struct session *s, enq_handle handle, int rc)
{
    uint64_t state;
    struct entry *e = entry_of_handle(s->map, handle, &state);

    if (rc > 0 && e != NULL && rc == grip_gone(state) &&
        STATE_PHASE(state) == PHASE_GONE &&
        STATE_GONE(state) != GONE_CANCELLED && shm_load(&e->session) == s->ref)
        shm_cas(&e->state, &state, state | STATE_TOLD);
    return rc;
}

/* --- unlock --- */

/* By whom? A holder who listens hears of what others have given back. */
static inline enum gone given_back(const struct session *s,
    const struct entry *e)
{
    session_ref_t holder = shm_load(&e->session);

    if (likely(holder == s->ref) || !call_is_wanted(s->map, holder))
        return GONE_NOT;
    return GONE_GIVEN;
}

HOT int unlock(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token, const mono_t *known)
{
    struct grip g;
    int rc = grip_take_at_once(&g, s, t, handle, token), over;

    if (unlikely(rc != ENQ_OK))
        return rc < 0 ? rc : forget_gone(s, handle, rc);
    over = grip_over(&g, known == NULL ? sys.coarse() : *known);
    if (unlikely(over != ENQ_OK))
        return forget_gone(s, handle, grip_end(&g, over));
    if (unlikely(STATE_PHASE(g.state) == PHASE_WAITING)) {
        thread_count(t, COUNT_CANCELS);
        return grip_drop(&g, GONE_CANCELLED);
    }
    thread_count(t, COUNT_RELEASES);
    return grip_drop(&g, given_back(s, g.e));
}

int hold_unlock(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token)
{
    return unlock(s, t, handle, token, NULL);
}

/* The clock is read once. What runs out while we are at it is still ours as
   long as nobody has taken it. */
int hold_unlock_set(struct session *s, struct thread *t,
    const struct enq_grant *grants, size_t n)
{
    mono_t now = sys.coarse();
    int rc = ENQ_OK, one;

    for (size_t i = 0; i < n; i++) {
        if (grants[i].handle == 0)
            continue;
        one = unlock(s, t, grants[i].handle, grants[i].token, &now);
        if (unlikely(rc == ENQ_OK))
            rc = one;
    }
    return rc;
}

static int leave_queue(struct session *s, struct thread *t, enq_handle handle,
    enum gone gone)
{
    struct grip g;
    int rc = grip_take(&g, s, t, handle, 0);

    if (rc != ENQ_OK)
        return rc < 0 ? rc : ENQ_NOTHELD;
    if (STATE_PHASE(g.state) == PHASE_WAITING)
        return grip_drop(&g, gone);
    scope_leave(&g.scope);
    return ENQ_NOTHELD;
}

int hold_cancel(struct session *s, struct thread *t, enq_handle handle)
{
    int rc = leave_queue(s, t, handle, GONE_CANCELLED);

    if (rc == ENQ_OK)
        thread_count(t, COUNT_CANCELS);
    return rc;
}

int hold_withdraw(struct session *s, struct thread *t, enq_handle handle)
{
    return leave_queue(s, t, handle, GONE_NOT);
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

int hold_promote(struct session *s, struct thread *t, enq_handle handle,
    uint64_t *token, struct enq_blocker *blocker)
{
    struct grip g;
    int rc;

    blocker->owner[0] = blocker->id[0] = '\0';
    do {
        rc = grip_held(&g, s, t, handle, *token);
        if (rc == ENQ_LOST)
            tell_taker(s->map, handle, blocker->owner);
        g.scope.dying = 0;
        if (rc == ENQ_OK) {
            rc = promote_gripped(&g, token, blocker);
            scope_leave(&g.scope);
        }
    } while (request_is_free_now(&g.scope, rc));
    if (rc == ENQ_OK)
        thread_count(t, COUNT_PROMOTES);
    else if (rc > 0)
        thread_count(t, COUNT_PROMOTES_REFUSED);
    return note_told(s, handle, rc);
}

/* --- demote, renew, valid --- */

int hold_demote(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token)
{
    struct heirs heirs;
    struct grip g;
    unsigned mode;
    int rc = grip_held(&g, s, t, handle, token);

    if (rc != ENQ_OK)
        return note_told(s, handle, rc);
    mode = mode_demoted(STATE_MODE(g.state));
    rc = mode == 0 ? ENQ_REFUSED : heirs_note(&g, &heirs);
    if (rc == 0)
        rc = change_mode(&g.scope, g.e, mode, false);
    if (rc == 0)
        rc = heirs_serve(&g, &heirs);
    scope_leave(&g.scope);
    return rc;
}

/* Who waits sleeps until the lock would have run out. */
static int tell_shortened(struct grip *g)
{
    struct key key;

    if (!entry_key(g->scope.map, g->e, &key))
        return ENQ_ECORRUPT;
    return scope_wake_waiters(&g->scope, &key);
}

int hold_renew(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token, int64_t ttl_ms)
{
    struct grip g;
    int64_t before_ns;
    int rc = grip_held(&g, s, t, handle, token);

    if (rc != ENQ_OK)
        return note_told(s, handle, rc);
    before_ns = g.e->deadline_ns;
    rc = change_deadline(&g.scope, g.e, ttl_ms == 0 ? g.e->ttl_ms : ttl_ms);
    if (rc == 0 && g.e->deadline_ns < before_ns)
        rc = tell_shortened(&g);
    scope_leave(&g.scope);
    return rc;
}

int hold_beat(struct session *s, struct thread *t, enq_handle handle)
{
    struct grip g;
    int rc = grip_held(&g, s, t, handle, 0);

    if (rc != ENQ_OK)
        return rc;
    if (g.e->session != s->ref)
        rc = ENQ_NOTHELD;
    else if (mono_add_ms(scope_clock(&g.scope), g.e->ttl_ms).ns >
        g.e->deadline_ns) /* a longer one that was asked for stays (R15) */
        rc = change_deadline(&g.scope, g.e, g.e->ttl_ms);
    scope_leave(&g.scope);
    return rc;
}

/* --- check --- */

struct newest {
    struct scope *s;
    uint64_t token;
    bool held, newer;
    session_ref_t holder;
};

static bool see_token(void *context, struct entry *e)
{
    struct newest *n = context;
    uint64_t token = shm_load(&e->token);

    if (!entry_is(e, PHASE_HELD) ||
        entry_ended(n->s->map, e, scope_clock(n->s)) != ENQ_OK)
        return true;
    if (token == n->token) {
        n->held = true;
        n->holder = shm_load(&e->session);
    }
    n->newer |= token > n->token;
    return true;
}

int hold_check(struct session *s, struct thread *t, const struct key *key,
    uint64_t token)
{
    struct scope scope = {.map = s->map, .t = t, .session = s};
    struct newest n;
    int rc;

    do {
        n = (struct newest){.s = &scope, .token = token};
        rc = scope_enter(&scope, key);
        if (rc != 0)
            return rc;
        rc = scope_visit(&scope, key, see_token, &n);
        scope_leave(&scope);
    } while (rc == 0 && n.held && !session_is_over(s->map, n.holder) &&
        session_prove(s->map, n.holder, true));
    if (rc != 0 || n.held)
        return rc;
    return n.newer ? ENQ_LOST : ENQ_NOTHELD;
}

int hold_valid_slow(const struct map *map, enq_handle handle)
{
    uint64_t state;
    struct entry *e = entry_of_handle(map, handle, &state);
    int over;

    if (e == NULL)
        return ENQ_NOTHELD;
    if (STATE_PHASE(state) != PHASE_HELD)
        return grip_gone(state);
    over = entry_ended(map, e, sys.now());
    /* unless it has been used anew since we looked */
    return state_same(shm_load_acquire(&e->state), state) ? over : ENQ_NOTHELD;
}

void hold_prove(const struct map *map, enq_handle handle)
{
    uint64_t state;
    struct entry *e = entry_of_handle(map, handle, &state);

    if (e != NULL)
        session_prove(map, shm_load(&e->session), true);
}

int hold_alive(const struct map *map, enq_handle handle)
{
    uint64_t state;
    struct entry *e;

    hold_prove(map, handle);
    e = entry_of_handle(map, handle, &state);
    if (e == NULL)
        return ENQ_NOTHELD;
    if (!state_is_live(state))
        return grip_gone(state);
    return entry_over(map, e, sys.now());
}

/* --- adopt and break --- */

/* Whom it was held for has it no more: nobody is to inherit it for him. Killed
   before its heir is noted, we have left an orphan as any. */
static int change_owner(struct grip *g, uint64_t heir)
{
    int rc;

    shm_store(&g->e->on_death, (uint8_t)(g->e->on_death & ~ENTRY_FOR_OTHERS));
    rc = change_session(&g->scope, g->e, true);
    if (rc != 0 || heir == 0)
        return rc;
    shm_store(&g->e->ticket, HEIR_BIT | heir);
    shm_store_release(&g->e->on_death, (uint8_t)(g->e->on_death | ENTRY_HEIR));
    ENQ_POINT("adopt.bequeathed");
    return 0;
}

/* The session first: killed in between, a KEEP lock has no ttl still, or is one
   of a session that died; a ttl of an orphan's nobody would end. */
int hold_adopt(struct session *s, struct thread *t, enq_handle handle,
    uint64_t heir, struct enq_grant *grant)
{
    struct grip g;
    int rc;

    hold_prove(s->map, handle);
    rc = grip_held(&g, s, t, handle, 0);
    if (rc != ENQ_OK)
        return rc;
    rc = session_is_over(s->map, g.e->session) ? change_owner(&g, heir)
                                               : ENQ_REFUSED;
    if (rc == ENQ_OK) {
        change_deadline(&g.scope, g.e, g.e->ttl_ms);
        grant->handle = entry_handle(s->map, g.e);
        grant->token = g.e->token;
        grant->blocker.mode = (uint8_t)STATE_MODE(g.state);
        rc = tell_shortened(&g); /* an orphan had no ttl: it has again */
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
    bool left; /* something that was held for others */
};

/* hold_sweep() comes by then. Any number of processes may do this at once. The
   word changes in any case, be it by a nanosecond: a sweep that is under way
   may have passed this entry, and must not say that none is left. */
static void lease_note(struct map *map, int64_t deadline_ns)
{
    int64_t due = shm_load(&map->h->leases_due_ns), next;

    do
        next = due <= 0 || deadline_ns < due ? deadline_ns : due - 1;
    while (!shm_cas(&map->h->leases_due_ns, &due, next));
}

/* Does it outlive its session, be it for a delay? */
static bool outlives(const struct map *map, const struct entry *e)
{
    mono_t now = sys.now();

    return entry_is(e, PHASE_HELD) && entry_over(map, e, now) == ENQ_OK &&
        (ENTRY_DEATH(e->on_death) != ENQ_DEATH_RELEASE ||
            entry_is_delayed(map, e, now));
}

/* What becomes of one that does not. A thread that waits while another closes
   is told. */
static enum gone fate(const struct end *end, const struct entry *e)
{
    if (entry_is(e, PHASE_WAITING) && end->gone == GONE_NOT)
        return GONE_CANCELLED;
    if (entry_is(e, PHASE_WAITING) ||
        ENTRY_DEATH(e->on_death) == ENQ_DEATH_RELEASE)
        return end->gone;
    return GONE_EXPIRED;
}

/* From now a KEEP lock is ended by an operator only: fail closed. But one that
   has run out, and is delayed, is not revived. A lock delay counts from now, or
   from the end of the ttl. */
int hold_leave_behind(struct grip *g)
{
    unsigned on_death = ENTRY_DEATH(g->e->on_death);
    mono_t now = scope_clock(&g->scope);
    int rc = 0;

    if (on_death == ENQ_DEATH_KEEP && g->e->deadline_ns > now.ns)
        return change_deadline(&g->scope, g->e, ENQ_FOREVER);
    if (on_death == ENQ_DEATH_RELEASE && g->e->deadline_ns > now.ns) {
        rc = change_deadline(&g->scope, g->e, 0);
        if (rc == 0)
            rc = tell_shortened(g);
    }
    lease_note(g->scope.map, entry_until(g->scope.map, g->e).ns);
    return rc;
}

static int end_gripped(struct end *end, struct grip *g)
{
    int rc;

    if (g->e->session != end->ref) {
        scope_leave(&g->scope); /* adopted meanwhile */
        return 0;
    }
    if (!outlives(end->s->map, g->e))
        return grip_drop(g, fate(end, g->e));
    end->left |= (g->e->on_death & ENTRY_FOR_OTHERS) != 0;
    rc = hold_leave_behind(g);
    scope_leave(&g->scope);
    return rc;
}

static bool end_one(void *context, struct entry *e, uint64_t state)
{
    struct end *end = context;
    struct grip g;

    if (!state_is_live(state) || shm_load(&e->session) != end->ref)
        return true;
    if (grip_take(&g, end->s, end->t, grip_handle(end->s->map, e, state), 0) !=
        ENQ_OK)
        return true;
    end->rc = end_gripped(end, &g);
    return end->rc == 0;
}

int hold_release_all(struct session *s, struct thread *t, session_ref_t ref,
    enum gone gone)
{
    struct end end = {s, t, ref, gone, 0, false};

    if (shm_load(&at_session(s->map, ref)->adopted))
        slab_each(s->map, end_one, &end);
    else
        slab_each_of(s->map, ref, end_one, &end);
    /* before the session is forgotten: who does it again tells it again */
    if (end.left)
        shm_add(&s->map->h->left, 1);
    return end.rc;
}

/* --- what has run out and nobody asks for --- */

struct sweep {
    struct session *s;
    struct thread *t;
    mono_t now;
    bool dead_only;
    int64_t next_ns; /* of those that have not run out; 0 = none */
};

static bool sweep_one(void *context, struct entry *e, uint64_t state)
{
    struct sweep *w = context;
    mono_t deadline = entry_until(w->s->map, e);
    struct grip g;

    if (STATE_PHASE(state) != PHASE_HELD || deadline.ns == MONO_NEVER.ns ||
        (w->dead_only && !session_is_dead(w->s->map, shm_load(&e->session))))
        return true;
    if (!mono_reached(deadline, w->now)) {
        if (w->next_ns == 0 || deadline.ns < w->next_ns)
            w->next_ns = deadline.ns;
    } else if (grip_held(&g, w->s, w->t, grip_handle(w->s->map, e, state), 0) ==
        ENQ_OK) {
        scope_leave(&g.scope); /* adopted or renewed meanwhile */
    }
    return true;
}

/* One process at a time; if it dies here, another comes later. */
void hold_sweep(struct session *s, struct thread *t)
{
    struct sweep w = {s, t, sys.now(), true, 0};
    int64_t *hint = &s->map->h->leases_due_ns, due = shm_load(hint);
    int64_t later = mono_add_ns(w.now, 10 * NS_PER_S).ns;

    if (due == 0 || due > w.now.ns || !shm_cas(hint, &due, later))
        return;
    slab_each(s->map, sweep_one, &w);
    shm_cas(hint, &later, w.next_ns);
}

void hold_sweep_all(struct session *s, struct thread *t)
{
    struct sweep w = {s, t, sys.now(), false, 0};

    slab_each(s->map, sweep_one, &w);
}
