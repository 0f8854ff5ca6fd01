/*
 * selftest.c - tests of the checker: histories written by hand.
 *
 * Each is a history with one fault, which must be found, and no other; and
 * beside many of them the nearest history that has none. More
 * of them are in hand.c, hand_started.c, hand_events.c, hand_sets.c and
 * hand_remote.c.
 */
#include "selftest.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "hand.h"

struct book *hand_book;
uint64_t hand_token;

/* --- exclusion --- */

static void two_hold_what_excludes_each_other(void)
{
    unlock(lock(0, X, 1, 2), 10);
    unlock(lock(1, S, 5, 6), 12);
}

static void one_after_the_other(void)
{
    unlock(lock(0, X, 1, 2), 10);
    unlock(lock(1, S, 10.5, 11), 12);
}

static void a_generic_lock_meets_a_concrete_one(void)
{
    unlock(lock(0, X, 1, 2), 10);
    lock(1, E, 5, 6)->key = AT;
}

static void keys_that_do_not_overlap(void)
{
    unlock(lock(0, X, 1, 2), 10);
    lock(1, E, 5, 6)->key = B;
    lock(2, E, 5.1, 6.1)->key = A_AT;
}

static void cumulation_by_the_same_owner(void)
{
    unlock(lock(0, E, 1, 2), 10);
    lock(1, E, 5, 6)->owner = ANN;
}

static void nobody_is_not_the_same_as_nobody(void)
{
    lock(0, E, 1, 2)->owner = NOBODY;
    lock(1, E, 5, 6)->owner = NOBODY;
}

static void a_lease_survives_its_process(void)
{
    struct op *op = lock(0, X, 1, 2);

    op->on_death = ENQ_DEATH_LEASE;
    op->ttl_ms = 100;
    die(0, 10, 11);
    lock(1, S, 50, 51);
}

static void a_lock_is_free_when_its_process_is_dead(void)
{
    lock(0, X, 1, 2);
    die(0, 10, 11);
    lock(1, X, 10.5, 12);
}

static void a_lock_is_free_after_its_ttl(void)
{
    lock(0, X, 1, 2)->ttl_ms = 10;
    lock(1, X, 11.5, 12);
}

static void a_lock_is_taken_before_its_ttl(void)
{
    lock(0, X, 1, 2)->ttl_ms = 10;
    lock(1, X, 9, 10);
}

static void two_are_promoted(void)
{
    struct op *p = lock(0, O, 1, 2), *q = lock(1, O, 3, 4);

    about(p, OP_PROMOTE, 5, 6)->token = ++hand_token;
    about(q, OP_PROMOTE, 7, 8)->token = ++hand_token;
}

/* Of its owner E stands beside E, and not beside O: which of the two it is
   while it is promoted, nobody knows. */
static void refuse_beside_a_promotion(double at)
{
    struct op *p = lock(0, O, 1, 2), *r;

    about(p, OP_PROMOTE, 5, 8)->token = ++hand_token;
    r = lock(1, E, at, at + 1);
    r->owner = p->owner;
    r->result = ENQ_BUSY;
}

static void an_owner_is_refused_while_his_own_is_promoted(void)
{
    refuse_beside_a_promotion(6);
}

static void an_owner_is_refused_when_his_own_was_promoted(void)
{
    refuse_beside_a_promotion(9);
}

static void an_owner_is_refused_by_what_a_dead_one_promoted_or_not(void)
{
    struct op *p = lock(0, O, 1, 2), *r;

    p->on_death = ENQ_DEATH_LEASE;
    p->ttl_ms = 100;
    about(p, OP_PROMOTE, 5, 0);
    die(0, 6, 7);
    r = lock(1, E, 20, 21);
    r->owner = p->owner;
    r->result = ENQ_BUSY;
}

/* --- tokens, grants --- */

static void a_token_is_smaller_than_one_before(void)
{
    struct op *p = lock(0, S, 1, 2), *q = lock(1, S, 3, 4);

    q->token = p->token - 1;
}

static void a_generic_token_is_smaller_than_a_concrete_one(void)
{
    struct op *p = lock(0, S, 1, 2), *q = lock(1, S, 3, 4);

    p->token = 100;
    q->key = AT;
}

static void two_at_once_get_the_same_token(void)
{
    struct op *p = lock(0, S, 1, 5), *q = lock(1, S, 2, 4);

    q->token = p->token;
}

static void two_at_once_get_tokens_in_any_order(void)
{
    struct op *p = lock(0, S, 1, 5), *q = lock(1, S, 2, 4);

    p->token = q->token + 1;
}

static void one_handle_is_given_twice(void)
{
    struct op *p = lock(0, S, 1, 2);

    unlock(p, 3);
    lock(1, S, 6, 7)->ident = p->ident;
}

static void a_lock_is_released_twice(void)
{
    struct op *p = lock(0, S, 1, 2);

    unlock(p, 3);
    unlock(p, 5);
}

/* --- results --- */

static void a_lock_is_lost_for_no_reason(void)
{
    unlock(lock(0, S, 1, 2), 5)->result = ENQ_NOTHELD;
}

static void a_living_owner_is_said_to_be_dead(void)
{
    struct op *p = lock(0, S, 1, 2);

    p->ttl_ms = 1;
    unlock(p, 5)->result = ENQ_OWNERDIED;
}

static void a_lock_expires_too_early(void)
{
    struct op *p = lock(0, S, 1, 2);

    p->ttl_ms = 100;
    unlock(p, 50)->result = ENQ_EXPIRED;
}

static void a_lock_expires(void)
{
    struct op *p = lock(0, S, 1, 2);

    p->ttl_ms = 40;
    unlock(p, 50)->result = ENQ_EXPIRED;
}

static void a_broken_lock_is_not_an_expired_one(void)
{
    struct op *p = lock(0, S, 1, 2);

    foreign(1, p, OP_BREAK, 3);
    unlock(p, 5)->result = ENQ_EXPIRED;
}

static void nothing_was_in_the_way(void)
{
    unlock(lock(0, X, 1, 2), 5);
    lock(1, X, 10, 11)->result = ENQ_BUSY;
}

static void something_was_in_the_way(void)
{
    unlock(lock(0, X, 1, 2), 12);
    lock(1, X, 10, 11)->result = ENQ_BUSY;
}

static void a_wait_ends_too_early(void)
{
    struct op *op;

    unlock(lock(0, X, 1, 2), 50);
    op = lock(1, X, 10, 15);
    op->wait_ms = 10;
    op->result = ENQ_TIMEDOUT;
}

static void a_call_fails(void)
{
    lock(1, X, 10, 11)->result = ENQ_EFULL;
}

static void a_request_is_cancelled_by_nobody(void)
{
    unlock(lock(0, X, 1, 2), 12);
    waiter(1, X, 5, 9)->result = ENQ_CANCELLED;
}

/* --- the queue --- */

static void a_waiter_is_overtaken(void)
{
    struct op *w;

    unlock(lock(0, X, 1, 2), 20);
    unlock(lock(2, X, 21, 22), 30);
    w = waiter(1, X, 5, 31);
    w->token = ++hand_token;
}

static void a_waiter_is_overtaken_before_it_is_due(void)
{
    struct op *w;

    unlock(lock(0, X, 1, 2), 5.4);
    unlock(lock(2, X, 6.5, 6.6), 8);
    w = waiter(1, X, 5, 9.5);
    w->due_ns = AT_MS(7);
    w->token = ++hand_token;
}

static void a_waiter_who_dies_was_overtaken(void)
{
    unlock(lock(0, X, 1, 2), 20);
    waiter(1, X, 5, 0);
    die(1, 40, 41);
    unlock(lock(2, X, 21, 22), 30);
}

static void an_owner_passes_those_who_wait_for_him(void)
{
    struct op *op;

    unlock(lock(0, E, 1, 2), 30);
    op = lock(2, E, 21, 22);
    op->owner = ANN;
    unlock(op, 25);
    waiter(1, X, 5, 31)->token = ++hand_token;
}

static void a_waiter_is_due_too_late(void)
{
    unlock(lock(0, X, 1, 2), 20);
    waiter(1, X, 5, 21)->due_ns = AT_MS(15);
}

static void a_waiter_sleeps_on(void)
{
    unlock(lock(0, X, 1, 2), 10);
    waiter(1, X, 5, 75);
}

static void a_waiter_sleeps_for_ever(void)
{
    unlock(lock(0, X, 1, 2), 10);
    waiter(1, X, 5, 0);
}

static void two_waiters_sleep_on(void)
{
    struct op *w;

    unlock(lock(0, X, 1, 2), 10);
    w = waiter(1, X, 5, 135);
    unlock(w, 135.5);
    waiter(2, X, 6, 137)->token = ++hand_token;
}

static void a_waiter_sleeps_while_the_machine_stalls(void)
{
    unlock(lock(0, X, 1, 2), 10);
    waiter(1, X, 5, 75);
    hand_book->heartbeats[hand_book->n_heartbeats++] =
        (struct pause){AT_MS(12), AT_MS(40)};
}

static void a_waiter_sleeps_behind_one_who_is_blocked(void)
{
    struct op *w = lock(0, X, 1, 2);

    w->key = B;
    unlock(w, 200);
    w = waiter(1, X, 5, 201);
    w->key = AT;
    waiter(2, X, 6, 205)->token = ++hand_token;
    unlock(w, 203);
}

static void a_waiter_sleeps_beside_the_dead(void)
{
    lock(0, X, 1, 2);
    die(0, 10, 11);
    waiter(1, X, 5, 140);
}

static void a_waiter_is_granted_soon_after_a_death(void)
{
    lock(0, X, 1, 2);
    die(0, 10, 11);
    waiter(1, X, 5, 90);
}

/* --- at rest --- */

static void a_dead_lock_is_left(void)
{
    struct op *p = lock(0, X, 1, 2);

    die(0, 10, 11);
    left(p);
}

static void a_lock_is_left_that_nobody_asked_for(void)
{
    struct op *p = lock(0, X, 1, 2);

    unlock(p, 3);
    p->on_death = ENQ_DEATH_KEEP;
    left(p);
}

static void a_lock_that_was_to_be_kept_is_gone(void)
{
    lock(0, X, 1, 2)->on_death = ENQ_DEATH_KEEP;
    die(0, 10, 11);
}

static void a_lock_that_was_to_be_kept_is_there(void)
{
    struct op *p = lock(0, X, 1, 2);

    p->on_death = ENQ_DEATH_KEEP;
    die(0, 10, 11);
    left(p);
}

static void somebody_does_not_come_to_an_end(void)
{
    hand_book->stuck = true;
    call(0, OP_UNLOCK, 1, 0);
}

/* --- running them --- */

static const struct hand_test tests[] = {
    T(two_hold_what_excludes_each_other, FAULT_EXCLUSION),
    T(one_after_the_other, NONE),
    T(a_generic_lock_meets_a_concrete_one, FAULT_EXCLUSION),
    T(keys_that_do_not_overlap, NONE),
    T(cumulation_by_the_same_owner, NONE),
    T(nobody_is_not_the_same_as_nobody, FAULT_EXCLUSION),
    T(a_lease_survives_its_process, FAULT_EXCLUSION),
    T(a_lock_is_free_when_its_process_is_dead, NONE),
    T(a_lock_is_free_after_its_ttl, NONE),
    T(a_lock_is_taken_before_its_ttl, FAULT_EXCLUSION),
    T(two_are_promoted, FAULT_EXCLUSION),
    T(an_owner_is_refused_while_his_own_is_promoted, NONE),
    T(an_owner_is_refused_when_his_own_was_promoted, FAULT_REFUSED),
    T(an_owner_is_refused_by_what_a_dead_one_promoted_or_not, NONE),
    T(a_token_is_smaller_than_one_before, FAULT_TOKEN),
    T(a_generic_token_is_smaller_than_a_concrete_one, FAULT_TOKEN),
    T(two_at_once_get_the_same_token, FAULT_TOKEN),
    T(two_at_once_get_tokens_in_any_order, NONE),
    T(one_handle_is_given_twice, FAULT_TWICE),
    T(a_lock_is_released_twice, FAULT_TWICE),
    T(a_lock_is_lost_for_no_reason, FAULT_LOST),
    T(a_living_owner_is_said_to_be_dead, FAULT_ENDED),
    T(a_lock_expires_too_early, FAULT_LOST),
    T(a_lock_expires, NONE),
    T(a_broken_lock_is_not_an_expired_one, FAULT_ENDED),
    T(nothing_was_in_the_way, FAULT_REFUSED),
    T(something_was_in_the_way, NONE),
    T(a_wait_ends_too_early, FAULT_EARLY),
    T(a_call_fails, FAULT_RESULT),
    T(a_request_is_cancelled_by_nobody, FAULT_ENDED),
    T(a_waiter_is_overtaken, FAULT_OVERTAKEN),
    T(a_waiter_is_overtaken_before_it_is_due, NONE),
    T(a_waiter_who_dies_was_overtaken, FAULT_OVERTAKEN),
    T(an_owner_passes_those_who_wait_for_him, NONE),
    T(a_waiter_is_due_too_late, FAULT_WINDOW),
    T(a_waiter_sleeps_on, FAULT_ASLEEP),
    T(a_waiter_sleeps_for_ever, FAULT_ASLEEP),
    T(two_waiters_sleep_on, FAULT_ASLEEP),
    T(a_waiter_sleeps_while_the_machine_stalls, NONE),
    T(a_waiter_sleeps_behind_one_who_is_blocked, NONE),
    T(a_waiter_sleeps_beside_the_dead, FAULT_DEATH),
    T(a_waiter_is_granted_soon_after_a_death, NONE),
    T(a_dead_lock_is_left, FAULT_LEAK),
    T(a_lock_is_left_that_nobody_asked_for, FAULT_LEAK),
    T(a_lock_that_was_to_be_kept_is_gone, FAULT_KEPT),
    T(a_lock_that_was_to_be_kept_is_there, NONE),
    T(somebody_does_not_come_to_an_end, FAULT_STUCK),
    {0},
};

static void begin(void)
{
    memset(hand_book->n_ops, 0, sizeof(hand_book->n_ops));
    memset(hand_book->lives, 0, PLACES * sizeof(hand_book->lives[0]));
    hand_book->n_lives = PLACES;
    hand_book->n_stops = hand_book->n_heartbeats = hand_book->n_rest = 0;
    hand_book->n_sightings = hand_book->n_serves = 0;
    hand_book->compat = COMPAT_ENQUEUE;
    hand_book->strict = 0;
    hand_book->stuck = false;
    hand_book->rest_ns = hand_book->end_ns = AT_MS(1000);
    hand_token = 10;
}

/* That kind of fault, and no other. */
static bool run(const struct hand_test *t)
{
    struct story s;
    uint32_t all;
    bool good;

    begin();
    t->tell();
    all = check_book(&s, hand_book, 0);
    good = t->fault == NONE
        ? all == 0
        : s.faults[t->fault] > 0 && s.faults[t->fault] == all;
    if (!good) {
        printf("FAIL the checker: %s: %u faults\n", t->name, all);
        for (unsigned f = 0; f < FAULTS; f++)
            if (s.faults[f] > 0)
                printf("    %u x %s\n", s.faults[f], fault_names[f]);
    }
    story_end(&s);
    return good;
}

static void run_all(const struct hand_test *t, unsigned *passed,
    unsigned *failed)
{
    for (; t->name != NULL; t++) {
        if (run(t))
            ++*passed;
        else
            ++*failed;
    }
}

void selftest(struct book *book, unsigned *passed, unsigned *failed)
{
    hand_book = book;
    run_all(tests, passed, failed);
    run_all(hand_more, passed, failed);
    run_all(hand_started, passed, failed);
    run_all(hand_events, passed, failed);
    run_all(hand_sets, passed, failed);
    run_all(hand_remote, passed, failed);
}
