/*
 * hold.c - lock: what can be done with a lock once there is one (see hold.h).
 *
 * All of this begins with a pin: the entry by its handle, its latches held,
 * what it is checked again inside (pin.h). pin_take() is for what may be done
 * to any live entry: unlock, cancel, break. pin_held() is for what may be done
 * only to a lock that has not run out: renew, adopt, and convert.c; it takes
 * what has ended out of the table, but for a delayed lock, and says why.
 */
#include "lock/hold.h"

#include "base/point.h"
#include "lock/pin.h"
#include "store/notify.h"
#include "sync/life.h"

/*
 * R16: the reason is told once by unlock, and the entry is free again; until
 * then it would be kept for a minute. But a cancelled request is its waiter's,
 * which has yet to be told (collect() in wait.c).
 *
 * With no latch held: a GONE entry is linked nowhere, and the compare-and-swap
 * decides between this thread, another that asks for the same handle, and the
 * owner of the slab, which may take it anew. Of another session's lock it is
 * not done: that session has not been told.
 */
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

/* The same where the holder did not unlock but learned it otherwise: the entry
   stays, for an unlock that may follow, and TOLD keeps the helper from making
   an event of what this answer says, if it is the very reason. An event that
   was made before stays. Partner of TOLD: take_gone() in lock_event.c. */
int hold_note_told(struct session *s, enq_handle handle, int rc)
{
    uint64_t state;
    struct entry *e = entry_of_handle(s->map, handle, &state);

    if (rc > 0 && e != NULL && rc == pin_gone(state) &&
        STATE_PHASE(state) == PHASE_GONE &&
        STATE_GONE(state) != GONE_CANCELLED && shm_load(&e->session) == s->ref)
        shm_cas(&e->state, &state, state | STATE_TOLD);
    return rc;
}

/* --- unlock --- */

/* Any caller that has the handle may unlock. A holder that listens hears of
   what another session has given back, and so the entry is kept as GONE; for
   any other it is free at once. */
static inline enum gone given_back(const struct session *s,
    const struct entry *e)
{
    session_ref_t holder = shm_load(&e->session);

    if (likely(holder == s->ref) || !notify_is_wanted(s->map, holder))
        return GONE_NOT;
    return GONE_GIVEN;
}

/*
 * The uncontended unlock: from pin_take_at_once() to pin_drop() all is inlined,
 * and then there is one call, transition_drop().
 *
 * By the coarse clock: a lock that has run out within the last tick passes for
 * held, and is given back. That is no false success (R16), as pin_check() has
 * seen under the latches that nobody has taken it. What has run out by it is
 * dropped like any other expiry, and the answer says so. A waiting request is
 * cancelled by the same call (R13), and stays GONE for its waiter to see.
 */
HOT int unlock(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token, const mono_t *known)
{
    struct pin g;
    int rc = pin_take_at_once(&g, s, t, handle, token), over;

    if (unlikely(rc != ENQ_OK))
        return rc < 0 ? rc : forget_gone(s, handle, rc);
    over = pin_over(&g, known == NULL ? sys.coarse() : *known);
    if (unlikely(over != ENQ_OK))
        return forget_gone(s, handle, pin_end(&g, over));
    if (unlikely(STATE_PHASE(g.state) == PHASE_WAITING)) {
        thread_count(t, COUNT_CANCELS);
        return pin_drop(&g, GONE_CANCELLED);
    }
    thread_count(t, COUNT_RELEASES);
    return pin_drop(&g, given_back(s, g.e));
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

/* Out of the queue, if it waits still: a grant that came before wins (R10), as
   both happen under the latches of the entry. */
static int leave_queue(struct session *s, struct thread *t, enq_handle handle,
    enum gone gone)
{
    struct pin g;
    int rc = pin_take(&g, s, t, handle, 0);

    enq_assert(gone == GONE_CANCELLED || gone == GONE_NOT);
    if (rc != ENQ_OK)
        return rc < 0 ? rc : ENQ_NOTHELD;
    if (STATE_PHASE(g.state) == PHASE_WAITING)
        return pin_drop(&g, gone);
    scope_leave(&g.scope);
    return ENQ_NOTHELD;
}

/* Of an async request, by the caller: the entry stays GONE, of which the helper
   makes the result. */
int hold_cancel(struct session *s, struct thread *t, enq_handle handle)
{
    int rc = leave_queue(s, t, handle, GONE_CANCELLED);

    if (rc == ENQ_OK)
        thread_count(t, COUNT_CANCELS);
    return rc;
}

/* By the thread that asked, or for it: nobody else has to be told, and the
   entry is free at once. */
int hold_withdraw(struct session *s, struct thread *t, enq_handle handle)
{
    return leave_queue(s, t, handle, GONE_NOT);
}

/* --- renew --- */

/* The waiters sleep until the lock would have run out, by the deadline that
   they have seen: one that comes sooner would be noticed late (P7). A deadline
   that is moved away needs nothing: they look in vain, once. */
int hold_tell_shortened(struct pin *g)
{
    struct key key;

    enq_assert(scope_is_entered(&g->scope));
    if (!entry_key(g->scope.map, g->e, &key))
        return ENQ_ECORRUPT;
    return scope_wake_waiters(&g->scope, &key);
}

/*
 * hold_sweep() comes by then, at the latest a round after it. Any number of
 * processes may do this at once: hence the swap, and the earliest stays.
 *
 * The word changes in any case, be it by a nanosecond: a sweep that is under
 * way may have passed this entry already, and ends with a swap from the value
 * that it has stored there itself. An unchanged word would let it say that no
 * lock is left.
 */
void hold_note_lease(struct map *map, int64_t deadline_ns)
{
    int64_t due = shm_load(&map->h->leases_due_ns), next;

    do
        next = due <= 0 || deadline_ns < due ? deadline_ns : due - 1;
    while (!shm_cas(&map->h->leases_due_ns, &due, next));
}

/* R15. pin_held() refuses what has run out by the exact clock: no lock is
   revived that another request may have been granted over. The scope reads the
   clock once, so that the check and the new deadline are of one moment. */
int hold_renew(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token, int64_t ttl_ms)
{
    struct pin g;
    session_ref_t holder;
    int64_t before_ns;
    bool shorter;
    int rc = pin_held(&g, s, t, handle, token);

    if (rc != ENQ_OK)
        return hold_note_told(s, handle, rc);
    before_ns = g.e->deadline_ns;
    holder = g.e->session;
    if (holder != s->ref)
        thread_note_telling(t, map_ref(s->map, g.e));
    rc = transition_deadline(&g.scope, g.e, ttl_ms == 0 ? g.e->ttl_ms : ttl_ms);
    shorter = rc == 0 && g.e->deadline_ns < before_ns;
    if (shorter)
        rc = hold_tell_shortened(&g);
    /* its death took a kept lock's end, and noted none: now it has one again */
    if (rc == 0 && g.e->session != s->ref &&
        session_is_dead(s->map, g.e->session))
        hold_note_lease(g.scope.map, entry_until(g.scope.map, g.e).ns);
    /* its helper watches a time that is too late now (store/watch.h); inside, as
       after scope_leave() it is not noted any more that this is to be told */
    if (shorter && holder != s->ref)
        notify_session(s->map, holder, NOTIFICATION_ALL);
    scope_leave(&g.scope);
    if (holder != s->ref)
        thread_note_told(t);
    return rc;
}

/* As renew, but never shorter than it was: a caller may have asked for more by
   renew. And only for the session's own: once it is adopted, its ttl is the
   adopter's business. Run by the helper: an answer that it is gone ends the
   heartbeat, and is told to nobody. */
int hold_heartbeat(struct session *s, struct thread *t, enq_handle handle)
{
    struct pin g;
    int rc = pin_held(&g, s, t, handle, 0);

    if (rc != ENQ_OK)
        return rc;
    if (g.e->session != s->ref)
        rc = ENQ_NOTHELD;
    else if (mono_add_ms(scope_clock(&g.scope), g.e->ttl_ms).ns >
        g.e->deadline_ns) /* a longer one that was asked for stays (R15) */
        rc = transition_deadline(&g.scope, g.e, g.e->ttl_ms);
    scope_leave(&g.scope);
    return rc;
}

/* --- check ---
 *
 * For a third party that was handed a token (SEMANTICS, Fencing). All locks
 * that overlap the key are looked at: "not, and a newer one is held" is as much
 * worth as "held", as it says that the token is out of date for good.
 */

struct newest {
    struct scope *s;
    uint64_t token;
    bool held, newer;
    session_ref_t holder;
};

/* By entry_ended() and not entry_over(): a delayed lock is in the way of
   others, and is held by nobody. Of what waits the word is no token (a set's
   link). */
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

/* The holder may be dying. Its lock counts as held until the end of its process
   is proved, and that takes system calls, so it is looked for between two
   scopes. A proof ends the lock, hence the second look; without one the first
   stands. */
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

/* Without a latch, at any moment of the entry's life: the answer is of the
   state that was loaded first, if that is still the state afterwards. Were the
   entry used anew in between, deadline and session would be another request's.
   */
int hold_valid_slow(const struct map *map, enq_handle handle)
{
    uint64_t state;
    struct entry *e = entry_of_handle(map, handle, &state);
    int over;

    if (e == NULL)
        return ENQ_NOTHELD;
    if (STATE_PHASE(state) != PHASE_HELD)
        return pin_gone(state);
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

/* Without a latch as well: what it says may be over when it has returned, and
   callers use it as such: to name an entry that was found by its id, or to
   forget heartbeats of locks that are gone. */
int hold_alive(const struct map *map, enq_handle handle)
{
    uint64_t state;
    struct entry *e;

    hold_prove(map, handle);
    e = entry_of_handle(map, handle, &state);
    if (e == NULL)
        return ENQ_NOTHELD;
    if (!state_is_live(state))
        return pin_gone(state);
    return entry_over(map, e, sys.now());
}

/* --- adopt and break --- */

/*
 * Adopting, in three stores that a death may separate.
 *
 *	FOR_OTHERS off	the peer that it was held for has it no more: nobody is
 *			to inherit it for that. Killed here it is an orphan
 *			like any other
 *	session		the commit: the lock is the adopter's
 *	heir		for whom, if for anybody. Killed before it, the lock is
 *			the adopter's own, which the reaper treats as any
 *
 * The heir stands in the ticket's place, which a held lock does not need, and
 * the flag says that it does: number first, flag last, as a release. Partner:
 * entry_heir(). The flag first, a reader would take an old ticket for an heir.
 */
static int transition_owner(struct pin *g, uint64_t heir)
{
    int rc;

    enq_assert(scope_is_entered(&g->scope));
    shm_store(&g->e->on_death, (uint8_t)(g->e->on_death & ~ENTRY_FOR_OTHERS));
    rc = transition_session(&g->scope, g->e, true);
    if (rc != 0 || heir == 0)
        return rc;
    shm_store(&g->e->heir, HEIR_BIT | heir);
    shm_store_release(&g->e->on_death, (uint8_t)(g->e->on_death | ENTRY_HEIR));
    guard_told(&g->scope, g->e);
    ENQ_POINT("adopt.bequeathed");
    return 0;
}

/* Only of a session that is over: a dying one may still write under its lock
   (P14). That is looked for first, with no latch held, and decided under the
   latches: of two adopters one finds the other's session there. A lock that has
   run out, be it only delayed, is none any more (pin_held()). */
int hold_adopt(struct session *s, struct thread *t, enq_handle handle,
    uint64_t heir, struct enq_grant *grant)
{
    struct pin g;
    int rc;

    hold_prove(s->map, handle);
    rc = pin_held(&g, s, t, handle, 0);
    if (rc != ENQ_OK)
        return rc;
    rc = session_is_over(s->map, g.e->session) ? transition_owner(&g, heir)
                                               : ENQ_REFUSED;
    if (rc == ENQ_OK) {
        transition_deadline(&g.scope, g.e, g.e->ttl_ms);
        grant->handle = entry_handle(s->map, g.e);
        grant->token = g.e->token;
        grant->blocker.mode = (uint8_t)STATE_MODE(g.state);
        rc = hold_tell_shortened(&g); /* an orphan had no ttl: it has again */
    }
    scope_leave(&g.scope);
    return rc;
}

/* By an operator: any lock, and any waiting request. pin_take() and not
   pin_held(): a delayed lock is broken as well, which ends its delay. */
int hold_break(struct session *s, struct thread *t, enq_handle handle)
{
    struct pin g;
    int rc = pin_take(&g, s, t, handle, 0);

    if (rc != ENQ_OK)
        return rc;
    thread_count(t, COUNT_FORCED);
    return pin_drop(&g, GONE_FORCED);
}
