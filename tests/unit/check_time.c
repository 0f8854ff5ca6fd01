/*
 * check_time.c - points in time: exact where they fit, never where not.
 */
#include "base/time.h"

#include "unit.h"

static const mono_t now = {INT64_C(5000000000)};

static const struct {
    int64_t ms;
    bool never;
} spans[] = {
    {0, false},
    {1, false},
    {INT64_C(2147483647), false},
    {INT64_C(2147483648), false},
    {INT64_C(4294967296), false},
    {INT64_C(9223372031854), false}, /* the last that fits after now */
    {INT64_C(9223372031855), true},
    {INT64_C(9223372036854), true},
    {INT64_C(9223372036855), true},
    {INT64_MAX - 1, true},
    {INT64_MAX, true},
    {-1, true}, /* ENQ_FOREVER */
    {INT64_MIN, true},
};

TEST(a_span_is_added_exactly_or_is_never)
{
    mono_t sum = mono_add_ms(now, spans[_i].ms);

    ck_assert_int_eq(mono_is_never(sum), spans[_i].never);
    if (!spans[_i].never) {
        ck_assert_int_eq(sum.ns, now.ns + spans[_i].ms * NS_PER_MS);
        ck_assert_int_eq(mono_ms_between(now, sum), spans[_i].ms);
    }
}

TEST(never_stays_never_whatever_is_added)
{
    ck_assert(mono_is_never(mono_add_ms(MONO_NEVER, 1)));
    ck_assert(mono_is_never(mono_add_ns(MONO_NEVER, INT64_MAX)));
    ck_assert(mono_is_never(mono_add_ns(MONO_NEVER, 0)));
}

TEST(nanoseconds_saturate_too)
{
    ck_assert(mono_is_never(mono_add_ns(now, INT64_MAX)));
    ck_assert(!mono_is_never(mono_add_ns(now, INT64_MAX - now.ns - 1)));
    ck_assert_int_eq(mono_add_ns(now, -1).ns, now.ns - 1);
}

TEST(a_deadline_is_reached_at_its_very_moment)
{
    ck_assert(!mono_reached(now, (mono_t){now.ns - 1}));
    ck_assert(mono_reached(now, now));
    ck_assert(mono_reached(now, (mono_t){now.ns + 1}));
    ck_assert(!mono_reached(MONO_NEVER, (mono_t){INT64_MAX - 1}));
}

TEST(the_earlier_of_two_is_the_lesser)
{
    mono_t later = {now.ns + 1};

    ck_assert_int_eq(mono_min(now, later).ns, now.ns);
    ck_assert_int_eq(mono_min(later, now).ns, now.ns);
    ck_assert_int_eq(mono_min(MONO_NEVER, now).ns, now.ns);
}

int main(void)
{
    unit_begin("time");
    ADD_LOOP(a_span_is_added_exactly_or_is_never, LENGTH(spans));
    ADD(never_stays_never_whatever_is_added);
    ADD(nanoseconds_saturate_too);
    ADD(a_deadline_is_reached_at_its_very_moment);
    ADD(the_earlier_of_two_is_the_lesser);
    return unit_end();
}
