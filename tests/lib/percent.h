/*
 * percent.h - how much of what a suite counts by default it counts: all of it, or
 * $ENQ_TEST_PERCENT of it, on a machine that is too slow for that (.ci/run).
 *
 * What a number of its own is given to (--count, --seconds ...) takes that.
 */
#ifndef LIB_PERCENT_H
#define LIB_PERCENT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline uint64_t test_percent(uint64_t n)
{
    const char *text = getenv("ENQ_TEST_PERCENT");
    char *end = NULL;
    uint64_t percent = text == NULL ? 100 : strtoull(text, &end, 10);

    if (text != NULL &&
        (text[0] < '0' || text[0] > '9' || *end != '\0' || percent < 1 ||
            percent > 100)) {
        fprintf(stderr, "ENQ_TEST_PERCENT=%s: a number from 1 to 100\n", text);
        exit(2);
    }
    n = n * percent / 100;
    return n > 0 ? n : 1;
}

#endif
