/*
 * check_owners.c - which owners wait (store/owners.h): those that do are always
 * found, others by chance only.
 */
#include "store/owners.h"

#include <stdlib.h>

#include "unit.h"

#define MANY 100000u

static struct seg_header header;
static uint32_t words[OWNER_WORDS];
static const struct map map = {.h = &header, .owners = words};

static uint64_t some_owner(uint64_t *dice)
{
    return unit_random(dice) | 1;
}

static unsigned words_taken(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < OWNER_WORDS; i++)
        n += words[i] != 0;
    return n;
}

static void nothing_is_left(void)
{
    ck_assert_uint_eq(words_taken(), 0);
    ck_assert_uint_eq(header.owners_untold, 0);
}

TEST(an_owner_waits_from_its_first_request_to_its_last)
{
    const uint64_t owner = 0x1234567890abcdef;

    ck_assert(!owners_wait(&map, owner, 0));
    owners_count_in(&map, owner);
    ck_assert(owners_wait(&map, owner, 0));
    ck_assert(!owners_wait(&map, owner, 1));
    owners_count_in(&map, owner);
    ck_assert(owners_wait(&map, owner, 1));
    ck_assert_uint_eq(words_taken(), 1);
    owners_count_out(&map, owner);
    ck_assert(owners_wait(&map, owner, 0));
    ck_assert(!owners_wait(&map, owner, 1));
    owners_count_out(&map, owner);
    ck_assert(!owners_wait(&map, owner, 0));
    nothing_is_left();
}

TEST(nobody_is_no_owner_that_waits)
{
    owners_count_in(&map, 0);
    ck_assert(!owners_wait(&map, 0, 0));
    nothing_is_left();
    owners_count_out(&map, 0);
    nothing_is_left();
}

/* In a damaged table: else each owner would wait for ever after. */
TEST(one_that_was_never_counted_takes_nothing_away)
{
    owners_count_out(&map, 0x1234567890abcdef);
    nothing_is_left();
    ck_assert(!owners_wait(&map, 1, 0));
}

/* By chance 25 of 65,536 would be: two lines, of which 12 words are taken. */
TEST(of_as_many_others_few_are_taken_for_one_of_100000_that_wait)
{
    uint64_t dice = unit_seed(), again = dice;
    unsigned taken = 0;

    for (unsigned i = 0; i < MANY; i++)
        owners_count_in(&map, some_owner(&dice));
    ck_assert_uint_eq(header.owners_untold, 0);
    for (unsigned i = 0; i < MANY; i++)
        taken += owners_wait(&map, some_owner(&dice), 0);
    ck_assert_uint_lt(taken, 200);
    for (unsigned i = 0; i < MANY; i++) {
        uint64_t owner = some_owner(&again);

        ck_assert(owners_wait(&map, owner, 0));
        owners_count_out(&map, owner);
    }
    nothing_is_left();
}

TEST(more_requests_of_one_owner_than_a_word_counts_are_counted)
{
    const uint64_t owner = 0xfedcba9876543211;

    for (unsigned i = 0; i < MANY; i++)
        owners_count_in(&map, owner);
    ck_assert_uint_eq(words_taken(), 2);
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert(owners_wait(&map, owner, MANY - i - 1));
        ck_assert(!owners_wait(&map, owner, MANY - i));
        owners_count_out(&map, owner);
    }
    nothing_is_left();
}

#define ROOM (2 * OWNER_LINE * 0xffffu) /* for requests of one owner */

TEST(where_the_lines_of_an_owner_are_full_each_may_wait_until_it_has_gone)
{
    const uint64_t owner = 0xfedcba9876543211, elsewhere = 1;

    for (unsigned i = 0; i < ROOM; i++)
        owners_count_in(&map, owner);
    ck_assert(!owners_wait(&map, elsewhere, 0));
    ck_assert(!owners_wait(&map, owner, ROOM));
    owners_count_in(&map, owner);
    ck_assert(owners_wait(&map, owner, ROOM));
    ck_assert(owners_wait(&map, elsewhere, 0));
    for (unsigned i = 0; i < ROOM; i++)
        owners_count_out(&map, owner);
    ck_assert_uint_eq(words_taken(), 0);
    ck_assert(owners_wait(&map, owner, 0));
    owners_count_out(&map, owner);
    ck_assert(!owners_wait(&map, elsewhere, 0));
    nothing_is_left();
}

/* Else lines were full long before the table is. */
TEST(an_owner_takes_its_word_in_the_emptier_of_its_lines)
{
    uint64_t dice = unit_seed();

    for (unsigned i = 0; i < OWNER_WORDS / 10 * 8; i++)
        owners_count_in(&map, some_owner(&dice));
    ck_assert_uint_lt(header.owners_untold, 20);
}

int main(void)
{
    unit_begin("owners");
    ADD(an_owner_waits_from_its_first_request_to_its_last);
    ADD(nobody_is_no_owner_that_waits);
    ADD(one_that_was_never_counted_takes_nothing_away);
    ADD(of_as_many_others_few_are_taken_for_one_of_100000_that_wait);
    ADD(more_requests_of_one_owner_than_a_word_counts_are_counted);
    ADD(where_the_lines_of_an_owner_are_full_each_may_wait_until_it_has_gone);
    ADD(an_owner_takes_its_word_in_the_emptier_of_its_lines);
    return unit_end();
}
