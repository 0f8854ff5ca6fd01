/*
 * lock_event.c - wait: what a session that listens is to hear of its locks (see
 * lock_event.h).
 *
 * What there is to tell stands in `entry.state`, and so does whether it was
 * told. The helper reads it without a latch, as it walks thousands of entries
 * at a time, and takes what it tells by a compare-and-swap on that very state:
 * another transition in between makes the swap fail, and the helper looks
 * again. So an event is told once, and none is told of the entry's next use, as
 * the generation is a part of the state. A helper that dies after the swap has
 * nobody left to tell.
 */
#include "wait/lock_event.h"

#include <string.h>

#include "base/point.h"
#include "lock/copy_out.h"
#include "lock/pin.h"
#include "store/notify.h"

#define NEAR_SHARE 4
#define NEAR_MOST_MS 10000
#define AGAIN_NS (5 * NS_PER_MS) /* the coarse clock's tick is to end first */

/* The last store is a full fence: the scan for locks it has already comes after
   it. Partners: notify_is_wanted() and `listeners`, read under the latches, in
   transition_note_asked(), transition_note_waiters() and let_go(). Either they
   see that the session listens, or the scan sees what they stored. */
void lock_event_listen(struct session *s)
{
    if (shm_load(&s->slot->listens))
        return;
    shm_store(&s->margin_ns, NEAR_MOST_MS * NS_PER_MS);
    shm_store(&s->earliest_ns, 0); /* the locks it has already */
    shm_add(&s->map->h->listeners, 1);
    shm_store_fence(&s->slot->listens, 1);
}

/* By a swap, as `listeners` must count a session once: the thread that reaps a
   dead session does the same (erase() in recovery/reap.c). */
void lock_event_unlisten(struct session *s)
{
    if (shm_swap(&s->slot->listens, 0))
        shm_add(&s->map->h->listeners, -1);
}

/* A share of the ttl that the lock was asked for with, whatever is left of it.
   What has no deadline is never near. */
mono_t lock_event_near(int64_t deadline_ns, int64_t ttl_ms)
{
    int64_t margin_ms = ttl_ms / NEAR_SHARE;

    if (ttl_ms < 0 || deadline_ns == MONO_NEVER.ns)
        return MONO_NEVER;
    if (margin_ms > NEAR_MOST_MS)
        margin_ms = NEAR_MOST_MS;
    return mono_add_ns((mono_t){deadline_ns}, -margin_ms * NS_PER_MS);
}

/* Notes it on the entry, unless it has changed since: then the next look has
   the news. Without a latch, hence the compare-and-swap. Partner: set_mode(),
   which keeps the notes. */
static bool mark(struct entry *e, uint64_t state, uint64_t note)
{
    enq_assert((note & ~STATE_NOTES) == 0);
    ENQ_POINT("event.seen");
    return shm_cas(&e->state, &state, state | note);
}

/* --- what waits for a lock --- */

struct askers {
    const struct map *map;
    const struct entry *held;
    struct entry *first;
    bool wide;
};

/* Of those that want this lock the earliest: the tickets are the order of
   arrival. In a wide scope the visit is not in that order; in a narrow one it
   is, and ends with the first: the queue may be 100,000 long, and each of it
   will hold the lock once. */
static bool see_first(void *context, struct entry *e)
{
    struct askers *x = context;

    enq_assert(x->held != NULL);
    if (conflict_wants(x->map, e, x->held) &&
        (x->first == NULL || e->ticket < x->first->ticket))
        x->first = e;
    return x->wide || x->first == NULL;
}

/* The owner that waits longest: empty if it has left by now. The event is taken
   already, and told all the same: somebody did wait. Under the latches of the
   held lock, which are those of all that overlap it. */
static void tell_waiter(struct session *s, struct thread *t, enq_handle handle,
    char owner[ENQ_OWNER_BYTES])
{
    struct askers x = {.map = s->map};
    struct ask ask;
    struct pin g;

    enq_assert(t->n_held == 0);
    if (pin_take(&g, s, t, handle, 0) != ENQ_OK)
        return;
    x.held = g.e;
    x.wide = g.scope.wide;
    if (entry_ask(s->map, g.e, &ask) &&
        queue_visit(&g.scope, &ask.key, see_first, &x) == 0 &&
        x.first != NULL && entry_ask(s->map, x.first, &ask))
        memcpy(owner, ask.owner, ask.owner_bytes);
    scope_leave(&g.scope);
}

/* --- one entry --- */

/* The entry stays GONE, so that the holder's next call hears why, too (R16);
   only the mark is new. The holder's call and a thread in need of room may take
   the entry at this moment, by a swap of the same state: one of the three has
   it. */
static void take_gone(struct session *s, struct entry *e, uint64_t state,
    struct lock_event *n)
{
    n->token = shm_load(&e->token);
    /* a request that never was granted is its waiter's to hear of */
    if ((state & (STATE_TOLD | STATE_ENDED)) != 0 || n->token == 0 ||
        !mark(e, state, STATE_TOLD))
        return;
    n->kind = LOCK_EVENT_GONE;
    n->result = pin_gone(state);
    copy_taker(s->map, n->handle, n->owner);
}

/* A renewal clears the mark, and may have come between the look and it. The
   mark is a full barrier, and then the deadline is loaded. Partner:
   transition_deadline(), which stores the deadline with one, and then loads the
   mark. At least one of the two sees the other, and takes the mark away. */
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
   latches: it must not be renewed between the look and the mark. */
static void take_delayed(struct session *s, struct thread *t,
    struct lock_event *n)
{
    struct pin g;

    enq_assert(t->n_held == 0);
    if (pin_take(&g, s, t, n->handle, 0) != ENQ_OK)
        return;
    if (STATE_PHASE(g.state) == PHASE_HELD && (g.state & STATE_ENDED) == 0 &&
        entry_is_delayed(s->map, g.e, scope_clock(&g.scope))) {
        shm_or(&g.e->state, STATE_ENDED);
        n->token = g.e->token;
        n->kind = LOCK_EVENT_GONE;
        n->result = ENQ_EXPIRED;
    }
    scope_leave(&g.scope);
}

/* One event at a time; the caller asks again. That somebody waits is told once
   for each lock (TOLD), that its end is near once for each renewal: a renewal
   clears NEAR. What is not due yet lowers *next. */
static void take_held(struct session *s, struct thread *t, struct entry *e,
    uint64_t state, struct lock_event *n, mono_t *next)
{
    int64_t deadline_ns = shm_load(&e->deadline_ns);
    mono_t near = lock_event_near(deadline_ns, shm_load(&e->ttl_ms));
    mono_t now = sys.now();

    enq_assert(t->n_held == 0);
    n->token = shm_load(&e->token);
    if ((state & (STATE_ASKED | STATE_TOLD)) == STATE_ASKED) {
        if (!mark(e, state, STATE_TOLD)) {
            *next = now; /* it has changed: look at all again */
            return;
        }
        n->kind = LOCK_EVENT_ASKED;
        tell_waiter(s, t, n->handle, n->owner);
    } else if ((state & STATE_NEAR) != 0 || mono_is_never(near)) {
        /* by the exact clock it may have come, and not by the coarse one */
        *next = mono_min(*next,
            mono_max((mono_t){deadline_ns}, mono_add_ns(now, AGAIN_NS)));
    } else if (!mono_reached(near, now)) {
        *next = mono_min(*next, near);
    } else if (mark_near(e, state, deadline_ns)) {
        n->kind = LOCK_EVENT_NEAR;
    } else {
        *next = now;
    }
}

/* Its time may have come: pin_held() asks the exact clock, under the latches,
   and takes it out of the table then; its waiters are granted what they can
   have (R8). The state is loaded anew, as it may be GONE now, which is the
   event. One that was told to have ended is delayed: it stays until the delay
   is over, and has nothing more to tell. */
static uint64_t end_if_over(struct session *s, struct thread *t,
    struct entry *e, uint64_t state)
{
    mono_t end = {shm_load(&e->deadline_ns)};
    struct pin g;

    enq_assert(t->n_held == 0);
    if (!mono_reached(end, sys.now()))
        return state;
    if ((state & STATE_ENDED) == 0 &&
        pin_held(&g, s, t, pin_handle(s->map, e, state), 0) == ENQ_OK)
        scope_leave(&g.scope);
    return shm_load_acquire(&e->state);
}

/* The session is compared without a latch: an adopted lock is stored with its
   new session last (transition_session()), and the notes of the old one are
   gone by then. The generation is compared after each step that may have
   changed the entry. */
void lock_event_take(struct session *s, struct thread *t, struct entry *e,
    uint32_t generation, struct lock_event *n, mono_t *next)
{
    uint64_t state = shm_load_acquire(&e->state);

    enq_assert(t->n_held == 0);
    n->kind = LOCK_EVENT_NONE;
    n->owner[0] = '\0';
    n->handle = pin_handle(s->map, e, state);
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

/* A lock that was granted before the session listened was never marked ASKED,
   whatever waits for it: transition_note_asked() marks the locks of listening
   sessions only. Under the latches, so that a request that queues at this
   moment is found here or marks the lock itself. */
void lock_event_greet(struct session *s, struct thread *t, struct entry *e,
    uint64_t state)
{
    struct pin g;

    enq_assert(t->n_held == 0);
    if (STATE_PHASE(state) != PHASE_HELD || shm_load(&e->session) != s->ref ||
        pin_take(&g, s, t, pin_handle(s->map, e, state), 0) != ENQ_OK)
        return;
    if (STATE_PHASE(g.state) == PHASE_HELD)
        transition_note_waiters(&g.scope, g.e);
    scope_leave(&g.scope);
}

/* An adopted lock stays in the slab of the session that made it: then the whole
   table is walked. */
void lock_event_each(struct session *s, slab_see_fn *see, void *context)
{
    if (shm_load(&s->slot->adopted))
        slab_each(s->map, see, context);
    else
        slab_each_of(s->map, s->ref, see, context);
}
