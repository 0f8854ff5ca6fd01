/*
 * hand_remote.c - more histories written by hand: processes that use the table
 * through a bridge.
 */
#include "hand.h"

#include <errno.h>

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

/* Of a local process that has died. */
static void lose_adopted(int64_t grace)
{
    struct op *p = lock(1, X, 1, 2), *adopted, *lost;

    remote(0, grace);
    bridge(0, 20);
    bridge(25, 0);
    p->on_death = ENQ_DEATH_LEASE;
    die(1, 5, 6);
    adopted = foreign(0, p, OP_ADOPT, 10);
    adopted->place = 0;
    adopted->token = ++hand_token;
    call(0, OP_LIST, 30, 31);
    lost = foreign(0, p, OP_DEMOTE, 40);
    lost->foreign = false; /* it is its own by now */
    lost->result = ENQ_NOTHELD;
}

static void an_adopted_lock_is_lost_to_a_client_who_came_late(void)
{
    lose_adopted(4);
}

static void an_adopted_lock_is_lost_to_a_client_who_came_back_in_time(void)
{
    lose_adopted(200);
}

/* Whose session comes back in time. */
static void a_lock_is_lost_to_who_adopts_it_between_two_bridges(void)
{
    struct op *p = lock_over_a_death(200);

    foreign(1, p, OP_ADOPT, 22)->token = ++hand_token;
    call(0, OP_LIST, 36, 37);
    lose(p);
}

/* Of those given back together: which one was gone, is not told. */
static void lose_together(struct op *p)
{
    struct op *op = about(p, OP_UNLOCK, 40, 41);

    op->result = ENQ_NOTHELD;
    op->vague = true;
    op->set = op->begin_seq;
    op->set_n = 1;
}

static void one_of_a_set_is_lost_to_who_adopts_it_between_two_bridges(void)
{
    struct op *p = lock_over_a_death(200);

    foreign(1, p, OP_ADOPT, 22)->token = ++hand_token;
    call(0, OP_LIST, 36, 37);
    lose_together(p);
}

static void one_of_a_set_is_lost_to_nobody_between_two_bridges(void)
{
    struct op *p = lock_over_a_death(200);

    call(0, OP_LIST, 36, 37);
    lose_together(p);
}

/* To give back what is not there any more is told to be done. */
static void an_adopted_lock_is_given_back_when_its_loss_is_known(void)
{
    struct op *p = lock(1, X, 1, 2), *adopted;

    remote(0, 4); /* it came late */
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

/* At 20 its bridge was killed; from 1000 on, for so long, there is another. */
static void asks_in_vain(double served, double end)
{
    remote(0, 200);
    bridge(0, 20);
    bridge(1000, 1000 + served);
    lock(0, X, 30, end)->result = -ENOTCONN;
    hand_book->ops[0][0].token = 0;
}

static void a_client_had_no_bridge_for_long_enough(void)
{
    asks_in_vain(1100, 5040);
}

static void a_client_had_a_bridge_while_the_machine_was_late(void)
{
    asks_in_vain(1300, 5040);
    hand_book->heartbeats[hand_book->n_heartbeats++] =
        (struct pause){AT_MS(1200), AT_MS(1500)};
}

static void a_client_had_a_bridge_and_did_not_find_it(void)
{
    asks_in_vain(1300, 5040);
}

static void a_client_gives_up_too_early(void)
{
    asks_in_vain(100, 4000);
}

static void a_leased_lock_is_lost_with_its_bridge(void)
{
    struct op *p = lock_over_a_death(0);

    p->on_death = ENQ_DEATH_LEASE;
    lose(p);
}

/* --- what proves nothing --- */

/* Somebody is refused then, and rightly so. */
static void refuse(double at)
{
    lock(2, X, at, at + 1)->result = ENQ_BUSY;
}

static void a_lock_is_there_after_its_token_was_not_shown(void)
{
    struct op *p = lock(0, X, 1, 2);

    remote(1, 0);
    bridge(0, 0);
    foreign(1, p, OP_UNLOCK, 10)->result = ENQ_NOTHELD;
    refuse(20);
}

static void a_lock_is_there_after_a_process_has_found_it_gone(void)
{
    foreign(1, lock(0, X, 1, 2), OP_UNLOCK, 10)->result = ENQ_NOTHELD;
    refuse(20);
}

static struct op *lock_adopted_by_another(struct op *p)
{
    struct op *adopted = foreign(1, p, OP_ADOPT, 22);

    adopted->place = 1;
    adopted->token = ++hand_token;
    return adopted;
}

/* Its client asks for its end while the bridge dies, and is answered when
   another has taken it over. */
static struct op *lock_adopted_in_an_unlock(void)
{
    struct op *p = lock_over_a_death(200);

    about(p, OP_UNLOCK, 18, 40);
    return lock_adopted_by_another(p);
}

static void an_adopted_lock_outlives_the_answer_of_who_had_it(void)
{
    lock_adopted_in_an_unlock();
    refuse(50);
}

static void an_adopted_lock_is_given_back_after_who_had_it_did(void)
{
    about(lock_adopted_in_an_unlock(), OP_UNLOCK, 50, 51);
}

static void an_adopted_lock_outlives_what_who_had_it_finds(void)
{
    struct op *p = lock_over_a_death(200);

    lock_adopted_by_another(p);
    lose(p);
    refuse(50);
}

static void an_adopted_lock_outlives_what_who_had_it_is_told(void)
{
    struct op *p = lock_over_a_death(200);

    lock_adopted_by_another(p);
    event(p, ENQ_EVENT_LOST, 40)->result = ENQ_NOTHELD;
    refuse(50);
}

/* That one has been granted again what it had asked for. */
static void an_adopted_lock_runs_out_though_who_had_it_renews_his(void)
{
    struct op *p = lock_over_a_death(200);

    lock_adopted_by_another(p)->ttl_ms = 10;
    lock(2, X, 45, 46);
    about(p, OP_RENEW, 50, 51)->ttl_ms = 100;
}

static void an_adopted_lock_ends_when_its_holder_gives_it_back(void)
{
    about(lock_adopted_in_an_unlock(), OP_UNLOCK, 50, 51);
    refuse(60);
}

static void what_who_had_it_was_granted_anew_is_demoted_already(void)
{
    struct op *p = lock_over_a_death(200);

    lock_adopted_by_another(p);
    about(p, OP_DEMOTE, 50, 51);
    about(p, OP_DEMOTE, 60, 61)->result = ENQ_REFUSED;
}

/* By its clock, which counts from before it asked. */
static void refuse_after_it_ran_out(unsigned place)
{
    struct op *p = lock(place, X, 1, 12);

    bridge(0, 0);
    p->on_death = ENQ_DEATH_LEASE;
    p->ttl_ms = 10;
    about(p, OP_VALID, 13, 14)->result = ENQ_EXPIRED;
    refuse(18);
}

static void a_lock_is_there_though_it_ran_out_for_its_client(void)
{
    remote(1, 0);
    refuse_after_it_ran_out(1);
}

static void a_lock_is_there_though_it_ran_out_for_its_process(void)
{
    refuse_after_it_ran_out(1);
}

/* All that is asked through a bridge is asked by one process. */
static struct op *cancelled_by_who_is_told(unsigned place)
{
    struct op *p;

    remote(1, 0);
    bridge(0, 0);
    p = start(1, X, 5, 40);
    p->result = ENQ_CANCELLED;
    p->ttl_ms = 10;
    foreign(place, p, OP_UNLOCK, 30)->result = ENQ_EXPIRED;
    return p;
}

static void a_client_is_told_in_anothers_stead_that_it_ran_out(void)
{
    remote(2, 0);
    cancelled_by_who_is_told(2);
}

static void a_process_is_told_that_a_clients_lock_ran_out(void)
{
    cancelled_by_who_is_told(2);
}

/* --- deaths --- */

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

static void what_was_adopted_before_its_session_was_over_is_left(void)
{
    struct op *p;

    bridge(0, 20);
    bridge(25, 0);
    die_remote(10, 11);
    p = lock(0, X, 1, 2);
    foreign(1, p, OP_ADOPT, 30)->token = ++hand_token;
    left(p);
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
    T(an_adopted_lock_is_lost_to_a_client_who_came_late, NONE),
    T(an_adopted_lock_is_lost_to_a_client_who_came_back_in_time, FAULT_LOST),
    T(a_lock_is_lost_to_who_adopts_it_between_two_bridges, NONE),
    T(one_of_a_set_is_lost_to_who_adopts_it_between_two_bridges, NONE),
    T(one_of_a_set_is_lost_to_nobody_between_two_bridges, FAULT_ENDED),
    T(an_adopted_lock_is_given_back_when_its_loss_is_known, NONE),
    T(a_lock_that_was_lost_and_adopted_again_blocks, NONE),
    T(a_client_cannot_ask_between_two_bridges, NONE),
    T(a_client_does_not_know_though_its_bridge_lives, FAULT_RESULT),
    T(a_client_had_no_bridge_for_long_enough, NONE),
    T(a_client_had_a_bridge_while_the_machine_was_late, NONE),
    T(a_client_had_a_bridge_and_did_not_find_it, FAULT_RESULT),
    T(a_client_gives_up_too_early, FAULT_RESULT),
    T(a_leased_lock_is_lost_with_its_bridge, FAULT_LOST),
    T(a_lock_is_there_after_its_token_was_not_shown, NONE),
    T(a_lock_is_there_after_a_process_has_found_it_gone, FAULT_REFUSED),
    T(an_adopted_lock_outlives_the_answer_of_who_had_it, NONE),
    T(an_adopted_lock_is_given_back_after_who_had_it_did, NONE),
    T(an_adopted_lock_outlives_what_who_had_it_finds, NONE),
    T(an_adopted_lock_outlives_what_who_had_it_is_told, NONE),
    T(an_adopted_lock_runs_out_though_who_had_it_renews_his, NONE),
    T(an_adopted_lock_ends_when_its_holder_gives_it_back, FAULT_REFUSED),
    T(what_who_had_it_was_granted_anew_is_demoted_already, NONE),
    T(a_lock_is_there_though_it_ran_out_for_its_client, NONE),
    T(a_lock_is_there_though_it_ran_out_for_its_process, FAULT_REFUSED),
    T(a_client_is_told_in_anothers_stead_that_it_ran_out, NONE),
    T(a_process_is_told_that_a_clients_lock_ran_out, FAULT_ENDED),
    T(a_waiter_is_granted_when_a_session_is_over, NONE),
    T(a_waiter_sleeps_behind_a_session_that_is_over, FAULT_ASLEEP),
    T(a_session_is_over_later_as_its_bridge_has_died, NONE),
    T(a_lock_of_a_session_that_is_over_is_left, FAULT_LEAK),
    T(what_was_adopted_before_its_session_was_over_is_left, NONE),
    T(a_leased_lock_of_a_session_that_is_over_is_left, NONE),
    T(a_leased_lock_of_a_session_that_is_over_is_gone, FAULT_KEPT),
    {0},
};
