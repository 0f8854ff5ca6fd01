/*
 * config.c - the kinds of histories.
 */
#include "config.h"

#include <stdio.h>

#include "enq.h"

static const char *const two_keys[] = {"n/a", "n/b", NULL};
static const char *const many_keys[] = {"n", "n/", "n/a", "n/b", "n/c", "n/d",
    "n/e", "n/@", "n/\\@", "n/@@", "n/a/a", "n/a/b", "n/b/a", "n/b/b", "n/a/",
    "n/@/a", "n/a/@", "n/a/a/a", "n/a/@/a", "m", "m/a", "m/b", "m/c", "m/d",
    "m/a/a", "m/b/b", "o/a", "o/b", "p/a", "p/b", "q", NULL};
static const char *const generic_keys[] = {"n/a/a", "n/a/b", "n/b/a", "n/b/b",
    "n/@/a", "n/@/b", "n/a/@", "n/b/@", "n/@/@", "n/\\@/a", "n/a/\\@", "n/@",
    "n/a", "m/@", "m/a", NULL};
static const char *const stacked_keys[] = {"n/a", "n/b", "n/@", NULL};
static const char *const some_keys[] = {
    "n/a", "n/b", "n/c", "n/@", "m/a", "m/b", NULL};

static const char *const owners[] = {"A", "B", "C", "D", "", NULL};
static const char *const two_owners[] = {"A", "B", NULL};

static const int64_t long_ttls[] = {900000, 100000, ENQ_FOREVER, 0};
static const int64_t short_ttls[] = {1, 2, 5, 20, 1000, 0};

static const struct load loads[] = {
    {"few keys", two_keys, owners, "SSEEXO", long_ttls, 10, 14},
    {"many keys", many_keys, owners, "SSEEXO", long_ttls, 10, 40},
    {"generic keys", generic_keys, owners, "SSSEEXOO", long_ttls, 5, 16},
    {"cumulation", stacked_keys, two_owners, "EEEEEEESXO", long_ttls, 5, 16},
    {"short ttls", some_keys, owners, "SEEXOO", short_ttls, 10, 20},
    {"ids", some_keys, owners, "SSEOO", long_ttls, 70, 20},
};

#define LOADS (sizeof(loads) / sizeof(loads[0]))

_Static_assert(CONFIGS == 4 * LOADS, "each load with each table and fairness");

struct config config_at(unsigned number)
{
    struct config c = {
        .sap = number / LOADS & 1,
        .strict = number / LOADS >> 1 & 1,
        .load = &loads[number % LOADS],
    };

    snprintf(c.name, sizeof(c.name), "%s, %s, %s", c.sap ? "sap" : "enqueue",
        c.strict ? "strict" : "window", c.load->name);
    return c;
}
