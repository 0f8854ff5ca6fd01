/*
 * check_one.c - one lock, looked at by its handle.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/atomic.h"
#include "unit.h"

TEST(one_lock_is_looked_at_by_its_handle_while_it_is_there)
{
    struct enq *e = unit_open();
    struct enq_info one, listed;
    struct enq_grant g, other;

    want(ENQ_OK, unit_lock(e, "n", "other", ENQ_MODE_E, &other));
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"x"}, .mode = ENQ_MODE_E,
                .owner = "A"),
            &g));
    want(ENQ_OK, enq_list(e, NULL, "A", &listed, 1, NULL));
    want(ENQ_OK, enq_look(e, g.handle, &one));
    ck_assert_uint_eq(one.handle, g.handle);
    ck_assert_uint_eq(one.token, g.token);
    ck_assert_str_eq(one.key, "x");
    ck_assert_str_eq(one.owner, listed.owner);
    ck_assert_str_eq(one.id, listed.id);
    ck_assert_int_eq(one.pid, getpid());
    want_why(-EINVAL, enq_look(e, g.handle, NULL), "NULL");
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    want_why(ENQ_NOTHELD, enq_look(e, g.handle, &one), "no lock");
    want(ENQ_NOTHELD, enq_look(e, 0, &one));
    want(ENQ_NOTHELD, enq_look(e, UINT64_MAX, &one));
    enq_close(e);
}

struct scene {
    uint32_t ready;
    struct enq_grant g;
};

static int holds(void *scene)
{
    struct scene *s = scene;
    struct enq *e = unit_open();

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_E, .owner = "A",
                .on_death = ENQ_DEATH_KEEP),
            &s->g));
    unit_stay(&s->ready);
}

static int stands_behind(void *scene)
{
    struct scene *s = scene;

    unit_open();
    unit_stay(&s->ready);
}

static pid_t begins(int (*f)(void *), struct scene *s)
{
    pid_t pid;

    shm_store(&s->ready, 0);
    pid = unit_fork(f, s);
    eventually(shm_load(&s->ready) != 0);
    return pid;
}

/* The one that would be told of the death, and bury it, is stopped. */
TEST(a_lock_whose_process_is_dead_is_looked_at_as_an_orphan)
{
    struct scene *s = unit_shared(sizeof(*s));
    struct enq_info info;
    pid_t holder, next;
    struct enq *e;

    setenv("ENQ_TICK_MS", "600000", 1);
    e = unit_open();
    holder = begins(holds, s);
    next = begins(stands_behind, s);
    unit_stop(next);
    unit_kill(holder);
    want(ENQ_OK, enq_look(e, s->g.handle, &info));
    ck_assert_int_eq(info.orphaned, 1);
    ck_assert_int_eq(info.pid, 0);
    unit_kill(next);
    enq_close(e);
}

int main(void)
{
    unit_begin("one");
    ADD(one_lock_is_looked_at_by_its_handle_while_it_is_there);
    ADD(a_lock_whose_process_is_dead_is_looked_at_as_an_orphan);
    return unit_end();
}
