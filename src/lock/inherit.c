/*
 * inherit.c - lock: locks that go on under another process, or under none (see
 * inherit.h).
 *
 * A process that holds locks for others, a bridge, may die, and its peers live
 * on. What it held for them stays as LEASE and KEEP do, and the process to
 * which a peer comes next makes it its own: id, owner, token and ttl are the
 * same (SEMANTICS, Death), so that the peer notices nothing. Adopting
 * (hold_adopt()) is for any orphan, and gives it a new token and its whole ttl
 * again. Both are one store of `session`, in transition_session().
 */
#include "lock/inherit.h"

#include <string.h>

#include "base/point.h"
#include "lock/copy_out.h"
#include "lock/hold_end.h"
#include "lock/pin.h"
#include "store/walk.h"
#include "sync/life.h"

struct legacy {
    struct session *s;
    struct thread *t;
    struct enq_info *out;
    size_t n, got;
    int rc;
};

/* No session has generation 0: it is found dead, for good. A slot that nobody
   has says the same of its last session's life. */
static bool is_nobody(session_ref_t session)
{
    return (session & ~SESSION_MASK) == 0;
}

/* Dead, or being closed: what it leaves behind may be taken before it has said
   so (seg_header.left), and nobody is to look too early. */
static bool has_ended(const struct map *map, session_ref_t session)
{
    return session_is_over(map, session) ||
        shm_load(&at_session(map, session)->state) == SESSION_ENDING;
}

/* Without the latches this is a hint, and with them the truth. What was
   abandoned is nobody's on purpose: its peer is done with it. */
static bool is_left(const struct map *map, const struct entry *e)
{
    session_ref_t session = shm_load(&e->session);

    return entry_is(e, PHASE_HELD) &&
        (shm_load(&e->on_death) & ENTRY_FOR_OTHERS) != 0 &&
        !is_nobody(session) && has_ended(map, session);
}

/* The session first, as in hold_adopt(). The waiters sleep until the lock would
   have run out, or its holder died. */
static int go_on(struct pin *g, const struct key *key)
{
    struct scope *scope = &g->scope;
    int rc = transition_session(scope, g->e, false);

    enq_assert(scope_is_entered(scope));
    if (rc != 0)
        return rc;
    if (ENTRY_DEATH(g->e->on_death) == ENQ_DEATH_KEEP &&
        g->e->deadline_ns == MONO_NEVER.ns)
        transition_deadline(scope, g->e, g->e->ttl_ms);
    return scope_wake_waiters(scope, key);
}

/* One that is damaged is left to the doctor. */
/* Under the latches, and so of several processes that inherit at once one gets
   it: the others find its session in the entry, and that lives. The copy is
   made in the same scope, so that it tells what was inherited. */
static int inherit_pinned(struct legacy *l, struct pin *g,
    struct copy_clocks *clocks)
{
    const struct map *map = l->s->map;
    struct ask ask;
    int rc;

    enq_assert(scope_is_entered(&g->scope) && l->got < l->n);
    if (!is_left(map, g->e) || !entry_ask(map, g->e, &ask))
        return 0;
    rc = go_on(g, &ask.key);
    if (rc != 0)
        return rc;
    clocks->now = scope_clock(&g->scope);
    if (!copy_info(map, g->e, g->state, clocks, &l->out[l->got]))
        return ENQ_ECORRUPT;
    l->got++;
    return 0;
}

static bool see_left(void *context, struct entry *e, uint64_t state)
{
    struct legacy *l = context;
    enq_handle handle = pin_handle(l->s->map, e, state);
    struct copy_clocks clocks;
    struct pin g;
    int rc;

    enq_assert(l->rc == 0 && l->t->n_held == 0);
    if (!is_left(l->s->map, e))
        return true;
    clocks = copy_clocks();
    rc = pin_held(&g, l->s, l->t, handle, 0);
    if (rc == ENQ_OK) {
        rc = inherit_pinned(l, &g, &clocks);
        scope_leave(&g.scope);
    }
    l->rc = rc < 0 ? rc : 0; /* or it is over, or another's by now */
    return l->rc == 0 && l->got < l->n;
}

/* The proof of deaths first, with no latch held: what is of a session that is
   dying is not left yet. */
int inherit(struct session *s, struct thread *t, struct enq_info *out, size_t n,
    size_t *got)
{
    struct legacy l = {s, t, out, n, 0, 0};

    enq_assert(t->n_held == 0);
    session_prove_all(s->map);
    slab_each(s->map, see_left, &l);
    *got = l.got;
    return l.rc;
}

int inherit_lock(struct session *s, struct thread *t, enq_handle handle,
    uint64_t heir, struct enq_info *out)
{
    struct legacy l = {s, t, out, 1, 0, 0};
    struct copy_clocks clocks = copy_clocks();
    struct pin g;
    int rc;

    enq_assert(t->n_held == 0);
    hold_prove(s->map, handle);
    rc = pin_held(&g, s, t, handle, 0);
    if (rc != ENQ_OK)
        return rc;
    if (entry_heir(g.e) == heir) /* or it was adopted anew meanwhile */
        rc = inherit_pinned(&l, &g, &clocks);
    scope_leave(&g.scope);
    if (l.got > 0)
        ENQ_POINT("inherit.taken");
    return rc == 0 && l.got == 0 ? ENQ_REFUSED : rc;
}

/* --- what is left --- */

/* So many at once: a millisecond, where nobody is to wait. */
#define PAGES_AT_ONCE 1024u

_Static_assert(ENQ_ORPHANS_LEAST >= SMALL_PER_PAGE,
    "a page is told as a whole");

struct seen {
    const struct map *map;
    struct enq_orphan *out;
    size_t n, got;
    uint32_t page; /* of the last that was seen */
};

/* Without latches: inherit_lock() looks again with them held. An entry that is
   damaged is left to the doctor. */
static bool see_orphan(void *context, struct entry *e, uint64_t state)
{
    struct seen *seen = context;
    struct enq_orphan *out = &seen->out[seen->got];
    uint32_t page = map_page_of(seen->map, map_ref(seen->map, e));
    struct ask ask;

    enq_assert(seen->got <= seen->n);
    if (page != seen->page && seen->n - seen->got < SMALL_PER_PAGE)
        return false;
    seen->page = page;
    if (!is_left(seen->map, e) || !entry_ask(seen->map, e, &ask))
        return true;
    out->handle = pin_handle(seen->map, e, state);
    out->holder = shm_load(&e->session);
    out->heir = entry_heir(e);
    memset(out->peer, 0, sizeof(out->peer));
    memcpy(out->peer, ask.peer, ask.peer_bytes);
    out->peer[ENQ_PEER_BYTES - 1] = '\0';
    seen->got++;
    return true;
}

/* Sessions that were not reaped yet have not told what they leave. */
static bool any_ended(const struct map *map)
{
    for (uint32_t i = 0; i < map_sessions(map); i++) {
        session_ref_t ref = shm_load_acquire(&map->sessions[i].ref);

        if (ref != 0 && has_ended(map, ref))
            return true;
    }
    return false;
}

/* Many processes may poll this, and mostly there is nothing: so the number
   `left` is compared before the table is walked, and is loaded before the walk,
   with acquire. Partner: hold_release_all() raises it, and then the session's
   slot is freed (erase()). A walk that has read the new number finds the
   session dead or ENDING; one that has read the old number finds the slot, and
   any_ended() says that it pays. */
int orphans(const struct map *map, uint64_t *at, struct enq_orphan *out,
    size_t n, size_t *got)
{
    struct seen seen = {map, out, n, 0, UINT32_MAX};
    uint32_t page = (uint32_t)*at, left = (uint32_t)(*at >> 32);

    *got = 0;
    if (page == 0) {
        uint32_t now;

        session_prove_all(map);
        now = shm_load_acquire(&map->h->left);
        if (now == left && !any_ended(map))
            return ENQ_OK;
        left = now;
    }
    page = slab_each_from(map, page, PAGES_AT_ONCE, see_orphan, &seen);
    *at = (uint64_t)left << 32 | page;
    *got = seen.got;
    return page == 0 ? ENQ_OK : ENQ_PENDING;
}

/* --- abandon --- */

static session_ref_t nobody(const struct session *s)
{
    return s->ref & SESSION_MASK;
}

/* The deadline first: if we die in between, the lock is one of ours still, and
   the reaper does the same again. */
static int let_go(struct session *s, struct pin *g)
{
    int rc = hold_leave_behind(g);

    enq_assert(scope_is_entered(&g->scope));
    if (rc != 0)
        return rc;
    shm_and(&g->e->state, ~STATE_HEARD);
    shm_store_release(&g->e->session, nobody(s));
    guard_told(&g->scope, g->e);
    ENQ_POINT("abandon.stored");
    return 0;
}

int abandon(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token)
{
    struct pin g;
    int rc = pin_held(&g, s, t, handle, token);

    if (rc != ENQ_OK)
        return rc;
    if (g.e->session != s->ref ||
        ENTRY_DEATH(g.e->on_death) == ENQ_DEATH_RELEASE)
        rc = ENQ_REFUSED;
    else
        rc = let_go(s, &g);
    scope_leave(&g.scope);
    return rc;
}
