/*
 * transition_note.c - lock: sessions that are asked for what they hold (see
 * transition_note.h).
 */
#include "lock/transition_note.h"

#include "lock/conflict.h"
#include "lock/queue.h"
#include "store/owners.h"

/* It is held, its session listens, and has not been asked for it yet. */
static bool may_hear(const struct scope *s, const struct entry *e)
{
    uint64_t state = shm_load(&e->state);

    enq_assert(scope_is_entered(s));
    return STATE_PHASE(state) == PHASE_HELD && (state & STATE_ASKED) == 0 &&
        notify_is_wanted(s->map, shm_load(&e->session));
}

/* ASKED is set once, so that a death between the two must not leave it alone. */
static void note(struct scope *s, struct entry *e)
{
    scope_wake(s, e);
    shm_or(&e->state, STATE_ASKED);
}

void transition_note_awaited(struct scope *s, struct entry *e)
{
    uint64_t state = shm_load(&e->state);

    enq_assert(scope_is_entered(s));
    if (STATE_PHASE(state) != PHASE_HELD || (state & STATE_AWAITED) != 0)
        return;
    owners_count_in(s->map, owner_awaited(entry_owner_hash(s->map, e)));
    shm_or(&e->state, STATE_AWAITED);
}

void transition_note_held(struct scope *s, struct entry *e)
{
    enq_assert(scope_is_entered(s));
    if (may_hear(s, e))
        note(s, e);
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
    const struct map *map = a->s->map;

    if (!mode_conflicts(map->modes, STATE_MODE(shm_load(&e->state)) % MODES,
            a->ask->mode, entry_owned_by(map, e, a->ask)))
        return true;
    if (a->ask->key.generic == 0)
        transition_note_awaited(a->s, e);
    transition_note_held(a->s, e);
    return true;
}

/* A request of many objects, which may have millions in its way, is counted
   itself (generic_waiters). */
int transition_note_asked(struct scope *s, const struct ask *ask)
{
    struct asked a = {s, ask};

    enq_assert(scope_is_entered(s));
    if (ask->key.generic != 0 && shm_load(&s->map->h->listeners) == 0)
        return 0;
    return scope_visit_held(s, &ask->key, see_asked, &a);
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

/* Who waits is gone through as far as it takes to see what is wanted. */
struct takers {
    struct scope *s;
    struct entry *next; /* to be seen; NULL: all have been */
    uint32_t left;      /* steps, as the links may be damaged */
    struct summary waiting;
};

static void see_waiting(struct takers *x)
{
    struct entry *e = x->next, *next = at_entry(x->s->map, e->next);

    enq_assert(scope_is_entered(x->s));
    if (entry_ended(x->s->map, e, (mono_t){0}) == ENQ_OK)
        summary_add(&x->waiting, x->s->map, e);
    x->next = next != NULL && queue_ahead(x->s->map, next) == e && x->left-- > 0
        ? next
        : NULL;
}

static bool see_blocking(void *context, struct entry *e)
{
    struct takers *x = context;

    if (!may_hear(x->s, e))
        return true;
    while (x->next != NULL && !summary_wants(&x->waiting, x->s->map, e))
        see_waiting(x);
    if (summary_wants(&x->waiting, x->s->map, e))
        note(x->s, e);
    return true;
}

int transition_note_all(struct scope *s, const struct key *key)
{
    struct takers x = {.s = s, .left = s->map->entries_max};
    struct entry *first, *last;

    enq_assert(!s->wide && scope_is_entered(s));
    if (likely(shm_load(&s->map->h->listeners) == 0))
        return 0;
    first = scope_object(s, key);
    last = first == NULL ? NULL : queue_last(s->map, first);
    if (last == NULL)
        return 0;
    x.next = queue_first(s->map, first, last);
    return scope_visit_held(s, key, see_blocking, &x);
}

/* The state first, then the load of `asleep` by notify(): one that has looked,
   and is about to sleep for long, is kept awake by its state, as its look was
   before ours. Partner: sleep_on() in wait/waiter.c. */
void transition_tell(struct scope *s, struct entry *e,
    const struct entry *granted)
{
    uint32_t asleep = entry_sleeps(e);

    enq_assert(scope_is_entered(s));
    if (asleep == ASLEEP_THREAD ||
        (asleep >= ASLEEP_STARTED &&
            (granted == NULL || granted->session == e->session)))
        return;
    scope_wake(s, e);
    shm_or(&e->state, STATE_SOONER);
}

static bool is_first(const struct map *map, const struct entry *e)
{
    const struct entry *before = at_entry(map, e->prev);

    return before == NULL || !entry_is(before, PHASE_WAITING) ||
        before->ticket >= e->ticket;
}

/* In the order of the ring, which is that of arrival; it is closed, so that
   behind the last comes what is held, or who was before it. */
void transition_tell_behind(struct scope *s, struct entry *e, bool granted)
{
    struct entry *next = at_entry(s->map, e->next);

    enq_assert(scope_is_entered(s));
    if (!entry_is_generic(e) && next != NULL && entry_is(next, PHASE_WAITING) &&
        next->ticket > e->ticket)
        transition_tell(s, next, granted && is_first(s->map, e) ? e : NULL);
}
