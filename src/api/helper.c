/*
 * helper.c - floor 5: the library's one thread in a process.
 */
#include "api/helper.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "sync/life.h"
#include "table/heal.h"
#include "table/wait.h"

#define ROUND_NS NS_PER_S
#define STACK_BYTES (128 * 1024)

enum order_kind { ORDER_BEGIN, ORDER_END };

struct order {
    enum order_kind kind;
    struct enq *e;
    int rc;
    char text[512];
    bool done;
};

/* Private to the process; `mutex` guards all of it. Nothing is waited for
   under it but orders, which the helper carries out without it. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct order *order;
    bool running;
    struct cds_list_head attachments;
    unsigned n;
    uint32_t bell;  /* futex: rung to get the helper's attention */
    uint32_t death; /* somebody met a dead session */
} helper = {
    .mutex = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
    .attachments = CDS_LIST_HEAD_INIT(helper.attachments),
};

static void ring_bell(void)
{
    shm_add(&helper.bell, 1);
    sys.wake(&helper.bell, 1);
}

static void report_death(struct session *s)
{
    (void)s;
    shm_store(&helper.death, 1);
    ring_bell();
}

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

static int do_begin(struct enq *e)
{
    struct thread *t = thread_enter(e->map);
    int rc = t == NULL ? -EAGAIN : session_begin(&e->session, t, e->map);

    if (rc == 0)
        cds_list_add(&e->node, &helper.attachments);
    return rc;
}

static bool map_in_use(const struct map *map)
{
    struct enq *e;

    cds_list_for_each_entry(e, &helper.attachments,
        node) if (e->map == map) return true;
    return false;
}

static int do_end(struct enq *e)
{
    cds_list_del(&e->node);
    session_end(&e->session);
    if (!map_in_use(e->map))
        thread_leave(e->map);
    return 0;
}

static void carry_out(struct order *order)
{
    order->rc =
        order->kind == ORDER_BEGIN ? do_begin(order->e) : do_end(order->e);
    if (order->rc != 0)
        strncpy(order->text, enq_why(), sizeof(order->text) - 1);
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

static void make_round(void)
{
    struct enq *e;

    cds_list_for_each_entry(e, &helper.attachments, node)
    {
        struct thread *t = thread_enter(e->map);

        if (t != NULL)
            bury_dead(&e->session, t);
        if (map_unlinked(e->map))
            shm_store(&e->map->h->unlinked, 1);
    }
}

/* A round is due each second, and when a death was reported; not for each
   order, or opening thousands of attachments would take for ever. */
static mono_t round_if_due(mono_t next)
{
    mono_t now = sys.now();

    if (!shm_swap(&helper.death, 0) && !mono_reached(next, now))
        return next;
    make_round();
    return mono_add_ns(now, ROUND_NS);
}

static void *helper_main(void *nothing)
{
    mono_t next = {0};

    for (;;) {
        uint32_t heard = shm_load_acquire(&helper.bell);
        struct sys_watch bell = {&helper.bell, heard};

        if (!next_order())
            return nothing;
        next = round_if_due(next);
        sys.sleep(&bell, next);
    }
}

/* --- in the application's threads --- */

/* Signals are for the application's threads. */
static int start_thread(void)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    int rc;

    shm_store(&wait_report_death, report_death);
    shm_store(&thread_drop_magazines, slab_thread_ends);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    rc = pthread_create(&thread, &attr, helper_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0)
        return why(-rc, "cannot start the helper thread: %s", strerror(rc));
    pthread_setname_np(thread, "enq-helper");
    helper.running = true;
    return 0;
}

static int give_order(struct order *order)
{
    int rc = 0;

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
    ring_bell();
    while (rc == 0 && !order->done)
        pthread_cond_wait(&helper.changed, &helper.mutex);
    pthread_mutex_unlock(&helper.mutex);
    return rc != 0 ? rc : order->rc;
}

int helper_begin(struct enq *e)
{
    struct order order = {.kind = ORDER_BEGIN, .e = e};
    int rc = give_order(&order);

    return rc != 0 && order.text[0] != '\0' ? why(rc, "%s", order.text) : rc;
}

void helper_end(struct enq *e)
{
    struct order order = {.kind = ORDER_END, .e = e};

    give_order(&order);
}
