/*
 * hand.c - more histories written by hand: of each rule a second one that
 * breaks it, and taking over from the dead.
 */
#include "hand.h"

/* --- taking over from the dead --- */

/* By another process than the one that the lock was of. */
static struct op *by(unsigned place, const struct op *of, enum op_kind kind,
    double begin, double end)
{
    struct op *op = call(place, kind, begin, end);

    op->mode = of->mode;
    op->key = of->key;
    op->owner = of->owner;
    op->on_death = of->on_death;
    op->ident = of->ident;
    return op;
}

static struct op *adopt(unsigned place, const struct op *of, double begin)
{
    struct op *op = by(place, of, OP_ADOPT, begin, begin + 1);

    op->token = ++hand_token;
    return op;
}

/* X of process 0, kept over its death. */
static struct op *kept_lock(void)
{
    struct op *op = lock(0, X, 1, 2);

    op->on_death = ENQ_DEATH_KEEP;
    die(0, 10, 11);
    return op;
}

static struct op *breaks(unsigned place, const struct op *of, double begin,
    double end)
{
    struct op *op = by(place, of, OP_BREAK, begin, end);

    op->foreign = true;
    return op;
}

static void an_adopted_lock_is_held(void)
{
    left(adopt(1, kept_lock(), 20));
    lock(3, X, 45, 46);
}

static void a_break_from_before_an_adoption_ends_the_lock_after_it(void)
{
    struct op *kept = kept_lock();

    breaks(2, kept, 15, 0);
    die(2, 40, 41);
    adopt(1, kept, 20);
    lock(3, X, 45, 46);
}

static void a_break_that_ended_within_an_adoption_ends_the_lock(void)
{
    struct op *kept = kept_lock();

    breaks(2, kept, 15, 20.5);
    adopt(1, kept, 20);
    lock(3, X, 45, 46);
}

static void a_break_that_died_before_an_adoption_ends_nothing_after_it(void)
{
    struct op *kept = kept_lock();

    breaks(2, kept, 15, 0);
    die(2, 17, 18);
    left(adopt(1, kept, 20));
    lock(3, X, 45, 46);
}

static void a_break_in_vain_ends_nothing_after_an_adoption(void)
{
    struct op *kept = kept_lock();

    breaks(2, kept, 15, 20.5)->result = ENQ_NOTHELD;
    left(adopt(1, kept, 20));
    lock(3, X, 45, 46);
}

static void a_lock_is_adopted_after_it_was_broken(void)
{
    struct op *kept = kept_lock();

    breaks(2, kept, 15, 16);
    left(adopt(1, kept, 20));
}

static void a_lock_is_adopted_with_its_old_token(void)
{
    struct op *kept = kept_lock(), *op = adopt(1, kept, 20);

    op->token = kept->token;
    left(op);
}

/* Renewed for 200 ms; its own ttl is 5. */
static struct op *renewed_lease(void)
{
    struct op *op = lock(0, X, 1, 2);

    op->on_death = ENQ_DEATH_LEASE;
    op->ttl_ms = 5;
    about(op, OP_RENEW, 3, 4)->ttl_ms = 200;
    die(0, 10, 11);
    return op;
}

static void an_adoption_that_was_cut_off_has_shortened_the_lock(void)
{
    struct op *op = by(1, renewed_lease(), OP_ADOPT, 20, 0);

    op->ttl_ms = 5;
    die(1, 21, 22);
    unlock(lock(3, X, 40, 41), 45);
}

/* Till 18; and its delay till 38. */
static void adopt_one_with_a_delay(void)
{
    struct op *op = lock(0, X, 1, 2);

    op->on_death = ENQ_DEATH_LEASE;
    op->ttl_ms = 100;
    op->delay_ms = 20;
    die(0, 10, 11);
    adopt(1, op, 12)->ttl_ms = 5;
    by(2, op, OP_UNLOCK, 20, 21)->result = ENQ_EXPIRED;
}

static void an_adopted_lock_goes_on_to_be_delayed(void)
{
    adopt_one_with_a_delay();
    lock(3, X, 30, 31)->result = ENQ_BUSY;
}

static void an_adopted_lock_is_given_away_within_its_delay(void)
{
    adopt_one_with_a_delay();
    unlock(lock(3, X, 30, 31), 45);
}

static void a_lease_is_given_away_before_its_renewal_ends(void)
{
    renewed_lease();
    unlock(lock(3, X, 40, 41), 45);
}

/* --- exclusion, tokens, grants --- */

static void a_demoted_lock_keeps_a_writer_out(void)
{
    struct op *p = lock(0, X, 1, 2);

    about(p, OP_DEMOTE, 3, 4);
    lock(1, S, 5, 6);
    lock(2, X, 7, 8);
}

static void a_demoted_lock_lets_readers_in(void)
{
    struct op *p = lock(0, X, 1, 2);

    about(p, OP_DEMOTE, 3, 4);
    lock(1, S, 5, 6);
}

static void a_renewed_lock_is_taken_at_its_old_end(void)
{
    struct op *p = lock(0, X, 1, 2);

    p->ttl_ms = 10;
    about(p, OP_RENEW, 8, 9)->ttl_ms = 50;
    lock(1, X, 40, 41);
}

static void a_promotion_gives_an_old_token(void)
{
    struct op *p = lock(0, O, 1, 2);

    about(p, OP_PROMOTE, 5, 6)->token = p->token;
}

static void a_lock_is_broken_after_it_was_released(void)
{
    struct op *p = lock(0, S, 1, 2);

    unlock(p, 3);
    breaks(1, p, 6, 7);
}

/* --- results --- */

static void a_lock_is_lost_to_a_promotion_that_failed(void)
{
    struct op *p = lock(0, O, 1, 2), *q = lock(1, O, 3, 4);

    about(p, OP_PROMOTE, 5, 6)->result = ENQ_REFUSED;
    unlock(q, 8)->result = ENQ_LOST;
}

static void a_renewed_lock_expires_at_its_old_end(void)
{
    struct op *p = lock(0, S, 1, 2);

    p->ttl_ms = 10;
    about(p, OP_RENEW, 8, 9)->ttl_ms = 50;
    unlock(p, 30)->result = ENQ_EXPIRED;
}

static void an_expired_lock_is_not_a_broken_one(void)
{
    struct op *p = lock(0, S, 1, 2);

    p->ttl_ms = 3;
    unlock(p, 30)->result = ENQ_FORCED;
}

static void who_ran_out_was_in_the_way(void)
{
    lock(0, X, 1, 2)->ttl_ms = 10;
    lock(1, X, 40, 41)->result = ENQ_BUSY;
}

static void who_is_dead_was_in_the_way(void)
{
    lock(0, X, 1, 2);
    die(0, 10, 11);
    lock(1, X, 20, 21)->result = ENQ_BUSY;
}

static void a_test_is_refused_and_nothing_was_in_the_way(void)
{
    struct op *op = lock(0, S, 1, 2);

    unlock(op, 20);
    op = lock(1, S, 10, 11);
    op->kind = OP_TEST;
    op->token = op->ident = 0;
    op->result = ENQ_BUSY;
}

static void who_did_not_wait_has_waited_for_too_long(void)
{
    unlock(lock(0, X, 1, 2), 50);
    lock(1, X, 10, 15)->result = ENQ_TIMEDOUT;
}

static void a_lock_of_ours_is_renewed_and_refused(void)
{
    about(lock(0, X, 1, 2), OP_RENEW, 3, 4)->result = ENQ_REFUSED;
}

static void an_exclusive_lock_cannot_be_demoted(void)
{
    about(lock(0, E, 1, 2), OP_DEMOTE, 3, 4)->result = ENQ_REFUSED;
}

static void a_shared_lock_cannot_be_demoted(void)
{
    about(lock(0, S, 1, 2), OP_DEMOTE, 3, 4)->result = ENQ_REFUSED;
}

/* --- the queue --- */

static void a_writer_is_overtaken_by_a_reader(void)
{
    unlock(lock(0, S, 1, 2), 20);
    lock(2, S, 15, 16);
    unlock(&hand_book->ops[2][0], 30);
    waiter(1, X, 5, 31)->token = ++hand_token;
}

static void a_generic_waiter_is_overtaken_by_a_concrete_one(void)
{
    struct op *w;

    unlock(lock(0, X, 1, 2), 20);
    w = lock(2, X, 15, 16);
    w->key = B;
    unlock(w, 30);
    w = waiter(1, X, 5, 31);
    w->key = AT;
    w->token = ++hand_token;
}

/* By a reader; it waits still when it is killed. */
static struct op *killed_after_it_was_overtaken(void)
{
    struct op *w;

    unlock(lock(0, S, 1, 2), 20);
    lock(2, S, 15, 16);
    unlock(&hand_book->ops[2][0], 30);
    w = waiter(1, X, 5, 0);
    die(1, 40, 41);
    return w;
}

static void a_writer_is_overtaken_and_killed(void)
{
    killed_after_it_was_overtaken();
}

/* Whose lock it wants waits for one of its own: it may have been refused for
   that, and killed before it told. */
static void a_writer_that_was_killed_may_have_left_for_a_cycle(bool looks)
{
    struct op *w;

    lock(1, S, 2, 3)->key = B;
    w = waiter(3, X, 4, 0);
    w->key = B;
    w->owner = ANN;
    die(3, 30, 31);
    killed_after_it_was_overtaken()->no_cycles = !looks;
}

static void who_may_have_been_in_a_cycle_was_not_overtaken(void)
{
    a_writer_that_was_killed_may_have_left_for_a_cycle(true);
}

static void who_wants_no_cycles_does_not_leave_for_one(void)
{
    a_writer_that_was_killed_may_have_left_for_a_cycle(false);
}

static void a_window_in_a_strict_space(void)
{
    hand_book->strict = 1;
    unlock(lock(0, X, 1, 2), 20);
    waiter(1, X, 5, 21)->due_ns += NS_MS;
}

static void a_window_in_a_space_that_is_not_strict(void)
{
    unlock(lock(0, X, 1, 2), 20);
    waiter(1, X, 5, 21)->due_ns += NS_MS;
}

/* The waiter ahead waits for another key, and dies. */
static void behind_a_waiter_that_dies(double end)
{
    struct op *op = lock(0, X, 1, 2);

    op->key = B;
    unlock(op, 250);
    waiter(1, X, 5, 0)->key = AT;
    die(1, 50, 51);
    waiter(2, X, 6, end);
}

static void a_waiter_sleeps_behind_a_dead_one(void)
{
    behind_a_waiter_that_dies(200);
}

static void a_waiter_is_granted_soon_after_the_one_ahead_died(void)
{
    behind_a_waiter_that_dies(130);
}

/* --- at rest --- */

static void a_request_is_left_waiting(void)
{
    struct op *p = kept_lock();

    left(p);
    hand_book->rest[0].waiting = 1;
}

static void a_lease_is_left_that_has_run_out(void)
{
    struct op *p = lock(0, X, 1, 2);

    p->on_death = ENQ_DEATH_LEASE;
    p->ttl_ms = 100;
    die(0, 10, 11);
    left(p);
}

static void a_lease_that_has_not_run_out_is_gone(void)
{
    struct op *p = lock(0, X, 1, 2);

    p->on_death = ENQ_DEATH_LEASE;
    p->ttl_ms = 5000;
    die(0, 10, 11);
}

static void two_wait_for_each_other_to_the_end(void)
{
    struct op *op = lock(1, X, 1.5, 2.5);

    lock(0, X, 1, 2);
    op->key = B;
    waiter(0, X, 5, 0)->key = B;
    waiter(1, X, 6, 0);
    hand_book->stuck = true;
}

const struct hand_test hand_more[] = {
    T(an_adopted_lock_is_held, FAULT_EXCLUSION),
    T(a_break_from_before_an_adoption_ends_the_lock_after_it, NONE),
    T(a_break_that_ended_within_an_adoption_ends_the_lock, NONE),
    T(a_break_that_died_before_an_adoption_ends_nothing_after_it,
        FAULT_EXCLUSION),
    T(a_break_in_vain_ends_nothing_after_an_adoption, FAULT_EXCLUSION),
    T(a_lock_is_adopted_after_it_was_broken, FAULT_TWICE),
    T(a_lock_is_adopted_with_its_old_token, FAULT_TOKEN),
    T(an_adoption_that_was_cut_off_has_shortened_the_lock, NONE),
    T(a_lease_is_given_away_before_its_renewal_ends, FAULT_EXCLUSION),
    T(an_adopted_lock_goes_on_to_be_delayed, NONE),
    T(an_adopted_lock_is_given_away_within_its_delay, FAULT_DELAY),
    T(a_demoted_lock_keeps_a_writer_out, FAULT_EXCLUSION),
    T(a_demoted_lock_lets_readers_in, NONE),
    T(a_renewed_lock_is_taken_at_its_old_end, FAULT_EXCLUSION),
    T(a_promotion_gives_an_old_token, FAULT_TOKEN),
    T(a_lock_is_broken_after_it_was_released, FAULT_TWICE),
    T(a_lock_is_lost_to_a_promotion_that_failed, FAULT_LOST),
    T(a_renewed_lock_expires_at_its_old_end, FAULT_LOST),
    T(an_expired_lock_is_not_a_broken_one, FAULT_ENDED),
    T(who_ran_out_was_in_the_way, FAULT_REFUSED),
    T(who_is_dead_was_in_the_way, FAULT_REFUSED),
    T(a_test_is_refused_and_nothing_was_in_the_way, FAULT_REFUSED),
    T(who_did_not_wait_has_waited_for_too_long, FAULT_EARLY),
    T(a_lock_of_ours_is_renewed_and_refused, FAULT_RESULT),
    T(an_exclusive_lock_cannot_be_demoted, FAULT_RESULT),
    T(a_shared_lock_cannot_be_demoted, NONE),
    T(a_writer_is_overtaken_by_a_reader, FAULT_OVERTAKEN),
    T(a_writer_is_overtaken_and_killed, FAULT_OVERTAKEN),
    T(who_may_have_been_in_a_cycle_was_not_overtaken, NONE),
    T(who_wants_no_cycles_does_not_leave_for_one, FAULT_OVERTAKEN),
    T(a_generic_waiter_is_overtaken_by_a_concrete_one, FAULT_OVERTAKEN),
    T(a_window_in_a_strict_space, FAULT_WINDOW),
    T(a_window_in_a_space_that_is_not_strict, NONE),
    T(a_waiter_sleeps_behind_a_dead_one, FAULT_DEATH),
    T(a_waiter_is_granted_soon_after_the_one_ahead_died, NONE),
    T(a_request_is_left_waiting, FAULT_LEAK),
    T(a_lease_is_left_that_has_run_out, FAULT_LEAK),
    T(a_lease_that_has_not_run_out_is_gone, FAULT_KEPT),
    T(two_wait_for_each_other_to_the_end, FAULT_STUCK),
    {0},
};
