/*
 * main.c - growth-run: what a call looks at does not grow with what it does not
 * touch.
 *
 * usage: growth-run [TEXT]
 *   TEXT  only rows whose name, with the size behind it, contains it
 *
 * Each row is an operation beside N locks that it has nothing to do with, or one
 * that grants, passes or takes away N of one key, at three sizes. What its calls
 * look at is counted by the library (profile crash, base/visit.h), on all threads
 * that take part: on average, and at most in one operation. The budget is the
 * same for all sizes. A count is the same on a busy machine, and shows a walk
 * over 100,000 that takes a millisecond as well as one over ten.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "growth.h"

static unsigned passed, failed;

static const unsigned beside[] = {10, 1000, 100000};
/* Of one key: to make them takes the square. */
static const unsigned of_a_key[] = {10, 1000, 10000};

static double budget_of(const struct row *row, unsigned n)
{
    return row->mean + row->at_any_number / n;
}

static void report(const struct row *row, unsigned n, const struct sum *sum)
{
    double mean = budget_of(row, n);
    bool fine = sum->mean <= mean &&
        (row_runs_once(row) || (double)sum->most <= row->most);

    if (fine)
        passed++;
    else
        failed++;
    printf("%s %s, %u: %.1f visits", fine ? "ok    " : "FAILED", row->name, n,
        sum->mean);
    if (row_runs_once(row))
        printf(" for each (budget %.1f)\n", mean);
    else
        printf(", at most %llu (budget %.1f, %.0f)\n",
            (unsigned long long)sum->most, mean, row->most);
}

/* TEXT may name a size: "a refusal beside held locks, 1000:". */
static bool is_wanted(const struct row *row, unsigned n, const char *text)
{
    char name[128];

    snprintf(name, sizeof(name), "%s, %u:", row->name, n);
    return text == NULL || strstr(name, text) != NULL;
}

static void play(const struct row *row, const char *text)
{
    const unsigned *sizes = row_runs_once(row) ? of_a_key : beside;
    unsigned n = 0, last;

    for (unsigned i = 0; i < 3; i++) {
        struct sum sum;

        last = n;
        n = sizes[i];
        if (row->largest != 0 && n > row->largest)
            n = row->largest;
        if (!is_wanted(row, n, text) || n == last)
            continue;
        row_play(row, n, &sum);
        report(row, n, &sum);
    }
}

int main(int argc, char **argv)
{
    unsetenv("ENQ_SPACE");
    unsetenv("ENQ_OWNER");
    unsetenv("ENQ_CRASH");
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (const struct row *row = rows; row->name != NULL; row++)
        play(row, argc < 2 ? NULL : argv[1]);
    if (passed + failed == 0) {
        printf("FAILED no row is called \"%s\"\n", argv[1]);
        failed++;
    }
    printf("growth: %u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
