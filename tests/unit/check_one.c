/*
 * check_one.c - one lock, looked at by its handle.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

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

static int hold_and_die(void *grant)
{
    struct enq *e = unit_open();

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_E, .owner = "A",
                .on_death = ENQ_DEATH_KEEP),
            grant));
    kill(getpid(), SIGKILL);
    return 0;
}

TEST(a_lock_whose_process_is_dead_is_looked_at_as_an_orphan)
{
    struct enq *e = unit_open();
    struct enq_grant *g = unit_shared(sizeof(*g));
    struct enq_info info;

    unit_killed(unit_fork(hold_and_die, g));
    want(ENQ_OK, enq_look(e, g->handle, &info));
    ck_assert_int_eq(info.orphaned, 1);
    ck_assert_int_eq(info.pid, 0);
    enq_close(e);
}

int main(void)
{
    unit_begin("one");
    ADD(one_lock_is_looked_at_by_its_handle_while_it_is_there);
    ADD(a_lock_whose_process_is_dead_is_looked_at_as_an_orphan);
    return unit_end();
}
