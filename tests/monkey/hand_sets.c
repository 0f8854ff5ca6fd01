/*
 * hand_sets.c - more histories written by hand: several locks asked for as
 * one.
 */
#include "hand.h"

/* --- what they are made of --- */

/* Two calls that were begun one after the other become one. */
static struct op *as_one(struct op *first, struct op *second)
{
    first->set = second->set = first->begin_seq;
    first->set_n = second->set_n = 2;
    second->set_at = 1;
    second->key = B;
    second->ident++;
    first->ident |= IDENT_SET;
    second->ident |= IDENT_SET;
    return first;
}

/* X for the keys A and B. */
static struct op *set(unsigned place, double begin, double end)
{
    struct op *first = lock(place, X, begin, end);

    return as_one(first, lock(place, X, begin, end));
}

static struct op *waiting_set(unsigned place, double begin, double end)
{
    struct op *first = waiter(place, X, begin, end);

    return as_one(first, waiter(place, X, begin, end));
}

static struct op *started_set(unsigned place, double begin, double end)
{
    struct op *first = start(place, X, begin, end), *second;

    second = start(place, X, begin, end);
    as_one(first, second);
    second->ticket = first->ticket;
    first->given = first->handle;
    second->given = second->handle;
    return first;
}

static void set_results(struct op *op, int result)
{
    op[0].result = op[1].result = result;
}

/* Kept over the death of its taker, in the call. */
static struct op *cut_set(void)
{
    struct op *op = set(0, 1, 0);

    op[0].on_death = op[1].on_death = ENQ_DEATH_KEEP;
    die(0, 10, 11);
    return op;
}

static struct op *adopt(unsigned place, const struct op *of, double begin)
{
    struct op *op = about(of, OP_ADOPT, begin, begin + 1);

    op->place = op->life = (uint8_t)place;
    op->token = ++hand_token;
    return op;
}

static void unlock_one_by_one(const struct op *op, double begin)
{
    unlock(&op[0], begin);
    unlock(&op[1], begin + 1);
}

/* By a process of its own. */
static struct op *list(double begin)
{
    struct op *op = call(JANITOR, OP_LIST, begin, begin + 1);

    op->whole = true;
    return op;
}

static void sight(const struct op *list, const struct op *of, bool waiting)
{
    hand_book->sightings[hand_book->n_sightings++] =
        (struct sighting){of->ident, list->begin_seq, waiting};
}

/* At one of the keys. */
static struct op *at(struct op *op, unsigned key)
{
    op->key = (uint8_t)key;
    return op;
}

/* --- held as any other --- */

static void a_set_is_held_and_given_back(void)
{
    unlock_one_by_one(set(0, 1, 2), 10);
    set(1, 13, 14);
}

static void a_lock_of_a_set_is_given_to_another(void)
{
    set(0, 1, 2);
    at(lock(1, X, 4, 5), B);
}

static void a_token_of_a_set_is_smaller_than_one_before(void)
{
    struct op *p = at(lock(1, X, 1, 2), B), *q;

    unlock(p, 3);
    q = set(0, 10, 11);
    q[1].token = p->token - 1;
}

/* --- all or none --- */

static void half_a_set_is_left_of_the_dead(void)
{
    left(adopt(1, cut_set(), 20));
}

static void a_set_is_left_of_the_dead(void)
{
    struct op *op = cut_set();

    left(adopt(1, op, 20));
    left(op + 1);
}

static void nothing_is_left_of_a_set_of_the_dead(void)
{
    cut_set();
    set(1, 20, 21);
}

static void half_a_set_of_the_dead_is_given_to_another(void)
{
    struct op *op = cut_set();

    left(adopt(1, op, 20));
    left(op + 1);
    unlock(at(lock(2, X, 30, 31), B), 40);
}

static void half_a_set_of_the_dead_is_at_rest(void)
{
    left(cut_set());
}

static void half_a_set_of_the_dead_was_broken(void)
{
    struct op *op = cut_set();

    foreign(1, op, OP_BREAK, 20)->was_held = true;
}

static void half_a_set_is_in_a_list(void)
{
    sight(list(5), set(0, 1, 2), false);
}

static void a_set_is_in_a_list(void)
{
    struct op *op = set(0, 1, 2), *l = list(5);

    sight(l, &op[0], false);
    sight(l, &op[1], false);
}

static void half_a_set_still_waits(void)
{
    struct op *op = set(0, 1, 2), *l = list(5);

    sight(l, &op[0], false);
    sight(l, &op[1], true);
}

static void the_rest_of_a_set_of_the_dead_is_not_in_a_list(void)
{
    struct op *op = cut_set();

    left(adopt(1, op, 20));
    left(op + 1);
    sight(list(30), op, false);
}

static void a_set_holds_something_while_it_waits(void)
{
    struct op *op;

    at(lock(0, X, 1, 2), B);
    op = waiting_set(1, 5, 25);
    op[0].wait_ms = op[1].wait_ms = 20;
    set_results(op, ENQ_TIMEDOUT);
    sight(list(10), op, false);
}

/* --- refused, and for how long it waits --- */

static void a_set_is_refused_and_nothing_was_in_its_way(void)
{
    set_results(set(0, 1, 2), ENQ_BUSY);
}

static void a_set_is_refused_for_its_second_lock(void)
{
    at(lock(1, X, 1, 2), B);
    set_results(set(0, 3, 4), ENQ_BUSY);
}

static void a_waiting_set_ends_too_early(void)
{
    struct op *op;

    at(lock(0, X, 1, 2), B);
    op = waiting_set(1, 5, 15);
    op[0].wait_ms = op[1].wait_ms = 20;
    set_results(op, ENQ_TIMEDOUT);
}

static void a_set_sleeps_on(void)
{
    unlock(at(lock(0, X, 1, 2), B), 10);
    waiting_set(1, 5, 75);
}

static void a_set_sleeps_as_its_second_lock_is_held(void)
{
    unlock(at(lock(0, X, 1, 2), B), 200);
    waiting_set(1, 5, 202);
}

static void a_waiter_sleeps_behind_a_set_that_is_blocked_elsewhere(void)
{
    struct op *op, *w;

    unlock(at(lock(0, X, 1, 2), B), 200);
    op = waiting_set(1, 5, 202);
    unlock_one_by_one(op, 205);
    w = waiter(2, X, 8, 207);
    w->token = ++hand_token;
}

/* --- overtaken --- */

static void a_set_is_overtaken_at_the_lock_that_is_free(void)
{
    struct op *op;

    unlock(at(lock(0, X, 1, 2), B), 30);
    unlock(lock(2, X, 10, 11), 12);
    op = waiting_set(1, 5, 31);
    op[0].token = ++hand_token;
    op[1].token = ++hand_token;
}

static void who_has_what_a_set_waits_for_passes_it_elsewhere(void)
{
    struct op *op;

    unlock(at(lock(0, X, 1, 2), B), 30);
    unlock(lock(0, X, 10, 11), 12);
    op = waiting_set(1, 5, 31);
    op[0].token = ++hand_token;
    op[1].token = ++hand_token;
}

static void a_set_overtakes_a_waiter(void)
{
    struct op *w;

    unlock(lock(0, X, 1, 2), 10);
    unlock_one_by_one(set(2, 12, 13), 20);
    w = waiter(1, X, 5, 22);
    w->token = ++hand_token;
}

/* --- cycles --- */

static struct op *refused_set(void)
{
    struct op *op = waiting_set(1, 5, 6);

    set_results(op, ENQ_DEADLOCK);
    return op;
}

static void a_cycle_goes_through_the_second_lock_of_a_set(void)
{
    unlock(at(lock(0, X, 1, 2), B), 20);
    unlock(at(lock(1, X, 1.5, 2), AX), 10);
    at(waiter(0, X, 4, 12), AX);
    refused_set();
}

static void a_set_is_refused_for_no_cycle(void)
{
    unlock(at(lock(0, X, 1, 2), B), 20);
    unlock(at(lock(1, X, 1.5, 2), AX), 10);
    refused_set();
}

/* --- results of started sets --- */

static struct op *granted_set(void)
{
    struct op *op;

    unlock(at(lock(0, X, 1, 2), B), 10);
    op = started_set(1, 5, 12);
    event(op, ENQ_EVENT_RESULT, 11.9);
    return op;
}

static void a_started_set_has_its_result(void)
{
    unlock_one_by_one(granted_set(), 14);
}

static void a_set_has_two_results(void)
{
    event(granted_set(), ENQ_EVENT_RESULT, 13);
}

static void a_set_has_a_result_of_each_lock(void)
{
    event(granted_set() + 1, ENQ_EVENT_RESULT, 11.95)->ticket++;
}

static void a_set_is_given_the_lock_of_another(void)
{
    granted_set()[1].given++;
}

/* --- cancelled at one of them --- */

static struct op *cancelled_set(double end)
{
    struct op *op;

    unlock(lock(0, X, 1, 2), 200);
    op = waiting_set(1, 5, end);
    set_results(op, ENQ_CANCELLED);
    return op;
}

static void a_set_is_cancelled_by_nobody(void)
{
    cancelled_set(10);
}

static void a_set_is_cancelled_at_its_second_lock(void)
{
    foreign(2, cancelled_set(10) + 1, OP_BREAK, 8);
}

static void a_set_waits_on_though_its_second_lock_was_cancelled(void)
{
    foreign(2, cancelled_set(90) + 1, OP_BREAK, 8);
}

/* --- given back together --- */

static void unlock_together(const struct op *op, double begin, int result)
{
    struct op *first = unlock(&op[0], begin), *second = unlock(&op[1], begin);

    first->set = second->set = first->begin_seq;
    first->set_n = second->set_n = 2;
    second->set_at = 1;
    set_results(first, result);
    first->vague = second->vague = result != ENQ_OK;
}

static void a_set_is_given_back_together(void)
{
    unlock_together(set(0, 1, 2), 5, ENQ_OK);
    set(1, 8, 9);
}

static void one_of_those_given_back_had_run_out(void)
{
    struct op *op = set(0, 1, 2);

    op[1].ttl_ms = 10;
    unlock_together(op, 30, ENQ_EXPIRED);
    set(1, 33, 34);
}

static void none_of_those_given_back_had_run_out(void)
{
    unlock_together(set(0, 1, 2), 30, ENQ_EXPIRED);
}

const struct hand_test hand_sets[] = {
    T(a_set_is_held_and_given_back, NONE),
    T(a_lock_of_a_set_is_given_to_another, FAULT_EXCLUSION),
    T(a_token_of_a_set_is_smaller_than_one_before, FAULT_TOKEN),
    T(half_a_set_is_left_of_the_dead, FAULT_KEPT),
    T(a_set_is_left_of_the_dead, NONE),
    T(nothing_is_left_of_a_set_of_the_dead, NONE),
    T(half_a_set_of_the_dead_is_given_to_another, FAULT_EXCLUSION),
    T(half_a_set_of_the_dead_is_at_rest, FAULT_KEPT),
    T(half_a_set_of_the_dead_was_broken, FAULT_KEPT),
    T(half_a_set_is_in_a_list, FAULT_SET),
    T(a_set_is_in_a_list, NONE),
    T(half_a_set_still_waits, FAULT_SET),
    T(the_rest_of_a_set_of_the_dead_is_not_in_a_list, FAULT_SET),
    T(a_set_holds_something_while_it_waits, FAULT_SET),
    T(a_set_is_refused_and_nothing_was_in_its_way, FAULT_REFUSED),
    T(a_set_is_refused_for_its_second_lock, NONE),
    T(a_waiting_set_ends_too_early, FAULT_EARLY),
    T(a_set_sleeps_on, FAULT_ASLEEP),
    T(a_set_sleeps_as_its_second_lock_is_held, NONE),
    T(a_waiter_sleeps_behind_a_set_that_is_blocked_elsewhere, NONE),
    T(a_set_is_overtaken_at_the_lock_that_is_free, FAULT_OVERTAKEN),
    T(who_has_what_a_set_waits_for_passes_it_elsewhere, NONE),
    T(a_set_overtakes_a_waiter, FAULT_OVERTAKEN),
    T(a_cycle_goes_through_the_second_lock_of_a_set, NONE),
    T(a_set_is_refused_for_no_cycle, FAULT_DEADLOCK),
    T(a_started_set_has_its_result, NONE),
    T(a_set_has_two_results, FAULT_TICKET),
    T(a_set_has_a_result_of_each_lock, FAULT_TICKET),
    T(a_set_is_given_the_lock_of_another, FAULT_TICKET),
    T(a_set_is_cancelled_by_nobody, FAULT_ENDED),
    T(a_set_is_cancelled_at_its_second_lock, NONE),
    T(a_set_waits_on_though_its_second_lock_was_cancelled, FAULT_LATE),
    T(a_set_is_given_back_together, NONE),
    T(one_of_those_given_back_had_run_out, NONE),
    T(none_of_those_given_back_had_run_out, FAULT_ENDED),
    {0},
};
