/*
 * check_full.c - a table that was found full is searched again as soon as there
 * may be room, and not before.
 *
 * Time stands still, but for a search: there each look at the clock is a step.
 */
#include "store/full.h"

#include <stdio.h>

#include "api/attachment.h"
#include "sync/sys.h"
#include "unit.h"

#define SLOTS (70 * 21) /* more pages than are looked through at once */

static int64_t now_ns, step_ns;

static mono_t now_by_hand(void)
{
    return (mono_t){__atomic_add_fetch(&now_ns, step_ns, __ATOMIC_RELAXED)};
}

static mono_t coarse_by_hand(void)
{
    return (mono_t){__atomic_load_n(&now_ns, __ATOMIC_RELAXED)};
}

static void pass_ms(int64_t ms)
{
    __atomic_add_fetch(&now_ns, ms * NS_PER_MS, __ATOMIC_RELAXED);
}

static int lock_one(struct enq *e, unsigned i, int64_t ttl_ms,
    struct enq_grant *g)
{
    char field[16];

    snprintf(field, sizeof(field), "%u", i);
    return enq_lock(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X,
            .ttl_ms = ttl_ms),
        g);
}

static struct enq *open_small(void)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = SLOTS, .owner = "me"};

    now_ns = sys.now().ns;
    sys.now = now_by_hand;
    sys.coarse = coarse_by_hand;
    return unit_open_with(&opts);
}

/* The last of them runs out then. */
static void fill(struct enq *e, int64_t ttl_ms, struct enq_grant *g)
{
    for (unsigned i = 0; i < SLOTS; i++)
        want(ENQ_OK,
            lock_one(e, i, i == SLOTS - 1 ? ttl_ms : ENQ_FOREVER, &g[i]));
}

static int ask(struct enq *e)
{
    struct enq_grant g;

    return lock_one(e, SLOTS, ENQ_FOREVER, &g);
}

/* It takes some 50 ms, and so it is not made again for a fifth of a second. */
static void search_in_vain(struct enq *e)
{
    step_ns = 5 * NS_PER_MS;
    want(ENQ_EFULL, ask(e));
    step_ns = 0;
    want(ENQ_EFULL, ask(e));
    ck_assert(full_is_known(&e->session, &e->session.small));
}

TEST(a_lock_that_runs_out_meanwhile_makes_room_at_once)
{
    struct enq *e = open_small();
    struct enq_grant g[SLOTS];

    sys_coarse_lag_ns = 0;
    fill(e, 150, g);
    search_in_vain(e);
    pass_ms(150);
    want(ENQ_OK, ask(e));
    unit_healthy(e);
    enq_close(e);
}

TEST(what_another_session_gives_back_makes_room_at_once)
{
    struct enq *e = open_small(), *other = unit_open();
    struct enq_grant g[SLOTS];

    fill(e, ENQ_FOREVER, g);
    search_in_vain(e);
    want(ENQ_OK, enq_unlock(other, g[0].handle, g[0].token));
    want(ENQ_OK, ask(e));
    unit_healthy(e);
    enq_close(other);
    enq_close(e);
}

TEST(pages_of_a_session_that_is_closed_make_room_at_once)
{
    struct enq *e = open_small(), *other = unit_open();
    struct enq_grant g[SLOTS];

    want(ENQ_OK, lock_one(other, 2 * SLOTS, ENQ_FOREVER, &g[0]));
    for (unsigned i = 0; lock_one(e, i, ENQ_FOREVER, &g[0]) == ENQ_OK; i++)
        continue;
    search_in_vain(e);
    enq_close(other);
    want(ENQ_OK, ask(e));
    unit_healthy(e);
    enq_close(e);
}

/* As somebody else has asked for it. */
TEST(room_that_is_given_to_all_is_looked_for_at_once)
{
    struct enq *e = open_small();
    struct enq_grant g[SLOTS];

    fill(e, ENQ_FOREVER, g);
    search_in_vain(e);
    shm_add(&e->map->h->given, 1);
    ck_assert(!full_is_known(&e->session, &e->session.small));
    want(ENQ_EFULL, ask(e)); /* there was none after all */
    enq_close(e);
}

/* Of a page that has been emptied and is kept by its session nothing tells. */
TEST(room_that_another_keeps_is_found_after_a_while)
{
    struct enq *e = open_small(), *other = unit_open();
    struct enq_grant g[SLOTS], kept;

    want(ENQ_OK, lock_one(other, 2 * SLOTS, ENQ_FOREVER, &kept));
    for (unsigned i = 0; lock_one(e, i, ENQ_FOREVER, &g[0]) == ENQ_OK; i++)
        continue;
    search_in_vain(e);
    want(ENQ_OK, enq_unlock(other, kept.handle, kept.token));
    want(ENQ_EFULL, ask(e));
    pass_ms(201);
    want(ENQ_OK, ask(e));
    unit_healthy(e);
    enq_close(other);
    enq_close(e);
}

int main(void)
{
    unit_begin("full");
    ADD(a_lock_that_runs_out_meanwhile_makes_room_at_once);
    ADD(what_another_session_gives_back_makes_room_at_once);
    ADD(pages_of_a_session_that_is_closed_make_room_at_once);
    ADD(room_that_is_given_to_all_is_looked_for_at_once);
    ADD(room_that_another_keeps_is_found_after_a_while);
    return unit_end();
}
