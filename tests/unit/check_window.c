/*
 * check_window.c - waiters within their bypass window (R7): what they are told.
 * Time stands still, but for what the tests let pass, so that no window ends by
 * itself, and nobody looks but who is told to: the helper's rounds are played
 * by hand.
 */
#include <string.h>

#include "api/attachment.h"
#include "sync/sys.h"
#include "sync/thread.h"
#include "told.h"

/* Windows of two that come at one moment, one after the other, end then. */
#define FIRST_DUE_US 200
#define SECOND_DUE_US 250

/* --- time --- */

static int64_t now_ns;

static mono_t now_by_hand(void)
{
    return (mono_t){__atomic_load_n(&now_ns, __ATOMIC_SEQ_CST)};
}

static void pass_us(int64_t us)
{
    __atomic_add_fetch(&now_ns, us * 1000, __ATOMIC_SEQ_CST);
}

/* Late, so that the kernel's clock does not come there. The helper thread does
   nothing with requests while the time is turned. */
static void stop_the_clock(void)
{
    now_ns = sys.now().ns + 3600 * NS_PER_S;
    sys.now = sys.coarse = now_by_hand;
}

/* --- what happens between a note and its wake-up --- */

static pthread_t releaser;
static void (*meanwhile)(void);

static void at_wakes(const struct point *p)
{
    void (*act)(void) = meanwhile;

    if (act == NULL || !pthread_equal(pthread_self(), releaser) ||
        strcmp(p->name, "grant.before_wake") != 0)
        return;
    meanwhile = NULL;
    act();
}

static void before_the_wakes(void (*act)(void))
{
    releaser = pthread_self();
    meanwhile = act;
    point_hook = at_wakes;
}

/* --- who takes part --- */

static struct enq *holder, *waiters;
static struct enq_grant held;

static void begin(void)
{
    waiters = unit_open();
    holder = unit_open();
    stop_the_clock();
    held = told_lock(holder, "a", ENQ_MODE_X, 0);
}

static void end(void)
{
    point_hook = NULL;
    unit_healthy(holder);
    enq_close(waiters);
    enq_close(holder);
}

static void look(void)
{
    async_round(waiters, thread_enter(waiters->map), false);
}

static uint64_t start(enum enq_mode mode, const char *owner)
{
    uint64_t ticket = told_start(waiters, "a", mode, owner, ENQ_FOREVER);

    look(); /* once, as it is new */
    return ticket;
}

/* Those that are told look, and find nothing. */
static void all_try_in_vain(void)
{
    struct enq_event event;

    ck_assert_ptr_null(meanwhile);
    look();
    want(ENQ_PENDING, enq_next(waiters, &event));
}

static void granted(uint64_t ticket)
{
    struct enq_event event = {0};

    look();
    want(ENQ_OK, enq_next(waiters, &event));
    ck_assert_uint_eq(event.ticket, ticket);
    ck_assert_int_eq(event.result, ENQ_OK);
}

static void first_is_due(void)
{
    pass_us(FIRST_DUE_US + (SECOND_DUE_US - FIRST_DUE_US) / 2);
}

static void barge(void)
{
    held = told_lock(holder, "a", ENQ_MODE_X, 0);
}

TEST(who_tried_in_vain_is_told_when_the_waiter_in_its_way_leaves)
{
    uint64_t exclusive, young, shared;

    begin();
    exclusive = start(ENQ_MODE_X, "first");
    young = start(ENQ_MODE_X, "second"); /* in nobody's way, but not behind */
    shared = start(ENQ_MODE_S, "third");
    before_the_wakes(first_is_due);
    want(ENQ_OK, enq_demote(holder, held.handle, held.token));
    all_try_in_vain();
    want(ENQ_OK, enq_cancel(waiters, exclusive));
    look();
    ck_assert_int_eq(told_without_descriptor(waiters).result, ENQ_CANCELLED);
    granted(shared);
    want(ENQ_OK, enq_cancel(waiters, young));
    end();
}

TEST(who_tried_in_vain_is_told_when_one_before_it_is_granted_what_it_can_share)
{
    uint64_t first, exclusive, third;

    begin();
    first = start(ENQ_MODE_S, "first");
    exclusive = start(ENQ_MODE_X, "second");
    third = start(ENQ_MODE_S, "third");
    before_the_wakes(barge);
    told_unlock(holder, &held);
    all_try_in_vain();
    first_is_due();
    told_unlock(holder, &held);
    granted(first);
    granted(third);
    want(ENQ_OK, enq_cancel(waiters, exclusive));
    end();
}

/* That would be a wake-up for each time that somebody is quicker. */
TEST(who_tried_in_vain_is_not_told_again_where_the_lock_is_only_given_back)
{
    begin();
    start(ENQ_MODE_S, "first");
    before_the_wakes(barge);
    told_unlock(holder, &held);
    all_try_in_vain();
    told_unlock(holder, &held);
    all_try_in_vain();
    end();
}

/* --- who looks --- */

#define QUEUE 10

static unsigned looks;

static void count_looks(const struct point *p)
{
    looks += strcmp(p->name, "grant.before_wake") == 0;
}

/* The first has to; to the others nothing has happened. */
TEST(a_hand_over_makes_the_next_of_a_session_look_and_not_all_behind_it)
{
    uint64_t first;

    begin();
    first = start(ENQ_MODE_X, "first");
    for (unsigned i = 1; i < QUEUE; i++)
        start(ENQ_MODE_X, "other");
    told_unlock(holder, &held);
    granted(first);
    /* and a glance at what nobody was told of: of the last after so many ticks */
    pass_us(QUEUE * SYS_TICK_NS / 1000);
    point_hook = count_looks;
    for (unsigned i = 0; i < QUEUE; i++)
        look();
    ck_assert_uint_le(looks, 3);
    end();
}

int main(void)
{
    unit_begin("window");
    ADD(who_tried_in_vain_is_told_when_the_waiter_in_its_way_leaves);
    ADD(who_tried_in_vain_is_told_when_one_before_it_is_granted_what_it_can_share);
    ADD(who_tried_in_vain_is_not_told_again_where_the_lock_is_only_given_back);
    ADD(a_hand_over_makes_the_next_of_a_session_look_and_not_all_behind_it);
    return unit_end();
}
