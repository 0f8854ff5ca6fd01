/*
 * check_percent.c - what the suites count of their counts (lib/percent.h).
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/percent.h"
#include "unit.h"

static uint64_t part(const char *percent, uint64_t n)
{
    if (percent == NULL)
        unsetenv("ENQ_TEST_PERCENT");
    else
        setenv("ENQ_TEST_PERCENT", percent, 1);
    return test_percent(n);
}

TEST(all_is_counted_unless_it_is_said)
{
    ck_assert_uint_eq(part(NULL, 500000000), 500000000);
    ck_assert_uint_eq(part("100", 65500), 65500);
}

TEST(a_part_is_counted_and_one_at_least)
{
    ck_assert_uint_eq(part("10", 65500), 6550);
    ck_assert_uint_eq(part("33", 101), 33);
    ck_assert_uint_eq(part("10", 5), 1);
}

static const char *const nonsense[] = {
    "", "0", "101", "x", "5x", "-1", " 5", "1e1", "99999999999999999999999"};

TEST(nonsense_ends_the_program)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0)
        _exit(part(nonsense[_i], 100) > 0 ? 0 : 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 2);
}

int main(void)
{
    unit_begin("percent");
    ADD(all_is_counted_unless_it_is_said);
    ADD(a_part_is_counted_and_one_at_least);
    ADD_LOOP(nonsense_ends_the_program, LENGTH(nonsense));
    return unit_end();
}
