/*
 * check_abandon.c - locks that go on without their holder, while it lives.
 */
#include <errno.h>
#include <unistd.h>

#include "api/attachment.h"
#include "lock/hold.h"
#include "peer.h"

static enq_handle kept_by(struct enq *e, enum enq_death death)
{
    struct enq_req req = leased("a", NULL);
    struct enq_grant g;

    req.on_death = death;
    req.id = "kept";
    want(ENQ_OK, enq_lock(e, &req, &g));
    return g.handle;
}

TEST(what_is_abandoned_is_an_orphan_that_another_adopts)
{
    struct enq *e = unit_open(), *other = unit_open();
    enq_handle handle = kept_by(e, _i == 0 ? ENQ_DEATH_LEASE : ENQ_DEATH_KEEP);
    struct enq_grant g;

    want(ENQ_REFUSED, enq_adopt(other, "kept", &g));
    want(ENQ_OK, enq_abandon(e, handle, 0));
    ck_assert_uint_eq(listed(other).orphaned, 1);
    ck_assert_int_eq(listed(other).pid, 0);
    ck_assert((listed(other).ttl_left_ms == ENQ_FOREVER) == (_i == 1));
    want(ENQ_REFUSED, enq_abandon(e, handle, 0));
    memset(&g, 0xa5, sizeof(g)); /* what is not stored is no zero */
    want(ENQ_OK, enq_adopt(other, "kept", &g));
    ck_assert_str_eq(g.blocker.owner, "");
    ck_assert_uint_eq(listed(other).orphaned, 0);
    want(ENQ_OK, enq_unlock(other, g.handle, g.token));
    enq_close(other);
    enq_close(e);
}

TEST(what_is_abandoned_outlives_its_process_and_keeps_others_out)
{
    struct enq *e = unit_open(), *other = unit_open();
    enq_handle handle = kept_by(e, ENQ_DEATH_KEEP);
    struct enq_req req = leased("a", NULL);
    struct enq_grant g;

    want(ENQ_OK, enq_abandon(e, handle, 0));
    enq_close(e);
    want(ENQ_BUSY, enq_lock(other, &req, &g));
    want(ENQ_OK, enq_break(other, "kept"));
    want(ENQ_OK, enq_lock(other, &req, &g));
    enq_close(other);
}

TEST(only_a_lock_of_ones_own_that_may_stay_is_abandoned)
{
    struct enq *e = unit_open(), *other = unit_open();
    enq_handle handle = kept_by(e, ENQ_DEATH_KEEP);
    struct enq_req req = leased("b", NULL);
    struct enq_grant g;

    want_why(ENQ_REFUSED, enq_abandon(other, handle, 0), "only a LEASE");
    want(ENQ_NOTHELD, enq_abandon(e, handle, 1));
    req.on_death = ENQ_DEATH_RELEASE;
    want(ENQ_OK, enq_lock(e, &req, &g));
    want(ENQ_REFUSED, enq_abandon(e, g.handle, g.token));
    want(ENQ_OK, enq_unlock(e, handle, 0));
    enq_close(other);
    enq_close(e);
}

/* Else a session that is over would come back with the next bridge. */
TEST(what_is_abandoned_is_not_inherited)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_req req = leased("a", NULL);
    struct enq_info info;
    struct enq_grant g;
    size_t got;

    req.id = "kept";
    req.peer = "10.0.0.1";
    want(ENQ_OK, enq_lock(e, &req, &g));
    want(ENQ_OK, enq_abandon(e, g.handle, g.token));
    want(ENQ_OK, enq_inherit(other, &info, 1, &got));
    ck_assert_uint_eq(got, 0);
    ck_assert_uint_eq(listed(other).orphaned, 1);
    enq_close(e);
    want(ENQ_OK, enq_inherit(other, &info, 1, &got));
    ck_assert_uint_eq(got, 0);
    want(ENQ_OK, enq_adopt(other, "kept", &g));
    enq_close(other);
}

static int adopts_and_dies(void *unused)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    (void)unused;
    want(ENQ_OK, enq_adopt(e, "kept", &g));
    _exit(0);
}

/* Else whom it was held for would have it again with the next bridge. */
TEST(what_was_adopted_is_held_for_nobody_else)
{
    struct enq *e = unit_open();
    struct enq_req req = leased("a", "10.0.0.1");
    struct enq_info info;
    struct enq_grant g;
    size_t got;

    req.id = "kept";
    req.delay_ms = 5;
    want(ENQ_OK, enq_lock(e, &req, &g));
    want(ENQ_OK, enq_abandon(e, g.handle, g.token));
    ck_assert_str_eq(listed(e).peer, "10.0.0.1");
    unit_join(unit_fork(adopts_and_dies, NULL));
    eventually(listed(e).orphaned == 1);
    ck_assert_str_eq(listed(e).peer, "");
    ck_assert_str_eq(listed(e).id, "kept");
    want(ENQ_OK, enq_inherit(e, &info, 1, &got));
    ck_assert_uint_eq(got, 0);
    want(ENQ_OK, enq_adopt(e, "kept", &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    enq_close(e);
}

/* Another process may be sweeping: it sees that the word is not what it was. */
TEST(when_the_first_abandoned_lock_runs_out_is_noted_and_never_the_same)
{
    struct enq *e = unit_open();
    int64_t *due = &e->map->h->leases_due_ns;

    shm_store(due, 0);
    hold_note_lease(e->map, 1000);
    ck_assert_int_eq(shm_load(due), 1000);
    hold_note_lease(e->map, 400);
    ck_assert_int_eq(shm_load(due), 400);
    hold_note_lease(e->map, 400);
    ck_assert_int_eq(shm_load(due), 399);
    hold_note_lease(e->map, 2000);
    ck_assert_int_eq(shm_load(due), 398);
    shm_store(due, -1);
    hold_note_lease(e->map, 2000);
    ck_assert_int_eq(shm_load(due), 2000);
    enq_close(e);
}

int main(void)
{
    unit_begin("abandon");
    ADD_LOOP(what_is_abandoned_is_an_orphan_that_another_adopts, 2);
    ADD(what_is_abandoned_outlives_its_process_and_keeps_others_out);
    ADD(only_a_lock_of_ones_own_that_may_stay_is_abandoned);
    ADD(what_is_abandoned_is_not_inherited);
    ADD(what_was_adopted_is_held_for_nobody_else);
    ADD(when_the_first_abandoned_lock_runs_out_is_noted_and_never_the_same);
    return unit_end();
}
