/*
 * helper.c - async: the library's one thread in a process.
 */
#include "async/helper.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "async/bell.h"
#include "async/glance.h"
#include "async/heartbeat.h"
#include "base/spawn.h"
#include "base/visit.h"
#include "base/why.h"
#include "lock/hold_end.h"
#include "recovery/reap.h"
#include "store/notify.h"
#include "sync/life.h"
#include "wait/lock_event.h"
#include "wait/wait.h"

/* One helper of each table makes a round each second: the first in the ring of
   sessions. The others are woken by what happens, and make one in case that the
   first is stopped. */
#define ROUND_NS sys_look_every(NS_PER_S)
#define RARE_ROUND_NS sys_look_every(30 * NS_PER_S)
#define STACK_BYTES (128 * 1024)

/* A session's life mutex and a slot's for each map: together no more than the
   2,048 robust mutexes of a thread that the kernel looks at when it dies. */
#define ATTACHMENTS_MAX 1000

enum order_kind { ORDER_BEGIN, ORDER_END };

struct helper_order {
    enum order_kind kind;
    struct enq *e;
    int rc;
    char text[WHY_BYTES];
    bool done;
};

/* Private to the process; `mutex` guards all of it. The helper carries orders
   out under it: a thread that opens or closes an attachment waits for that. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct helper_order *order;
    bool running;
    struct cds_list_head attachments;
    unsigned n;
} helper = {
    .mutex = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
    .attachments = CDS_LIST_HEAD_INIT(helper.attachments),
};

void helper_forget(void)
{
    pthread_mutex_init(&helper.mutex, NULL);
    pthread_cond_init(&helper.changed, NULL);
    CDS_INIT_LIST_HEAD(&helper.attachments);
    helper.order = NULL;
    helper.running = false;
    helper.n = 0;
}

/* --- in the helper thread --- */

static void leave_unused(struct map *map)
{
    struct enq *e;

    cds_list_for_each_entry (e, &helper.attachments, node)
        if (e->map == map)
            return;
    thread_kept_by(map, 0);
    thread_leave(map);
}

static int do_begin(struct enq *e)
{
    struct thread *t;
    int rc;

    if (helper.n >= ATTACHMENTS_MAX)
        return why(-EAGAIN, "a process can have at most %u attachments",
            ATTACHMENTS_MAX);
    t = thread_enter(e->map);
    if (t == NULL)
        return thread_refusal;
    thread_kept_by(e->map, t->ref);
    rc = session_begin(&e->session, t, e->map);
    if (rc != 0) {
        leave_unused(e->map);
        return rc;
    }
    e->async.seen = shm_load(&e->session.slot->notifications);
    e->wanted = shm_load(&e->map->h->wanted);
    cds_list_add(&e->node, &helper.attachments);
    return 0;
}

static int do_end(struct enq *e)
{
    struct thread *t = thread_enter(e->map); /* it has a slot: do_begin() */

    /* unless the thread that closes has done so: it may have no slot */
    if (t != NULL && shm_load(&e->session.slot->state) != SESSION_ENDING)
        retire(&e->session, t);
    cds_list_del(&e->node);
    lock_event_unlisten(&e->session);
    session_end(&e->session);
    leave_unused(e->map);
    return 0;
}

static void carry_out(struct helper_order *order)
{
    order->rc =
        order->kind == ORDER_BEGIN ? do_begin(order->e) : do_end(order->e);
    if (order->rc != 0)
        why_copy(order->text, sizeof(order->text), enq_why());
    helper.n += order->kind == ORDER_BEGIN ? order->rc == 0 : -1u;
    order->done = true;
    helper.order = NULL;
    pthread_cond_broadcast(&helper.changed);
}

/* Orders come one at a time and change the list only here, so that a round
   may walk it without the mutex. */
static bool next_order(void)
{
    bool stay;

    pthread_mutex_lock(&helper.mutex);
    if (helper.order != NULL)
        carry_out(helper.order);
    stay = helper.n > 0 || helper.order != NULL;
    if (!stay) {
        helper.running = false;
        pthread_cond_broadcast(&helper.changed);
    }
    pthread_mutex_unlock(&helper.mutex);
    return stay;
}

/* A process that removes the name raises the flag first. If the file has its
   name a whole round later, that process has failed, or died in between. */
static void look_at_name(struct enq *e)
{
    int links = map_links(e->map);
    bool said = shm_load(&e->map->h->unlinked) != 0;

    if (links == 0 && !said)
        shm_store(&e->map->h->unlinked, 1);
    else if (links > 0 && said && e->doubted)
        shm_store(&e->map->h->unlinked, 0);
    e->doubted = links > 0 && said && !e->doubted;
}

static void look_after(struct enq *e)
{
    struct thread *t;

    e->cut = map_check_whole(e->map) != 0;
    if (e->cut)
        return; /* under us: touching it would kill the process */
    t = thread_enter(e->map);
    if (t != NULL) {
        reap_dead(&e->session, t);
        hold_sweep(&e->session, t);
    }
    look_at_name(e);
}

static void make_round(void)
{
    struct enq *e;

    cds_list_for_each_entry (e, &helper.attachments, node)
        look_after(e);
}

/* Private to the helper. */
struct rounds {
    mono_t last;
    bool first; /* in the ring of some table, as far as is known */
    int64_t suspended_ns;
};

/* Not all at once, though all may have begun so. */
static mono_t round_due(const struct rounds *r)
{
    const int64_t spread_ns = getpid() % 1024 * (10 * NS_PER_MS);

    return mono_add_ns(r->last,
        r->first ? ROUND_NS : RARE_ROUND_NS + spread_ns);
}

/* Who sleeps for long does so by a clock that stood meanwhile. The first finds
   out within a second; the clocks are not read at the same moment. */
#define SUSPEND_LEAST_NS (NS_PER_S / 2)

static void wake_after_suspend(struct rounds *r)
{
    int64_t ns = sys_suspended_ns();
    bool was_asleep = ns - r->suspended_ns > SUSPEND_LEAST_NS;
    struct enq *e;

    r->suspended_ns = ns;
    if (!was_asleep || !r->first)
        return;
    cds_list_for_each_entry (e, &helper.attachments, node)
        if (!e->cut)
            session_wake_all(e->map);
}

/* A round is made when it is time, and when a death was reported; not for each
   order, or opening thousands of attachments would take for ever. */
static void round_if_due(struct rounds *r)
{
    mono_t now = sys.now();

    if (!shm_swap(&helper_bell.death, 0) && !mono_reached(round_due(r), now))
        return;
    make_round();
    wake_after_suspend(r);
    r->last = now;
}

/* A session has looked for room in vain: gives back what none here uses. */
static void give_room(void)
{
    struct enq *e;

    cds_list_for_each_entry (e, &helper.attachments, node) {
        uint32_t wanted = e->cut ? e->wanted : shm_load(&e->map->h->wanted);

        if (wanted == e->wanted)
            continue;
        e->wanted = wanted;
        if (map_check_whole(e->map) == 0)
            slab_shed(&e->session);
    }
}

/* Of all sessions, whoever searches. */
static void beat(void)
{
    struct enq *e;

    cds_list_for_each_entry (e, &helper.attachments, node) {
        struct thread *t = e->cut ? NULL : thread_enter(e->map);

        if (t == NULL)
            continue;
        pthread_mutex_lock(&e->async.mutex);
        heartbeat_due(e, t, sys.now());
        pthread_mutex_unlock(&e->async.mutex);
    }
}

/* What time brings next, for any session. Where a test turns the time,
   each reader of it reads the clock. */
static mono_t look_at_all_async(bool death)
{
    mono_t next = MONO_NEVER;
    struct enq *e;

    if (!sys_is_real())
        return next;
    cds_list_for_each_entry (e, &helper.attachments, node) {
        struct thread *t = e->cut ? NULL : thread_enter(e->map);

        if (t == NULL)
            continue;
        t->breathe = beat;
        next = mono_min(next, async_round(e, t, death));
    }
    return next;
}

/* --- asleep --- */

struct bed {
    struct sys_watch watches[SYS_WATCHES_MAX];
    unsigned n, lives; /* the first of the liveness words */
    unsigned wants;    /* and what comes behind them */
    bool dead;         /* one is dead already, and not reaped yet */
    bool unheard;      /* a session's notifications are not watched */
    bool full;         /* not all notifications are watched: a tick must do */
};

/* What a session is called by: one that waits, or listens; any, if another has
   shortened the ttl of a lock of its (hold_renew()). */
static void watch_notifications(struct bed *bed)
{
    struct enq *e;

    cds_list_for_each_entry (e, &helper.attachments, node) {
        if (e->async.deaf || e->cut || !(e->async.called || sys_has_waitv()))
            continue;
        bed->unheard |= bed->n == SYS_WATCHES_MAX;
        bed->full |= bed->unheard && e->async.called;
        if (!bed->unheard)
            bed->watches[bed->n++] =
                notification_watch(e->session.slot, e->async.seen);
    }
}

/* Where there is no room, or no futex_waitv(2), it looks each second itself. */
static bool watch_before(struct bed *bed)
{
    bool first = false;
    struct enq *e;

    if (!sys_has_waitv())
        return true;
    cds_list_for_each_entry (e, &helper.attachments, node) {
        struct sys_watch *watch = &bed->watches[bed->n];

        if (e->cut)
            continue;
        if (bed->n == SYS_WATCHES_MAX)
            return true;
        first |= !session_watch_before(e->map, e->session.ref, &e->before,
            watch, &bed->dead);
        bed->n += e->before != 0;
    }
    return first;
}

/* As far as there is room: else it is seen each second. One word of each
   space. */
static void watch_wants(struct bed *bed)
{
    struct enq *e;

    bed->wants = bed->n;
    if (!sys_has_waitv())
        return; /* no slices for that */
    cds_list_for_each_entry (e, &helper.attachments, node) {
        const uint32_t *word = &e->map->h->wanted;
        unsigned i = bed->wants;

        if (e->cut || bed->n == SYS_WATCHES_MAX)
            continue;
        while (i < bed->n && bed->watches[i].word != word)
            i++;
        if (i == bed->n)
            bed->watches[bed->n++] = (struct sys_watch){word, e->wanted};
    }
}

static void note_deaths(const struct bed *bed)
{
    if (bed->dead)
        shm_store(&helper_bell.death, 1);
    for (unsigned i = bed->lives; i < bed->wants; i++) {
        const uint32_t *word = bed->watches[i].word;

        if (!liveness_is_dead(shm_load(word)))
            continue;
        sys.wake(word, INT_MAX); /* the kernel woke one of the watchers */
        shm_store(&helper_bell.death, 1);
    }
}

/* How soon a session that cannot be reaped yet is tried again; then less and
   less often. */
#define REAP_AGAIN_NS NS_PER_MS

static mono_t reap_again(const struct bed *bed, mono_t next)
{
    static int64_t pause_ns; /* the helper's own */

    if (!bed->dead) {
        pause_ns = REAP_AGAIN_NS;
        return next;
    }
    pause_ns = pause_ns * 2 < ROUND_NS ? pause_ns * 2 : ROUND_NS;
    return mono_min(next, mono_add_ns(sys.now(), pause_ns));
}

static void go_to_sleep(uint32_t heard, mono_t next, struct rounds *rounds)
{
    struct bed bed = {.watches = {{&helper_bell.rings, heard}}, .n = 1};
    struct enq *e;

    watch_notifications(&bed);
    bed.lives = bed.n;
    rounds->first = watch_before(&bed) || bed.unheard;
    next = mono_min(next, round_due(rounds));
    cds_list_for_each_entry (e, &helper.attachments, node) {
        bed.dead |= shm_load(&e->map->dying);
        if (!e->async.deaf && !e->cut)
            bed.n += glance_watch_lives(e, &bed.watches[bed.n],
                SYS_WATCHES_MAX - bed.n, &bed.dead);
    }
    watch_wants(&bed);
    next = reap_again(&bed, next);
    if (bed.full)
        sys.wait(bed.watches, bed.n, next);
    else
        sys.sleep(bed.watches, bed.n, next);
    note_deaths(&bed);
    cds_list_for_each_entry (e, &helper.attachments, node)
        if (!e->async.deaf && !e->cut)
            notification_watched(e->session.slot);
}

static void *helper_main(void *nothing)
{
    struct rounds rounds = {.first = true, .suspended_ns = sys_suspended_ns()};
    mono_t next;

    /* not by pthread_setname_np(), from outside: that opens a file in /proc,
       which makes the end of the process 10 times as slow */
    prctl(PR_SET_NAME, "enq-helper");
    visit_by_helper();
    for (;;) {
        uint32_t heard = shm_load_acquire(&helper_bell.rings);

        if (!next_order())
            return nothing;
        /* the waiters first: reaping a session may take long */
        if (shm_load(&helper_bell.death))
            look_at_all_async(true);
        give_room();
        round_if_due(&rounds);
        /* Awake: a thread that lowers a deadline now must ring, and the bell is
           heard before we sleep. Partner: helper_watch_slow(). */
        shm_store_fence(&helper_bell.wakes_ns, INT64_MAX);
        next = look_at_all_async(false);
        shm_store(&helper_bell.wakes_ns, next.ns);
        go_to_sleep(heard, next, &rounds);
    }
}

/* --- in the application's threads --- */

static int start_thread(void)
{
    int rc;

    rc = spawn_thread(NULL, STACK_BYTES, helper_main, NULL);
    if (rc != 0)
        return why(-rc, "cannot start the helper thread: %s", strerror(rc));
    helper.running = true;
    return 0;
}

static int give_order(struct helper_order *order)
{
    int rc = 0, cancel;

    /* the order is on our stack: we must be here when it is carried out */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&helper.mutex);
    while (helper.order != NULL)
        pthread_cond_wait(&helper.changed, &helper.mutex);
    helper.order = order;
    if (!helper.running)
        rc = start_thread();
    if (rc != 0) {
        helper.order = NULL;
        pthread_cond_broadcast(&helper.changed);
    }
    helper_ring();
    while (rc == 0 && !order->done)
        pthread_cond_wait(&helper.changed, &helper.mutex);
    pthread_mutex_unlock(&helper.mutex);
    pthread_setcancelstate(cancel, NULL);
    return rc != 0 ? rc : order->rc;
}

int helper_begin(struct enq *e)
{
    struct helper_order order = {.kind = ORDER_BEGIN, .e = e};
    int rc = give_order(&order);

    return rc != 0 && order.text[0] != '\0' ? why(rc, "%s", order.text) : rc;
}

void helper_end(struct enq *e)
{
    struct helper_order order = {.kind = ORDER_END, .e = e};

    give_order(&order);
}
