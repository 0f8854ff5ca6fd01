/*
 * runner.h - plays the unit tests of a program.
 *
 * A test that fails while it has no processor is played again, in the end, as
 * its bounds in time are then the machine's: STARVED_MS as the kernel counts
 * them, PLAYS_MAX plays in all, so that what is wrong fails. None that searches
 * is: a program of threads, a test that throws dice, or one under the thread
 * sanitizer may show a race once in a thousand plays. Nor is one that did not
 * fail by an assertion of its own, but was ended by a signal or a sanitizer.
 */
#ifndef LIB_RUNNER_H
#define LIB_RUNNER_H

#include <check.h>
#include <stdbool.h>

enum { STARVED_MS = 200, PLAYS_MAX = 6 };

/* For each i of from <= i < to; to be ended by `signal`, if it is not 0. */
void runner_add(const TTest *test, int signal, int from, int to);

/* By the test that runs: it throws dice. */
void runner_searches(void);

/* And an assertion of it has failed: Check's ends the process at once. */
void runner_note_failure(void);
#define _ck_assert_failed(...)                                                 \
    (runner_note_failure(), _ck_assert_failed(__VA_ARGS__))

struct runner_count {
    int passed, failed;
};

struct runner_count runner_play(const char *module, bool may_repeat);

#endif
