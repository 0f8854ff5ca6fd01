/*
 * hand_started.c - more histories written by hand: started requests, their
 * results, and cancelling them.
 */
#include "hand.h"

/* --- results of started requests --- */

/* Granted when the lock before it is given back. */
static struct op *started(void)
{
    unlock(lock(0, X, 1, 2), 10);
    return start(1, X, 5, 12);
}

static void a_started_request_has_its_result(void)
{
    struct op *p = started();

    event(p, ENQ_EVENT_RESULT, 11.9);
    unlock(p, 14);
}

static void a_request_has_two_results(void)
{
    struct op *p = started();

    event(p, ENQ_EVENT_RESULT, 11.9);
    event(p, ENQ_EVENT_RESULT, 13);
}

static void a_result_is_of_nothing_that_was_started(void)
{
    event(started(), ENQ_EVENT_RESULT, 11.9)->ticket++;
}

static void a_result_is_of_a_request_that_was_granted_at_once(void)
{
    struct op *p = lock(0, X, 1, 2);

    p->started = true;
    event(p, ENQ_EVENT_RESULT, 3);
}

static void a_result_has_the_handle_of_another(void)
{
    event(started(), ENQ_EVENT_RESULT, 11.9)->handle++;
}

static void two_requests_have_the_same_ticket(void)
{
    struct op *p = started(), *q = start(1, X, 6, 0);

    q->ticket = p->ticket;
    q->key = B;
    die(1, 13, 14);
}

static void what_was_started_is_held_by_two(void)
{
    event(started(), ENQ_EVENT_RESULT, 11.9);
    lock(2, X, 14, 15);
}

static void a_started_request_is_overtaken(void)
{
    struct op *p;

    unlock(lock(0, X, 1, 2), 20);
    unlock(lock(2, X, 21, 22), 30);
    p = start(1, X, 5, 31);
    p->token = ++hand_token;
}

/* Of its process nothing more was seen: its result was last looked for then. */
static void is_killed_after_it_was_overtaken(double looked)
{
    struct op *p;

    unlock(lock(0, X, 1, 2), 20);
    unlock(lock(2, X, 21, 22), 30);
    p = start(1, X, 5, 0);
    p->empty_ns = AT_MS(looked);
    die(1, looked + 1, looked + 2);
}

static void a_started_request_is_overtaken_and_its_process_killed(void)
{
    is_killed_after_it_was_overtaken(73);
}

static void who_leaves_for_a_cycle_is_told_a_little_later(void)
{
    is_killed_after_it_was_overtaken(71);
}

static void a_started_request_sleeps_on(void)
{
    unlock(lock(0, X, 1, 2), 10);
    start(1, X, 5, 75);
}

static void a_started_request_is_not_looked_for(void)
{
    unlock(lock(0, X, 1, 2), 10);
    start(1, X, 5, 75)->empty_ns = AT_MS(20);
}

static void a_granted_result_is_lost(void)
{
    unlock(lock(0, X, 1, 2), 10);
    start(1, X, 5, 0)->empty_ns = AT_MS(900);
}

/* Waits for 10 ms, behind one that never lets go. */
static struct op *in_vain(double end)
{
    struct op *p;

    lock(0, X, 1, 2);
    p = start(1, X, 5, end);
    p->wait_ms = 10;
    p->result = ENQ_TIMEDOUT;
    return p;
}

static void a_started_request_times_out(void)
{
    in_vain(16);
}

static void a_started_request_times_out_too_early(void)
{
    in_vain(14);
}

static void a_started_request_times_out_too_late(void)
{
    in_vain(100);
}

static void who_times_out_too_late_had_no_cpu(void)
{
    in_vain(100);
    hand_book->lives[1].starved_ns = 60 * NS_MS;
}

static void a_timeout_is_lost(void)
{
    in_vain(0)->empty_ns = AT_MS(900);
}

static void a_started_request_is_busy(void)
{
    in_vain(16)->result = ENQ_BUSY;
}

/* --- cancelled ones --- */

static struct op *cancel(const struct op *of, double begin)
{
    struct op *op = about(of, OP_CANCEL, begin, begin + 1);

    op->ticket = of->ticket;
    return op;
}

static struct op *cancelled(double end)
{
    struct op *p;

    lock(0, X, 1, 2);
    p = start(1, X, 5, end);
    p->result = ENQ_CANCELLED;
    return p;
}

static void a_request_is_cancelled(void)
{
    cancel(cancelled(12), 10);
}

static void a_cancelled_request_is_granted(void)
{
    cancel(started(), 10);
}

static void a_request_is_granted_and_not_cancelled(void)
{
    cancel(started(), 10)->result = ENQ_NOTHELD;
}

static void a_request_is_cancelled_after_its_result(void)
{
    struct op *p = cancelled(12);

    cancel(p, 10);
    cancel(p, 14);
}

static void a_started_request_is_cancelled_by_nobody(void)
{
    cancelled(12);
}

static void a_request_is_cancelled_in_vain(void)
{
    cancel(cancelled(12), 10)->result = ENQ_NOTHELD;
}

static void a_cancelled_request_gets_no_result(void)
{
    struct op *p = cancelled(0);

    p->result = 0;
    p->empty_ns = AT_MS(900);
    cancel(p, 10);
}

static void who_overtakes_a_cancelled_request_does_not(void)
{
    unlock(lock(0, X, 1, 2), 20);
    unlock(lock(2, X, 21, 22), 40);
    cancel(start(1, X, 5, 41), 19);
    hand_book->ops[1][0].result = ENQ_CANCELLED;
}

static void a_closed_request_is_not_overtaken(void)
{
    struct op *p;

    unlock(lock(0, X, 1, 2), 20);
    p = start(1, X, 5, 0);
    about(p, OP_CLOSE, 15, 16);
    unlock(lock(2, X, 21, 22), 40);
}

const struct hand_test hand_started[] = {
    T(a_started_request_has_its_result, NONE),
    T(a_request_has_two_results, FAULT_TICKET),
    T(a_result_is_of_nothing_that_was_started, FAULT_TICKET),
    T(a_result_is_of_a_request_that_was_granted_at_once, FAULT_TICKET),
    T(a_result_has_the_handle_of_another, FAULT_TICKET),
    T(two_requests_have_the_same_ticket, FAULT_TICKET),
    T(what_was_started_is_held_by_two, FAULT_EXCLUSION),
    T(a_started_request_is_overtaken, FAULT_OVERTAKEN),
    T(a_started_request_is_overtaken_and_its_process_killed, FAULT_OVERTAKEN),
    T(who_leaves_for_a_cycle_is_told_a_little_later, NONE),
    T(a_started_request_sleeps_on, FAULT_ASLEEP),
    T(a_started_request_is_not_looked_for, NONE),
    T(a_granted_result_is_lost, FAULT_ASLEEP),
    T(a_started_request_times_out, NONE),
    T(a_started_request_times_out_too_early, FAULT_EARLY),
    T(a_started_request_times_out_too_late, FAULT_LATE),
    T(who_times_out_too_late_had_no_cpu, NONE),
    T(a_timeout_is_lost, FAULT_LATE),
    T(a_started_request_is_busy, FAULT_RESULT),
    T(a_request_is_cancelled, NONE),
    T(a_cancelled_request_is_granted, FAULT_ENDED),
    T(a_request_is_granted_and_not_cancelled, NONE),
    T(a_request_is_cancelled_after_its_result, FAULT_TICKET),
    T(a_started_request_is_cancelled_by_nobody, FAULT_ENDED),
    T(a_request_is_cancelled_in_vain, FAULT_ENDED),
    T(a_cancelled_request_gets_no_result, FAULT_LATE),
    T(who_overtakes_a_cancelled_request_does_not, NONE),
    T(a_closed_request_is_not_overtaken, NONE),
    {0},
};
