/*
 * check_remote_suspect.c - the client of a bridge, by its own clock: a session
 * may be over a grace period after the last request that was answered had been
 * sent. From then its RELEASE locks are suspect, until the bridge has said that
 * they are ours. Against a fake bridge; tests/net/suspect.py has a real one.
 */
#include "by_hand.h"
#include "remote/client.h"
#include "remote/pending.h"

/* There is no memory for a call, and how often there was none. */
static uint32_t no_memory, n_refused;

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);

void *__wrap_malloc(size_t n)
{
    if (n != sizeof(struct pending) || !shm_load_acquire(&no_memory))
        return __real_malloc(n);
    shm_store_release(&n_refused, n_refused + 1);
    return NULL;
}

/* A step of the wall clock, for every thread that asks for the time. */
static int64_t step_s;

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, ts);

    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        ts->tv_sec += __atomic_load_n(&step_s, 5);
    return rc;
}

/* --- cut off --- */

TEST(who_is_not_answered_any_more_is_suspect_after_the_grace_period)
{
    struct enq *e = begin(GRACE_MS);

    granted(e, A_LOCK, GRANTED("77"));
    granted(e, A_LEASE, GRANTED("78"));
    want(ENQ_OK, enq_valid(e, 77));
    pass_ms(GRACE_MS);
    want_why(ENQ_ELEASE, enq_valid(e, 77), "another may have");
    want(ENQ_OK, enq_valid(e, 78)); /* which ends by its ttl alone */
    event_is(e, ENQ_EVENT_SESSION, ENQ_ELEASE);
    want(ENQ_ELEASE, enq_valid(e, 77));
    fake_close(&fake, e);
}

/* Two clocks need not go alike. */
TEST(a_hundredth_of_the_grace_period_does_not_count)
{
    struct enq *e = begin(100000);

    granted(e, A_LOCK, GRANTED("77"));
    pass_ms(98999);
    want(ENQ_OK, enq_valid(e, 77));
    pass_ms(1);
    want(ENQ_ELEASE, enq_valid(e, 77));
    fake_close(&fake, e);
}

/* Time passes by the kernel's clock: while it waits for a bridge to answer its
   hello it is to look. */
TEST(without_a_connection_it_is_told_in_time)
{
    struct enq *e = begin(GRACE_MS);
    int64_t before = unit_now_ms();

    granted(e, A_LOCK, GRANTED("77"));
    fake_cut(&fake);
    session_is(e, -ECONNRESET);
    pass_ms(GRACE_MS);
    session_is(e, ENQ_ELEASE);
    ck_assert_int_lt(unit_now_ms() - before, 4000);
    fake_greet(&fake, "one", true);
    hear("\"valid\"", true);
    fake_answer(&fake, OURS);
    fake_close(&fake, e);
}

TEST(it_is_told_once)
{
    struct enq *e = begin(GRACE_MS);

    granted(e, A_LOCK, GRANTED("77"));
    for (int i = 0; i < 3; i++) {
        pass_ms(GRACE_MS);
        if (i == 0)
            event_is(e, ENQ_EVENT_SESSION, ENQ_ELEASE);
        hear("\"ping\"", false); /* it has looked */
    }
    no_event(e);
    want(ENQ_ELEASE, enq_valid(e, 77));
    fake_close(&fake, e);
}

TEST(a_step_of_the_wall_clock_changes_nothing)
{
    static const int64_t steps[] = {-1000000, 1000000, -3, 3, 0};
    struct enq *e = begin(GRACE_MS);

    granted(e, A_LOCK, GRANTED("77"));
    granted(e, A_LEASE, GRANTED("78"));
    for (size_t i = 0; i < LENGTH(steps); i++) {
        __atomic_store_n(&step_s, steps[i], 5);
        pass_ms(PING_MS);
        answer_ping_of(e);
        want(ENQ_OK, enq_valid(e, 77));
        want(ENQ_OK, enq_valid(e, 78));
    }
    no_event(e);
    fake_close(&fake, e);
}

/* --- whose clock counts, and from when --- */

TEST(the_bridges_grace_period_counts_and_not_the_one_that_was_asked_for)
{
    struct enq *e = begin(2000); /* 10 s were */

    granted(e, A_LOCK, GRANTED("77"));
    pass_ms(1979);
    want(ENQ_OK, enq_valid(e, 77));
    pass_ms(1);
    want(ENQ_ELEASE, enq_valid(e, 77));
    fake_close(&fake, e);
}

/* That of the new one, if it is another. */
TEST(after_a_restart_the_grace_period_may_be_another)
{
    struct enq *e = begin(10000);

    granted(e, A_LOCK, GRANTED("77"));
    fake_cut(&fake);
    fake.grace_ms = GRACE_MS;
    fake_greet(&fake, "one", true);
    hear("\"valid\"", true);
    fake_answer(&fake, OURS);
    session_is(e, ENQ_OK);
    pass_ms(GRACE_MS);
    want(ENQ_ELEASE, enq_valid(e, 77));
    fake_close(&fake, e);
}

TEST(a_late_answer_counts_from_when_its_request_was_sent)
{
    struct enq *e = begin(GRACE_MS);
    struct asker a = {0};

    asker_begin(&a, e, A_LOCK);
    hear("\"eleLock\"", true);
    pass_ms(GRACE_MS);
    fake_answer(&fake, GRANTED("77"));
    asker_end(&a, ENQ_OK);
    want(ENQ_ELEASE, enq_valid(e, 77));
    answer_ping();
    eventually(enq_valid(e, 77) == ENQ_OK);
    fake_close(&fake, e);
}

TEST(answers_that_are_all_late_prove_nothing)
{
    struct enq *e = begin(GRACE_MS);

    granted(e, A_LOCK, GRANTED("77"));
    for (int i = 0; i < 4; i++) {
        pass_ms(PING_MS);
        fake_hear(&fake, "\"ping\"");
        pass_ms(GRACE_MS);
        fake_answer(&fake, DONE);
        fake_hear(&fake, "\"ping\""); /* the next: that was heard */
        want(ENQ_ELEASE, enq_valid(e, 77));
    }
    fake_close(&fake, e);
}

TEST(what_the_bridge_says_by_itself_proves_nothing)
{
    struct enq *e = begin(GRACE_MS);
    struct enq_event event = {0};

    granted(e, A_LOCK, GRANTED("77"));
    pass_ms(GRACE_MS);
    fake_say(&fake,
        "{\"EVENT\":\"blocking\",\"RESULT\":0,\"HANDLE\":\"77\",\"TOKEN\":"
        "\"1001\",\"OWNER\":\"you\"}\n");
    do
        eventually(enq_next(e, &event) == ENQ_OK);
    while (event.kind != ENQ_EVENT_BLOCKING);
    want(ENQ_ELEASE, enq_valid(e, 77));
    fake_close(&fake, e);
}

TEST(a_request_that_waits_long_proves_nothing_when_it_is_answered)
{
    struct enq *e = begin(GRACE_MS);
    struct asker a = {0};

    granted(e, A_LOCK, GRANTED("77"));
    asker_begin(&a, e,
        ENQ_REQ(.name = "n", .key = {"w"}, .mode = ENQ_MODE_E, .ttl_ms = 600000,
            .wait_ms = 600000));
    hear("\"eleLock\"", true);
    pass_ms(GRACE_MS);
    fake_answer(&fake, GRANTED("78"));
    asker_end(&a, ENQ_OK);
    want(ENQ_ELEASE, enq_valid(e, 77));
    want(ENQ_ELEASE, enq_valid(e, 78));
    fake_close(&fake, e);
}

/* --- and back --- */

TEST(an_answer_on_its_connection_makes_a_suspect_session_ours)
{
    struct enq *e = begin(GRACE_MS);

    granted(e, A_LOCK, GRANTED("77"));
    pass_ms(GRACE_MS);
    event_is(e, ENQ_EVENT_SESSION, ENQ_ELEASE);
    want(ENQ_ELEASE, enq_valid(e, 77));
    answer_ping();
    event_is(e, ENQ_EVENT_SESSION, ENQ_OK);
    want(ENQ_OK, enq_valid(e, 77));
    fake_close(&fake, e);
}

TEST(resumed_in_time_it_never_was)
{
    struct enq *e = begin(GRACE_MS);
    struct asker a = {0};

    granted(e, A_LOCK, GRANTED("77"));
    for (int i = 0; i < 3; i++) {
        fake_cut(&fake);
        pass_ms(GRACE_MS * 9 / 10);
        want(ENQ_OK, enq_valid(e, 77));
        fake_greet(&fake, "one", true);
        hear("\"valid\"", true);
        want(ENQ_OK, enq_valid(e, 77));
        fake_answer(&fake, OURS);
        session_is(e, ENQ_OK);
        asker_begin_valid(&a, e, 5); /* it is sure again */
        hear("\"HANDLE\":\"5\"", true);
        fake_answer(&fake, OURS);
        asker_end(&a, ENQ_OK);
    }
    fake_close(&fake, e);
}

/* Its next hello is one of now. */
static void cut_for_too_long(struct enq *e)
{
    fake_cut(&fake);
    fake_hear_hello(&fake);
    pass_ms(GRACE_MS);
    session_is(e, ENQ_ELEASE);
    fake_cut(&fake);
}

TEST(resumed_late_each_lock_is_ours_when_the_bridge_has_said_so)
{
    struct enq *e = begin(GRACE_MS);

    granted(e, A_LOCK, GRANTED("77"));
    granted(e, A_LOCK, GRANTED("79"));
    cut_for_too_long(e);
    fake_greet(&fake, "one", true);
    hear("\"valid\",\"HANDLE\":\"77\"", true);
    want(ENQ_ELEASE, enq_valid(e, 77));
    fake_answer(&fake, OURS);
    hear("\"valid\",\"HANDLE\":\"79\"", true);
    eventually(enq_valid(e, 77) == ENQ_OK);
    want(ENQ_ELEASE, enq_valid(e, 79));
    no_event(e); /* not all are */
    granted(e, A_LOCK, GRANTED("80"));
    want(ENQ_OK, enq_valid(e, 80)); /* it is of the time since */
    want(ENQ_ELEASE, enq_valid(e, 79));
    fake_close(&fake, e);
}

TEST(when_all_are_ours_again_it_is_told)
{
    struct enq *e = begin(GRACE_MS);

    granted(e, A_LOCK, GRANTED("77"));
    cut_for_too_long(e);
    fake_greet(&fake, "one", true);
    hear("\"valid\"", true);
    fake_answer(&fake, OURS);
    event_is(e, ENQ_EVENT_SESSION, ENQ_OK);
    want(ENQ_OK, enq_valid(e, 77));
    no_event(e);
    fake_close(&fake, e);
}

/* Cut off again before the bridge has said so. */
TEST(what_is_not_ours_again_yet_stays_suspect_when_it_is_cut_off_again)
{
    struct enq *e = begin(GRACE_MS);

    granted(e, A_LOCK, GRANTED("77"));
    cut_for_too_long(e);
    for (int i = 0; i < 2; i++) {
        fake_greet(&fake, "one", true);
        hear("\"valid\"", true);
        want(ENQ_ELEASE, enq_valid(e, 77));
        fake_cut(&fake);
    }
    fake_greet(&fake, "one", true);
    hear("\"valid\"", true);
    want(ENQ_ELEASE, enq_valid(e, 77));
    fake_answer(&fake, OURS);
    eventually(enq_valid(e, 77) == ENQ_OK);
    fake_close(&fake, e);
}

/* The second is one that no session holds: it was adopted. */
static const char *const lost[] = {
    "\"RC\":\"4\",\"RESULT\":11,\"MSG\":\"broken\"", DONE};
static const int lost_why[] = {ENQ_FORCED, ENQ_NOTHELD};

TEST(resumed_late_what_is_gone_is_told)
{
    struct enq *e = begin(GRACE_MS);

    granted(e, A_LOCK, GRANTED("77"));
    cut_for_too_long(e);
    fake_greet(&fake, "one", true);
    hear("\"valid\"", true);
    fake_answer(&fake, lost[_i]);
    event_is(e, ENQ_EVENT_LOST, lost_why[_i]);
    want(lost_why[_i], enq_valid(e, 77));
    event_is(e, ENQ_EVENT_SESSION, ENQ_OK);
    fake_close(&fake, e);
}

TEST(too_late_they_are_lost)
{
    struct enq *e = begin(GRACE_MS);

    granted(e, A_LOCK, GRANTED("77"));
    cut_for_too_long(e);
    want(ENQ_ELEASE, enq_valid(e, 77));
    fake_greet(&fake, "two", false);
    event_is(e, ENQ_EVENT_LOST, ENQ_OWNERDIED);
    event_is(e, ENQ_EVENT_SESSION, ENQ_OK);
    want(ENQ_OWNERDIED, enq_valid(e, 77));
    fake_close(&fake, e);
}

TEST(of_a_lock_that_there_was_no_memory_to_ask_about_is_asked_later)
{
    struct enq *e = begin(GRACE_MS);

    granted(e, A_LOCK, GRANTED("77"));
    cut_for_too_long(e);
    shm_store_release(&no_memory, 1);
    fake_greet(&fake, "one", true);
    eventually(shm_load_acquire(&n_refused) > 0);
    want(ENQ_ELEASE, enq_valid(e, 77));
    shm_store_release(&no_memory, 0);
    pass_ms(PING_MS);
    hear("\"valid\",\"HANDLE\":\"77\"", true);
    fake_answer(&fake, OURS);
    eventually(enq_valid(e, 77) == ENQ_OK);
    fake_close(&fake, e);
}

#define MANY 150

TEST(more_than_a_window_of_suspects_are_all_asked_about)
{
    char handle[120];
    struct enq *e = begin(GRACE_MS);

    for (int i = 0; i < MANY; i++) {
        snprintf(handle, sizeof(handle),
            DONE ",\"HANDLE\":\"%d\",\"TOKEN\":\"1001\"", 1000 + i);
        granted(e, A_LOCK, handle);
    }
    cut_for_too_long(e);
    fake_greet(&fake, "one", true);
    for (int i = 0; i < MANY; i++) {
        hear("\"valid\"", true);
        fake_answer(&fake, OURS);
    }
    event_is(e, ENQ_EVENT_SESSION, ENQ_OK);
    for (int i = 0; i < MANY; i++)
        want(ENQ_OK, enq_valid(e, (enq_handle)(1000 + i)));
    fake_close(&fake, e);
}

/* --- nothing to say --- */

TEST(who_is_idle_asks_often_enough_to_stay_sure)
{
    struct enq *e = begin(GRACE_MS);

    granted(e, A_LOCK, GRANTED("77"));
    for (int i = 0; i < 12; i++) {
        pass_ms(PING_MS - 1);
        ck_assert(!fake_hear_within(&fake, PING_MS / 2)); /* nor more often */
        pass_ms(1);
        answer_ping_of(e);
        want(ENQ_OK, enq_valid(e, 77));
    }
    no_event(e);
    fake_close(&fake, e);
}

/* What it says is not answered, what it hears proves nothing: it asks. */
TEST(a_client_that_only_waits_and_receives_asks_as_well)
{
    struct enq *e = begin(GRACE_MS);
    struct asker a = {0};

    granted(e, A_LOCK, GRANTED("77"));
    asker_begin(&a, e,
        ENQ_REQ(.name = "n", .key = {"w"}, .mode = ENQ_MODE_E,
            .wait_ms = 600000));
    hear("\"eleLock\"", true);
    {
        unsigned long long number = fake_number(&fake);

        for (int i = 0; i < 8; i++) {
            pass_ms(PING_MS);
            fake_say(&fake,
                "{\"EVENT\":\"expiring\",\"RESULT\":0,\"HANDLE\":\"77\","
                "\"TOKEN\":\"1001\"}\n");
            answer_ping_of(e);
            want(ENQ_OK, enq_valid(e, 77));
        }
        fake_answer_to(&fake, number, GRANTED("78"));
    }
    asker_end(&a, ENQ_OK);
    fake_close(&fake, e);
}

/* --- no grace period to speak of --- */

static const int little[] = {0, 99};

TEST(with_hardly_a_grace_period_the_bridge_is_asked)
{
    struct enq *e = begin(little[_i]);
    struct asker a = {0};

    granted(e, A_LOCK, GRANTED("77"));
    for (int i = 0; i < 2; i++) {
        asker_begin_valid(&a, e, 77);
        hear("\"valid\"", true);
        fake_answer(&fake, OURS);
        asker_end(&a, ENQ_OK);
    }
    fake_cut(&fake);
    session_is(e, ENQ_ELEASE);
    want(ENQ_ELEASE, enq_valid(e, 77)); /* without a wait */
    fake_greet(&fake, "two", false);
    event_is(e, ENQ_EVENT_LOST, ENQ_OWNERDIED);
    fake_close(&fake, e);
}

/* --- a ttl that began nobody knows when --- */

#define A_WAIT                                                                 \
    ENQ_REQ(.name = "n", .key = {"w"}, .mode = ENQ_MODE_E, .ttl_ms = 1000,     \
        .on_death = ENQ_DEATH_LEASE, .wait_ms = 600000)

/* Its grant, after so much time that the client did not see pass. */
static void granted_after(struct enq *e, int64_t before_ms, int64_t after_ms)
{
    struct asker a = {0};
    unsigned long long number;

    asker_begin(&a, e, A_WAIT);
    hear("\"eleLock\"", true);
    number = fake_number(&fake);
    pass_ms(before_ms);
    answer_ping();
    pass_ms(after_ms);
    fake_answer_to(&fake, number, GRANTED("77"));
    asker_end(&a, ENQ_OK);
}

TEST(of_a_lock_that_was_waited_for_the_bridge_is_asked_if_it_may_have_run_out)
{
    struct enq *e = begin(4000);
    struct asker a = {0};

    granted_after(e, 1000, 1000);
    asker_begin_valid(&a, e, 77);
    hear("\"valid\"", true);
    fake_answer(&fake, "\"RC\":\"4\",\"RESULT\":6,\"MSG\":\"it has expired\"");
    asker_end(&a, ENQ_EXPIRED);
    pass_ms(1000);
    want(ENQ_EXPIRED, enq_valid(e, 77)); /* now it has, in any case */
    fake_close(&fake, e);
}

TEST(of_a_lock_that_was_waited_for_nobody_is_asked_while_it_cannot_have_run_out)
{
    struct enq *e = begin(4000);

    granted_after(e, 5000, 999);
    want(ENQ_OK, enq_valid(e, 77));
    fake_close(&fake, e);
}

TEST(nor_is_one_asked_for_again_known_to_have_waited_while_we_were_away)
{
    struct enq *e = begin(60000);
    struct asker a = {0};

    asker_begin(&a, e, A_WAIT);
    hear("\"eleLock\"", true);
    fake_cut(&fake);
    pass_ms(5000);
    fake_greet(&fake, "one", true);
    hear("\"eleLock\"", true);
    fake_answer(&fake, GRANTED("77"));
    asker_end(&a, ENQ_OK);
    asker_begin_valid(&a, e, 77);
    hear("\"valid\"", true);
    fake_answer(&fake, OURS);
    asker_end(&a, ENQ_OK);
    fake_cut(&fake);
    eventually(enq_valid(e, 77) == ENQ_ELEASE);
    fake_greet(&fake, "one", true);
    fake_close(&fake, e);
}

int main(void)
{
    unit_begin("remote_suspect");
    ADD(who_is_not_answered_any_more_is_suspect_after_the_grace_period);
    ADD(a_hundredth_of_the_grace_period_does_not_count);
    ADD(without_a_connection_it_is_told_in_time);
    ADD(it_is_told_once);
    ADD(a_step_of_the_wall_clock_changes_nothing);
    ADD(the_bridges_grace_period_counts_and_not_the_one_that_was_asked_for);
    ADD(after_a_restart_the_grace_period_may_be_another);
    ADD(a_late_answer_counts_from_when_its_request_was_sent);
    ADD(answers_that_are_all_late_prove_nothing);
    ADD(what_the_bridge_says_by_itself_proves_nothing);
    ADD(a_request_that_waits_long_proves_nothing_when_it_is_answered);
    ADD(an_answer_on_its_connection_makes_a_suspect_session_ours);
    ADD(resumed_in_time_it_never_was);
    ADD(resumed_late_each_lock_is_ours_when_the_bridge_has_said_so);
    ADD(when_all_are_ours_again_it_is_told);
    ADD(what_is_not_ours_again_yet_stays_suspect_when_it_is_cut_off_again);
    ADD_LOOP(resumed_late_what_is_gone_is_told, LENGTH(lost));
    ADD(too_late_they_are_lost);
    ADD(of_a_lock_that_there_was_no_memory_to_ask_about_is_asked_later);
    ADD(more_than_a_window_of_suspects_are_all_asked_about);
    ADD(who_is_idle_asks_often_enough_to_stay_sure);
    ADD(a_client_that_only_waits_and_receives_asks_as_well);
    ADD_LOOP(with_hardly_a_grace_period_the_bridge_is_asked, LENGTH(little));
    ADD(of_a_lock_that_was_waited_for_the_bridge_is_asked_if_it_may_have_run_out);
    ADD(of_a_lock_that_was_waited_for_nobody_is_asked_while_it_cannot_have_run_out);
    ADD(nor_is_one_asked_for_again_known_to_have_waited_while_we_were_away);
    return unit_end();
}
