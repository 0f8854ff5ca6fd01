/*
 * check_multimap.c - numbers found by keys, of which several may be the same.
 */
#include "base/multimap.h"

#include "unit.h"

#define MANY 5000

TEST(one_that_was_never_added_to_has_nothing)
{
    struct multimap m = {0};

    ck_assert_uint_eq(multimap_find(&m, 0), MULTIMAP_NONE);
    ck_assert_uint_eq(multimap_take(&m, 0), MULTIMAP_NONE);
    multimap_free(&m);
}

TEST(each_number_is_found_by_its_key_also_after_it_has_grown)
{
    struct multimap m = {0};

    for (uint32_t i = 0; i < MANY; i++)
        ck_assert(multimap_add(&m, UINT64_C(3) << 40 | (i * 256)));
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(multimap_find(&m, UINT64_C(3) << 40 | (i * 256)), i);
    ck_assert_uint_eq(multimap_find(&m, 1), MULTIMAP_NONE);
    multimap_free(&m);
}

/* Of three keys; those of the others stay. */
TEST(all_numbers_of_one_key_are_taken_each_once)
{
    struct multimap m = {0};
    bool taken[MANY] = {false};
    uint32_t number, n = 0;

    for (uint32_t i = 0; i < MANY; i++)
        ck_assert(multimap_add(&m, i % 3));
    while ((number = multimap_take(&m, 1)) != MULTIMAP_NONE) {
        ck_assert_uint_eq(number % 3, 1);
        ck_assert(!taken[number]);
        taken[number] = true;
        n++;
    }
    ck_assert_uint_eq(n, (MANY + 1) / 3);
    ck_assert_uint_eq(multimap_find(&m, 1), MULTIMAP_NONE);
    ck_assert_uint_eq(multimap_find(&m, 2) % 3, 2);
    ck_assert_uint_eq(multimap_find(&m, 0) % 3, 0);
    multimap_free(&m);
}

TEST(what_was_taken_stays_so_as_the_map_grows)
{
    struct multimap m = {0};
    uint32_t number, n = 0;

    for (uint32_t i = 0; i < 10; i++)
        ck_assert(multimap_add(&m, i % 2));
    ck_assert_uint_ne(multimap_take(&m, 1), MULTIMAP_NONE);
    ck_assert_uint_ne(multimap_take(&m, 1), MULTIMAP_NONE);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert(multimap_add(&m, 7));
    ck_assert_uint_ne(multimap_find(&m, 0), MULTIMAP_NONE);
    while ((number = multimap_take(&m, 1)) != MULTIMAP_NONE) {
        ck_assert_uint_eq(number % 2, 1);
        n++;
    }
    ck_assert_uint_eq(n, 3);
    multimap_free(&m);
}

int main(void)
{
    unit_begin("multimap");
    ADD(one_that_was_never_added_to_has_nothing);
    ADD(each_number_is_found_by_its_key_also_after_it_has_grown);
    ADD(all_numbers_of_one_key_are_taken_each_once);
    ADD(what_was_taken_stays_so_as_the_map_grows);
    return unit_end();
}
