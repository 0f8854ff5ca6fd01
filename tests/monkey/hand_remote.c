/*
 * hand_remote.c - more histories written by hand: of those who use the table
 * through a bridge.
 */
#include "hand.h"

static void remote(unsigned place, int32_t grace_ms)
{
    hand_book->lives[place].remote = true;
    hand_book->lives[place].grace_ms = grace_ms;
}

/* A bridge that is killed then; 0: it is not. */
static void bridge(double ready, double kill)
{
    struct serve *x = &hand_book->serves[hand_book->n_serves++];

    *x = (struct serve){.from_ns = AT_MS(ready)};
    if (kill <= 0)
        return;
    x->died = true;
    x->to_ns = AT_MS(kill);
    x->to_seq = (uint64_t)x->to_ns;
    x->gone_ns = AT_MS(kill + 1);
    x->gone_seq = (uint64_t)x->gone_ns;
}

/* At 20 its bridge is killed; at 25 there is another. */
static struct op *lock_over_a_death(int32_t grace_ms)
{
    remote(0, grace_ms);
    bridge(0, 20);
    bridge(25, 0);
    return lock(0, X, 1, 2);
}

/* --- what is held --- */

static void a_remote_lock_and_another_are_held(void)
{
    remote(0, 0);
    bridge(0, 0);
    lock(0, X, 1, 2);
    lock(1, X, 4, 5);
}

static void a_remote_lock_is_taken_before_its_bridge_dies(void)
{
    lock_over_a_death(0);
    lock(1, X, 15, 16);
}

static void a_remote_lock_ends_with_its_bridge(void)
{
    lock_over_a_death(0);
    lock(1, X, 30, 31);
}

static void a_remote_lock_is_taken_though_its_session_goes_on(void)
{
    struct op *p = lock_over_a_death(0);

    lock(1, X, 30, 31);
    about(p, OP_RENEW, 40, 41)->ttl_ms = ENQ_FOREVER;
}

static void a_leased_lock_ends_with_its_bridge(void)
{
    struct op *p = lock_over_a_death(0);

    p->on_death = ENQ_DEATH_LEASE;
    left(p);
    lock(1, X, 30, 31);
}

/* It was granted before its bridge died, and its client was slow to read that:
   the session is over by then. */
static struct op *lock_answered_after_a_death(void)
{
    remote(0, 0);
    bridge(0, 20);
    bridge(25, 0);
    return lock(0, X, 1, 40);
}

static void a_remote_lock_has_ended_when_its_answer_is_read(void)
{
    lock_answered_after_a_death();
    lock(1, X, 30, 31);
}

static void a_remote_lock_lives_that_was_answered_after_a_death(void)
{
    struct op *p = lock_answered_after_a_death();

    lock(1, X, 45, 46);
    about(p, OP_RENEW, 50, 51)->ttl_ms = ENQ_FOREVER;
}

/* --- what is lost --- */

static void lose(struct op *p)
{
    about(p, OP_DEMOTE, 40, 41)->result = ENQ_NOTHELD;
}

static void a_remote_lock_is_lost(void)
{
    remote(0, 0);
    bridge(0, 0);
    lose(lock(0, X, 1, 2));
}

static void a_remote_lock_is_lost_with_its_bridge(void)
{
    lose(lock_over_a_death(0));
}

static void a_remote_lock_is_lost_to_a_client_who_came_late(void)
{
    struct op *p = lock_over_a_death(15);

    call(0, OP_LIST, 36, 37);
    lose(p);
}

static void a_remote_lock_is_lost_to_a_client_who_came_back_in_time(void)
{
    struct op *p = lock_over_a_death(200);

    call(0, OP_LIST, 36, 37);
    lose(p);
}

/* Of a local process that has died: from then on nobody is told by the table
   whose session it is. */
static void an_adopted_lock_is_lost_with_its_bridge(void)
{
    struct op *p = lock(1, X, 1, 2), *adopted;

    remote(0, 200);
    bridge(0, 20);
    bridge(25, 0);
    p->on_death = ENQ_DEATH_LEASE;
    die(1, 5, 6);
    adopted = foreign(0, p, OP_ADOPT, 10);
    adopted->place = 0;
    adopted->token = ++hand_token;
    call(0, OP_LIST, 30, 31);
    foreign(0, p, OP_DEMOTE, 40)->result = ENQ_NOTHELD;
}

/* Whose session comes back in time. */
static void a_lock_is_lost_to_who_adopts_it_between_two_bridges(void)
{
    struct op *p = lock_over_a_death(200);

    foreign(1, p, OP_ADOPT, 22)->token = ++hand_token;
    call(0, OP_LIST, 36, 37);
    lose(p);
}

/* To give back what is not there any more is told to be done. */
static void an_adopted_lock_is_given_back_when_its_loss_is_known(void)
{
    struct op *p = lock(1, X, 1, 2), *adopted;

    remote(0, 200);
    bridge(0, 20);
    bridge(25, 0);
    p->on_death = ENQ_DEATH_LEASE;
    die(1, 5, 6);
    adopted = foreign(0, p, OP_ADOPT, 10);
    adopted->token = ++hand_token;
    event(adopted, ENQ_EVENT_LOST, 35)->result = ENQ_NOTHELD;
    foreign(0, p, OP_UNLOCK, 40);
}

/* What came before it was adopted again was the end of what it was then. */
static void a_lock_that_was_lost_and_adopted_again_blocks(void)
{
    struct op *p = lock_over_a_death(15), *again;

    event(p, ENQ_EVENT_LOST, 45)->result = ENQ_NOTHELD;
    again = foreign(0, p, OP_ADOPT, 50);
    again->token = ++hand_token;
    waiter(1, X, 52, 70)->token = ++hand_token;
    event(again, ENQ_EVENT_BLOCKING, 60)->other = BOB;
    foreign(0, p, OP_UNLOCK, 68);
}

static void a_client_cannot_ask_between_two_bridges(void)
{
    about(lock_over_a_death(200), OP_VALID, 22, 23)->result = ENQ_ELEASE;
}

static void a_client_does_not_know_though_its_bridge_lives(void)
{
    remote(0, 200);
    bridge(0, 0);
    about(lock(0, X, 1, 2), OP_VALID, 22, 23)->result = ENQ_ELEASE;
}

static void a_leased_lock_is_lost_with_its_bridge(void)
{
    struct op *p = lock_over_a_death(0);

    p->on_death = ENQ_DEATH_LEASE;
    lose(p);
}

/* --- who dies --- */

static void die_remote(double kill, double gone)
{
    die(0, kill, gone);
    remote(0, 100);
}

static void a_waiter_is_granted_when_a_session_is_over(void)
{
    bridge(0, 0);
    die_remote(10, 11);
    lock(0, X, 1, 2);
    waiter(1, X, 5, 380);
}

static void a_waiter_sleeps_behind_a_session_that_is_over(void)
{
    bridge(0, 0);
    die_remote(10, 11);
    lock(0, X, 1, 2);
    waiter(1, X, 5, 500);
}

static void a_session_is_over_later_as_its_bridge_has_died(void)
{
    bridge(0, 100);
    bridge(120, 0);
    die_remote(10, 11);
    lock(0, X, 1, 2);
    waiter(1, X, 5, 500);
}

/* --- at rest --- */

static struct op *dead_lock(void)
{
    bridge(0, 0);
    die_remote(10, 11);
    return lock(0, X, 1, 2);
}

static void a_lock_of_a_session_that_is_over_is_left(void)
{
    left(dead_lock());
    hand_book->rest[0].on_death = ENQ_DEATH_LEASE;
}

static void a_leased_lock_of_a_session_that_is_over_is_left(void)
{
    struct op *p = dead_lock();

    p->on_death = ENQ_DEATH_LEASE;
    left(p);
}

static void a_leased_lock_of_a_session_that_is_over_is_gone(void)
{
    dead_lock()->on_death = ENQ_DEATH_LEASE;
}

const struct hand_test hand_remote[] = {
    T(a_remote_lock_and_another_are_held, FAULT_EXCLUSION),
    T(a_remote_lock_is_taken_before_its_bridge_dies, FAULT_EXCLUSION),
    T(a_remote_lock_ends_with_its_bridge, NONE),
    T(a_remote_lock_is_taken_though_its_session_goes_on, FAULT_EXCLUSION),
    T(a_leased_lock_ends_with_its_bridge, FAULT_EXCLUSION),
    T(a_remote_lock_has_ended_when_its_answer_is_read, NONE),
    T(a_remote_lock_lives_that_was_answered_after_a_death, FAULT_EXCLUSION),
    T(a_remote_lock_is_lost, FAULT_LOST),
    T(a_remote_lock_is_lost_with_its_bridge, NONE),
    T(a_remote_lock_is_lost_to_a_client_who_came_late, NONE),
    T(a_remote_lock_is_lost_to_a_client_who_came_back_in_time, FAULT_LOST),
    T(an_adopted_lock_is_lost_with_its_bridge, NONE),
    T(a_lock_is_lost_to_who_adopts_it_between_two_bridges, NONE),
    T(an_adopted_lock_is_given_back_when_its_loss_is_known, NONE),
    T(a_lock_that_was_lost_and_adopted_again_blocks, NONE),
    T(a_client_cannot_ask_between_two_bridges, NONE),
    T(a_client_does_not_know_though_its_bridge_lives, FAULT_RESULT),
    T(a_leased_lock_is_lost_with_its_bridge, FAULT_LOST),
    T(a_waiter_is_granted_when_a_session_is_over, NONE),
    T(a_waiter_sleeps_behind_a_session_that_is_over, FAULT_ASLEEP),
    T(a_session_is_over_later_as_its_bridge_has_died, NONE),
    T(a_lock_of_a_session_that_is_over_is_left, FAULT_LEAK),
    T(a_leased_lock_of_a_session_that_is_over_is_left, NONE),
    T(a_leased_lock_of_a_session_that_is_over_is_gone, FAULT_KEPT),
    {0},
};
