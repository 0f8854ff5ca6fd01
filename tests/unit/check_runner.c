/*
 * check_runner.c - which tests fail, which of these are played again, and how
 * often: a program of this file's own has one test.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

/* --- the program within --- */

/* Where each play of its test leaves a byte. */
#define PLAYS "CHECK_RUNNER_PLAYS"

static int plays(void)
{
    struct stat st;

    ck_assert_int_eq(stat(getenv(PLAYS), &st), 0);
    return (int)st.st_size;
}

static void note_play(void)
{
    int file = open(getenv(PLAYS), O_WRONLY | O_APPEND | O_CLOEXEC);

    ck_assert_int_eq(write(file, "x", 1), 1);
    close(file);
}

static void stay_on_one_processor(void)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* Beside another that wants the same processor: it waits for it as long as we
   do, which is counted as well while it lives. */
static void starve(void)
{
    pid_t other;

    stay_on_one_processor();
    other = fork();
    if (other == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (other == 0)
        continue;
    while (test_starved_ms() < 3 * STARVED_MS)
        continue;
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
}

TEST(is_wrong)
{
    note_play();
    ck_abort_msg("wrong");
}

TEST(is_wrong_and_starved)
{
    note_play();
    starve();
    ck_abort_msg("wrong");
}

TEST(is_starved_once)
{
    note_play();
    if (plays() > 1)
        return;
    starve();
    ck_abort_msg("late");
}

TEST(throws_dice)
{
    note_play();
    unit_seed();
    starve();
    ck_abort_msg("a race that is rare");
}

TEST(is_ended_by_a_signal)
{
    note_play();
    starve();
    abort();
}

TEST(leaves_a_descriptor_open)
{
    note_play();
    starve();
    ck_assert_int_ge(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
}

/* One that it closes is its own affair: another in its place is not. */
TEST(leaves_another_in_its_place)
{
    int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);

    note_play();
    close(file);
    ck_assert_int_ge(dup2(STDIN_FILENO, STDERR_FILENO), 0);
}

static int program_within(const char *module, const char *test)
{
    setenv("UNIT_ONLY", test, 1);
    unit_begin(module);
    ADD(is_wrong);
    ADD(is_wrong_and_starved);
    ADD(is_starved_once);
    ADD(throws_dice);
    ADD(is_ended_by_a_signal);
    ADD(leaves_a_descriptor_open);
    ADD(leaves_another_in_its_place);
    return unit_end();
}

/* --- what becomes of it --- */

static const struct {
    const char *test, *module;
    int plays;
    bool is_ok;
} fates[] = {
    {"is_wrong", "within", 1, false},
    {"is_wrong_and_starved", "within", PLAYS_MAX, false},
    {"is_starved_once", "within", 2, true},
    {"is_starved_once", "within_threads", 1, false},
    {"throws_dice", "within", 1, false},
    {"is_ended_by_a_signal", "within", 1, false},
    {"leaves_a_descriptor_open", "within", 1, false},
    {"leaves_another_in_its_place", "within", 1, false},
};

static int begin_within(void *fate)
{
    int i = *(int *)fate, nowhere = open("/dev/null", O_WRONLY);

    dup2(nowhere, STDOUT_FILENO);
    close(nowhere);
    execl("/proc/self/exe", "check_runner", fates[i].module, fates[i].test,
        (char *)NULL);
    return 127;
}

TEST(only_who_had_no_processor_and_searches_for_nothing_is_played_again)
{
    char path[256];
    int status;

    setenv(PLAYS, unit_path("plays", path), 1);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    waitpid(unit_fork(begin_within, &_i), &status, 0);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == !fates[_i].is_ok,
        "ended with %#x", (unsigned)status);
    ck_assert_int_eq(plays(), fates[_i].plays);
}

/* --- for how long it had no processor --- */

static int64_t ready_ms;
static int is_over;

static void *starve_and_wait(void *unused)
{
    stay_on_one_processor();
    starve();
    __atomic_store_n(&ready_ms, test_starved_ms(), __ATOMIC_RELEASE);
    while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
        unit_nap();
    return unused;
}

TEST(what_a_thread_waited_for_a_processor_is_counted_when_it_has_ended)
{
    pthread_t thread;

    pthread_create(&thread, NULL, starve_and_wait, NULL);
    eventually(__atomic_load_n(&ready_ms, __ATOMIC_ACQUIRE) != 0);
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    ck_assert_int_ge(test_starved_ms(), ready_ms);
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return program_within(argv[1], argv[2]);
    unit_begin("runner");
    ADD_LOOP(only_who_had_no_processor_and_searches_for_nothing_is_played_again,
        LENGTH(fates));
    ADD(what_a_thread_waited_for_a_processor_is_counted_when_it_has_ended);
    return unit_end();
}
