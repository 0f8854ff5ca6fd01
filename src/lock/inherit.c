/*
 * inherit.c - lock: locks that go on under another process, or under none
 * (see inherit.h).
 */
#include "lock/inherit.h"

#include <string.h>

#include "base/point.h"
#include "lock/grip.h"
#include "lock/tell.h"
#include "sync/life.h"

struct legacy {
    struct session *s;
    struct thread *t;
    struct enq_info *out;
    size_t n, got;
    int rc;
};

/* No session has generation 0: who asks finds it dead, for good. A slot that
   nobody has says the same of its last session's life. */
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

/* Without the words this is a hint, and with them the truth. What was abandoned
   is nobody's on purpose: whom it was held for is done with it. */
static bool is_left(const struct map *map, const struct entry *e)
{
    session_ref_t session = shm_load(&e->session);

    return entry_is(e, PHASE_HELD) &&
        (shm_load(&e->on_death) & ENTRY_FOR_OTHERS) != 0 &&
        !is_nobody(session) && has_ended(map, session);
}

/* The session first, as in hold_adopt(). Who waits sleeps until the lock would
   have run out, or its holder died. */
static int go_on(struct grip *g, const struct key *key)
{
    struct scope *scope = &g->scope;
    int rc = change_session(scope, g->e, false);

    if (rc != 0)
        return rc;
    if (ENTRY_DEATH(g->e->on_death) == ENQ_DEATH_KEEP &&
        g->e->deadline_ns == MONO_NEVER.ns)
        change_deadline(scope, g->e, g->e->ttl_ms);
    return scope_wake_waiters(scope, key);
}

/* One that is damaged is left to the doctor. */
static int inherit_gripped(struct legacy *l, struct grip *g,
    struct tell_clocks *clocks)
{
    const struct map *map = l->s->map;
    struct ask ask;
    int rc;

    if (!is_left(map, g->e) || !entry_ask(map, g->e, &ask))
        return 0;
    rc = go_on(g, &ask.key);
    if (rc != 0)
        return rc;
    clocks->now = scope_clock(&g->scope);
    if (!tell_info(map, g->e, g->state, clocks, &l->out[l->got]))
        return ENQ_ECORRUPT;
    l->got++;
    return 0;
}

static bool see_left(void *context, struct entry *e, uint64_t state)
{
    struct legacy *l = context;
    enq_handle handle = grip_handle(l->s->map, e, state);
    struct tell_clocks clocks;
    struct grip g;
    int rc;

    if (!is_left(l->s->map, e))
        return true;
    clocks = tell_clocks();
    rc = grip_held(&g, l->s, l->t, handle, 0);
    if (rc == ENQ_OK) {
        rc = inherit_gripped(l, &g, &clocks);
        scope_leave(&g.scope);
    }
    l->rc = rc < 0 ? rc : 0; /* or it is over, or another's by now */
    return l->rc == 0 && l->got < l->n;
}

int inherit(struct session *s, struct thread *t, struct enq_info *out, size_t n,
    size_t *got)
{
    struct legacy l = {s, t, out, n, 0, 0};

    session_prove_all(s->map);
    slab_each(s->map, see_left, &l);
    *got = l.got;
    return l.rc;
}

int inherit_lock(struct session *s, struct thread *t, enq_handle handle,
    uint64_t heir, struct enq_info *out)
{
    struct legacy l = {s, t, out, 1, 0, 0};
    struct tell_clocks clocks = tell_clocks();
    struct grip g;
    int rc;

    hold_prove(s->map, handle);
    rc = grip_held(&g, s, t, handle, 0);
    if (rc != ENQ_OK)
        return rc;
    if (entry_heir(g.e) == heir) /* or it was adopted anew meanwhile */
        rc = inherit_gripped(&l, &g, &clocks);
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

/* Each word by itself: who takes it over looks with the words held. One that
   is damaged is left to the doctor. */
static bool see_orphan(void *context, struct entry *e, uint64_t state)
{
    struct seen *seen = context;
    struct enq_orphan *out = &seen->out[seen->got];
    uint32_t page = map_page_of(seen->map, map_ref(seen->map, e));
    struct ask ask;

    if (page != seen->page && seen->n - seen->got < SMALL_PER_PAGE)
        return false;
    seen->page = page;
    if (!is_left(seen->map, e) || !entry_ask(seen->map, e, &ask))
        return true;
    out->handle = grip_handle(seen->map, e, state);
    out->holder = shm_load(&e->session);
    out->heir = entry_heir(e);
    memset(out->peer, 0, sizeof(out->peer));
    memcpy(out->peer, ask.peer, ask.peer_bytes);
    out->peer[ENQ_PEER_BYTES - 1] = '\0';
    seen->got++;
    return true;
}

/* Those who were not buried yet have not told what they leave. */
static bool any_ended(const struct map *map)
{
    for (uint32_t i = 0; i < map_sessions(map); i++) {
        session_ref_t ref = shm_load_acquire(&map->sessions[i].ref);

        if (ref != 0 && has_ended(map, ref))
            return true;
    }
    return false;
}

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
   whoever buries us does the same again. */
static int let_go(struct session *s, struct grip *g)
{
    int rc = hold_leave_behind(g);

    if (rc != 0)
        return rc;
    shm_and(&g->e->state, ~STATE_NOTES);
    shm_store_release(&g->e->session, nobody(s));
    ENQ_POINT("abandon.stored");
    return 0;
}

int abandon(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token)
{
    struct grip g;
    int rc = grip_held(&g, s, t, handle, token);

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
