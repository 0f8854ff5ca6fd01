/*
 * check_life.c - is it dead? Liveness words after every kind of death.
 */
#include "sync/life.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "refuse.h"
#include "unit.h"

struct shared {
    pthread_mutex_t life;
    uint32_t begun, other;
};

static struct shared *shared;

static uint32_t word(void)
{
    return shm_load_acquire(liveness_word(&shared->life));
}

static void begin(void)
{
    ck_assert_int_eq(life_begin(&shared->life), 0);
    shm_store_release(&shared->begun, 1);
}

static int live_and_stay(void *nothing)
{
    (void)nothing;
    begin();
    for (;;)
        pause();
    return 0;
}

static int live_and_leave(void *nothing)
{
    (void)nothing;
    begin();
    return 0;
}

static int live_and_end(void *nothing)
{
    (void)nothing;
    begin();
    life_end(&shared->life);
    return 0;
}

static int live_and_exec(void *nothing)
{
    (void)nothing;
    begin();
    execl("/bin/sleep", "sleep", "100", (char *)NULL);
    return 1;
}

static void *begin_in_thread(void *nothing)
{
    begin();
    return nothing;
}

/* Its death would be told of its parent's thread, whose number is in the word. */
TEST(a_child_of_a_bare_clone_is_told_that_it_cannot_live)
{
    pid_t pid;

    ck_assert_int_eq(life_possible(), 0);
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (life_possible() != -EPERM)
            _exit(1);
        _exit(strstr(enq_why(), "clone()") != NULL ? 0 : 2);
    }
    unit_join(pid);
}

TEST(who_lives_is_not_dead)
{
    shared = unit_shared(sizeof(*shared));
    ck_assert(!liveness_is_dead(word()));
    begin();
    ck_assert(!liveness_is_dead(word()));
    ck_assert_uint_eq(word() & FUTEX_TID_MASK, (uint32_t)gettid());
}

TEST(the_kernel_is_always_asked_to_wake_watchers)
{
    shared = unit_shared(sizeof(*shared));
    begin();
    ck_assert_uint_eq(word() & FUTEX_WAITERS, FUTEX_WAITERS);
}

TEST(who_ended_in_order_is_not_dead)
{
    shared = unit_shared(sizeof(*shared));
    unit_join(unit_fork(live_and_end, NULL));
    ck_assert(!liveness_is_dead(word()));
    begin();
    ck_assert(!liveness_is_dead(word()));
}

TEST(who_was_killed_is_dead)
{
    pid_t pid;

    shared = unit_shared(sizeof(*shared));
    pid = unit_fork(live_and_stay, NULL);
    eventually(shm_load_acquire(&shared->begun));
    ck_assert(!liveness_is_dead(word()));
    unit_kill(pid);
    ck_assert(liveness_is_dead(word()));
}

TEST(who_is_stopped_is_not_dead)
{
    int status;
    pid_t pid;

    shared = unit_shared(sizeof(*shared));
    pid = unit_fork(live_and_stay, NULL);
    eventually(shm_load_acquire(&shared->begun));
    kill(pid, SIGSTOP);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(!liveness_is_dead(word()));
    unit_kill(pid);
}

TEST(who_left_without_a_word_is_dead)
{
    shared = unit_shared(sizeof(*shared));
    unit_join(unit_fork(live_and_leave, NULL));
    ck_assert(liveness_is_dead(word()));
}

TEST(who_became_another_program_is_dead)
{
    pid_t pid;

    shared = unit_shared(sizeof(*shared));
    pid = unit_fork(live_and_exec, NULL);
    eventually(liveness_is_dead(word()));
    unit_kill(pid);
}

TEST(a_thread_that_ended_is_dead_though_its_process_lives)
{
    pthread_t thread;

    shared = unit_shared(sizeof(*shared));
    pthread_create(&thread, NULL, begin_in_thread, NULL);
    pthread_join(thread, NULL);
    ck_assert(liveness_is_dead(word()));
}

TEST(a_latch_of_the_dead_is_alive_with_the_next)
{
    shared = unit_shared(sizeof(*shared));
    unit_join(unit_fork(live_and_leave, NULL));
    ck_assert(liveness_is_dead(word()));
    begin();
    ck_assert(!liveness_is_dead(word()));
}

static int watch_the_liveness_word(void *nothing)
{
    struct sys_watch watch[2] = {
        {&shared->other, 0}, {liveness_word(&shared->life), word()}};
    int64_t began = unit_now_ms();

    (void)nothing;
    shm_store(&shared->begun, 2);
    while (!liveness_is_dead(word()))
        sys.wait(watch, 2, mono_add_ms(sys.now(), 10000));
    return unit_now_ms() - began < 5000 ? 0 : 1;
}

TEST(a_watcher_is_woken_by_a_death)
{
    pid_t dying, watching;

    shared = unit_shared(sizeof(*shared));
    dying = unit_fork(live_and_stay, NULL);
    eventually(shm_load_acquire(&shared->begun) == 1);
    watching = unit_fork(watch_the_liveness_word, NULL);
    eventually(shm_load_acquire(&shared->begun) == 2);
    unit_kill(dying);
    unit_join(watching);
}

/* --- where the kernel answers not all questions --- */

TEST(who_may_not_ask_for_the_robust_list_may_still_set_it)
{
    ck_assert_int_eq(life_possible(), 0);
    ck_assert(refuse(SYS_get_robust_list));
    ck_assert_int_eq(life_possible(), 0);
    ck_assert(refuse(SYS_set_robust_list));
    want_why(-EPERM, life_possible(), "set_robust_list");
}

TEST(who_may_not_set_the_robust_list_may_have_set_it_before)
{
    ck_assert(refuse(SYS_set_robust_list));
    ck_assert_int_eq(life_possible(), 0);
}

/* --- clock and futex --- */

TEST(the_coarse_clock_is_never_ahead_and_lags_within_its_bound)
{
    for (int i = 0; i < 200000; i++) {
        mono_t coarse = sys.coarse(), now = sys.now();

        ck_assert_int_le(coarse.ns, now.ns);
        /* unless we were put aside in between */
        if (sys.now().ns - now.ns < NS_PER_MS / 10 && i % 1000 == 0)
            ck_assert_int_le(sys.now().ns - sys.coarse().ns,
                5 * sys_coarse_lag_ns);
    }
}

TEST(waiting_ends_at_the_deadline_and_not_before)
{
    uint32_t w = 0;
    struct sys_watch watch = {&w, 0};

    for (int ms = 0; ms < 30; ms += 5) {
        mono_t until = mono_add_ms(sys.now(), ms);

        while (!mono_reached(until, sys.now()))
            sys.wait(&watch, 1, until);
        ck_assert_int_lt(mono_ms_between(until, sys.now()), 5000);
    }
}

TEST(a_word_that_differs_is_not_slept_on)
{
    uint32_t w = 1;
    struct sys_watch watch = {&w, 0};
    int64_t began = unit_now_ms();

    for (int i = 0; i < 1000; i++)
        sys.sleep(&watch, 1, MONO_NEVER);
    sys.wait(&watch, 1, MONO_NEVER);
    ck_assert_int_lt(unit_now_ms() - began, 5000);
}

TEST(no_sleep_is_longer_than_a_tick)
{
    uint32_t w = 0;
    struct sys_watch watch = {&w, 0};
    int64_t began = unit_now_ms();

    sys.wait(&watch, 1, MONO_NEVER);
    ck_assert_int_lt(unit_now_ms() - began, 5000);
}

/* The way round it knows one word only, and is for a kernel that has no other.
   It is gone over to once and for all. */
TEST(a_wait_without_a_change_goes_on_to_be_one_for_several_words)
{
    uint32_t w[2] = {0, 0};
    struct sys_watch same[] = {{&w[0], 0}, {&w[1], 0}},
                     other[] = {{&w[0], 0}, {&w[1], 1}};

    syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0);
    if (errno != EINVAL) /* it has none, or none for us */
        return;
    sys.wait(same, 2, mono_add_ms(sys.now(), 1));
    ck_assert(sys_has_waitv());
    sys.wait(other, 2, MONO_NEVER);
    ck_assert(sys_has_waitv());
}

int main(void)
{
    bool may = may_refuse();

    unit_begin("life");
    ADD(a_child_of_a_bare_clone_is_told_that_it_cannot_live);
    ADD(who_lives_is_not_dead);
    ADD(the_kernel_is_always_asked_to_wake_watchers);
    ADD(who_ended_in_order_is_not_dead);
    ADD(who_was_killed_is_dead);
    ADD(who_is_stopped_is_not_dead);
    ADD(who_left_without_a_word_is_dead);
    ADD(who_became_another_program_is_dead);
    ADD(a_thread_that_ended_is_dead_though_its_process_lives);
    ADD(a_latch_of_the_dead_is_alive_with_the_next);
    ADD(a_watcher_is_woken_by_a_death);
    ADD_IF(may, "no seccomp",
        who_may_not_ask_for_the_robust_list_may_still_set_it);
    ADD_IF(may, "no seccomp",
        who_may_not_set_the_robust_list_may_have_set_it_before);
    ADD(the_coarse_clock_is_never_ahead_and_lags_within_its_bound);
    ADD(waiting_ends_at_the_deadline_and_not_before);
    ADD(a_word_that_differs_is_not_slept_on);
    ADD(no_sleep_is_longer_than_a_tick);
    ADD(a_wait_without_a_change_goes_on_to_be_one_for_several_words);
    return unit_end();
}
