/*
 * blockers.c - wait: what a waiter sleeps on (see blockers.h).
 *
 * There is no daemon that would tell a waiter that a process has died or a ttl
 * has ended. So each look collects what can end the wait by itself: the
 * liveness words of the sessions in the way, and the earliest time at which one
 * of the locks there runs out. What others do (release, demote, cancel) wakes
 * the waiter by its own state (R8).
 *
 * All of it is read under the latches that the look holds, and kept in private
 * memory. So whatever happens after the look changes a value that was noted,
 * and the kernel, which compares them once more, does not put the waiter to
 * sleep (P3).
 */
#include "wait/blockers.h"

#include <limits.h>

#include "lock/queue.h"
#include "lock/transition_note.h"
#include "sync/hooks.h"
#include "sync/life.h"

/* Of the holders so many are watched, as the kernel enqueues the sleeper at
   each word, and hundreds may share a lock. The tick does for the others. */
#define WATCHES_MOST 15

/* False: it is dead already, and will not wake anybody. The liveness word's
   value is taken now, under the latches: a death after this changes it, and the
   kernel does not put the waiter to sleep. */
static bool watch_session(struct blockers *b, const struct map *map,
    session_ref_t ref)
{
    enq_assert(b->own <= b->n && b->n <= SYS_WATCHES_MAX);
    if (b->n == b->own + WATCHES_MOST || b->n == SYS_WATCHES_MAX)
        return true;
    if (!session_watch(map, ref, &b->watch[b->n]))
        return false;
    b->n++;
    return true;
}

/* A lock of a dying session is in the way until its end is proved (P14). The
   proof takes system calls, so that here the session is only noted, and
   blockers_prove() looks when the latches are released. One that only heirs
   keep is neither: nothing wakes a waiter then, and the tick does. */
static void watch_holders_session(struct blockers *b, const struct map *map,
    session_ref_t ref)
{
    enq_assert(b->n_dying <= DYING_FEW);
    if (watch_session(b, map, ref))
        return;
    if (session_is_over(map, ref))
        b->dead = true;
    else if (b->n_dying < DYING_FEW && session_is_dead(map, ref))
        b->dying[b->n_dying++] = ref;
}

/* A waiter is out of the queue as soon as its session is dead, heirs or not
   (R21): so it need not be proved, and the next look drops it. */
static void watch_waiter(struct blockers *b, const struct map *map,
    const struct entry *e)
{
    b->dead |= !watch_session(b, map, e->session);
}

/*
 * Whose death makes way? Of a RELEASE lock its session's. Of a LEASE lock
 * nobody's, as only its ttl ends it; nor of a KEEP lock, but one with a ttl
 * must lose it when its session is over, or it would run out and be given on,
 * where it was meant to fail closed: so that death is watched, and reported.
 *
 * A delay keeps others out, not the owner that lost the lock.
 */
static void watch_holder(struct blockers *b, struct scope *s, struct entry *e,
    bool own)
{
    bool delayed = entry_is_delayed(s->map, e, scope_clock(s));
    mono_t end = entry_until(s->map, e);

    enq_assert(scope_is_entered(s));
    if (own && delayed)
        return;
    if (own)
        end.ns = shm_load(&e->deadline_ns);
    b->until = mono_min(b->until, end);
    b->holder = e;
    b->holder_state = shm_load(&e->state);
    /* a KEEP lock stays closed if its holder's death is noticed in time */
    if ((ENTRY_DEATH(e->on_death) == ENQ_DEATH_RELEASE ||
            (ENTRY_DEATH(e->on_death) == ENQ_DEATH_KEEP &&
                e->deadline_ns != MONO_NEVER.ns)) &&
        !delayed)
        watch_holders_session(b, s->map, e->session);
    else if (delayed && e->deadline_ns > scope_clock(s).ns)
        b->dead = true; /* its delay begins when it is reaped */
}

/* Of the sets in the way those that may not be passed so far, for
   bypass_learn() to ask whether they wait for this owner. Where there are more
   than a few, the rest is asked when these have gone or may be passed. */
static void note_set(struct blockers *b, struct scope *s, struct entry *e)
{
    enq_assert(b->n_sets <= BYPASS_FEW && scope_is_entered(s));
    if (!entry_is_of_set(e))
        return;
    b->behind_set = true;
    if (b->n_sets < BYPASS_FEW &&
        (s->bypass == NULL || !bypass_has(s->bypass, e->ticket)))
        b->set[b->n_sets++] = entry_handle(s->map, e);
}

/* The later of two waiters, in order of arrival. */
static struct entry *later(struct entry *a, struct entry *b)
{
    enq_assert(b != NULL);
    return a == NULL || b->ticket > a->ticket ? b : a;
}

struct watcher {
    struct blockers *b;
    struct scope *s;
    const struct ask *ask;
    const struct entry *self;
};

/* In a narrow scope, of so many ahead. Who waits behind another leaves deaths
   further ahead to that one: its grant scan is for all. */
#define NEAR_AHEAD 8

/* Two waiters are kept. `ahead` is the last before this one of all that
   overlap: it will look at what time brings before this one needs to. `before`
   is the last of those that conflict: its going may let this one go
   (ZooKeeper's predecessor). To watch all of them would wake all of them: a
   herd. */
static bool see_blocker(void *context, struct entry *e)
{
    struct watcher *w = context;
    struct blockers *b = w->b;
    uint64_t state = shm_load(&e->state);
    bool waits = STATE_PHASE(state) == PHASE_WAITING, conflicts, own;

    enq_assert(scope_is_entered(w->s));
    /* nor one of the same lock set, which has this ticket */
    if (e == w->self || (waits && e->ticket >= w->self->ticket))
        return true;
    own = entry_owned_by(w->s->map, e, w->ask);
    conflicts = mode_conflicts(w->s->map->modes, STATE_MODE(state) % MODES,
        w->ask->mode, own);
    if (waits) {
        b->ahead = later(b->ahead, e);
        b->n_ahead++;
    }
    if (waits && conflicts) {
        b->before = later(b->before, e);
        note_set(b, w->s, e);
    } else if (conflicts) {
        b->n_held++;
        if (unlikely(shm_load(&w->s->map->h->listeners) != 0))
            transition_note_held(w->s, e);
        watch_holder(b, w->s, e, own);
    }
    return true;
}

/* From the nearest on, if the queue is that of one key. Of lock sets each is
   seen, as what they wait for besides is not known here. */
static int see_queue(struct watcher *w)
{
    const struct map *map = w->s->map;
    struct entry *first = scope_object(w->s, &w->ask->key), *last, *e;
    uint32_t left = map->entries_max;

    enq_assert(!w->s->wide && scope_is_entered(w->s));
    last = first == NULL ? NULL : queue_last(map, first);
    if (last == NULL)
        return ENQ_ECORRUPT;
    if ((shm_load(&last->queue) & QUEUE_SETS) == 0)
        left = NEAR_AHEAD;
    for (e = queue_ahead(map, w->self); e != NULL && e != w->self && left > 0;
         e = queue_ahead(map, e), left--)
        see_blocker(w, e);
    if (e != NULL && e != w->self)
        w->b->n_ahead = queue_length(last); /* or fewer */
    return 0;
}

void blockers_begin(struct blockers *b, mono_t deadline, bool alone)
{
    b->before = b->ahead = b->holder = NULL;
    b->n = b->own = b->n_sets = b->n_dying = 0;
    b->n_ahead = b->n_held = 0;
    b->dead = b->behind_set = b->far = false;
    b->alone = alone;
    b->deadline = b->until = deadline;
}

void blockers_own(struct blockers *b, struct entry *e)
{
    enq_assert(b->n == b->own && b->n < SYS_WATCHES_MAX);
    b->watch[b->n] = (struct sys_watch){
        (const uint32_t *)&e->state, (uint32_t)shm_load(&e->state)};
    b->own = ++b->n;
}

/* Of these the first looks at each tick, the second in case that it does not. */
#define FAR_AHEAD 2

/* At the end of its bypass window a waiter looks by itself: until then the lock
   is left to whichever thread is quicker, and nothing wakes a waiter when the
   window ends (R7). One far behind is told before its turn comes. In a narrow
   scope a waiter that has another ahead is no leader: that one waits for the
   same locks. In a wide scope, and of a lock set, it may wait for others. */
int blockers_add(struct blockers *b, struct scope *s, const struct ask *ask,
    struct entry *self)
{
    struct watcher w = {b, s, ask, self};
    int rc;

    enq_assert(b->own > 0 && scope_is_entered(s));
    rc = scope_visit_held(s, &ask->key, see_blocker, &w);
    if (rc == 0 && !s->wide)
        rc = see_queue(&w);
    if (b->ahead != NULL)
        watch_waiter(b, s->map, b->ahead);
    if (b->before != NULL && b->before->session != b->ahead->session)
        watch_waiter(b, s->map, b->before);
    b->leads = b->ahead == NULL || s->wide || b->alone;
    b->far = b->n_ahead >= FAR_AHEAD && !b->leads && !b->behind_set &&
        sys_has_waitv();
    if (!b->far && !scope_is_due(s, self))
        b->until = mono_min(b->until, entry_due(self));
    if (b->dead)
        b->until = (mono_t){0}; /* look again at once, when it is reported */
    return rc;
}

/* But that one may be stopped, or dead: a little later the waiter looks. So of
   a thousand waiters one looks when a ttl ends, and only if it does not, the
   others. Its state is noted under the latches: where that has changed the
   waiter may be the first by now, and looks (may_sleep_on() in waiter.c). */
#define AHEAD_NS (2 * NS_PER_MS)

void blockers_end(struct blockers *b)
{
    enq_assert(b->own > 0);
    if (b->ahead == NULL)
        return;
    b->ahead_state = shm_load(&b->ahead->state);
    if (b->alone)
        b->n_ahead = 0; /* none of them looks for it */
    else if (b->until.ns != 0)
        b->until = mono_min(b->deadline, mono_add_ns(b->until, AHEAD_NS));
}

/* A waiter with another ahead leaves that to it as well, and to the helper
   threads; all of these may be stopped, hence the second. */
static mono_t look_again(const struct blockers *b, const struct map *map,
    session_ref_t ref)
{
    return b->leads ? session_look_again(map, ref)
                    : mono_add_ns(sys.now(), NS_PER_S);
}

/* The threads of a process that is killed go within microseconds of each other:
   too short to do anything else meanwhile. So the leader takes naps of that
   length, on its own states only, as a look by others may grant it the lock at
   any moment; all others sleep as usual, or a thousand waiters would ask the
   kernel for one proof. */
static bool prove_soon(const struct blockers *b, const struct map *map,
    session_ref_t ref)
{
    enq_assert(b->own > 0);
    while (!session_prove(map, ref, false)) {
        if (!b->leads || !session_dies_now(map, ref) ||
            shm_load(b->watch[0].word) != b->watch[0].value)
            return false;
        sys.wait(b->watch, b->own, session_look_again(map, ref));
    }
    return true;
}

/* The proof is noted in the dead session's slot (release; session_is_over() is
   the partner), so that one waiter's proof serves all. The next look then finds
   that its RELEASE locks have ended: nobody need have reaped it. */
bool blockers_prove(struct blockers *b, const struct map *map)
{
    bool proved = false;

    enq_assert(b->own > 0 && b->n_dying <= DYING_FEW);
    for (unsigned i = 0; i < b->n_dying; i++) {
        if (prove_soon(b, map, b->dying[i]))
            proved = true;
        else
            b->until = mono_min(b->until, look_again(b, map, b->dying[i]));
    }
    b->dead |= proved;
    return proved;
}

/* The count stops where the pause does not grow any more: a shift by more than
   the width of a word would be undefined. */
int64_t blockers_pause(unsigned *futile)
{
    int64_t ns = SYS_TICK_NS << *futile;

    if (ns >= sys_look_every(NS_PER_S))
        return sys_look_every(NS_PER_S);
    ++*futile;
    return ns;
}

mono_t blockers_look_again(bool waited_for)
{
    return mono_add_ns(sys.now(),
        waited_for ? SYS_TICK_NS : sys_look_every(NS_PER_S));
}

/* As the kernel's mark wakes one watcher of a word, this one may be it, though
   others have more to do with that death. So all are woken; a word that says
   dead is not slept on again (session_watch()). The helper is told as well:
   reaping takes long, and a waiter needs only what is in its own way. */
void blockers_pass_on_deaths(const struct blockers *b, struct session *s)
{
    enq_assert(b->own <= b->n);
    /* once the helper thread knows of a dying session it goes on by itself */
    bool death = b->dead || (b->n_dying > 0 && !shm_load(&s->map->dying));

    for (unsigned i = b->own; i < b->n; i++) {
        if (!liveness_is_dead(shm_load(b->watch[i].word)))
            continue;
        sys.wake(b->watch[i].word, INT_MAX);
        death = true;
    }
    if (death && hooks.report_death != NULL)
        hooks.report_death(s);
}
