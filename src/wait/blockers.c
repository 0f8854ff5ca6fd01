/*
 * blockers.c - wait: what a waiter sleeps on (see blockers.h).
 */
#include "wait/blockers.h"

#include <limits.h>

#include "sync/life.h"

void (*wait_report_death)(struct session *s);

/* Of those who hold, so many are watched; the tick does for the others. */
#define WATCHES_MOST 15

static bool watch_session(struct blockers *b, const struct map *map,
    session_ref_t ref)
{
    if (b->n == b->own + WATCHES_MOST || b->n == SYS_WATCHES_MAX)
        return true;
    if (!session_watch(map, ref, &b->watch[b->n]))
        return false;
    b->n++;
    return true;
}

/* What is held by one who is dying is in the way until that is proved. */
static void watch_holders_session(struct blockers *b, const struct map *map,
    session_ref_t ref)
{
    if (watch_session(b, map, ref))
        return;
    if (session_is_over(map, ref))
        b->dead = true;
    else if (b->n_dying < DYING_FEW && session_is_dead(map, ref))
        b->dying[b->n_dying++] = ref;
}

static void watch_waiter(struct blockers *b, const struct map *map,
    const struct entry *e)
{
    b->dead |= !watch_session(b, map, e->session);
}

/* A delay keeps others out, not its owner. */
static void watch_holder(struct blockers *b, struct scope *s, struct entry *e,
    bool own)
{
    bool delayed = entry_is_delayed(s->map, e, scope_clock(s));
    mono_t end = entry_until(s->map, e);

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
        b->dead = true; /* its delay begins when it is buried */
}

static void note_set(struct blockers *b, struct scope *s, struct entry *e)
{
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
    return a == NULL || b->ticket > a->ticket ? b : a;
}

struct watcher {
    struct blockers *b;
    struct scope *s;
    const struct ask *ask;
    const struct entry *self;
};

static bool see_blocker(void *context, struct entry *e)
{
    struct watcher *w = context;
    struct blockers *b = w->b;
    uint64_t state = shm_load(&e->state);
    bool waits = STATE_PHASE(state) == PHASE_WAITING, conflicts, own;

    /* nor one of the same lock set, which has his ticket */
    if (e == w->self || (waits && e->ticket >= w->self->ticket))
        return true;
    own = entry_owned_by(w->s->map, e, w->ask);
    conflicts = mode_conflicts(w->s->map->modes, STATE_MODE(state) % MODES,
        w->ask->mode, own);
    if (waits)
        b->ahead = later(b->ahead, e);
    if (waits && conflicts) {
        b->before = later(b->before, e);
        note_set(b, w->s, e);
    } else if (conflicts) {
        watch_holder(b, w->s, e, own);
    }
    return true;
}

void blockers_begin(struct blockers *b, mono_t deadline)
{
    b->before = b->ahead = b->holder = NULL;
    b->n = b->own = b->n_sets = b->n_dying = 0;
    b->dead = b->behind_set = false;
    b->until = deadline;
}

void blockers_own(struct blockers *b, struct entry *e)
{
    b->watch[b->n] = (struct sys_watch){
        (const uint32_t *)&e->state, (uint32_t)shm_load(&e->state)};
    b->own = ++b->n;
}

int blockers_add(struct blockers *b, struct scope *s, const struct ask *ask,
    struct entry *self)
{
    struct watcher w = {b, s, ask, self};
    int rc;

    if (!scope_is_due(s, self))
        b->until = mono_min(b->until, (mono_t){self->deadline_ns});
    rc = scope_visit(s, &ask->key, see_blocker, &w);
    if (b->ahead != NULL)
        watch_waiter(b, s->map, b->ahead);
    if (b->before != NULL && b->before->session != b->ahead->session)
        watch_waiter(b, s->map, b->before);
    b->leads = b->ahead == NULL || s->wide;
    if (b->dead)
        b->until = (mono_t){0}; /* look again at once, when it is reported */
    return rc;
}

/* But he may be stopped, or dead: a little later he looks himself. */
#define AHEAD_NS (2 * NS_PER_MS)

void blockers_leave_to_ahead(struct blockers *b, mono_t deadline)
{
    if (b->ahead == NULL)
        return;
    b->ahead_state = shm_load(&b->ahead->state);
    if (b->until.ns != 0)
        b->until = mono_min(deadline, mono_add_ns(b->until, AHEAD_NS));
}

/* Who has somebody ahead leaves that to him as well, and to the helper threads;
   he may be stopped. */
static mono_t look_again(const struct blockers *b, const struct map *map,
    session_ref_t ref)
{
    return b->leads ? session_look_again(map, ref)
                    : mono_add_ns(sys.now(), NS_PER_S);
}

/* The threads of a process that is killed go within microseconds: too short to
   do anything else meanwhile. */
static bool prove_soon(const struct blockers *b, const struct map *map,
    session_ref_t ref)
{
    while (!session_prove(map, ref, false)) {
        if (!b->leads || !session_dies_now(map, ref) ||
            shm_load(b->watch[0].word) != b->watch[0].value)
            return false;
        sys.wait(b->watch, b->own, session_look_again(map, ref));
    }
    return true;
}

bool blockers_prove(struct blockers *b, const struct map *map)
{
    bool proved = false;

    for (unsigned i = 0; i < b->n_dying; i++) {
        if (prove_soon(b, map, b->dying[i]))
            proved = true;
        else
            b->until = mono_min(b->until, look_again(b, map, b->dying[i]));
    }
    b->dead |= proved;
    return proved;
}

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

void blockers_pass_on_deaths(const struct blockers *b, struct session *s)
{
    /* once the helper thread knows of one who is dying it goes on by itself */
    bool death = b->dead || (b->n_dying > 0 && !shm_load(&s->map->dying));

    for (unsigned i = b->own; i < b->n; i++) {
        if (!life_word_is_dead(shm_load(b->watch[i].word)))
            continue;
        sys.wake(b->watch[i].word, INT_MAX);
        death = true;
    }
    if (death && shm_load(&wait_report_death) != NULL)
        wait_report_death(s);
}
