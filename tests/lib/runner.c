/*
 * runner.c - plays the unit tests of a program (see runner.h).
 */
#include "lib/runner.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/descriptors.h"
#include "lib/starved.h"
#include "unit.h"

#define PATIENCE_S 30

struct one {
    const TTest *test;
    int signal, i;
};

static struct one *ones;
static size_t n_ones;

/* What the tests of a play leave behind: each has a process of its own, and
   they come one after the other. */
static struct {
    size_t begun;
    int64_t starved_ms[]; /* of the n-th that began; 0: not known */
} * notes;

static pid_t me;
static bool searches;

void runner_add(const TTest *test, int signal, int from, int to)
{
    for (int i = from; i < to; i++) {
        ones = reallocarray(ones, n_ones + 1, sizeof(*ones));
        if (ones == NULL)
            abort();
        ones[n_ones++] = (struct one){test, signal, i};
    }
}

void runner_searches(void)
{
    searches = true;
}

static void note_begin(void)
{
    me = getpid();
    notes->begun++;
    descriptors_begin();
}

/* A fault of no machine: it is not played again. The thread sanitizer opens some
   for itself; its suites are played without it as well. */
static void look_at_the_end(void)
{
    char first[256];
    size_t left = UNIT_TSAN ? 0 : descriptors_left(first, sizeof(first));

    if (left > 0)
        runner_searches();
    ck_assert_msg(left == 0, "descriptors that it leaves open: %zu, such as %s",
        left, first);
}

/* Of a child of the test its parent knows only that it failed. */
void runner_note_failure(void)
{
    if (getpid() == me && !searches)
        notes->starved_ms[notes->begun - 1] = test_starved_ms();
}

static SRunner *runner_of(const char *module, const struct one *all, size_t n)
{
    Suite *suite = suite_create(module);
    TCase *cases = tcase_create(module);

    tcase_set_timeout(cases, PATIENCE_S);
    tcase_add_checked_fixture(cases, note_begin, look_at_the_end);
    for (size_t i = 0; i < n; i++)
        _tcase_add_test(cases, all[i].test, all[i].signal, 0, all[i].i,
            all[i].i + 1);
    suite_add_tcase(suite, cases);
    return srunner_create(suite);
}

static bool is_starved(SRunner *runner, const struct one *one, size_t i)
{
    long long ms = notes->starved_ms[i];

    if (srunner_fork_status(runner) != CK_FORK || ms < STARVED_MS)
        return false;
    printf("STARVED %s:%d had no processor for %lld ms: it is played again\n",
        one->test->name, one->i, ms);
    return true;
}

/* Leaves in `all` those that are to be played again; returns how many. */
static size_t play(const char *module, struct one *all, size_t n, bool is_last,
    struct runner_count *count)
{
    SRunner *runner = runner_of(module, all, n);
    TestResult **results;
    size_t again = 0, ran;

    srunner_run_all(runner, CK_NORMAL);
    results = srunner_results(runner);
    ran = (size_t)srunner_ntests_run(runner);
    for (size_t i = 0; i < ran; i++)
        if (tr_rtype(results[i]) == CK_PASS)
            count->passed++;
        else if (!is_last && is_starved(runner, &all[i], i))
            all[again++] = all[i];
        else
            count->failed++;
    free(results);
    srunner_free(runner);
    return again;
}

struct runner_count runner_play(const char *module, bool may_repeat)
{
    size_t bytes = sizeof(*notes) + (n_ones + 1) * sizeof(int64_t), n = n_ones;
    struct runner_count count = {0, 0};

    notes = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (notes == MAP_FAILED)
        abort();
    for (int plays = 1; n > 0; plays++) {
        memset(notes, 0, bytes);
        n = play(module, ones, n, !may_repeat || plays == PLAYS_MAX, &count);
    }
    munmap(notes, bytes);
    free(ones);
    return count;
}
