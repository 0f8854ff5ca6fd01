/*
 * check_ring.c - notifications: any history of them, and that they are what
 * brings the events, and not the tick or the round that would find them too.
 */
#include "store/notify.h"

#include <stdio.h>
#include <unistd.h>

#include "api/attachment.h"
#include "told.h"

/* --- the ring --- */

#define STEPS 20000

/* What is in it, by number; 0: its sender died before it was written. */
struct model {
    ref_t ref[STEPS + 1];
    uint32_t sent, seen;
};

static void write_one(struct model *m, struct session_slot *slot, bool dies)
{
    uint32_t number = ++slot->notifications;

    m->sent++;
    m->ref[m->sent] = dies ? 0 : m->sent + 7;
    if (!dies)
        slot->notification[number % NOTIFICATIONS_KEPT] =
            (uint64_t)number << 32 | m->ref[m->sent];
}

static void take(struct model *m, struct session_slot *slot, uint32_t *seen)
{
    enum notification_kind wanted = NOTIFICATION_ONE;
    ref_t ref = 0;

    if (m->sent == m->seen)
        wanted = NOTIFICATION_NONE;
    else if (m->sent - m->seen > NOTIFICATIONS_KEPT || m->ref[m->seen + 1] == 0)
        wanted = NOTIFICATION_LOST;
    ck_assert_int_eq(notification_take(slot, seen, &ref), wanted);
    if (wanted == NOTIFICATION_ONE)
        ck_assert_uint_eq(ref, m->ref[++m->seen]);
    else
        m->seen = m->sent;
}

TEST(any_history_of_notifications_is_told_in_order_or_said_to_be_lost)
{
    static struct model m;
    struct session_slot slot = {.notifications = 1000};
    uint32_t seen = slot.notifications;
    uint64_t dice = unit_seed(), often = 0;

    for (int i = 0; i < STEPS; i++) {
        if (i % 100 == 0)
            often = unit_random(&dice) % 4;
        if (unit_random(&dice) % 4 <= often)
            write_one(&m, &slot, unit_random(&dice) % 20 == 0);
        else
            take(&m, &slot, &seen);
    }
}

/* --- what a notification brings --- */

#define CHAIN 20

/* Each has the lock when the one before gives it back. How long it takes. */
static int64_t hand_over(struct enq *e, struct enq *other)
{
    struct enq_grant g = told_lock(other, "a", ENQ_MODE_X, 0);
    struct enq_event event;
    int64_t begin;

    for (int i = 0; i < CHAIN; i++)
        told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    usleep(5000); /* until none may be overtaken any more */
    begin = unit_now_ms();
    told_unlock(other, &g);
    for (int i = 0; i < CHAIN; i++) {
        event = told_without_descriptor(e);
        told_unlock(e, &event.grant);
    }
    return unit_now_ms() - begin;
}

/* A glance each tick would find them, too: 20 of them take 800 ms. */
TEST(grants_come_by_notification_and_do_not_wait_for_the_tick)
{
    struct enq *e = unit_open(), *other = unit_open();
    int64_t best = INT64_MAX, took;

    for (int i = 0; i < 3 && best >= 400; i++) {
        took = hand_over(e, other);
        best = took < best ? took : best;
    }
    ck_assert_msg(best < 400, "%d hand-overs take %d ms", CHAIN, (int)best);
    enq_close(e);
    enq_close(other);
}

#define EVENTS 3

/* One after the other. How long it takes. */
static int64_t break_and_be_told(struct enq *e, struct enq *other)
{
    int64_t begin = unit_now_ms();

    for (int i = 0; i < EVENTS; i++) {
        struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 0);

        told_break(other, g.handle);
        told(e, ENQ_EVENT_LOST, &g);
    }
    return unit_now_ms() - begin;
}

/* A listener has no tick: the round of each second would find them. */
TEST(lock_events_come_by_notification_and_do_not_wait_for_the_round)
{
    struct enq *e = unit_open(), *other = unit_open();
    int64_t best = INT64_MAX, took;

    ck_assert_int_ge(enq_fd(e), 0);
    usleep(150000); /* its locks were looked through twice */
    for (int i = 0; i < 2 && best >= 900; i++) {
        took = break_and_be_told(e, other);
        best = took < best ? took : best;
    }
    ck_assert_msg(best < 900, "%d events take %d ms", EVENTS, (int)best);
    enq_close(e);
    enq_close(other);
}

#define AT_ONCE 40

static void (*real_sleep)(const struct sys_watch *watches, unsigned n,
    mono_t until);
static uint32_t held_back;

/* In place of the helper's: it takes nothing from the ring while it fills. */
static void wake_later(const struct sys_watch *watches, unsigned n,
    mono_t until)
{
    real_sleep(watches, n, until);
    while (shm_load(&held_back) != 0)
        unit_nap();
}

TEST(more_events_at_once_than_the_ring_holds_all_come_soon)
{
    struct enq *e, *other;
    struct enq_event event;
    struct enq_grant winner;
    char field[12];
    unsigned n = 0;

    real_sleep = sys.sleep;
    sys.sleep = wake_later;
    e = unit_open();
    other = unit_open();
    ck_assert_int_ge(enq_fd(e), 0);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        snprintf(field, sizeof(field), "%u", i);
        told_lock(e, field, ENQ_MODE_O, 0);
    }
    usleep(150000);
    winner = told_lock(other, "@", ENQ_MODE_O, 0);
    shm_store(&held_back, 1);
    want(ENQ_OK, enq_promote(other, winner.handle, winner.token, &winner));
    shm_store(&held_back, 0);
    for (; n < AT_ONCE && told_readable(e, 1000); n++)
        want(ENQ_OK, enq_next(e, &event));
    ck_assert_uint_eq(n, AT_ONCE);
    told_nothing(e, 50);
    enq_close(e);
    enq_close(other);
    sys.sleep = real_sleep;
}

/* --- the descriptor --- */

TEST(it_is_readable_until_the_last_event_is_taken)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_event event;

    ck_assert(!told_readable(e, 0));
    told_lock(other, "a", ENQ_MODE_X, 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++)
            told_start(e, "a", ENQ_MODE_X, "me", 1);
        eventually(shm_load(&e->async.n_pending) == 0);
        for (int i = 0; i < 3; i++) {
            ck_assert(told_readable(e, 500));
            want(ENQ_OK, enq_next(e, &event));
        }
        ck_assert(!told_readable(e, 0));
    }
    enq_close(e);
    enq_close(other);
}

int main(void)
{
    unit_begin("ring");
    ADD(any_history_of_notifications_is_told_in_order_or_said_to_be_lost);
    ADD(grants_come_by_notification_and_do_not_wait_for_the_tick);
    ADD(lock_events_come_by_notification_and_do_not_wait_for_the_round);
    ADD(more_events_at_once_than_the_ring_holds_all_come_soon);
    ADD(it_is_readable_until_the_last_event_is_taken);
    return unit_end();
}
