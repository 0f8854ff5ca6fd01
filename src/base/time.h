/*
 * time.h - base: points in time, as a struct, so that a wall clock or a
 * bare number cannot slip in.
 *
 * A mono_t counts nanoseconds of CLOCK_BOOTTIME: it includes suspend and is
 * not stepped. Arithmetic saturates: a ttl of 2^63-1 ms is "never".
 */
#ifndef BASE_TIME_H
#define BASE_TIME_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int64_t ns;
} mono_t;

#define MONO_NEVER ((mono_t){INT64_MAX})
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

static inline bool mono_is_never(mono_t t)
{
    return t.ns == INT64_MAX;
}

static inline mono_t mono_add_ns(mono_t t, int64_t ns)
{
    mono_t sum;

    if (__builtin_add_overflow(t.ns, ns, &sum.ns))
        return MONO_NEVER;
    return sum;
}

/* ms < 0 (ENQ_FOREVER) is never. */
static inline mono_t mono_add_ms(mono_t t, int64_t ms)
{
    int64_t ns;

    if (ms < 0 || __builtin_mul_overflow(ms, NS_PER_MS, &ns))
        return MONO_NEVER;
    return mono_add_ns(t, ns);
}

static inline mono_t mono_min(mono_t a, mono_t b)
{
    return a.ns < b.ns ? a : b;
}

static inline mono_t mono_max(mono_t a, mono_t b)
{
    return a.ns > b.ns ? a : b;
}

static inline bool mono_reached(mono_t deadline, mono_t now)
{
    return now.ns >= deadline.ns;
}

/* Either may have been read from a damaged segment. */
static inline int64_t mono_ns_between(mono_t from, mono_t to)
{
    int64_t ns;

    if (__builtin_sub_overflow(to.ns, from.ns, &ns))
        return to.ns > from.ns ? INT64_MAX : INT64_MIN;
    return ns;
}

static inline int64_t mono_ms_between(mono_t from, mono_t to)
{
    return mono_ns_between(from, to) / NS_PER_MS;
}

#endif
