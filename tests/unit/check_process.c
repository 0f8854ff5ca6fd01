/*
 * check_process.c - which process is this: lives, and the mutex in a child.
 */
#include "base/process.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "unit.h"

static uint64_t enter_and_leave(bool *fresh)
{
    uint64_t life = process_enter(fresh);

    process_leave();
    return life;
}

TEST(a_life_has_one_number_and_it_is_not_zero)
{
    bool fresh;
    uint64_t life = enter_and_leave(&fresh);

    ck_assert_uint_ne(life, 0);
    ck_assert_uint_eq(enter_and_leave(&fresh), life);
    ck_assert(!fresh);
    ck_assert(process_is(life));
    ck_assert(!process_is(life + 1));
    ck_assert(!process_is(0));
}

static int live_again(void *parents)
{
    uint64_t *life = parents, mine;
    bool fresh;

    ck_assert(!process_is(*life));
    mine = enter_and_leave(&fresh);
    ck_assert(fresh);
    ck_assert_uint_ne(mine, *life);
    ck_assert(!process_is(*life));
    enter_and_leave(&fresh);
    ck_assert(!fresh);
    *life = mine;
    return 0;
}

TEST(a_child_of_fork_lives_anew)
{
    bool fresh;
    uint64_t life = enter_and_leave(&fresh), mine = life;

    unit_join(unit_fork(live_again, &life));
    ck_assert(process_is(mine));
}

static int live_twice(void *parents)
{
    uint64_t *life = parents;

    live_again(life);
    unit_join(unit_fork(live_again, life));
    return 0;
}

TEST(a_grandchild_lives_anew_as_well)
{
    bool fresh;
    uint64_t life = enter_and_leave(&fresh);

    unit_join(unit_fork(live_twice, &life));
}

TEST(a_child_of_a_bare_clone_lives_anew)
{
    bool fresh;
    uint64_t life = enter_and_leave(&fresh);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(process_is(life) ? 1 : 0);
    unit_join(pid);
}

static int enter_freely(void *nothing)
{
    bool fresh;

    (void)nothing;
    enter_and_leave(&fresh);
    return fresh ? 0 : 1;
}

TEST(the_mutex_is_free_in_a_child_of_one_who_had_it)
{
    bool fresh;
    pid_t pid;

    process_enter(&fresh);
    pid = unit_fork(enter_freely, NULL);
    unit_join(pid);
    process_leave();
}

static unsigned inside, fresh_ones;

static void *enter_often(void *nothing)
{
    bool fresh;

    for (int i = 0; i < 2000; i++) {
        process_enter(&fresh);
        fresh_ones += fresh;
        ck_assert_uint_eq(shm_add(&inside, 1), 1);
        shm_add(&inside, -1);
        process_leave();
    }
    return nothing;
}

static int many_threads(void *nothing)
{
    pthread_t threads[4];

    fresh_ones = 0;
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_create(&threads[i], NULL, enter_often, nothing);
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(fresh_ones, 1);
    return 0;
}

TEST(one_thread_at_a_time_is_inside)
{
    many_threads(NULL);
}

TEST(one_thread_of_a_child_is_the_first)
{
    bool fresh;

    enter_and_leave(&fresh);
    for (int i = 0; i < 20; i++)
        unit_join(unit_fork(many_threads, NULL));
}

int main(void)
{
    unit_begin("process");
    ADD(a_life_has_one_number_and_it_is_not_zero);
    ADD(a_child_of_fork_lives_anew);
    ADD(a_grandchild_lives_anew_as_well);
    ADD(a_child_of_a_bare_clone_lives_anew);
    ADD(the_mutex_is_free_in_a_child_of_one_who_had_it);
    ADD(one_thread_at_a_time_is_inside);
    ADD(one_thread_of_a_child_is_the_first);
    return unit_end();
}
