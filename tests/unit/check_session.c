/*
 * check_session.c - sessions: which slot one has, and that no other ends with it.
 */
#include "recovery/session.h"

#include "api/attachment.h"
#include "recovery/reap.h"
#include "unit.h"

static void has_slot(const struct enq *e, unsigned i)
{
    ck_assert_ptr_eq(e->session.slot, &e->map->sessions[i]);
}

/* All walks over the sessions end at the highest slot that was ever used. */
TEST(a_session_has_the_lowest_slot_that_is_free)
{
    struct enq *a = unit_open(), *b = unit_open(), *c;

    has_slot(a, 0);
    has_slot(b, 1);
    enq_close(a);
    c = unit_open();
    has_slot(c, 0);
    a = unit_open();
    has_slot(a, 2);
    ck_assert_uint_eq(a->map->h->sessions_high, 3);
    unit_healthy(a);
    enq_close(a);
    enq_close(b);
    enq_close(c);
}

/* Two may reap one session: the slower comes to a slot that is another's by then. */
TEST(a_session_is_not_reaped_for_the_one_that_had_its_slot_before)
{
    struct enq *e = unit_open(), *other = unit_open();
    session_ref_t before = other->session.ref;
    struct enq_grant g, mine;

    enq_close(other);
    other = unit_open();
    has_slot(other, 1);
    ck_assert_uint_ne(other->session.ref, before);
    want(ENQ_OK, unit_lock(other, "n", "k", ENQ_MODE_X, &g));
    ck_assert_int_eq(reap(&e->session, thread_enter(e->map), before), 0);
    ck_assert_uint_eq(other->session.slot->ref, other->session.ref);
    want(ENQ_BUSY, unit_lock(e, "n", "k", ENQ_MODE_X, &mine));
    want(ENQ_OK, enq_unlock(other, g.handle, g.token));
    unit_healthy(e);
    enq_close(other);
    enq_close(e);
}

int main(void)
{
    unit_begin("session");
    ADD(a_session_has_the_lowest_slot_that_is_free);
    ADD(a_session_is_not_reaped_for_the_one_that_had_its_slot_before);
    return unit_end();
}
