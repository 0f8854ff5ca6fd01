/*
 * figures.c - time and statistics: the clock and its own cost, medians, and
 * a log-linear histogram (64 steps for each power of two: 1.6 % wide).
 */
#include "harness/bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double median(const double *v, unsigned n)
{
    double sorted[1024];

    if (n == 0)
        return 0;
    if (n > 1024)
        n = 1024;
    memcpy(sorted, v, n * sizeof(*v));
    qsort(sorted, n, sizeof(*sorted), by_size);
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

double greatest(const double *v, unsigned n)
{
    double most = 0;

    for (unsigned i = 0; i < n; i++)
        most = v[i] > most ? v[i] : most;
    return most;
}

/* What one reading adds to the span between two of them. */
uint64_t clock_cost_ns(void)
{
    double cost[1001];

    for (unsigned i = 0; i < 1001; i++) {
        uint64_t begin = now_ns();
        cost[i] = (double)(now_ns() - begin);
    }
    return (uint64_t)median(cost, 1001);
}

/* Below 2 * HIST_SUB a bucket is one nanosecond wide. */
static unsigned hist_bucket(uint64_t ns)
{
    if (ns < HIST_SUB)
        return (unsigned)ns;
    unsigned shift = 63 - (unsigned)__builtin_clzll(ns) - 6;

    return HIST_SUB * shift + (unsigned)(ns >> shift);
}

static uint64_t hist_middle(unsigned bucket)
{
    if (bucket < 2 * HIST_SUB)
        return bucket;
    unsigned shift = bucket / HIST_SUB - 1;
    uint64_t low = (uint64_t)(HIST_SUB + bucket % HIST_SUB) << shift;

    return low + ((UINT64_C(1) << shift) >> 1);
}

void hist_add(struct hist *h, uint64_t ns)
{
    h->count[hist_bucket(ns)]++;
}

void hist_merge(struct hist *into, const struct hist *from)
{
    for (unsigned i = 0; i < HIST_BUCKETS; i++)
        into->count[i] += from->count[i];
}

uint64_t hist_count(const struct hist *h)
{
    uint64_t all = 0;

    for (unsigned i = 0; i < HIST_BUCKETS; i++)
        all += h->count[i];
    return all;
}

uint64_t hist_quantile(const struct hist *h, double q)
{
    uint64_t all = hist_count(h), seen = 0;

    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        seen += h->count[i];
        if (seen > 0 && (double)seen >= q * (double)all)
            return hist_middle(i);
    }
    return 0;
}
