/*
 * hand_events.c - more histories written by hand: events, cycles, heartbeats
 * and lock delays.
 */
#include "hand.h"

/* --- the end of a lock --- */

/* Of 40 ms. */
static struct op *brief(void)
{
    struct op *p = lock(0, S, 1, 2);

    p->ttl_ms = 40;
    p->handle = ++hand_token;
    return p;
}

static struct op *expired(const struct op *of, double at)
{
    struct op *op = event(of, ENQ_EVENT_EXPIRED, at);

    op->result = ENQ_EXPIRED;
    return op;
}

static struct op *lost(const struct op *of, int result, double at)
{
    struct op *op = event(of, ENQ_EVENT_LOST, at);

    op->result = result;
    return op;
}

static void its_end_is_told(void)
{
    struct op *p = brief();

    event(p, ENQ_EVENT_EXPIRING, 35);
    expired(p, 45);
    unlock(p, 46)->result = ENQ_EXPIRED;
}

static void its_end_is_told_twice(void)
{
    struct op *p = brief();

    expired(p, 45);
    expired(p, 47);
}

static void its_end_is_told_too_early(void)
{
    expired(brief(), 38);
}

static void its_end_is_told_before_that_of_its_renewal(void)
{
    struct op *p = brief();

    about(p, OP_RENEW, 30, 31)->ttl_ms = 40;
    expired(p, 50);
}

static void a_lock_that_was_given_back_has_expired(void)
{
    struct op *p = brief();

    unlock(p, 30);
    expired(p, 45);
}

static void a_lock_that_has_expired_is_given_back(void)
{
    struct op *p = brief();

    expired(p, 45);
    unlock(p, 46);
}

static void a_lock_that_was_given_back_is_lost(void)
{
    struct op *p = brief();

    unlock(p, 30);
    lost(p, ENQ_FORCED, 33);
}

static void the_end_of_a_lock_is_not_told(void)
{
    struct op *p = brief(), *q = lock(0, S, 1.5, 2.5);

    q->ttl_ms = 10;
    q->handle = ++hand_token;
    event(p, ENQ_EVENT_EXPIRING, 35);
    event(q, ENQ_EVENT_EXPIRING, 35);
    expired(p, 900);
}

static void a_break_is_not_told(void)
{
    struct op *p = brief(), *q = lock(0, S, 1.5, 2.5);

    foreign(1, q, OP_BREAK, 20);
    event(p, ENQ_EVENT_EXPIRING, 35);
    expired(p, 900);
}

static void who_was_told_by_a_call_needs_no_event(void)
{
    struct op *p = brief(), *q = lock(0, S, 1.5, 2.5);

    foreign(1, q, OP_BREAK, 20);
    about(q, OP_RENEW, 25, 26)->result = ENQ_FORCED;
    event(p, ENQ_EVENT_EXPIRING, 35);
    expired(p, 900);
}

static void a_lock_is_lost_that_nobody_took(void)
{
    lost(brief(), ENQ_LOST, 30);
}

static void a_broken_lock_is_lost(void)
{
    struct op *p = brief();

    foreign(1, p, OP_BREAK, 20);
    lost(p, ENQ_FORCED, 22);
}

static void a_broken_lock_is_said_to_be_unlocked(void)
{
    struct op *p = brief();

    foreign(1, p, OP_BREAK, 20);
    lost(p, ENQ_NOTHELD, 22);
}

static void an_expired_lock_is_said_to_be_lost(void)
{
    lost(brief(), ENQ_EXPIRED, 45);
}

/* An O of place 0, taken by a promotion of ANN's neighbour BOB. */
static struct op *taken(void)
{
    struct op *p = lock(0, O, 1, 2), *q = lock(1, O, 3, 4), *op;

    about(q, OP_PROMOTE, 5, 6)->token = ++hand_token;
    op = lost(p, ENQ_LOST, 7);
    op->other = BOB;
    return op;
}

static void a_lock_is_taken_by_a_promotion(void)
{
    taken();
}

static void a_lock_is_taken_by_another_than_it_is_said(void)
{
    taken()->other = CID;
}

static void a_lock_is_taken_by_rubbish(void)
{
    taken()->other = OWNERS;
}

/* --- before its end --- */

static void its_end_is_near_too_early(void)
{
    event(brief(), ENQ_EVENT_EXPIRING, 20);
}

static void its_end_is_near_twice(void)
{
    struct op *p = brief();

    event(p, ENQ_EVENT_EXPIRING, 35);
    event(p, ENQ_EVENT_EXPIRING, 37);
}

static void its_end_is_near_again_after_a_renewal(void)
{
    struct op *p = brief();

    event(p, ENQ_EVENT_EXPIRING, 35);
    about(p, OP_RENEW, 36, 37)->ttl_ms = 40;
    event(p, ENQ_EVENT_EXPIRING, 70);
}

static void its_end_was_near_before_a_renewal(void)
{
    struct op *p = brief();

    about(p, OP_RENEW, 36, 37)->ttl_ms = 40;
    event(p, ENQ_EVENT_EXPIRING, 38)->empty_seq = (uint64_t)AT_MS(34);
}

static void somebody_waits_for_it(void)
{
    struct op *p = brief();

    waiter(1, X, 5, 41);
    event(p, ENQ_EVENT_BLOCKING, 6)->other = BOB;
}

static void somebody_waits_for_it_twice(void)
{
    struct op *p = brief();

    waiter(1, X, 5, 41);
    event(p, ENQ_EVENT_BLOCKING, 6);
    event(p, ENQ_EVENT_BLOCKING, 8);
}

static void nobody_waits_for_it(void)
{
    struct op *p = brief();

    unlock(waiter(1, S, 5, 6), 7);
    event(p, ENQ_EVENT_BLOCKING, 8);
}

static void another_waits_for_it_than_it_is_said(void)
{
    struct op *p = brief();

    waiter(1, X, 5, 41);
    event(p, ENQ_EVENT_BLOCKING, 6)->other = CID;
}

/* --- whose, and in which order --- */

static void it_is_asked_for_before_its_result(void)
{
    struct op *p;

    unlock(lock(0, X, 1, 2), 10);
    p = start(1, X, 5, 12);
    start(2, X, 6, 0);
    die(2, 30, 31);
    event(p, ENQ_EVENT_BLOCKING, 11.5);
    event(p, ENQ_EVENT_RESULT, 11.9);
}

static void it_is_asked_for_after_its_end(void)
{
    struct op *p = brief();

    waiter(1, X, 5, 41);
    expired(p, 45);
    event(p, ENQ_EVENT_BLOCKING, 46);
}

static void an_event_of_a_lock_that_was_refused(void)
{
    struct op *p;

    lock(1, X, 1, 2);
    p = lock(0, X, 3, 4);
    p->result = ENQ_BUSY;
    expired(p, 45);
}

static void an_event_of_somebody_elses_lock(void)
{
    struct op *op = expired(brief(), 45);

    op->life = 2;
    hand_book->lives[2].listens_seq = 1;
}

static void an_event_with_a_token_that_it_never_had(void)
{
    expired(brief(), 45)->token++;
}

static void an_event_for_a_process_that_does_not_listen(void)
{
    expired(brief(), 45);
    hand_book->lives[0].listens_seq = 0;
}

static void a_descriptor_is_readable_for_nothing(void)
{
    event(brief(), 0, 5)->result = ENQ_PENDING;
}

/* --- cycles --- */

/* Two hold what the other wants; but the first may have more time. */
static struct op *cycle(unsigned key)
{
    struct op *q = lock(1, X, 1.5, 2.5), *op;

    lock(0, X, 1, 2);
    q->key = B;
    op = start(0, X, 5, 0);
    op->key = (uint8_t)key;
    die(0, 40, 41);
    op = waiter(1, X, 6, 7);
    op->result = ENQ_DEADLOCK;
    return op;
}

static void a_cycle_is_refused(void)
{
    cycle(B);
}

static void a_cycle_is_refused_that_was_none(void)
{
    cycle(AX);
    hand_book->ops[0][1].result = ENQ_OK;
    set_times(&hand_book->ops[0][1], 5, 5.5);
}

static void nobody_is_refused_for_a_cycle(void)
{
    cycle(B)->owner = NOBODY;
}

static void who_wants_no_cycles_is_refused_for_one(void)
{
    cycle(B)->no_cycles = true;
}

/* --- heartbeats, lock delays, promotions --- */

static void a_lock_with_a_heartbeat_outlives_its_ttl(void)
{
    struct op *p = lock(0, X, 1, 2);

    p->ttl_ms = 40;
    p->heartbeat_ms = 5;
    lock(1, X, 100, 101)->result = ENQ_BUSY;
}

static void a_lock_with_a_heartbeat_expires(void)
{
    struct op *p = brief();

    p->ttl_ms = 100;
    p->heartbeat_ms = 5;
    unlock(p, 150)->result = ENQ_EXPIRED;
}

static void a_heartbeat_comes_late(void)
{
    a_lock_with_a_heartbeat_expires();
    hand_book->stops[hand_book->n_stops++] =
        (struct pause){AT_MS(5), AT_MS(110)};
}

static struct op *delayed(void)
{
    struct op *p = lock(0, X, 1, 2);

    p->ttl_ms = 10;
    p->delay_ms = 20;
    return p;
}

static void a_lock_is_given_within_its_delay(void)
{
    delayed();
    lock(1, X, 20, 21);
}

static void a_lock_is_given_after_its_delay(void)
{
    delayed();
    lock(1, X, 33, 34);
}

static void a_lock_is_given_to_its_owner_within_its_delay(void)
{
    delayed();
    lock(1, X, 20, 21)->owner = ANN;
}

static void a_lock_is_broken_within_its_delay(void)
{
    foreign(2, delayed(), OP_BREAK, 15);
    lock(1, X, 20, 21);
}

static void a_lock_is_given_within_its_delay_after_a_death(void)
{
    delayed()->ttl_ms = ENQ_FOREVER;
    die(0, 10, 11);
    lock(1, X, 20, 21);
}

static void who_is_refused_within_a_delay(void)
{
    unlock(delayed(), 15)->result = ENQ_EXPIRED;
    lock(1, X, 30, 31)->result = ENQ_BUSY;
}

static void who_is_refused_after_a_delay(void)
{
    delayed();
    lock(1, X, 70, 71)->result = ENQ_BUSY;
}

static void a_promotion_that_died_may_have_won(void)
{
    struct op *p = lock(0, O, 1, 2);

    p->on_death = ENQ_DEATH_LEASE;
    p->ttl_ms = 100;
    about(p, OP_PROMOTE, 5, 0);
    die(0, 6, 7);
    lock(1, E, 10, 11)->owner = ANN;
}

const struct hand_test hand_events[] = {
    T(its_end_is_told, NONE),
    T(its_end_is_told_twice, FAULT_ORDER),
    T(its_end_is_told_too_early, FAULT_LOST),
    T(its_end_is_told_before_that_of_its_renewal, FAULT_LOST),
    T(a_lock_that_was_given_back_has_expired, FAULT_EVENT),
    T(a_lock_that_has_expired_is_given_back, FAULT_EVENT),
    T(a_lock_that_was_given_back_is_lost, FAULT_EVENT),
    T(the_end_of_a_lock_is_not_told, FAULT_SILENT),
    T(a_break_is_not_told, FAULT_SILENT),
    T(who_was_told_by_a_call_needs_no_event, NONE),
    T(a_lock_is_lost_that_nobody_took, FAULT_LOST),
    T(a_broken_lock_is_lost, NONE),
    T(a_broken_lock_is_said_to_be_unlocked, FAULT_EVENT),
    T(an_expired_lock_is_said_to_be_lost, FAULT_EVENT),
    T(a_lock_is_taken_by_a_promotion, NONE),
    T(a_lock_is_taken_by_another_than_it_is_said, FAULT_EVENT),
    T(a_lock_is_taken_by_rubbish, FAULT_EVENT),
    T(its_end_is_near_too_early, FAULT_EVENT),
    T(its_end_is_near_twice, FAULT_EVENT),
    T(its_end_is_near_again_after_a_renewal, NONE),
    T(its_end_was_near_before_a_renewal, NONE),
    T(somebody_waits_for_it, NONE),
    T(somebody_waits_for_it_twice, FAULT_EVENT),
    T(nobody_waits_for_it, FAULT_EVENT),
    T(another_waits_for_it_than_it_is_said, FAULT_EVENT),
    T(it_is_asked_for_before_its_result, FAULT_ORDER),
    T(it_is_asked_for_after_its_end, FAULT_ORDER),
    T(an_event_of_a_lock_that_was_refused, FAULT_EVENT),
    T(an_event_of_somebody_elses_lock, FAULT_EVENT),
    T(an_event_with_a_token_that_it_never_had, FAULT_EVENT),
    T(an_event_for_a_process_that_does_not_listen, FAULT_EVENT),
    T(a_descriptor_is_readable_for_nothing, FAULT_EVENT),
    T(a_cycle_is_refused, NONE),
    T(a_cycle_is_refused_that_was_none, FAULT_DEADLOCK),
    T(nobody_is_refused_for_a_cycle, FAULT_DEADLOCK),
    T(who_wants_no_cycles_is_refused_for_one, FAULT_RESULT),
    T(a_lock_with_a_heartbeat_outlives_its_ttl, NONE),
    T(a_lock_with_a_heartbeat_expires, FAULT_LOST),
    T(a_heartbeat_comes_late, NONE),
    T(a_lock_is_given_within_its_delay, FAULT_DELAY),
    T(a_lock_is_given_after_its_delay, NONE),
    T(a_lock_is_given_to_its_owner_within_its_delay, NONE),
    T(a_lock_is_broken_within_its_delay, NONE),
    T(a_lock_is_given_within_its_delay_after_a_death, FAULT_DELAY),
    T(who_is_refused_within_a_delay, NONE),
    T(who_is_refused_after_a_delay, FAULT_REFUSED),
    T(a_promotion_that_died_may_have_won, NONE),
    {0},
};
