/*
 * check_set_wait.c - a lock set that waits is one waiter; without blocking, it
 * is one event.
 */
#include <stdlib.h>

#include "base/point.h"
#include "party.h"
#include "wait/set_wait.h"

/* --- waiting --- */

TEST(a_set_waits_for_all_and_holds_nothing_meanwhile)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "B", "a", ENQ_MODE_X);
    struct enq_grant c = holds(e, "C", "c", ENQ_MODE_X);
    struct party p;

    invite(&p, e, "A", ENQ_MODE_X, "a b c", ENQ_FOREVER);
    begins_to_wait(&p);
    frees(e, &a);
    usleep(20000);
    ck_assert_uint_eq(shm_load(&p.done), 0);
    ck_assert_uint_eq(count(e, false), 1);
    frees(e, &c);
    has_come(&p);
    ck_assert_uint_eq(count(e, false), 3);
    goes(&p);
    ends(e);
}

TEST(whoever_came_later_does_not_pass_it_at_any_key)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "B", "a", ENQ_MODE_X);
    struct party p, later;

    invite(&p, e, "A", ENQ_MODE_X, "a b", ENQ_FOREVER);
    begins_to_wait(&p);
    want(ENQ_BUSY, tries(e, "C", "b", ENQ_MODE_S)); /* though it is free */
    invite(&later, e, "C", ENQ_MODE_X, "b", ENQ_FOREVER);
    begins_to_wait(&later);
    frees(e, &a);
    has_come(&p);
    ck_assert_uint_eq(shm_load(&later.done), 0);
    goes(&p);
    has_come(&later);
    goes(&later);
    ends(e);
}

TEST(sets_that_cross_each_other_do_not_stop_each_other)
{
    struct enq *e = unit_open();
    struct enq_grant b = holds(e, "C", "b", ENQ_MODE_X);
    struct party p, q;

    invite(&p, e, "A", ENQ_MODE_X, "a b", ENQ_FOREVER);
    invite(&q, e, "B", ENQ_MODE_X, "b a", ENQ_FOREVER);
    begins_to_wait(&p);
    begins_to_wait(&q);
    frees(e, &b);
    has_come(&p);
    ck_assert_uint_eq(shm_load(&q.done), 0);
    goes(&p);
    has_come(&q);
    goes(&q);
    ends(e);
}

TEST(a_waiting_set_lets_the_owner_pass_that_it_waits_for)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "B", "a", ENQ_MODE_X);
    struct party p, mine;
    struct enq_grant b;

    invite(&p, e, "A", ENQ_MODE_X, "a b", ENQ_FOREVER);
    begins_to_wait(&p);
    b = holds(e, "B", "b", ENQ_MODE_X); /* it waits for B: not in B's way */
    frees(e, &b);
    want(ENQ_BUSY, tries(e, "C", "b", ENQ_MODE_X));
    invite(&mine, e, "B", ENQ_MODE_X, "b c", 0);
    want(ENQ_OK, come(&mine)); /* nor in that of a set of B's */
    goes(&mine);
    invite(&mine, e, "B", ENQ_MODE_X, "b", ENQ_FOREVER);
    want(ENQ_OK, come(&mine));
    goes(&mine);
    frees(e, &a);
    has_come(&p);
    goes(&p);
    ends(e);
}

TEST(a_waiter_behind_a_set_passes_it_when_the_set_waits_for_its_owner)
{
    unit_with_ticks();
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "B", "a", ENQ_MODE_X);
    struct enq_grant b = holds(e, "C", "b", ENQ_MODE_X);
    struct party p, mine;

    invite(&p, e, "A", ENQ_MODE_X, "a b", ENQ_FOREVER);
    begins_to_wait(&p);
    invite(&mine, e, "B", ENQ_MODE_X, "b", ENQ_FOREVER);
    begins_to_wait(&mine);
    frees(e, &b);
    has_come(&mine);
    goes(&mine);
    frees(e, &a);
    has_come(&p);
    goes(&p);
    ends(e);
}

/* The waiter does not know it before it looks, which it does by the clock. But
   with what another request of its owner got it may, and that is known to the
   thread that granted it: to the one that served it, or to itself if it does
   not wait. Of one key, or of a set; and where somebody waits for "@", in a wide
   scope. */
static const struct {
    const char *later, *other;
    int64_t wait_ms;
} later_ones[] = {{"b", "c", ENQ_FOREVER}, {"b", "@", ENQ_FOREVER},
    {"b", "c", 0}, {"b", "@", 0}, {"b z", "c", ENQ_FOREVER},
    {"b z", "@", ENQ_FOREVER}, {"b z", "c", 0}, {"b z", "@", 0}};
static const enum enq_mode later_modes[] = {ENQ_MODE_E, ENQ_MODE_S};

static void comes_later(struct party *p)
{
    want(ENQ_OK, p->n > 1 ? come(p) : enq_lock(p->e, p->reqs[0], p->g));
}

TEST(a_waiter_behind_a_set_passes_it_once_a_later_one_of_its_owner_has)
{
    setenv("ENQ_TICK_MS", "600000", 1);
    enum enq_mode mode = later_modes[_i % 2];
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "B", "a", ENQ_MODE_E);
    struct enq_grant b = holds(e, "C", "b", ENQ_MODE_X);
    struct enq_grant c = holds(e, "C", "c", ENQ_MODE_X);
    struct party p, mine, later, other;

    invite(&p, e, "A", ENQ_MODE_X, "a b", ENQ_FOREVER);
    begins_to_wait(&p);
    invite(&mine, e, "B", mode, "b", ENQ_FOREVER);
    begins_to_wait(&mine);
    invite(&other, e, "D", ENQ_MODE_X, later_ones[_i / 2].other, ENQ_FOREVER);
    begins_to_wait(&other);
    frees(e, &b);
    invite(&later, e, "B", mode, later_ones[_i / 2].later,
        later_ones[_i / 2].wait_ms);
    comes_later(&later);
    eventually(shm_load_acquire(&mine.done));
    want(ENQ_OK, mine.rc);
    has_come(&mine);
    goes(&mine);
    goes(&later);
    frees(e, &a);
    has_come(&p);
    goes(&p);
    frees(e, &c);
    has_come(&other);
    goes(&other);
    ends(e);
}

#ifdef ENQ_POINTS
static uint32_t tries_so_far;

static void count_tries(const struct point *p)
{
    if (strcmp(p->name, "set.tried") == 0)
        shm_add(&tries_so_far, 1);
}

static void starts(struct party *p)
{
    uint64_t ticket;

    want(ENQ_PENDING, enq_start_set(p->e, p->reqs, p->n, p->g, &ticket));
}

/* Both could have "a". The helper, which looks for both, has dropped a lock that
   had run out, and that wakes the sets behind it; each "z" that gets free makes
   it look again, which changes nothing and is to wake no other set. */
TEST(sets_that_wait_at_one_object_do_not_keep_each_other_awake)
{
    static const char *const often[] = {"z1", "z2", "z3", "z4", "z5", "z6"};
    setenv("ENQ_TICK_MS", "600000", 1);
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant z[LENGTH(often)];
    struct party p, q, brief;

    for (unsigned i = 0; i < LENGTH(often); i++)
        z[i] = holds(e, "D", often[i], ENQ_MODE_X);
    holds(e, "D", "c", ENQ_MODE_X);
    invite(&brief, e, "C", ENQ_MODE_X, "x", 0);
    brief.req[0].ttl_ms = 20;
    want(ENQ_OK, come(&brief));
    invite(&p, other, "A", ENQ_MODE_S, "a x z1 z2 z3 z4 z5 z6", ENQ_FOREVER);
    invite(&q, other, "B", ENQ_MODE_S, "a c", ENQ_FOREVER);
    starts(&p);
    starts(&q);
    eventually(count(e, false) == LENGTH(often) + 1);
    point_hook = count_tries;
    for (unsigned i = 0; i + 1 < LENGTH(often); i++) {
        frees(e, &z[i]);
        usleep(50000);
    }
    point_hook = NULL;
    ck_assert_uint_le(shm_load(&tries_so_far), 50);
    enq_close(other);
    enq_close(e);
}
#endif

TEST(a_set_gives_up_in_time_and_says_what_it_waited_for)
{
    struct enq *e = unit_open();
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct party p;
    int64_t begin = unit_now_ms();

    invite(&p, e, "A", ENQ_MODE_X, "a b c", 50);
    want(ENQ_TIMEDOUT, come(&p));
    ck_assert_int_ge(unit_now_ms() - begin, 50);
    ck_assert_str_eq(p.g[1].blocker.owner, "B");
    ck_assert_uint_eq(count(e, true), 0);
    want(ENQ_OK, tries(e, "C", "a", ENQ_MODE_X));
    frees(e, &b);
    ends(e);
}

TEST(when_one_of_a_waiting_set_is_cancelled_the_set_is)
{
    struct enq *e = unit_open();
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct enq_info infos[8];
    struct party p;
    size_t n;

    for (int broken = 0; broken <= 1; broken++) {
        invite(&p, e, "A", ENQ_MODE_X, "a b c", ENQ_FOREVER);
        begins_to_wait(&p);
        want(ENQ_OK, enq_list(e, NULL, "A", infos, LENGTH(infos), &n));
        ck_assert_uint_eq(n, 3);
        ck_assert_uint_eq(infos[2].token, 0);
        want(ENQ_OK,
            broken ? enq_break(e, infos[2].id)
                   : enq_unlock(e, infos[2].handle, 0));
        pthread_join(p.thread, NULL);
        want(ENQ_CANCELLED, p.rc);
        ck_assert_uint_eq(count(e, true), 0);
    }
    frees(e, &b);
    ends(e);
}

TEST(a_set_waits_at_wide_keys_too)
{
    struct enq *e = unit_open();
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct party p, late;

    invite(&p, e, "A", ENQ_MODE_E, "a @", ENQ_FOREVER);
    begins_to_wait(&p);
    invite(&late, e, "C", ENQ_MODE_X, "c d", ENQ_FOREVER);
    begins_to_wait(&late);
    frees(e, &b);
    has_come(&p);
    ck_assert_uint_eq(shm_load(&late.done), 0);
    unit_healthy(e);
    goes(&p);
    has_come(&late);
    goes(&late);
    ends(e);
}

TEST(the_ttl_of_what_a_set_waits_for_is_noticed)
{
    struct enq *e = unit_open();
    struct enq_grant g;
    struct party p;
    int64_t begin = unit_now_ms();

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"b"}, .mode = ENQ_MODE_X, .owner = "B",
                .ttl_ms = 60),
            &g));
    invite(&p, e, "A", ENQ_MODE_X, "a b", ENQ_FOREVER);
    want(ENQ_OK, come(&p));
    ck_assert_int_ge(unit_now_ms() - begin, 60);
    ck_assert_int_le(unit_now_ms() - begin,
        (UNIT_SANITIZED ? 1000 : 200) + test_starved_ms());
    goes(&p);
    ends(e);
}

/* --- cycles --- */

TEST(a_set_that_would_close_a_cycle_is_refused)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "A", "a", ENQ_MODE_X);
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct party p, q;

    invite(&p, e, "A", ENQ_MODE_X, "x b", ENQ_FOREVER);
    begins_to_wait(&p);
    invite(&q, e, "B", ENQ_MODE_X, "y z a", ENQ_FOREVER);
    want(ENQ_DEADLOCK, come(&q));
    ck_assert_str_eq(q.g[2].blocker.owner, "A");
    ck_assert_msg(strstr(q.why,
                      "deadlock: B waits for n/a; A has that and "
                      "waits for n/b; the first one has that") != NULL,
        "%s", q.why);
    ck_assert_uint_eq(count(e, true), 2);
    frees(e, &b);
    has_come(&p);
    goes(&p);
    frees(e, &a);
    ends(e);
}

TEST(a_cycle_through_any_key_of_a_waiting_set_is_seen)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "A", "a", ENQ_MODE_X);
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct enq_grant c = holds(e, "C", "c", ENQ_MODE_X);
    struct party p, q, r;

    invite(&p, e, "A", ENQ_MODE_X, "x b", ENQ_FOREVER);
    invite(&q, e, "B", ENQ_MODE_X, "c y z", ENQ_FOREVER);
    begins_to_wait(&p);
    begins_to_wait(&q);
    invite(&r, e, "C", ENQ_MODE_X, "x", ENQ_FOREVER); /* behind A's set */
    want(ENQ_DEADLOCK, come(&r));
    frees(e, &c);
    has_come(&q);
    goes(&q);
    frees(e, &b);
    has_come(&p);
    goes(&p);
    frees(e, &a);
    ends(e);
}

/* --- without waiting in the call --- */

TEST(a_started_set_is_one_event_and_its_grants_are_filled_by_then)
{
    struct enq *e = unit_open();
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct enq_event event;
    struct party p;
    uint64_t ticket;

    invite(&p, e, "A", ENQ_MODE_X, "a b c", ENQ_FOREVER);
    want(ENQ_PENDING, enq_start_set(e, p.reqs, p.n, p.g, &ticket));
    ck_assert_str_eq(p.g[1].blocker.owner, "B");
    usleep(2000);
    want(ENQ_BUSY, tries(e, "C", "a", ENQ_MODE_X));
    frees(e, &b);
    event = next_result(e);
    want(ENQ_OK, event.result);
    ck_assert_uint_eq(event.ticket, ticket);
    ck_assert_uint_eq(event.grant.handle, p.g[0].handle);
    for (size_t i = 0; i < p.n; i++) {
        want(ENQ_OK, enq_valid(e, p.g[i].handle));
        ck_assert_uint_ne(p.g[i].token, 0);
    }
    want(ENQ_PENDING, enq_next(e, &event));
    goes(&p);
    ends(e);
}

TEST(a_started_set_may_be_granted_at_once_cancelled_or_time_out)
{
    struct enq *e = unit_open();
    struct enq_event event;
    struct enq_grant b;
    struct party p;
    uint64_t ticket;

    invite(&p, e, "A", ENQ_MODE_X, "a b c", ENQ_FOREVER);
    want(ENQ_OK, enq_start_set(e, p.reqs, p.n, p.g, &ticket));
    ck_assert_uint_eq(ticket, 0);
    goes(&p);
    b = holds(e, "B", "b", ENQ_MODE_X);
    want(ENQ_PENDING, enq_start_set(e, p.reqs, p.n, p.g, &ticket));
    want(ENQ_OK, enq_cancel(e, ticket));
    event = next_result(e);
    want(ENQ_CANCELLED, event.result);
    ck_assert_uint_eq(count(e, true), 0);
    invite(&p, e, "A", ENQ_MODE_X, "a b c", 30);
    want(ENQ_PENDING, enq_start_set(e, p.reqs, p.n, p.g, &ticket));
    event = next_result(e);
    want(ENQ_TIMEDOUT, event.result);
    ck_assert_str_eq(p.g[1].blocker.owner, "B");
    ck_assert_str_eq(event.grant.blocker.owner, "B");
    frees(e, &b);
    ends(e);
}

TEST(a_started_set_that_closes_a_cycle_is_refused_at_once)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "A", "a", ENQ_MODE_X);
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct party p, q;
    uint64_t ticket;

    invite(&p, e, "A", ENQ_MODE_X, "x b", ENQ_FOREVER);
    want(ENQ_PENDING, enq_start_set(e, p.reqs, p.n, p.g, &ticket));
    invite(&q, e, "B", ENQ_MODE_X, "y a", ENQ_FOREVER);
    want(ENQ_DEADLOCK, enq_start_set(e, q.reqs, q.n, q.g, &ticket));
    frees(e, &b);
    want(ENQ_OK, next_result(e).result);
    goes(&p);
    frees(e, &a);
    ends(e);
}

TEST(sets_pending_at_the_end_go_with_their_attachment)
{
    struct enq *e = unit_open(), *other;
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct party p;
    uint64_t ticket;

    want(ENQ_OK, enq_open(&other, unit_space(), NULL));
    invite(&p, other, "A", ENQ_MODE_X, "a b c", ENQ_FOREVER);
    want(ENQ_PENDING, enq_start_set(other, p.reqs, p.n, p.g, &ticket));
    enq_close(other);
    ck_assert_uint_eq(count(e, true), 0);
    frees(e, &b);
    ends(e);
}

int main(void)
{
    unit_begin("set_wait");
    ADD(a_set_waits_for_all_and_holds_nothing_meanwhile);
    ADD(whoever_came_later_does_not_pass_it_at_any_key);
    ADD(sets_that_cross_each_other_do_not_stop_each_other);
    ADD(a_waiting_set_lets_the_owner_pass_that_it_waits_for);
    ADD(a_waiter_behind_a_set_passes_it_when_the_set_waits_for_its_owner);
    ADD_LOOP(a_waiter_behind_a_set_passes_it_once_a_later_one_of_its_owner_has,
        LENGTH(later_ones) * 2);
#ifdef ENQ_POINTS
    ADD(sets_that_wait_at_one_object_do_not_keep_each_other_awake);
#endif
    ADD(a_set_gives_up_in_time_and_says_what_it_waited_for);
    ADD(when_one_of_a_waiting_set_is_cancelled_the_set_is);
    ADD(a_set_waits_at_wide_keys_too);
    ADD(the_ttl_of_what_a_set_waits_for_is_noticed);
    ADD(a_set_that_would_close_a_cycle_is_refused);
    ADD(a_cycle_through_any_key_of_a_waiting_set_is_seen);
    ADD(a_started_set_is_one_event_and_its_grants_are_filled_by_then);
    ADD(a_started_set_may_be_granted_at_once_cancelled_or_time_out);
    ADD(a_started_set_that_closes_a_cycle_is_refused_at_once);
    ADD(sets_pending_at_the_end_go_with_their_attachment);
    return unit_end();
}
