/*
 * check_session.c - sessions: which slot one has.
 */
#include "recovery/session.h"

#include "api/attachment.h"
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

int main(void)
{
    unit_begin("session");
    ADD(a_session_has_the_lowest_slot_that_is_free);
    return unit_end();
}
