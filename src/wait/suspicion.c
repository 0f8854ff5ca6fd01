/*
 * suspicion.c - wait: when to look for cycles (see suspicion.h).
 */
#include "wait/suspicion.h"

#include "base/hash.h"
#include "lock/pin.h"
#include "store/owners.h"

/* --- what searches may cost --- */

#define NODE_NS 100 /* of a search, for each request and lock that it reads */
#define SHARE 100   /* of the time one part is for searches */
#define BURST_NS NS_PER_S /* worth of time may be used at once, after grants */
#define DEBT_MOST_NS (10 * NS_PER_S)

/*
 * Until when the searches so far have used up their part of the time: a leaky
 * bucket (Turner, New Directions in Communications, 1986) in one word, which
 * runs ahead of the clock. A hint that anybody may have damaged: what is too far
 * ahead is not believed. Where two store at once, one search costs nothing.
 */
static int64_t ahead_ns(const struct map *map, mono_t now)
{
    uint64_t ahead = (uint64_t)shm_load(&map->h->searched_ns) -
        (uint64_t)now.ns; /* huge where it is behind the clock */

    return ahead > DEBT_MOST_NS ? 0 : (int64_t)ahead;
}

static void pay(const struct map *map, mono_t now, uint64_t cost)
{
    int64_t ahead = ahead_ns(map, now);

    if (cost < (uint64_t)(DEBT_MOST_NS - ahead) / (NODE_NS * SHARE))
        ahead += (int64_t)cost * NODE_NS * SHARE;
    else
        ahead = DEBT_MOST_NS;
    shm_store(&map->h->searched_ns, now.ns + ahead);
}

/* --- by who waits --- */

#define SUSPECT_NS (20 * NS_PER_MS)
#define AGAIN_NS sys_look_every(NS_PER_S)
#define AHEAD_FEW 8
#define AHEAD_MANY 160

static int64_t again_ns(unsigned ahead)
{
    if (ahead <= AHEAD_FEW)
        return AGAIN_NS;
    return AGAIN_NS * (ahead < AHEAD_MANY ? ahead : AHEAD_MANY) / AHEAD_FEW;
}

/* Others have used up the time: then it tries again when that is paid for, and
   not with all who were put off with it, as one of them would be the first
   again. Nor always soon, where many do. */
#define PUT_OFF_MOST 4

static int64_t pause_ns(const struct suspicion *x, const struct map *map,
    enq_handle waiter, mono_t now, unsigned ahead)
{
    int64_t again = again_ns(ahead), soon;

    if (x->old)
        return SUSPECT_NS;
    if (x->put_off == 0)
        return again;
    soon = ahead_ns(map, now) +
        (int64_t)(hash_dice(waiter, (uint64_t)now.ns) % ((uint64_t)again / 16));
    return soon < again ? soon : again;
}

/* The first look, one that it was told to make, and the second at a cycle are
   made at once; another only if there is time for it. */
static int find(struct suspicion *x, struct session *s, struct thread *t,
    enq_handle waiter, mono_t now, struct cycle *found)
{
    bool again = x->next.ns != 0 && !x->old, newcomer = !x->looked;
    bool late = again && ahead_ns(s->map, now) > 0;
    int rc;

    x->looked = true;
    *found = (struct cycle){0};
    x->put_off = late && x->put_off < PUT_OFF_MOST ? x->put_off + 1 : 0;
    if (late)
        return 0;
    rc = cycle_find(s, t, waiter, newcomer, found);
    if (again && found->cost > 0)
        pay(s->map, now, found->cost);
    return rc;
}

/*
 * Which gives up? The youngest does at once; so one of each cycle does, and not
 * all of those that see it at the same time. An older one that finds it waits
 * for SUSPECT_NS, in which the youngest has its turn, and gives up if the very
 * same cycle is there again: its youngest may be stopped, may not look for
 * cycles at all (`wanted`), or be an async request whose turn is far off.
 */
int suspicion_look(struct suspicion *x, struct session *s, struct thread *t,
    enq_handle waiter, unsigned ahead, mono_t *until)
{
    struct cycle found;
    mono_t now;
    int rc;

    if (!x->wanted)
        return ENQ_PENDING;
    now = sys.now();
    if (!mono_reached(x->next, now)) {
        /* also where the rest is left to the waiter ahead */
        *until = mono_min(*until, x->next);
        return ENQ_PENDING;
    }
    rc = find(x, s, t, waiter, now, &found);
    if (rc == ENQ_DEADLOCK &&
        (found.youngest || (x->old && x->latest == found.latest)))
        return rc;
    x->latest = found.latest;
    x->old = rc == ENQ_DEADLOCK;
    x->next = mono_add_ns(now, pause_ns(x, s->map, waiter, now, ahead));
    *until = mono_min(*until, x->next);
    return rc == 0 || rc == ENQ_DEADLOCK ? ENQ_PENDING : rc;
}

/* The note may have been set since the last look at the table: so the state is
   read, and the note taken away, without a latch. The generation tells that the
   entry is ours. */
static bool was_told(const struct place *place)
{
    uint64_t state = shm_load(&place->e->state);

    if ((state & STATE_CYCLE) == 0 ||
        STATE_GENERATION(state) != place->generation)
        return false;
    shm_and(&place->e->state, ~STATE_CYCLE);
    return true;
}

bool suspicion_told(struct suspicion *x, struct places places)
{
    bool told = false;

    EACH_PLACE (p, places)
        told |= was_told(p);
    if (told) {
        x->next = (mono_t){0};
        x->looked = true;
    }
    return told;
}

/* --- by who was granted --- */

static bool others_wait(struct session *s, struct thread *t, enq_handle lock)
{
    struct pin g;
    bool others;

    if (pin_take(&g, s, t, lock, 0) != ENQ_OK)
        return false;
    others = !nobody_waits(&g.scope, g.e);
    scope_leave(&g.scope);
    return others;
}

/*
 * No cycle is missed between this and a request of the owner that comes at the
 * same time. If that one's own search saw this lock before it was granted, it
 * had been counted before (transition_queue()), and the latches of this lock
 * order that count before the load in owners_wait().
 *
 * The entry may be another request's by now, as a lock may be given back before
 * its grant was told (enq_cancel()): then others_wait() says no.
 */
static bool has_searched(struct session *s, struct thread *t,
    const struct place *p)
{
    struct cycle found;
    mono_t now;

    enq_assert(t->n_held == 0);
    if (likely(p->owner == 0 || !owners_wait(s->map, p->owner, 0)))
        return false;
    now = sys.now();
    if (ahead_ns(s->map, now) > BURST_NS ||
        !others_wait(s, t, place_handle(s->map, p)))
        return false;
    cycle_tell(s, t, p->owner, &found);
    pay(s->map, now, found.cost);
    return true;
}

void suspicion_granted(struct session *s, struct thread *t,
    struct places places)
{
    EACH_PLACE (p, places)
        if (has_searched(s, t, p))
            return;
}
