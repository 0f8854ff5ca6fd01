/*
 * glance.c - async: a glance at what started requests wait for (see glance.h).
 */
#include "async/glance.h"

#include "async/started.h"
#include "base/visit.h"
#include "sync/life.h"
#include "wait/set_wait.h"

/* At the beginning of a tick, as those of all others: a glance goes through the
   records of all, though only of those that are due it reads what others write. */
void glance_note(struct async *d, struct started *r, mono_t now)
{
    int64_t tick_ns = SYS_TICK_NS;

    r->glance.ns = (now.ns / tick_ns + r->plan.ticks) * tick_ns;
    d->glance = mono_min(d->glance, r->glance);
}

static bool is_another(const struct entry *e, uint64_t state)
{
    return e != NULL && !state_same(shm_load(&e->state), state);
}

static bool is_dead(const uint32_t *life)
{
    return life != NULL && liveness_is_dead(shm_load(life));
}

static bool has_moved(const struct started *r, bool death)
{
    uint64_t state = shm_load_acquire(&r->place.e->state);

    visit(VISIT_ENTRY);
    return STATE_PHASE(state) != PHASE_WAITING || (state & STATE_CYCLE) != 0 ||
        STATE_GENERATION(state) != r->place.generation ||
        (r->set != NULL && (death || set_has_moved(&r->set->set))) ||
        is_another(r->plan.ahead, r->plan.ahead_state) ||
        is_another(r->plan.holder, r->plan.holder_state) ||
        is_dead(r->plan.life);
}

#define SLICE 256

/* Whatever a sender did not live, or was not let, to notify of: to be looked at
   as if it were fresh. Nobody else changes the heap, so that the mutex may be
   let go of in between. */
static void glance_at_all(struct enq *e, bool death, mono_t now)
{
    struct async *d = &e->async;

    d->glance = MONO_NEVER;
    for (size_t i = 0; i < d->requests.n; i++) {
        struct started *r =
            caa_container_of(d->requests.nodes[i], struct started, timer);
        bool due = death || mono_reached(r->glance, now);

        if (due)
            glance_note(d, r, now);
        d->glance = mono_min(d->glance, r->glance);
        if (due && has_moved(r, death))
            started_look_soon(d, r);
        if (i % SLICE == SLICE - 1) {
            pthread_mutex_unlock(&d->mutex);
            pthread_mutex_lock(&d->mutex);
        }
    }
}

/* A glance at hundreds of thousands takes milliseconds: not all the time. */
#define REST_TIMES 100

mono_t glance_due(const struct async *d)
{
    return d->n_pending == 0 ? MONO_NEVER : mono_max(d->glance, d->rested);
}

void glance(struct enq *e, mono_t now)
{
    struct async *d = &e->async;
    mono_t began;

    if (!d->all && !mono_reached(glance_due(d), now))
        return;
    began = sys.now(); /* what this round did before it is no part of it */
    glance_at_all(e, d->all, now);
    d->all = false;
    d->rested = mono_add_ns(now, (sys.now().ns - began.ns) * REST_TIMES);
}

/* So many words are slept on, of so many requests: each costs the kernel a
   microsecond a tick, and there may be 100,000. The glance does for the rest. */
#define LIVES_MOST 16
#define LIVES_AMONG 64

static bool is_watched(const struct sys_watch *watches, unsigned n,
    const uint32_t *word)
{
    for (unsigned i = 0; i < n; i++)
        if (watches[i].word == word)
            return true;
    return false;
}

unsigned glance_watch_lives(struct enq *e, struct sys_watch *watches,
    unsigned most, bool *dead)
{
    const struct heap *requests = &e->async.requests;
    unsigned n = 0;

    most = most < LIVES_MOST ? most : LIVES_MOST;
    pthread_mutex_lock(&e->async.mutex);
    for (size_t i = 0; i < requests->n && i < LIVES_AMONG && n < most; i++) {
        const uint32_t *life =
            caa_container_of(requests->nodes[i], struct started, timer)
                ->plan.life;

        if (life == NULL || is_watched(watches, n, life))
            continue;
        watches[n] = (struct sys_watch){life, shm_load_acquire(life)};
        if (liveness_is_dead(watches[n].value))
            *dead = true;
        else
            n++;
    }
    pthread_mutex_unlock(&e->async.mutex);
    return n;
}
