/*
 * check_search.c - a search for a cycle looks at the last of a queue for all of
 * it, and misses nothing by that.
 *
 * Nobody looks but the one who asks last. Keys: of the name "n", so that a
 * request for all of it overlaps them, or of "other".
 */
#include <unistd.h>

#include "api/attachment.h"
#include "told.h"
#include "wait/cycle.h"

/* In which nobody is overtaken. */
static struct enq *open_strict(void)
{
    struct enq_open_opts strict = {
        .size = sizeof(strict), .strict = ENQ_STRICT_YES};

    return unit_open_with(&strict);
}

static void takes(struct enq *e, const char *owner, const char *name,
    const char *field, enum enq_mode mode)
{
    told_lock_req(e,
        ENQ_REQ(.name = name, .key = {field}, .mode = mode, .owner = owner));
}

static void waits(struct enq *e, const char *owner, const char *name,
    const char *field, enum enq_mode mode)
{
    told_start_req(e,
        ENQ_REQ(.name = name, .key = {field}, .mode = mode, .owner = owner,
            .wait_ms = ENQ_FOREVER, .flags = ENQ_NO_DEADLOCK));
}

static int asks(struct enq *e, const char *owner, const char *name,
    const char *field, enum enq_mode mode)
{
    struct enq_grant g;
    uint64_t ticket;

    return enq_start(e,
        ENQ_REQ(.name = name, .key = {field}, .mode = mode, .owner = owner,
            .wait_ms = ENQ_FOREVER),
        &g, &ticket);
}

/* C waits for the last of the queue, A, and for the one before it, B. What A
   holds here is in B's way, and in C's it is not. */
TEST(what_the_last_of_a_queue_holds_is_in_the_way_of_those_before_it)
{
    struct enq *e = open_strict();

    takes(e, "C", "n", "c", ENQ_MODE_X);
    takes(e, "A", "n", "k", ENQ_MODE_S);
    takes(e, "D", "n", "k", ENQ_MODE_S);
    waits(e, "A", "n", "c", ENQ_MODE_X);
    waits(e, "B", "n", "k", ENQ_MODE_X);
    waits(e, "A", "n", "k", ENQ_MODE_X);
    want(ENQ_DEADLOCK, asks(e, "C", "n", "k", ENQ_MODE_S));
    enq_close(e);
}

/* E is between A's two requests and waits for nobody but A and those before;
   what E holds is in the way of A's first one only. */
TEST(an_earlier_request_of_the_last_ones_owner_is_in_the_way_of_those_between)
{
    struct enq *e = open_strict();

    takes(e, "D", "n", "k", ENQ_MODE_S);
    takes(e, "E", "n", "k", ENQ_MODE_S);
    takes(e, "B", "n", "b", ENQ_MODE_X);
    takes(e, "A", "n", "a", ENQ_MODE_X);
    waits(e, "D", "n", "b", ENQ_MODE_X);
    waits(e, "E", "n", "a", ENQ_MODE_X);
    waits(e, "E", "n", "k", ENQ_MODE_X);
    waits(e, "A", "n", "k", ENQ_MODE_X);
    waits(e, "B", "n", "k", ENQ_MODE_S);
    want(ENQ_DEADLOCK, asks(e, "A", "n", "k", ENQ_MODE_S));
    enq_close(e);
}

/* A waits behind G for all of the name, but not for G, who waits for A. B does
   wait for G, and so for C. */
TEST(whom_the_last_of_a_queue_may_pass_the_others_wait_for)
{
    struct enq *e = open_strict();

    takes(e, "A", "n", "a", ENQ_MODE_X);
    takes(e, "C", "n", "c", ENQ_MODE_X);
    takes(e, "D", "n", "k", ENQ_MODE_X);
    takes(e, "A", "other", "x", ENQ_MODE_S);
    takes(e, "B", "other", "x", ENQ_MODE_S);
    waits(e, "G", "n", "@", ENQ_MODE_X);
    waits(e, "B", "n", "k", ENQ_MODE_X);
    waits(e, "A", "n", "k", ENQ_MODE_X);
    want(ENQ_DEADLOCK, asks(e, "C", "other", "x", ENQ_MODE_X));
    enq_close(e);
}

/* Two of C's: the first is in B's way, and B in that of the second. H, who holds
   the key, waits for D, who is behind them all. */
TEST(the_request_that_asks_is_in_the_way_of_those_before_its_owners_next)
{
    struct enq *e = open_strict();
    struct enq_info infos[2];
    bool youngest = true;
    size_t total;

    takes(e, "H", "n", "k", ENQ_MODE_X);
    takes(e, "D", "n", "d", ENQ_MODE_X);
    waits(e, "C", "n", "k", ENQ_MODE_S);
    waits(e, "B", "n", "k", ENQ_MODE_X);
    waits(e, "C", "n", "k", ENQ_MODE_X);
    waits(e, "D", "n", "k", ENQ_MODE_S);
    waits(e, "H", "n", "d", ENQ_MODE_X);
    want(ENQ_OK, enq_list(e, "n", "C", infos, LENGTH(infos), &total));
    ck_assert_uint_eq(total, 2);
    ck_assert_int_eq(infos[0].mode, ENQ_MODE_S);
    want(ENQ_DEADLOCK,
        cycle_find(&e->session, thread_enter(e->map), infos[0].handle,
            &youngest));
    ck_assert(!youngest);
    enq_close(e);
}

/* Readers come before a writer whose lock they do not want. */
TEST(a_reader_that_came_last_stands_for_no_writer)
{
    struct enq *e = open_strict();

    takes(e, "D", "n", "k", ENQ_MODE_S);
    takes(e, "C", "n", "c", ENQ_MODE_X);
    takes(e, "R", "other", "x", ENQ_MODE_S);
    takes(e, "W", "other", "x", ENQ_MODE_S);
    waits(e, "D", "n", "c", ENQ_MODE_X);
    waits(e, "W", "n", "k", ENQ_MODE_X);
    waits(e, "R", "n", "k", ENQ_MODE_S);
    want(ENQ_DEADLOCK, asks(e, "C", "other", "x", ENQ_MODE_X));
    enq_close(e);
}

/* Its ttl ends at once, and it keeps others out for long. */
static void takes_delayed(struct enq *e, const char *owner, const char *field)
{
    told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_S, .owner = owner,
            .ttl_ms = 1, .delay_ms = 60000));
    usleep(5000);
}

/* A way that is none, as the lock is not C's any more, comes first. */
TEST(a_lock_that_is_only_delayed_hides_no_cycle_behind_it)
{
    struct enq *e = open_strict();

    takes_delayed(e, "C", "k");
    takes(e, "D", "n", "k", ENQ_MODE_S);
    takes(e, "B", "n", "b", ENQ_MODE_X);
    waits(e, "D", "n", "b", ENQ_MODE_X);
    waits(e, "C", "n", "b", ENQ_MODE_X);
    want(ENQ_DEADLOCK, asks(e, "B", "n", "k", ENQ_MODE_X));
    enq_close(e);
}

TEST(a_lock_that_its_owner_has_only_delayed_hides_no_cycle)
{
    struct enq *e = open_strict();

    takes_delayed(e, "C", "a");
    takes(e, "C", "n", "c", ENQ_MODE_X);
    takes(e, "B", "n", "k", ENQ_MODE_S);
    takes(e, "E", "n", "k", ENQ_MODE_S);
    waits(e, "B", "n", "a", ENQ_MODE_X);
    waits(e, "E", "n", "c", ENQ_MODE_X);
    want(ENQ_DEADLOCK, asks(e, "C", "n", "k", ENQ_MODE_X));
    enq_close(e);
}

int main(void)
{
    unit_begin("search");
    ADD(what_the_last_of_a_queue_holds_is_in_the_way_of_those_before_it);
    ADD(an_earlier_request_of_the_last_ones_owner_is_in_the_way_of_those_between);
    ADD(whom_the_last_of_a_queue_may_pass_the_others_wait_for);
    ADD(the_request_that_asks_is_in_the_way_of_those_before_its_owners_next);
    ADD(a_reader_that_came_last_stands_for_no_writer);
    ADD(a_lock_that_is_only_delayed_hides_no_cycle_behind_it);
    ADD(a_lock_that_its_owner_has_only_delayed_hides_no_cycle);
    return unit_end();
}
