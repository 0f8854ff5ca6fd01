/*
 * transition_note.c - lock: sessions that are asked for what they hold (see
 * transition_note.h).
 */
#include "lock/transition_note.h"

#include "lock/conflict.h"
#include "sync/tick.h"

/* It is held, its session listens, and has not been asked for it yet. */
static bool may_hear(const struct scope *s, const struct entry *e)
{
    uint64_t state = shm_load(&e->state);

    enq_assert(scope_is_entered(s));
    return STATE_PHASE(state) == PHASE_HELD && (state & STATE_ASKED) == 0 &&
        notify_is_wanted(s->map, shm_load(&e->session));
}

static void note(struct scope *s, struct entry *e)
{
    shm_or(&e->state, STATE_ASKED);
    scope_wake(s, e);
}

struct asked {
    struct scope *s;
    const struct ask *ask;
};

/* If it is in the way of this request. The mode is taken modulo MODES as it may
   be damaged, and indexes a table. */
static bool see_asked(void *context, struct entry *e)
{
    struct asked *a = context;

    if (may_hear(a->s, e) &&
        mode_conflicts(a->s->map->modes,
            STATE_MODE(shm_load(&e->state)) % MODES, a->ask->mode,
            entry_owned_by(a->s->map, e, a->ask)))
        note(a->s, e);
    return true;
}

int transition_note_asked(struct scope *s, const struct ask *ask)
{
    struct asked a = {s, ask};

    enq_assert(scope_is_entered(s));
    if (likely(shm_load(&s->map->h->listeners) == 0))
        return 0;
    return scope_visit(s, &ask->key, see_asked, &a);
}

struct waiter_search {
    struct scope *s;
    const struct entry *held;
    bool found;
};

/* One waiter is enough: the event says that the lock blocks, and names the
   first when it is taken (tell_waiter()). */
static bool see_waiter(void *context, struct entry *e)
{
    struct waiter_search *x = context;

    enq_assert(!x->found);
    x->found = conflict_wants(x->s->map, e, x->held);
    return !x->found;
}

int transition_note_waiters_slow(struct scope *s, struct entry *e)
{
    struct waiter_search x = {s, e, false};
    struct key key;
    int rc;

    if (!entry_key(s->map, e, &key))
        return ENQ_ECORRUPT;
    rc = scope_visit(s, &key, see_waiter, &x);
    if (x.found)
        note(s, e);
    return rc;
}

struct takers {
    struct scope *s;
    struct summary waiting;
};

static bool see_waiting(void *context, struct entry *e)
{
    struct takers *x = context;

    enq_assert(scope_is_entered(x->s));
    if (entry_is(e, PHASE_WAITING) &&
        entry_ended(x->s->map, e, (mono_t){0}) == ENQ_OK)
        summary_add(&x->waiting, x->s->map, e);
    return true;
}

static bool see_blocking(void *context, struct entry *e)
{
    struct takers *x = context;

    if (may_hear(x->s, e) && summary_wants(&x->waiting, x->s->map, e))
        note(x->s, e);
    return true;
}

int transition_note_all(struct scope *s, const struct key *key)
{
    struct takers x = {.s = s};
    struct entry *first;
    int rc;

    enq_assert(!s->wide && scope_is_entered(s));
    if (likely(shm_load(&s->map->h->listeners) == 0))
        return 0;
    first = scope_object(s, key);
    if (first == NULL || nobody_waits(s, first))
        return 0;
    rc = scope_visit(s, key, see_waiting, &x);
    return rc != 0 ? rc : scope_visit(s, key, see_blocking, &x);
}

/* The state first, then the load of `asleep` by notify(): one that has looked,
   and is about to sleep for long, is kept awake by its state, as its look was
   before ours. Partner: sleep_on() in wait/wait.c. */
void transition_tell(struct scope *s, struct entry *e)
{
    uint32_t asleep = tick_untraced(shm_load(&e->asleep));

    enq_assert(scope_is_entered(s));
    if (asleep == ASLEEP_THREAD || asleep >= ASLEEP_STARTED)
        return;
    shm_or(&e->state, STATE_SOONER);
    scope_wake(s, e);
}

/* In the order of the ring, which is that of arrival; it is closed, so that
   behind the last come those that were before it. */
void transition_tell_behind(struct scope *s, struct entry *e)
{
    struct ring ring = ring_from(s->map, e);
    struct entry *next = ring_next(&ring); /* itself */

    if (entry_is_generic(e))
        return;
    do
        next = ring_next(&ring);
    while (next != NULL && !entry_is(next, PHASE_WAITING));
    if (next != NULL && next->ticket > e->ticket)
        transition_tell(s, next);
}
