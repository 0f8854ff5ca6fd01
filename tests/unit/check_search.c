/*
 * check_search.c - a search for a cycle looks at the last of a queue for all of
 * it, and misses nothing by that.
 *
 * Nobody looks but the one who asks last. Keys: of the name "n", so that a
 * request for all of it overlaps them, or of "other".
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/attachment.h"
#include "lock/transition.h"
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

/* Of those ahead V is in A's way, whom U is in the way of, and A in U's. */
TEST(what_an_owner_holds_is_in_the_way_of_those_ahead_of_it)
{
    struct enq *e = open_strict();

    takes(e, "A", "n", "k", ENQ_MODE_S);
    takes(e, "D", "n", "k", ENQ_MODE_S);
    waits(e, "U", "n", "k", ENQ_MODE_X);
    waits(e, "V", "n", "k", ENQ_MODE_S);
    want(ENQ_DEADLOCK, asks(e, "A", "n", "k", ENQ_MODE_X));
    enq_close(e);
}

/* What H holds is in the way of W. */
TEST(a_reader_waits_for_other_readers_only_behind_a_writer)
{
    struct enq *e = open_strict();

    takes(e, "R", "n", "m", ENQ_MODE_X);
    takes(e, "H", "n", "k", ENQ_MODE_S);
    waits(e, "W", "n", "k", ENQ_MODE_X);
    waits(e, "H", "n", "m", ENQ_MODE_X);
    want(ENQ_DEADLOCK, asks(e, "R", "n", "k", ENQ_MODE_S));
    enq_close(e);
}

/* V, which has come first, waits for "x", which H has. */
/* And not only behind one of the first: 64 requests are read in one go. */
TEST(a_writer_behind_a_set_waits_for_what_that_waits_for_elsewhere)
{
    const struct enq_req *both[] = {
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_X, .owner = "V",
            .wait_ms = ENQ_FOREVER),
        ENQ_REQ(.name = "n", .key = {"x"}, .mode = ENQ_MODE_X, .owner = "V",
            .wait_ms = ENQ_FOREVER),
    };
    struct enq *e = open_strict();
    struct enq_grant grants[2];
    uint64_t ticket;
    char owner[16];

    takes(e, "A", "n", "m", ENQ_MODE_X);
    takes(e, "H", "n", "x", ENQ_MODE_X);
    waits(e, "H", "n", "m", ENQ_MODE_X);
    takes(e, "K", "n", "k", ENQ_MODE_X);
    for (int i = 0; i < 100 * _i; i++) {
        snprintf(owner, sizeof(owner), "%d", i);
        waits(e, owner, "n", "k", ENQ_MODE_X);
    }
    want(ENQ_PENDING, enq_start_set(e, both, 2, grants, &ticket));
    want(ENQ_DEADLOCK, asks(e, "A", "n", "k", ENQ_MODE_X));
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
    struct cycle found;
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
        cycle_find(&e->session, thread_enter(e->map), infos[0].handle, false,
            &found));
    ck_assert(!found.youngest);
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

/* --- what a search costs --- */

#define PAIRS 200

static mono_t (*true_now)(void);
static _Thread_local unsigned clock_reads; /* one for each waiter visited */

static mono_t counted_now(void)
{
    clock_reads++;
    return true_now();
}

/* How many requests and locks it comes to know of: 0, it was not worth it. */
static uint64_t cost_of_a_search(struct enq *e, const char *owner)
{
    struct thread *t = thread_enter(e->map);
    struct enq_info infos[2];
    struct cycle found;
    size_t total;

    want(ENQ_OK, enq_list(e, "n", owner, infos, LENGTH(infos), &total));
    ck_assert_uint_eq(total, 1);
    clock_reads = 0;
    want(ENQ_OK, cycle_find(&e->session, t, infos[0].handle, false, &found));
    return found.cost;
}

static uint64_t hash_of(struct enq *e, const char *owner)
{
    struct ask ask = {
        .owner = owner, .owner_bytes = (uint16_t)(strlen(owner) + 1)};

    return ask_owner_hash(e->map, &ask);
}

typedef void count_fn(const struct map *map, uint64_t owner);

static void each_of(struct enq *e, unsigned others, count_fn *count)
{
    char other[12];

    for (unsigned i = 0; i < others; i++) {
        snprintf(other, sizeof(other), "%u", i);
        count(e->map, hash_of(e, other));
    }
}

/* An owner that is not taken for one of "0", "1", ... by chance: such ones are
   looked at. */
static void name_apart(struct enq *e, unsigned others, char name[12])
{
    each_of(e, others, owners_count_in);
    for (unsigned i = 0;
         snprintf(name, 12, "A%u", i), owners_wait(e->map, hash_of(e, name), 0);
         i++)
        ck_assert_uint_lt(i, 100);
    each_of(e, others, owners_count_out);
}

/* Of hundreds that wait for one that does not, none can be in a cycle. */
TEST(who_waits_for_one_who_does_not_wait_visits_no_others)
{
    struct enq *e = unit_open();
    char text[12], holder[12];

    name_apart(e, PAIRS, holder);
    for (unsigned i = 0; i < PAIRS; i++) {
        snprintf(text, sizeof(text), "%u", i);
        takes(e, holder, "n", text, ENQ_MODE_X);
        waits(e, text, "n", text, ENQ_MODE_X);
    }
    ck_assert_uint_eq(cost_of_a_search(e, "0"), 0);
    takes(e, "B", "n", "b", ENQ_MODE_X);
    waits(e, holder, "n", "b", ENQ_MODE_X); /* now there might be */
    ck_assert_uint_ge(cost_of_a_search(e, "1"), PAIRS);
    enq_close(e);
}

/* It waits for a holder that waits for B. Others wait at 200 other keys, and each
   of them, too, for one that waits. */
TEST(who_waits_for_one_who_waits_visits_no_keys_of_others)
{
    struct enq *e = unit_open();
    char text[12], holder[12];

    true_now = sys.now;
    takes(e, "B", "n", "b", ENQ_MODE_X);
    for (unsigned i = 0; i < PAIRS; i++) {
        snprintf(text, sizeof(text), "%u", i);
        snprintf(holder, sizeof(holder), "h%u", i);
        takes(e, holder, "n", text, ENQ_MODE_X);
        takes(e, "B", "other", text, ENQ_MODE_X);
        waits(e, holder, "other", text, ENQ_MODE_S);
        waits(e, text, "n", text, ENQ_MODE_X);
    }
    takes(e, "one", "n", "one", ENQ_MODE_X);
    waits(e, "one", "n", "b", ENQ_MODE_X);
    waits(e, "last", "n", "one", ENQ_MODE_X);
    sys.now = counted_now;
    ck_assert_uint_ge(cost_of_a_search(e, "last"), PAIRS);
    sys.now = true_now;
    ck_assert_uint_lt(clock_reads, 20);
    enq_close(e);
}

/* Owners are told apart by bits of their hashes: hardly one of 200 that do not wait
   is taken for one of the 1,200 that do. */
TEST(who_does_not_wait_is_rarely_taken_for_one_of_many_who_do)
{
    struct enq *e = unit_open();
    char key[12], holder[12], waiter[12];
    unsigned taken = 0;

    takes(e, "Z", "n", "q", ENQ_MODE_X);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(waiter, sizeof(waiter), "q%u", i);
        waits(e, waiter, "n", "q", ENQ_MODE_X);
    }
    for (unsigned i = 0; i < 200; i++) {
        snprintf(key, sizeof(key), "%u", i);
        snprintf(holder, sizeof(holder), "h%u", i);
        snprintf(waiter, sizeof(waiter), "w%u", i);
        takes(e, holder, "n", key, ENQ_MODE_X);
        waits(e, waiter, "n", key, ENQ_MODE_X);
        taken += cost_of_a_search(e, waiter) > 0;
    }
    ck_assert_uint_lt(taken, 3); /* none, in the mean */
    enq_close(e);
}

int main(void)
{
    unit_begin("search");
    ADD(what_the_last_of_a_queue_holds_is_in_the_way_of_those_before_it);
    ADD(what_an_owner_holds_is_in_the_way_of_those_ahead_of_it);
    ADD(a_reader_waits_for_other_readers_only_behind_a_writer);
    ADD_LOOP(a_writer_behind_a_set_waits_for_what_that_waits_for_elsewhere, 2);
    ADD(an_earlier_request_of_the_last_ones_owner_is_in_the_way_of_those_between);
    ADD(whom_the_last_of_a_queue_may_pass_the_others_wait_for);
    ADD(the_request_that_asks_is_in_the_way_of_those_before_its_owners_next);
    ADD(a_reader_that_came_last_stands_for_no_writer);
    ADD(a_lock_that_is_only_delayed_hides_no_cycle_behind_it);
    ADD(a_lock_that_its_owner_has_only_delayed_hides_no_cycle);
    ADD(who_waits_for_one_who_does_not_wait_visits_no_others);
    ADD(who_waits_for_one_who_waits_visits_no_keys_of_others);
    ADD(who_does_not_wait_is_rarely_taken_for_one_of_many_who_do);
    return unit_end();
}
