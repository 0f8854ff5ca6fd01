/*
 * check_ring_modes.c - what a ring of locks holds, as its first entry says:
 * enough, and only where it is true.
 */
#include <string.h>
#include <unistd.h>

#include "api/attachment.h"
#include "lock/links.h"
#include "recovery/check.h"
#include "sync/sys.h"
#include "unit.h"

static struct enq *e;
static struct enq_grant lock[3];

#define SAID(i) (entry(i)->ring_modes)

static struct entry *entry(unsigned i)
{
    uint64_t state;
    struct entry *of = entry_of_handle(e->map, lock[i].handle, &state);

    ck_assert_ptr_nonnull(of);
    return of;
}

static int take(unsigned i, enum enq_mode mode, const char *owner)
{
    return enq_lock(e,
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = mode, .owner = owner),
        &lock[i]);
}

static void give(unsigned i)
{
    want(ENQ_OK, enq_unlock(e, lock[i].handle, lock[i].token));
}

static void begin(void)
{
    e = unit_open();
    want(ENQ_OK, take(0, ENQ_MODE_S, "a"));
    ck_assert_uint_eq(SAID(0), 0); /* its own mode says it */
    want(ENQ_OK, take(1, ENQ_MODE_S, "b"));
    want(ENQ_OK, take(2, ENQ_MODE_S, "c"));
    ck_assert_uint_eq(SAID(0), RING_HOLDS(ENQ_MODE_S) | RING_MIXED);
}

static void end(void)
{
    unit_healthy(e);
    enq_close(e);
}

TEST(where_the_first_goes_the_next_one_says_it_and_the_last_need_not)
{
    begin();
    give(0);
    ck_assert_uint_eq(SAID(1), RING_HOLDS(ENQ_MODE_S) | RING_MIXED);
    unit_healthy(e);
    give(1);
    ck_assert_uint_eq(SAID(2), 0);
    end();
}

TEST(what_is_not_the_first_goes_without_a_word)
{
    begin();
    give(1);
    ck_assert_uint_eq(SAID(0), RING_HOLDS(ENQ_MODE_S) | RING_MIXED);
    end();
}

/* It would not be seen by the next request, which has to wait behind it. */
TEST(nothing_is_said_where_somebody_waits)
{
    struct enq_grant g;
    uint64_t ticket;

    begin();
    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_X, .owner = "d",
                .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    ck_assert_uint_eq(SAID(0), 0);
    want(ENQ_OK, enq_cancel(e, ticket));
    give(2);
    want(ENQ_OK, take(2, ENQ_MODE_S, "c"));
    ck_assert_uint_eq(SAID(0), RING_HOLDS(ENQ_MODE_S) | RING_MIXED);
    end();
}

static void begin_cumulated(void)
{
    e = unit_open();
    for (unsigned i = 0; i < LENGTH(lock); i++)
        want(ENQ_OK, take(i, ENQ_MODE_E, "a"));
    ck_assert_uint_eq(SAID(0), RING_HOLDS(ENQ_MODE_E));
}

TEST(what_changes_its_mode_is_not_what_was_said)
{
    struct enq_grant g;

    begin_cumulated();
    want(ENQ_OK, enq_demote(e, lock[1].handle, lock[1].token));
    unit_healthy(e);
    give(0);
    give(2);
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_S,
                .owner = "b"),
            &g));
    end();
}

TEST(what_one_owner_cumulates_keeps_another_out)
{
    struct enq_grant g;

    begin_cumulated();
    want(ENQ_BUSY,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_E,
                .owner = "b"),
            &g));
    ck_assert_str_eq(g.blocker.owner, "a");
    end();
}

/* Else each request would walk, as long as anybody holds the key: in SAP's
   table, where an owner's S and E go together. */
TEST(what_was_said_of_one_that_has_gone_is_found_out)
{
    struct enq_open_opts sap = {.size = sizeof(sap), .compat = "sap"};
    struct enq_grant other;

    e = unit_open_with(&sap);
    want(ENQ_OK, take(0, ENQ_MODE_S, "a"));
    want(ENQ_OK, take(1, ENQ_MODE_S, "a"));
    want(ENQ_OK, take(2, ENQ_MODE_E, "a"));
    ck_assert_uint_eq(SAID(0), RING_HOLDS(ENQ_MODE_S) | RING_HOLDS(ENQ_MODE_E));
    give(2);
    ck_assert_uint_eq(SAID(0), RING_HOLDS(ENQ_MODE_S) | RING_HOLDS(ENQ_MODE_E));
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_S,
                .owner = "b"),
            &other));
    ck_assert_uint_eq(SAID(0), RING_HOLDS(ENQ_MODE_S) | RING_MIXED);
    end();
}

/* A request that need not walk does not drop it; it has run out nevertheless. */
TEST(what_has_run_out_beside_others_is_told_so_when_it_is_given_back)
{
    struct enq_grant brief;
    struct entry *of;
    uint64_t state;

    begin();
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_S, .owner = "d",
                .ttl_ms = 1),
            &brief));
    of = entry_of_handle(e->map, brief.handle, &state);
    eventually(of->deadline_ns < sys.coarse().ns); /* by the later clock, too */
    give(2);
    want(ENQ_OK, take(2, ENQ_MODE_S, "c"));
    want(ENQ_EXPIRED, enq_unlock(e, brief.handle, brief.token));
    end();
}

/* What another process wrote: */
static const struct said {
    unsigned by;
    uint8_t what;
    const char *finding;
} wrong[] = {
    {0, RING_HOLDS(ENQ_MODE_X) | RING_MIXED, "is said to hold"},
    {0, RING_HOLDS(ENQ_MODE_S), "is said to hold"}, /* of one owner */
    {1, RING_HOLDS(ENQ_MODE_S) | RING_MIXED, "is not the first"},
};

TEST(the_table_check_finds_what_is_said_wrongly)
{
    const struct said *said = &wrong[_i];
    char text[4096] = "";
    struct check_report report = {text, sizeof(text), 0, 0};
    uint8_t before;

    begin();
    before = SAID(said->by);
    SAID(said->by) = said->what;
    want(0, check_table(e->map, thread_enter(e->map), &report));
    ck_assert_msg(strstr(text, "I4: ") != NULL &&
            strstr(text, said->finding) != NULL,
        "%s", text);
    SAID(said->by) = before;
    end();
}

static int first_that_dies_as_it_goes(void *pipes)
{
    int *pipe_to = pipes;

    e = unit_open();
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_S, .owner = "a",
                .on_death = ENQ_DEATH_KEEP),
            &lock[0]));
    if (write(pipe_to[1], "", 1) != 1 || read(pipe_to[2], &pipe_to[4], 1) != 1)
        return 1;
    point_arm("unlock.unlinked");
    give(0);
    return 1;
}

/* It is the first again, as its lock outlives it: what the next one says would
   be believed when that one has gone, and others have come. */
TEST(who_dies_as_it_leaves_a_ring_leaves_nothing_said)
{
    int pipes[5];
    pid_t dies;

    ck_assert_int_eq(pipe(pipes) | pipe(pipes + 2), 0);
    dies = unit_fork(first_that_dies_as_it_goes, pipes);
    ck_assert_int_eq(read(pipes[0], &pipes[4], 1), 1);
    e = unit_open();
    want(ENQ_OK, take(1, ENQ_MODE_S, "b"));
    want(ENQ_OK, take(2, ENQ_MODE_S, "c"));
    ck_assert_int_eq(write(pipes[3], "", 1), 1);
    unit_killed(dies);
    unit_healthy(e);
    ck_assert_uint_eq(SAID(1), 0);
    end();
    for (int i = 0; i < 4; i++)
        close(pipes[i]);
}

int main(void)
{
    unit_begin("ring_modes");
    ADD(where_the_first_goes_the_next_one_says_it_and_the_last_need_not);
    ADD(what_is_not_the_first_goes_without_a_word);
    ADD(nothing_is_said_where_somebody_waits);
    ADD(what_changes_its_mode_is_not_what_was_said);
    ADD(what_one_owner_cumulates_keeps_another_out);
    ADD(what_was_said_of_one_that_has_gone_is_found_out);
    ADD(what_has_run_out_beside_others_is_told_so_when_it_is_given_back);
    ADD(who_dies_as_it_leaves_a_ring_leaves_nothing_said);
    ADD_LOOP(the_table_check_finds_what_is_said_wrongly, LENGTH(wrong));
    return unit_end();
}
