/*
 * check_copy_out.c - a lock that is copied out of the table while it changes.
 */
#include "lock/copy_out.h"

#include <string.h>

#include "api/attachment.h"
#include "base/point.h"
#include "lock/table_scan.h"
#include "sync/life.h"
#include "unit.h"

/* Found already, and not yet copied: a list of all stops nobody. */
static struct table_scan_found find_one(struct enq *e)
{
    struct table_scan_found found[2];
    struct table_scan_filter all = {NULL, NULL};

    ck_assert_uint_eq(table_scan_list(e->map, &all, found, 2), 1);
    return found[0];
}

TEST(a_lock_that_is_demoted_while_a_list_is_made_is_in_it)
{
    struct enq *e = unit_open();
    struct copy_clocks clocks = copy_clocks();
    struct table_scan_found found;
    struct enq_info info;
    struct enq_grant g;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_E, &g));
    found = find_one(e);
    want(ENQ_OK, enq_demote(e, g.handle, g.token));
    ck_assert(copy_info(e->map, found.e, found.state, &clocks, &info));
    ck_assert_uint_eq(info.mode, ENQ_MODE_S);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    ck_assert(!copy_info(e->map, found.e, found.state, &clocks, &info));
    enq_close(e);
}

/* --- of a session that is over --- */

struct two {
    uint32_t ready;
    struct enq_grant gone, kept;
};

static int holds_two(void *two)
{
    struct two *t = two;
    struct enq *e = unit_open();

    want(ENQ_OK, unit_lock(e, "n", "gone", ENQ_MODE_X, &t->gone));
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"kept"}, .mode = ENQ_MODE_X,
                .on_death = ENQ_DEATH_KEEP),
            &t->kept));
    unit_stay(&t->ready);
}

static session_ref_t asked_again(struct scope *s, enq_handle handle)
{
    struct enq_blocker blocker;
    uint64_t state;

    s->dying = 0;
    copy_blocker(s, entry_of_handle(s->map, handle, &state), 0, &blocker);
    ck_assert_int_eq(blocker.pid, 0);
    return s->dying;
}

/* We have looked, and hold the latch, so that nobody can bury it; but its end is
   proved before we tell of it. */
TEST(a_request_is_tried_again_if_its_blockers_holder_was_proved_over_meanwhile)
{
    struct two *two = unit_shared(sizeof(*two));
    struct enq *e = unit_open();
    pid_t pid = unit_fork(holds_two, two);
    const struct entry *gone;
    struct scope s;
    uint64_t state;

    eventually(shm_load_acquire(&two->ready) != 0);
    gone = entry_of_handle(e->map, two->gone.handle, &state);
    scope_begin(&s, &e->session, thread_enter(e->map));
    want(ENQ_OK, scope_enter_entry(&s, gone));
    unit_kill(pid);
    eventually(session_is_over(e->map, gone->session));
    ck_assert_uint_eq(asked_again(&s, two->gone.handle), gone->session);
    ck_assert_uint_eq(asked_again(&s, two->kept.handle), 0);
    scope_leave(&s);
    enq_close(e);
}

#ifdef ENQ_POINTS
static struct {
    struct enq *e;
    struct enq_grant g;
} demoted;

static void demote_once_copied(const struct point *p)
{
    if (strcmp(p->name, "info.copied") != 0)
        return;
    point_hook = NULL;
    want(ENQ_OK, enq_demote(demoted.e, demoted.g.handle, demoted.g.token));
}

/* The mode has been copied, the state not been looked at again. */
TEST(a_lock_that_is_demoted_while_it_is_copied_is_copied_again)
{
    struct enq *e = demoted.e = unit_open();
    struct copy_clocks clocks = copy_clocks();
    struct table_scan_found found;
    struct enq_info info;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_E, &demoted.g));
    found = find_one(e);
    point_hook = demote_once_copied;
    ck_assert(copy_info(e->map, found.e, found.state, &clocks, &info));
    ck_assert_ptr_null(point_hook);
    ck_assert_uint_eq(info.mode, ENQ_MODE_S);
    enq_close(e);
}
#endif

TEST(a_request_that_is_granted_while_a_list_is_made_waits_in_it)
{
    struct enq *e = unit_open();
    struct copy_clocks clocks = copy_clocks();
    struct table_scan_found found[3];
    struct table_scan_filter all = {NULL, NULL};
    struct enq_info info[2];
    struct enq_grant g, later;
    struct enq_event event = {0};
    uint64_t ticket;
    size_t waiting = 0;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_S,
                .wait_ms = ENQ_FOREVER),
            &later, &ticket));
    ck_assert_uint_eq(table_scan_list(e->map, &all, found, 3), 2);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    eventually(enq_next(e, &event) == ENQ_OK);
    for (int i = 0; i < 2; i++) {
        bool there =
            copy_info(e->map, found[i].e, found[i].state, &clocks, &info[i]);
        waiting += there && info[i].waiting;
    }
    ck_assert_uint_eq(waiting, 1);
    enq_close(e);
}

int main(void)
{
    unit_begin("copy_out");
    ADD(a_lock_that_is_demoted_while_a_list_is_made_is_in_it);
    ADD(a_request_is_tried_again_if_its_blockers_holder_was_proved_over_meanwhile);
#ifdef ENQ_POINTS
    ADD(a_lock_that_is_demoted_while_it_is_copied_is_copied_again);
#endif
    ADD(a_request_that_is_granted_while_a_list_is_made_waits_in_it);
    return unit_end();
}
