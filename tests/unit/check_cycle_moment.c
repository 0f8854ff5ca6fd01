/*
 * check_cycle_moment.c - a cycle is found in the moments in which others are just
 * coming or just leaving.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/point.h"
#include "told.h"

static int asks(struct enq *e, const char *owner, const char *field,
    int64_t wait_ms, struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X, .owner = owner,
            .wait_ms = wait_ms),
        g);
}

/* A wants what B holds, in a thread of its own. */
struct asker {
    struct enq *e;
    pthread_t thread;
    struct enq_grant g;
    int rc;
};

static void *ask_as_a(void *asker)
{
    struct asker *a = asker;

    a->rc = asks(a->e, "A", "b", 60000, &a->g);
    return NULL;
}

static void begins(struct asker *a, struct enq *e)
{
    a->e = e;
    ck_assert_int_eq(pthread_create(&a->thread, NULL, ask_as_a, a), 0);
}

static void ends(struct asker *a)
{
    pthread_join(a->thread, NULL);
    want(ENQ_OK, a->rc);
    want(ENQ_OK, enq_unlock(a->e, a->g.handle, a->g.token));
}

/* Those who are in the queue of n/b; who is awake still looks around there. */
static unsigned asleep_for_b(struct enq *e)
{
    struct enq_info all[4];
    size_t total;
    unsigned n = 0;
    uint64_t state;

    want(ENQ_OK, enq_list(e, "n", "A", all, LENGTH(all), &total));
    for (size_t i = 0; i < total; i++)
        n += entry_sleeps(entry_of_handle(e->map, all[i].handle, &state)) ==
            ASLEEP_THREAD;
    return n;
}

/* What another process of A's waits for goes with it; its session is over, and
   nobody has taken its request out of the queue yet: without ticks, and with no
   bypass window that ends, nobody who sleeps looks meanwhile. */
TEST(a_waiter_whose_session_is_over_hides_no_cycle)
{
    struct enq_open_opts strict = {.size = sizeof(strict), .strict = 1};
    struct enq *e, *over;
    struct asker first = {0}, second = {0};
    struct enq_grant a, b, g;
    uint32_t state;

    setenv("ENQ_TICK_MS", "600000", 1);
    e = unit_open_with(&strict);
    over = unit_open_with(&strict);
    state = shm_load(&over->session.slot->state);
    want(ENQ_OK, asks(e, "A", "a", 0, &a));
    want(ENQ_OK, asks(e, "B", "b", 0, &b));
    begins(&first, _i == 0 ? over : e);
    eventually(asleep_for_b(e) == 1);
    begins(&second, _i == 0 ? e : over);
    eventually(asleep_for_b(e) == 2);
    shm_store(&over->session.slot->state, SESSION_ENDING);
    want(ENQ_DEADLOCK, asks(e, "B", "a", 3000, &g));
    shm_store(&over->session.slot->state, state);
    want(ENQ_OK, enq_unlock(e, b.handle, b.token));
    ends(&first);
    ends(&second);
    unit_healthy(e);
    enq_close(over);
    enq_close(e);
}

#ifdef ENQ_POINTS
static uint32_t stands, may_go;

static void stand(const struct point *p)
{
    if (strcmp(p->name, "wait.begun") != 0 || shm_swap(&stands, 1) != 0)
        return; /* the other one goes on */
    while (shm_load_acquire(&may_go) == 0)
        usleep(100);
}

TEST(the_last_of_a_cycle_sees_one_that_has_not_looked_yet)
{
    struct enq *e = unit_open();
    struct asker preempted = {0};
    struct enq_grant a, b, g;

    want(ENQ_OK, asks(e, "A", "a", 0, &a));
    want(ENQ_OK, asks(e, "B", "b", 0, &b));
    point_hook = stand;
    begins(&preempted, e);
    eventually(shm_load_acquire(&stands) != 0);
    want(ENQ_DEADLOCK, asks(e, "B", "a", 3000, &g));
    want(ENQ_OK, enq_unlock(e, b.handle, b.token));
    shm_store_release(&may_go, 1);
    ends(&preempted);
    point_hook = NULL;
    unit_healthy(e);
    enq_close(e);
}
#endif

int main(void)
{
    unit_begin("cycle_moment");
    ADD_LOOP(a_waiter_whose_session_is_over_hides_no_cycle, 2);
#ifdef ENQ_POINTS
    ADD(the_last_of_a_cycle_sees_one_that_has_not_looked_yet);
#endif
    return unit_end();
}
