/*
 * check_tick.c - sync: a wake-up that is lost is told from one that was sent,
 * and from one that is under way.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "sync/tick.h"
#include "unit.h"

/* The sleeper's own. */
static uint32_t word, asleep;

static struct plan {
    int64_t trace_ms, wake_ms; /* 0: not */
} plan;

static void pause_ms(int64_t ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * NS_PER_MS}, NULL);
}

static void *carry_out(void *nothing)
{
    if (plan.trace_ms != 0) {
        pause_ms(plan.trace_ms);
        tick_trace(&asleep);
    }
    if (plan.wake_ms != 0) {
        pause_ms(plan.wake_ms);
        sys.wake(&word, 1);
    }
    return nothing;
}

#define BY_A_THREAD ASLEEP_BY(77u, ASLEEP_THREAD)

static bool is_unwoken(const void *nothing)
{
    (void)nothing;
    return shm_load(&word) != 0 && shm_load_acquire(&asleep) == BY_A_THREAD;
}

static void judge(const char *ms)
{
    setenv("ENQ_TICK_FOUND", ms, 1);
    tick_judge(is_unwoken, NULL, "the test's word");
}

/* It has slept until a tick, its word has changed, and now that happens. */
static void judge_meanwhile(struct plan p, const char *ms)
{
    pthread_t thread;

    shm_store(&asleep, BY_A_THREAD);
    shm_store(&word, 1);
    plan = p;
    ck_assert_int_eq(pthread_create(&thread, NULL, carry_out, NULL), 0);
    judge(ms);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

TEST(a_tick_that_hides_a_lost_wake_up_aborts)
{
    judge_meanwhile((struct plan){0, 0}, "200");
}

TEST(a_wake_up_without_a_trace_is_none)
{
    judge_meanwhile((struct plan){0, 1}, "200");
}

TEST(a_wake_up_that_is_late_is_waited_for)
{
    judge_meanwhile((struct plan){300, 1}, "10000");
}

TEST(one_that_came_between_the_tick_and_the_question_is_seen)
{
    shm_store(&asleep, BY_A_THREAD);
    shm_store(&word, 1);
    tick_trace(&asleep);
    sys.wake(&word, 1);
    judge("1");
}

TEST(unless_nobody_asked_for_it)
{
    shm_store(&asleep, BY_A_THREAD);
    shm_store(&word, 1);
    unsetenv("ENQ_TICK_FOUND");
    tick_judge(is_unwoken, NULL, "the test's word");
}

TEST(a_tick_that_finds_no_change_is_nothing)
{
    shm_store(&asleep, BY_A_THREAD);
    shm_store(&word, 0);
    judge("1");
}

TEST(a_trace_is_left_to_who_sleeps_and_changes_nothing_else)
{
    shm_store(&asleep, ASLEEP_NOBODY);
    tick_trace(&asleep);
    ck_assert_uint_eq(asleep, ASLEEP_NOBODY);
    shm_store(&asleep, ASLEEP_STARTED + 7);
    tick_trace(&asleep);
    ck_assert_uint_eq(asleep, ASLEEP_STARTED + 7);
    shm_store(&asleep, BY_A_THREAD);
    tick_trace(&asleep);
    ck_assert_uint_ne(asleep, BY_A_THREAD);
    ck_assert_uint_eq(tick_untraced(asleep), BY_A_THREAD);
}

TEST(a_sleep_that_ended_by_its_time_is_told_from_one_that_was_woken)
{
    unit_with_ticks();
    shm_store(&word, 0);
    sys.wait(&(struct sys_watch){&word, 0}, 1,
        mono_add_ns(sys.now(), NS_PER_MS));
    ck_assert(sys_slept_out());
    sys.wait(&(struct sys_watch){&word, 1}, 1,
        mono_add_ns(sys.now(), NS_PER_MS));
    ck_assert(!sys_slept_out());
}

int main(void)
{
    unit_begin("tick");
    ADD_ENDED_BY(SIGABRT, a_tick_that_hides_a_lost_wake_up_aborts);
    ADD_ENDED_BY(SIGABRT, a_wake_up_without_a_trace_is_none);
    ADD(a_wake_up_that_is_late_is_waited_for);
    ADD(one_that_came_between_the_tick_and_the_question_is_seen);
    ADD(unless_nobody_asked_for_it);
    ADD(a_tick_that_finds_no_change_is_nothing);
    ADD(a_trace_is_left_to_who_sleeps_and_changes_nothing_else);
    ADD(a_sleep_that_ended_by_its_time_is_told_from_one_that_was_woken);
    return unit_end();
}
