/*
 * check_hash.c - the keyed hash: what it depends on, and how it spreads.
 */
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>

#include "unit.h"

TEST(the_same_bytes_have_the_same_hash_wherever_they_are)
{
    char text[80], copy[96];

    for (size_t n = 0; n < sizeof(text); n++) {
        memset(text, 'a' + (int)n % 26, sizeof(text));
        for (size_t shift = 0; shift < 9; shift++) {
            memcpy(copy + shift, text, n);
            ck_assert_uint_eq(hash_bytes(text, n, 1),
                hash_bytes(copy + shift, n, 1));
        }
    }
}

TEST(no_byte_beyond_the_end_is_read)
{
    char text[64] = "0123456789012345678901234567890";

    for (size_t n = 1; n < sizeof(text); n++)
        hash_bytes(unit_at_edge(text, n), n, 7);
}

TEST(every_bit_matters)
{
    char text[40] = "the quick brown fox jumps over a dog";

    for (size_t n = 1; n <= sizeof(text); n++) {
        uint64_t before = hash_bytes(text, n, 3);

        for (size_t bit = 0; bit < n * 8; bit++) {
            text[bit / 8] ^= (char)(1 << bit % 8);
            ck_assert_uint_ne(hash_bytes(text, n, 3), before);
            text[bit / 8] ^= (char)(1 << bit % 8);
        }
    }
}

TEST(the_length_matters_where_the_bytes_are_zero)
{
    static const char zeros[64];

    for (size_t a = 0; a < sizeof(zeros); a++)
        for (size_t b = 0; b < a; b++)
            ck_assert_uint_ne(hash_bytes(zeros, a, 9), hash_bytes(zeros, b, 9));
}

TEST(another_seed_gives_another_hash)
{
    uint64_t dice = unit_seed();

    for (int i = 0; i < 1000; i++) {
        uint64_t seed = unit_random(&dice);
        ck_assert_uint_ne(hash_bytes("product", 8, seed),
            hash_bytes("product", 8, ~seed));
    }
}

/* 256 boxes, 390 each: chance leaves six standard deviations at 120. */
static void spreads(unsigned shift)
{
    unsigned boxes[256] = {0};
    char text[32];

    for (int i = 0; i < 100000; i++) {
        int n = snprintf(text, sizeof(text), "K%07d", i);
        boxes[hash_bytes(text, (size_t)n + 1, 42) >> shift & 255]++;
    }
    for (int i = 0; i < 256; i++)
        ck_assert_msg(boxes[i] > 270 && boxes[i] < 510, "box %d: %u", i,
            boxes[i]);
}

/* Shards, lines and tags are taken from these bits. */
TEST(similar_keys_spread_over_all_bits_that_are_used)
{
    static const unsigned shifts[] = {0, 8, 16, 24, 32, 40, 48, 56};

    spreads(shifts[_i]);
}

TEST(lengths_differ_in_the_byte_where_a_text_has_its_zero)
{
    bool seen[256] = {false};

    for (uint64_t n = 1; n <= 16; n++) {
        uint8_t highest = (HASH_LAST * n) >> 56;

        ck_assert(!seen[highest]);
        seen[highest] = true;
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

#define NUMBERS 200000

/* Behind names of several lengths; chance would let two of these meet once in
   10,000,000 runs. */
TEST(numbers_that_differ_have_hashes_that_differ)
{
    static const char *const before[] = {"", "w", "of", "key", "user", "n\nk"};
    static uint64_t hashes[LENGTH(before) * NUMBERS];
    char text[32];
    size_t n = 0;

    for (size_t i = 0; i < LENGTH(before); i++)
        for (int number = 0; number < NUMBERS; number++) {
            int bytes = snprintf(text, sizeof(text), "%s%d", before[i], number);
            hashes[n++] = hash_bytes(text, (size_t)bytes + 1, 0x1234567);
        }
    qsort(hashes, n, sizeof(*hashes), by_value);
    for (size_t i = 1; i < n; i++)
        ck_assert_uint_ne(hashes[i], hashes[i - 1]);
}

int main(void)
{
    unit_begin("hash");
    ADD(the_same_bytes_have_the_same_hash_wherever_they_are);
    ADD(no_byte_beyond_the_end_is_read);
    ADD(every_bit_matters);
    ADD(the_length_matters_where_the_bytes_are_zero);
    ADD(another_seed_gives_another_hash);
    ADD(lengths_differ_in_the_byte_where_a_text_has_its_zero);
    ADD(numbers_that_differ_have_hashes_that_differ);
    ADD_LOOP(similar_keys_spread_over_all_bits_that_are_used, 8);
    return unit_end();
}
