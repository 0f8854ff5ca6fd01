/*
 * notice.c - wait: what a session that listens is to hear of its locks (see
 * notice.h).
 */
#include "wait/notice.h"

#include <string.h>

#include "lock/grip.h"
#include "lock/tell.h"
#include "store/call.h"

#define NEAR_SHARE 4
#define NEAR_MOST_MS 10000
#define AGAIN_NS (5 * NS_PER_MS) /* the coarse clock's tick is to end first */

void notice_listen(struct session *s)
{
    if (shm_load(&s->slot->listens))
        return;
    shm_store(&s->margin_ns, NEAR_MOST_MS * NS_PER_MS);
    shm_store(&s->earliest_ns, 0); /* the locks it has already */
    shm_add(&s->map->h->listeners, 1);
    shm_store_fence(&s->slot->listens, 1);
}

void notice_unlisten(struct session *s)
{
    if (shm_swap(&s->slot->listens, 0))
        shm_add(&s->map->h->listeners, -1);
}

mono_t notice_near(int64_t deadline_ns, int64_t ttl_ms)
{
    int64_t margin_ms = ttl_ms / NEAR_SHARE;

    if (ttl_ms < 0 || deadline_ns == MONO_NEVER.ns)
        return MONO_NEVER;
    if (margin_ms > NEAR_MOST_MS)
        margin_ms = NEAR_MOST_MS;
    return mono_add_ns((mono_t){deadline_ns}, -margin_ms * NS_PER_MS);
}

/* Notes it on the entry, unless it has changed since: then the next look has
   the news. */
static bool mark(struct entry *e, uint64_t state, uint64_t note)
{
    return shm_cas(&e->state, &state, state | note);
}

/* --- who asks --- */

struct suitors {
    const struct map *map;
    const struct entry *held;
    struct entry *first;
};

static bool see_first(void *context, struct entry *e)
{
    struct suitors *x = context;

    if (judge_wants(x->map, e, x->held) &&
        (x->first == NULL || e->ticket < x->first->ticket))
        x->first = e;
    return true;
}

/* The owner of whoever waits longest: empty if he has left by now. */
static void tell_suitor(struct session *s, struct thread *t, enq_handle handle,
    char owner[ENQ_OWNER_BYTES])
{
    struct suitors x = {s->map, NULL, NULL};
    struct ask ask;
    struct grip g;

    if (grip_take(&g, s, t, handle, 0) != ENQ_OK)
        return;
    x.held = g.e;
    if (entry_ask(s->map, g.e, &ask) &&
        scope_visit(&g.scope, &ask.key, see_first, &x) == 0 &&
        x.first != NULL && entry_ask(s->map, x.first, &ask))
        memcpy(owner, ask.owner, ask.owner_bytes);
    scope_leave(&g.scope);
}

/* --- one entry --- */

static void take_gone(struct session *s, struct entry *e, uint64_t state,
    struct notice *n)
{
    n->token = shm_load(&e->token);
    /* a request that never was granted is its waiter's to hear of */
    if ((state & (STATE_TOLD | STATE_ENDED)) != 0 || n->token == 0 ||
        !mark(e, state, STATE_TOLD))
        return;
    n->kind = NOTICE_GONE;
    n->result = grip_gone(state);
    tell_taker(s->map, n->handle, n->owner);
}

/* A renewal clears the mark, and may have come between the look and it.
   Partner: change_deadline(). */
static bool mark_near(struct entry *e, uint64_t state, int64_t deadline_ns)
{
    uint64_t now = state | STATE_NEAR;

    if (!mark(e, state, STATE_NEAR))
        return false;
    if (shm_load(&e->deadline_ns) == deadline_ns)
        return true;
    /* not on what the entry may be by then */
    while (state_same(state, now) &&
        !shm_cas(&e->state, &now, now & ~STATE_NEAR))
        continue;
    return false;
}

/* It has run out, and stays in the table for its lock delay. Marked under its
   words: it must not be renewed between the look and the mark. */
static void take_delayed(struct session *s, struct thread *t, struct notice *n)
{
    struct grip g;

    if (grip_take(&g, s, t, n->handle, 0) != ENQ_OK)
        return;
    if (STATE_PHASE(g.state) == PHASE_HELD && (g.state & STATE_ENDED) == 0 &&
        entry_is_delayed(s->map, g.e, scope_clock(&g.scope))) {
        shm_or(&g.e->state, STATE_ENDED);
        n->token = g.e->token;
        n->kind = NOTICE_GONE;
        n->result = ENQ_EXPIRED;
    }
    scope_leave(&g.scope);
}

static void take_held(struct session *s, struct thread *t, struct entry *e,
    uint64_t state, struct notice *n, mono_t *next)
{
    int64_t deadline_ns = shm_load(&e->deadline_ns);
    mono_t near = notice_near(deadline_ns, shm_load(&e->ttl_ms));
    mono_t now = sys.now();

    n->token = shm_load(&e->token);
    if ((state & (STATE_ASKED | STATE_TOLD)) == STATE_ASKED) {
        *next = mono_min(*next, now);
        if (!mark(e, state, STATE_TOLD))
            return; /* it has changed: look again */
        n->kind = NOTICE_ASKED;
        tell_suitor(s, t, n->handle, n->owner);
    } else if ((state & STATE_NEAR) != 0 || mono_is_never(near)) {
        /* by the exact clock it may have come, and not by the coarse one */
        *next = mono_min(*next,
            mono_max((mono_t){deadline_ns}, mono_add_ns(now, AGAIN_NS)));
    } else if (!mono_reached(near, now)) {
        *next = mono_min(*next, near);
    } else if (mark_near(e, state, deadline_ns)) {
        n->kind = NOTICE_NEAR;
    } else {
        *next = now;
    }
}

/* Its time may have come: whoever asks for it takes it out of the table. */
static uint64_t end_if_over(struct session *s, struct thread *t,
    struct entry *e, uint64_t state)
{
    mono_t now = sys.now();
    struct grip g;

    if (!mono_reached((mono_t){shm_load(&e->deadline_ns)}, now))
        return state;
    if ((state & STATE_ENDED) == 0 &&
        grip_held(&g, s, t, grip_handle(s->map, e, state), 0) == ENQ_OK)
        scope_leave(&g.scope);
    return shm_load_acquire(&e->state);
}

void notice_take(struct session *s, struct thread *t, struct entry *e,
    uint32_t generation, struct notice *n, mono_t *next)
{
    uint64_t state = shm_load_acquire(&e->state);

    n->kind = NOTICE_NONE;
    n->owner[0] = '\0';
    n->handle = grip_handle(s->map, e, state);
    if (shm_load(&e->session) != s->ref ||
        STATE_GENERATION(state) != generation)
        return;
    if (STATE_PHASE(state) == PHASE_HELD)
        state = end_if_over(s, t, e, state);
    if (STATE_GENERATION(state) != generation)
        return;
    if (STATE_PHASE(state) == PHASE_HELD &&
        entry_is_delayed(s->map, e, sys.now())) {
        if ((state & STATE_ENDED) == 0)
            take_delayed(s, t, n);
    } else if (STATE_PHASE(state) == PHASE_HELD) {
        take_held(s, t, e, state, n, next);
    } else if (STATE_PHASE(state) == PHASE_GONE) {
        take_gone(s, e, state, n);
    }
}

void notice_greet(struct session *s, struct thread *t, struct entry *e,
    uint64_t state)
{
    struct grip g;

    if (STATE_PHASE(state) != PHASE_HELD || shm_load(&e->session) != s->ref ||
        grip_take(&g, s, t, grip_handle(s->map, e, state), 0) != ENQ_OK)
        return;
    if (STATE_PHASE(g.state) == PHASE_HELD)
        change_note_suitors(&g.scope, g.e);
    scope_leave(&g.scope);
}

void notice_each(struct session *s, slab_see_fn *see, void *context)
{
    if (shm_load(&s->slot->adopted))
        slab_each(s->map, see, context);
    else
        slab_each_of(s->map, s->ref, see, context);
}
