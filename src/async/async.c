/*
 * async.c - async: started requests, heartbeats and events, as the helper
 * thread sees them (see async.h).
 */
#include "async/async.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "async/attachment.h"
#include "async/bell.h"
#include "async/glance.h"
#include "async/started.h"
#include "base/point.h"
#include "lock/bypass.h"
#include "lock/hold.h"
#include "store/notify.h"
#include "sync/life.h"
#include "wait/lock_event.h"
#include "wait/set_latches.h"
#include "wait/set_wait.h"

/* A look that is due again at once, in a damaged table or where somebody dies,
   waits for so long. */
#define PAUSE_NS (NS_PER_MS / 2)

void async_begin(struct async *d)
{
    memset(d, 0, sizeof(*d));
    pthread_mutex_init(&d->mutex, NULL);
    CDS_INIT_LIST_HEAD(&d->free);
    CDS_INIT_LIST_HEAD(&d->fresh);
    CDS_INIT_LIST_HEAD(&d->events);
    CDS_INIT_LIST_HEAD(&d->heartbeats);
    CDS_INIT_LIST_HEAD(&d->wary);
    CDS_INIT_LIST_HEAD(&d->suspects);
    d->fd = -1;
}

/* syscall(2), as close() is a point of cancellation. */
void async_forget(struct async *d)
{
    if (d->fd >= 0)
        syscall(SYS_close, d->fd);
}

void async_end(struct async *d)
{
    struct heartbeat *b, *next;

    event_drop_all(d);
    cds_list_for_each_entry_safe (b, next, &d->heartbeats, node)
        free(b);
    for (uint32_t i = 0; i < d->n_started; i++) {
        lock_set_free(d->started[i]->set);
        free(d->started[i]);
    }
    free(d->started);
    heap_free(&d->requests);
    heap_free(&d->heartbeats_due);
    async_forget(d);
}

/* --- started requests ---
 * `mutex` is let go of during a look: only this thread looks, and ends them.
 * Nothing but `struct async` may be relied on after one: the application may
 * have taken the event, and used the record anew.
 */

static void end_heartbeat(struct enq *e, struct heartbeat *b,
    const struct place *place, int rc)
{
    if (b == NULL)
        return;
    if (rc == ENQ_OK)
        heartbeat_start(e, b, place_handle(e->map, place),
            (mono_t){shm_load(&place->e->since_ns)});
    else
        heartbeat_drop(&e->async, b);
}

/* The lock has come; an event of it is one by itself from now on. */
static void begin_hold(struct enq *e, const struct started *r,
    struct entry *lock)
{
    helper_watch(e, lock);
    entry_is_known(lock, ASLEEP_STARTED + r->number);
}

static void end_set(struct enq *e, const struct started *r, int rc)
{
    const struct lock_set *l = r->set;

    for (unsigned i = 0; i < l->set.n; i++) {
        const struct place *place = &l->set.member[i].place;

        if (rc == ENQ_OK)
            begin_hold(e, r, place->e);
        end_heartbeat(e, l->heartbeat[i], place, rc);
    }
}

static bool is_of(const struct started *r, const struct entry *e)
{
    return r->place.e == e ||
        (r->set != NULL && set_has_entry(&r->set->set, e));
}

/* The record of a waiting entry, by the number that its request brought. */
static struct started *started_of(struct async *d, const struct entry *e)
{
    uint32_t number = shm_load(&e->asleep) - ASLEEP_STARTED;
    struct started *r;

    if (number >= d->n_started)
        return NULL;
    r = d->started[number];
    return r->phase == STARTED_PENDING && is_of(r, e) ? r : NULL;
}

/* Behind another of this attachment, mostly. What has changed since the look is
   looked at again. */
static void stand_behind(struct async *d, struct started *r)
{
    const struct entry *ahead = r->plan.ahead;
    struct started *first = ahead == NULL ? NULL : started_of(d, ahead);

    if (first != NULL)
        first->behind = r->number + 1;
    else if (ahead != NULL &&
        !state_same(shm_load(&ahead->state), r->plan.ahead_state))
        started_look_soon(d, r);
}

/* Whoever stood behind it may be the first now, and nobody else tells: the helper
   looks at it, soon where this one has given up, and else when the time of its
   lock is over. (A look at each hand-over would cost as much again.) */
static void leave(struct async *d, const struct started *r, int rc)
{
    const struct entry *ahead;
    struct started *behind;
    mono_t end;

    if (r->behind == 0)
        return;
    behind = d->started[r->behind - 1];
    ahead = behind->plan.ahead;
    if (behind->phase != STARTED_PENDING || ahead == NULL || !is_of(r, ahead))
        return;
    end.ns = shm_load(&ahead->deadline_ns);
    if (rc == ENQ_OK)
        heap_set(&d->requests, &behind->timer, mono_min(behind->timer.at, end));
    else if (!mono_reached(behind->timer.at, sys.coarse()))
        started_look_soon(d, behind);
}

static void finish(struct enq *e, struct thread *t, struct started *r, int rc,
    struct enq_blocker *blocker)
{
    struct async *d = &e->async;

    heap_remove(&d->requests, &r->timer);
    cds_list_del(&r->wary);
    if (r->set != NULL)
        r->place = r->set->set.member[0].place; /* its token */
    if (r->fresh) /* a notification came before the first look */
        cds_list_del(&r->node);
    r->fresh = false;
    r->phase = STARTED_OVER;
    leave(d, r, rc);
    d->n_pending--;
    shm_add(&e->session.slot->started, -1);
    r->result.result = rc;
    r->result.handle = rc == ENQ_OK ? place_handle(e->map, &r->place) : 0;
    r->result.token = rc == ENQ_OK ? r->place.token : 0;
    r->result.blocker = blocker;
    if (rc == ENQ_OK)
        thread_count(t, COUNT_WAIT_GRANTS);
    else if (rc == ENQ_TIMEDOUT)
        thread_count(t, COUNT_TIMEOUTS);
    if (r->set != NULL)
        end_set(e, r, rc);
    else if (rc == ENQ_OK)
        begin_hold(e, r, r->place.e);
    end_heartbeat(e, r->heartbeat, &r->place, rc);
    r->heartbeat = NULL;
    event_add(d, &r->result);
}

static int look_at_table(struct enq *e, struct thread *t, struct started *r,
    struct enq_blocker *blocker)
{
    if (r->set == NULL)
        return wait_look_started(&e->session, t, &r->place, r->deadline,
            blocker, &r->plan);
    r->set->set.t = t;
    return set_look(&r->set->set, &r->plan);
}

static int withdraw(struct enq *e, struct thread *t, struct started *r)
{
    if (r->set == NULL)
        return hold_withdraw(&e->session, t, place_handle(e->map, &r->place));
    r->set->set.t = t;
    return set_withdraw(&r->set->set);
}

static struct places places_of(struct started *r)
{
    return r->set == NULL ? places_of_one(&r->place) : set_places(&r->set->set);
}

/* It was told that it is in a cycle: the first of those to look for it. */
static void heed(struct async *d, struct started *r)
{
    if (!suspicion_told(&r->suspicion, places_of(r)) || !r->suspicion.wanted)
        return;
    cds_list_del(&r->wary);
    cds_list_add(&r->wary, &d->suspects);
}

static void look(struct enq *e, struct thread *t, struct started *r)
{
    struct async *d = &e->async;
    struct enq_blocker *blocker = calloc(1, sizeof(*blocker));
    int rc;

    pthread_mutex_unlock(&d->mutex);
    rc = look_at_table(e, t, r, blocker);
    ENQ_POINT("async.looked");
    if (rc < 0) /* it must not be granted to nobody */
        withdraw(e, t, r);
    if (rc == ENQ_OK)
        suspicion_granted(&e->session, t, places_of(r));
    pthread_mutex_lock(&d->mutex);
    if (rc == ENQ_PENDING) {
        heap_set(&d->requests, &r->timer, r->plan.again);
        glance_note(d, r, sys.now());
        stand_behind(d, r);
        heed(d, r);
        free(blocker);
        return;
    }
    if (rc == ENQ_TIMEDOUT && r->set != NULL && blocker != NULL)
        *blocker = r->set->blocker;
    if (rc != ENQ_TIMEDOUT) {
        free(blocker);
        blocker = NULL;
    }
    finish(e, t, r, rc, blocker);
}

/* Of each kind so many a round, or as many as are begun in this time, and one
   at least: others, and heartbeats, have their turn. A look for "@" may take
   milliseconds. */
#define TURN 64
#define TURN_NS NS_PER_MS

static bool turn_lasts(int left, mono_t began)
{
    return left == TURN || (left > 0 && sys.now().ns - began.ns < TURN_NS);
}

static void look_at_fresh(struct enq *e, struct thread *t)
{
    struct async *d = &e->async;
    mono_t began = sys.now();

    for (int left = TURN; !cds_list_empty(&d->fresh) && turn_lasts(left, began);
         left--) {
        struct started *r =
            cds_list_first_entry(&d->fresh, struct started, node);
        cds_list_del(&r->node);
        r->fresh = false;
        if (r->phase == STARTED_PENDING)
            look(e, t, r);
    }
}

static void look_at_due(struct enq *e, struct thread *t, mono_t now)
{
    struct async *d = &e->async;
    struct heap_node *first;
    mono_t pause = mono_add_ns(now, PAUSE_NS), began = sys.now();

    for (int left = TURN; (first = heap_first(&d->requests)) != NULL &&
         mono_reached(first->at, now) && turn_lasts(left, began);
         left--) {
        struct started *r = caa_container_of(first, struct started, timer);
        look(e, t, r);
        if (r->timer.place != 0 && mono_reached(r->timer.at, pause))
            heap_set(&d->requests, first, mono_min(r->deadline, pause));
    }
}

static mono_t first_at(const struct heap *heap)
{
    const struct heap_node *first = heap_first(heap);

    return first == NULL ? MONO_NEVER : first->at;
}

/* --- cycles --- */

/* A grant may close one: a waiter looks again each second. A look may visit a
   long queue; those of one turn take a 400th of the time, and begin before its
   2.5 ms are over. Longer than that may be the one that was last, or it was kept
   from running: then the rest is not the longer for it. */
#define WARY_MOST 256
#define WARY_REST 400
#define WARY_TURN_NS (NS_PER_S / WARY_REST)

static void look_for_cycle(struct enq *e, struct thread *t, struct started *r)
{
    struct async *d = &e->async;
    enq_handle handle = place_handle(e->map, &r->place);
    mono_t until = MONO_NEVER;
    int rc;

    pthread_mutex_unlock(&d->mutex);
    rc = suspicion_look(&r->suspicion, &e->session, t, handle, 0, &until);
    if (rc == ENQ_DEADLOCK && withdraw(e, t, r) != ENQ_OK)
        rc = ENQ_PENDING;
    pthread_mutex_lock(&d->mutex);
    cds_list_del(&r->wary);
    cds_list_add_tail(&r->wary, r->suspicion.old ? &d->suspects : &d->wary);
    if (rc == ENQ_DEADLOCK)
        finish(e, t, r, rc, NULL);
}

/* Those of a list whose time has come: they are in its order. One at least, or
   they would wait for others that take long. When to come back. */
static mono_t look_at_wary(struct enq *e, struct thread *t,
    struct cds_list_head *list, mono_t now)
{
    mono_t began = sys.now();

    for (int left = WARY_MOST; !cds_list_empty(list); left--) {
        struct started *r = cds_list_first_entry(list, struct started, wary);

        if (!mono_reached(r->suspicion.next, now))
            return r->suspicion.next;
        if (left == 0 ||
            (left < WARY_MOST && sys.now().ns - began.ns >= WARY_TURN_NS))
            return now;
        look_for_cycle(e, t, r);
    }
    return MONO_NEVER;
}

static mono_t look_for_cycles(struct enq *e, struct thread *t, mono_t now)
{
    struct async *d = &e->async;
    mono_t rested = d->wary_at, next;

    next = look_at_wary(e, t, &d->suspects, now);
    if (mono_reached(rested, now)) {
        mono_t wary = look_at_wary(e, t, &d->wary, now);
        int64_t took = sys.now().ns - now.ns;

        d->wary_at = mono_add_ns(now,
            (took < WARY_TURN_NS ? took : WARY_TURN_NS) * WARY_REST);
        next = mono_min(next, wary.ns > d->wary_at.ns ? wary : d->wary_at);
    } else if (!cds_list_empty(&d->wary)) {
        next = mono_min(next, rested);
    }
    return next;
}

/* --- notifications --- */

struct round {
    struct enq *e;
    struct thread *t;
    mono_t next; /* notices */
};

/* It was granted to a started request whose result comes first. True: and has
   not come yet. The entry has the number until then (entry_is_known()); who
   still asks rings when it has handed the request over. */
static bool is_before_its_result(struct round *round, const struct entry *entry)
{
    struct async *d = &round->e->async;
    uint32_t number = shm_load(&entry->asleep) - ASLEEP_STARTED;
    struct started *r = started_of(d, entry);

    if (r != NULL)
        look(round->e, round->t, r);
    return number < d->n_started && d->started[number]->phase == STARTED_ASKING;
}

/* When a scan had to stop: the deadlines of the rest are not known. */
#define REST_NS (50 * NS_PER_MS)

/* Takes what events a held lock has, as far as there is room for them. */
static bool take_events(void *context, struct entry *entry, uint64_t state)
{
    struct round *round = context;
    struct enq *e = round->e;
    struct lock_event n;

    if (shm_load(&entry->session) != e->session.ref ||
        STATE_PHASE(state) == PHASE_WAITING) /* it has none */
        return true;
    if (is_before_its_result(round, entry)) {
        e->async.lock_events_due = true;
        return true;
    }
    /* One that waits has no event; nor has one that was granted since: we are
       called for that, and its result comes first. */
    if (started_of(&e->async, entry) != NULL ||
        (STATE_PHASE(state) != PHASE_HELD && STATE_PHASE(state) != PHASE_GONE))
        return true;
    do {
        if (!event_has_room(&e->async)) {
            e->async.lock_events_due = true;
            round->next =
                mono_min(round->next, mono_add_ns(sys.now(), REST_NS));
            return false;
        }
        pthread_mutex_unlock(&e->async.mutex);
        lock_event_take(&e->session, round->t, entry, STATE_GENERATION(state),
            &n, &round->next);
        pthread_mutex_lock(&e->async.mutex);
        if (n.kind != LOCK_EVENT_NONE)
            event_add_of_lock(&e->async, &n);
    } while (n.kind != LOCK_EVENT_NONE);
    return true;
}

static void answer_notification(struct round *round, ref_t ref)
{
    struct enq *e = round->e;
    struct entry *entry;
    struct started *r;
    uint64_t state;

    if (ref == NOTIFICATION_ALL)
        e->async.all = e->async.lock_events_due = true;
    if (ref == NOTIFICATION_NEIGHBOUR)
        e->before = 0;
    if (!entry_read(e->map, ref, &entry, &state))
        return;
    r = started_of(&e->async, entry);
    if (r != NULL)
        look(e, round->t, r);
    /* of a lock that was granted just now, too: others may wait for it */
    if ((r == NULL || r->phase != STARTED_PENDING) && e->async.listens)
        take_events(round, entry, state);
}

/* When to come back for the rest. */
static mono_t answer_notifications(struct round *round, mono_t now)
{
    struct async *d = &round->e->async;
    mono_t began = sys.now();
    ref_t ref;

    for (int left = TURN; turn_lasts(left, began); left--) {
        switch (notification_take(round->e->session.slot, &d->seen, &ref)) {
        case NOTIFICATION_ONE:
            answer_notification(round, ref);
            break;
        case NOTIFICATION_LOST:
            d->all = d->lock_events_due = true;
            round->e->before = 0;
            break;
        case NOTIFICATION_NONE:
            return MONO_NEVER;
        }
    }
    return now;
}

/* --- a round --- */

static bool greet(void *context, struct entry *entry, uint64_t state)
{
    struct round *round = context;

    lock_event_greet(&round->e->session, round->t, entry, state);
    return true;
}

static mono_t take_all_events(struct session *s, void *context)
{
    struct round *round = context;

    if (!round->e->async.greeted)
        lock_event_each(s, greet, round);
    round->e->async.greeted = true;
    /* the walk would come upon no room, behind all that wait */
    if (!event_has_room(&round->e->async)) {
        round->e->async.lock_events_due = true;
        return mono_add_ns(sys.now(), REST_NS);
    }
    round->next = MONO_NEVER;
    round->e->async.lock_events_due = false;
    lock_event_each(&round->e->session, take_events, round);
    return round->next;
}

/* What is true of deadlines is for all sessions; see store/watch.h. */
static mono_t watch(struct round *round, mono_t now)
{
    struct enq *e = round->e;

    if (e->async.lock_events_due)
        watch_lower(&e->session, 0);
    if (!e->async.listens) {
        e->async.lock_events_due = false;
        return watch_round(&e->session, now, NULL, NULL);
    }
    return watch_round(&e->session, now, take_all_events, round);
}

mono_t async_round(struct enq *e, struct thread *t, bool all)
{
    struct round round = {e, t, MONO_NEVER};
    mono_t now = sys.now(), next = MONO_NEVER;

    if (shm_load(&e->session.slot->state) == SESSION_ENDING) {
        /* another thread is closing it: no notification will be answered any
           more, so that the helper must not sleep on their number */
        e->async.called = false;
        e->async.deaf = true;
        return MONO_NEVER;
    }
    pthread_mutex_lock(&e->async.mutex);
    e->async.all |= all;
    heartbeat_due(e, t, now);
    next = answer_notifications(&round, now);
    look_at_due(e, t, now);
    glance(e, now);
    look_at_fresh(e, t);
    /* behind all looks: each may find that it was told of a cycle (heed()) */
    next = mono_min(next, look_for_cycles(e, t, now));
    if (!mono_is_never(round.next))
        watch_lower(&e->session, round.next.ns);
    next = mono_min(next, watch(&round, now));
    /* last: every look says when the next one is due, and may be the end of one
       that another stood behind; and a grant begins a heartbeat */
    if (!cds_list_empty(&e->async.fresh))
        next = now;
    next = mono_min(next, first_at(&e->async.requests));
    next = mono_min(next, first_at(&e->async.heartbeats_due));
    next = mono_min(next, glance_due(&e->async));
    e->async.called = e->async.n_pending > 0 || e->async.listens;
    pthread_mutex_unlock(&e->async.mutex);
    return next;
}
