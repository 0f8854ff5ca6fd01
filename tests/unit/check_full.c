/*
 * check_full.c - a table that was found full is searched again as soon as there
 * may be room, and not before.
 *
 * Time stands still, but for a search: there each look at the clock is a step.
 */
#include "store/full.h"

#include <stdio.h>
#include <string.h>

#include "api/attachment.h"
#include "store/page.h"
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

/* Who wants room may be about to sleep, on the number that it has read. */
TEST(who_gives_room_back_counts_it)
{
    struct enq *e = open_small();
    uint32_t given = shm_load(&e->map->h->given);

    slab_shed(&e->session);
    ck_assert_uint_eq(shm_load(&e->map->h->given), given + 1);
    enq_close(e);
}

/* The 64 next pages are looked through with each page that is claimed. What comes
   meanwhile may lie behind them. */
TEST(orphans_that_a_round_of_all_pages_has_not_met_count_no_more)
{
    struct enq *e = open_small();
    struct orphans *orphans = orphans_of(e->map, PAGE_SMALL);
    uint32_t used;
    unsigned i = 0;
    struct enq_grant g;

    for (; i < 66 * SMALL_PER_PAGE; i++)
        want(ENQ_OK, lock_one(e, i, ENQ_FOREVER, &g));
    used = map_pages_used(e->map);
    ck_assert_uint_gt(used, 64);
    shm_store(&orphans->pages, 5);
    for (int claims = 1; claims <= 2; claims++) {
        for (unsigned last = i + SMALL_PER_PAGE; i < last; i++)
            want(ENQ_OK, lock_one(e, i, ENQ_FOREVER, &g));
        ck_assert_uint_eq(map_pages_used(e->map), used + (unsigned)claims);
        ck_assert_uint_eq(shm_load(&orphans->pages), claims == 1 ? 5 : 2);
        ck_assert_uint_eq(shm_load(&orphans->missed), claims == 1 ? 64 : 0);
        if (claims == 1)
            shm_add(&orphans->pages, 2);
    }
    unit_healthy(e);
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

/* --- a lock that is gone before its waiter has looked --- */

#define WAITS_FOR SLOTS

static struct {
    struct enq *e, *other;
    struct enq_grant held;
} late;

static void open_with_one_held(void)
{
    late.e = open_small();
    late.other = unit_open();
    want(ENQ_OK, lock_one(late.other, WAITS_FOR, ENQ_FOREVER, &late.held));
}

static struct enq_req request_of_20_ms(void)
{
    static char field[16];

    snprintf(field, sizeof(field), "%d", WAITS_FOR);
    return *ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X,
        .ttl_ms = 20, .wait_ms = ENQ_FOREVER);
}

/* It is granted to the waiter, runs out, and its session is in need of room. */
static void make_it_go(void)
{
    struct enq_grant g;
    unsigned i = 0;

    while (lock_one(late.e, i++, ENQ_FOREVER, &g) == ENQ_OK)
        continue;
    pass_ms(100); /* its bypass window is over */
    want(ENQ_OK, enq_unlock(late.other, late.held.handle, late.held.token));
    pass_ms(21);
    want(ENQ_OK, lock_one(late.other, WAITS_FOR, ENQ_FOREVER, &late.held));
    want(ENQ_EFULL, lock_one(late.e, i, ENQ_FOREVER, &g));
}

/* Now that it has looked, what is gone is room if need be. */
static void it_makes_room(const struct enq_grant *g)
{
    struct enq_grant more;

    pass_ms(201);
    want(ENQ_OK, lock_one(late.e, 2 * SLOTS, ENQ_FOREVER, &more));
    want(ENQ_NOTHELD, enq_unlock(late.e, g->handle, g->token));
    unit_healthy(late.e);
    enq_close(late.other);
    enq_close(late.e);
}

static void stand_still(const struct point *p)
{
    if (strcmp(p->name, "wait.looked") != 0)
        return;
    point_hook = NULL;
    make_it_go();
}

TEST(a_lock_that_ran_out_before_its_waiter_looked_was_granted_all_the_same)
{
    struct enq_req req = request_of_20_ms();
    struct enq_grant g;

    open_with_one_held();
    step_ns = 1000; /* who spins, looks at the time */
    point_hook = stand_still;
    want(ENQ_OK, enq_lock(late.e, &req, &g));
    ck_assert_ptr_null(point_hook);
    it_makes_room(&g);
}

/* While the time is turned by hand the helper stands, and so is its round. */
TEST(a_lock_that_ran_out_before_the_helper_looked_was_granted_all_the_same)
{
    struct enq_req req = request_of_20_ms();
    struct enq_event event;
    struct enq_grant g;
    uint64_t ticket;

    open_with_one_held();
    want(ENQ_PENDING, enq_start(late.e, &req, &g, &ticket));
    make_it_go();
    async_round(late.e, thread_enter(late.e->map), false);
    want(ENQ_OK, enq_next(late.e, &event));
    want(ENQ_OK, event.result);
    g = event.grant;
    it_makes_room(&g);
}

/* Nothing else is in its page, which others ask for, and would use anew. */
TEST(
    a_page_is_not_given_up_with_a_lock_in_it_of_which_the_helper_has_yet_to_tell)
{
    struct enq_req req = request_of_20_ms();
    struct enq_event event;
    struct enq_grant g, more;
    uint64_t ticket;

    open_with_one_held();
    want(ENQ_PENDING, enq_start(late.e, &req, &g, &ticket));
    pass_ms(100); /* its bypass window is over */
    want(ENQ_OK, enq_unlock(late.other, late.held.handle, late.held.token));
    pass_ms(21);
    want(ENQ_OK, lock_one(late.other, WAITS_FOR, ENQ_FOREVER, &late.held));
    slab_shed(&late.e->session);
    for (unsigned i = 0; i < SLOTS + 1; i++)
        if (lock_one(late.other, i, ENQ_FOREVER, &more) != ENQ_OK)
            break;
    async_round(late.e, thread_enter(late.e->map), false);
    want(ENQ_OK, enq_next(late.e, &event));
    want(ENQ_OK, event.result);
    slab_shed(&late.e->session);
    ck_assert_uint_eq(late.e->session.n_pages, 0);
    want(ENQ_OK, lock_one(late.other, 2 * SLOTS, ENQ_FOREVER, &more));
    unit_healthy(late.e);
    enq_close(late.other);
    enq_close(late.e);
}

int main(void)
{
    unit_begin("full");
    ADD(a_lock_that_runs_out_meanwhile_makes_room_at_once);
    ADD(what_another_session_gives_back_makes_room_at_once);
    ADD(pages_of_a_session_that_is_closed_make_room_at_once);
    ADD(room_that_is_given_to_all_is_looked_for_at_once);
    ADD(who_gives_room_back_counts_it);
    ADD(orphans_that_a_round_of_all_pages_has_not_met_count_no_more);
    ADD(room_that_another_keeps_is_found_after_a_while);
    ADD(a_lock_that_ran_out_before_its_waiter_looked_was_granted_all_the_same);
    ADD(a_lock_that_ran_out_before_the_helper_looked_was_granted_all_the_same);
    ADD(a_page_is_not_given_up_with_a_lock_in_it_of_which_the_helper_has_yet_to_tell);
    return unit_end();
}
