/*
 * check_header.c - layout and header: sizes, and every header that is refused.
 */
#include "segment/header.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "store/entry.h"
#include "unit.h"

/* --- layout --- */

static const uint32_t some_slots[] = {
    1, 20, 21, 22, 42, 1000, SLOTS_DEFAULT, SLOTS_MAX - 1, SLOTS_MAX};

/* The time of day, while it stands still: for every thread of this process. */
#define CLOCK (UINT64_C(1800000000) * NS_PER_S)

static bool clock_stands;

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    if (clock != CLOCK_REALTIME || !clock_stands)
        return (int)syscall(SYS_clock_gettime, clock, ts);
    *ts = (struct timespec){CLOCK / NS_PER_S, CLOCK % NS_PER_S};
    return 0;
}

static struct seg_header make(uint32_t slots)
{
    struct header_wish wish = {.slots = slots, .mode = 0600};
    struct seg_header h;

    memset(&h, 0, sizeof(h));
    header_make(&h, &wish);
    h.magic = LAYOUT_MAGIC;
    return h;
}

TEST(the_parts_of_a_segment_follow_each_other)
{
    struct seg_header h = make(some_slots[_i]);

    ck_assert_uint_le(SEG_THREADS, SEG_SESSIONS);
    ck_assert_uint_le(SEG_FIXED_END, h.pages_at);
    ck_assert_uint_le(h.pages_at + h.pages_max * sizeof(struct page_info),
        h.arena_at);
    ck_assert_uint_eq(h.arena_at % PAGE_BYTES, 0);
    ck_assert_uint_eq(h.arena_at + (uint64_t)h.pages_max * PAGE_BYTES, h.bytes);
    ck_assert_uint_eq(h.bytes, header_file_bytes(some_slots[_i]));
}

TEST(there_are_slabs_for_all_slots_and_buckets_beside_them)
{
    struct seg_header h = make(some_slots[_i]);

    ck_assert_uint_ge((uint64_t)h.slab_pages_max * SMALL_PER_PAGE,
        some_slots[_i]);
    ck_assert_uint_ge(h.pages_max, h.slab_pages_max + SHARDS_ALL);
}

TEST(every_entry_has_a_reference_and_a_handle)
{
    struct seg_header h = make(some_slots[_i]);
    uint64_t last = h.bytes / UNIT_BYTES;

    ck_assert_uint_le(last, UINT32_MAX);
    ck_assert_uint_lt(last, UINT64_C(1) << HANDLE_REF_BITS);
}

TEST(a_typical_lock_takes_at_most_256_bytes)
{
    struct seg_header h = make(SLOTS_DEFAULT);

    ck_assert_uint_le(h.bytes / SLOTS_DEFAULT, 256);
    ck_assert_uint_le(SMALL_UNITS * UNIT_BYTES, 256);
}

/* ENTRY_UNITS of map.h says where entries may begin. */
TEST(small_and_large_entries_begin_at_allowed_units)
{
    for (unsigned i = 0; i < SMALL_PER_PAGE; i++)
        ck_assert(ENTRY_UNITS >> (1 + i * SMALL_UNITS) & 1);
    for (unsigned i = 0; i < LARGE_PER_PAGE; i++)
        ck_assert(ENTRY_UNITS >> (1 + i * LARGE_UNITS) & 1);
    ck_assert_uint_le(1 + SMALL_PER_PAGE * SMALL_UNITS, UNITS_PER_PAGE);
    ck_assert_uint_le(1 + LARGE_PER_PAGE * LARGE_UNITS, UNITS_PER_PAGE);
}

/* --- judging --- */

static int judge(const struct seg_header *h)
{
    return header_check(h, header_file_bytes(1000), "/a/space");
}

/* As header.c does it: an attacker knows it as well. */
static void sign(struct seg_header *h)
{
    const char *from = (const char *)&h->layout_version;

    h->checksum = (uint32_t)hash_bytes(from,
        (size_t)((const char *)&h->checksum - from), LAYOUT_MAGIC);
}

TEST(a_new_header_is_fine)
{
    struct seg_header h = make(1000);

    want(HEADER_FINE, judge(&h));
    sign(&h);
    want(HEADER_FINE, judge(&h));
}

/* Each byte up to the checksum and of it. */
TEST(a_damaged_byte_is_refused)
{
    static const uint8_t masks[] = {0x01, 0x80, 0xff};
    struct seg_header h = make(1000);

    for (size_t i = 0; i < LENGTH(masks); i++) {
        ((uint8_t *)&h)[_i] ^= masks[i];
        ck_assert_msg(judge(&h) < 0, "byte %d, mask %#x", _i, masks[i]);
        ck_assert_ptr_nonnull(strstr(enq_why(), "/a/space"));
        ((uint8_t *)&h)[_i] ^= masks[i];
    }
    want(HEADER_FINE, judge(&h));
}

TEST(bytes_after_the_checksum_may_change)
{
    struct seg_header h = make(1000);

    memset(&h.unlinked, 0xff,
        sizeof(h) - offsetof(struct seg_header, unlinked));
    want(HEADER_FINE, judge(&h));
}

TEST(a_file_of_another_length_is_refused)
{
    static const int64_t off[] = {-4096, -1, 1, 4096, 1 << 30};
    struct seg_header h = make(1000);

    for (size_t i = 0; i < LENGTH(off); i++)
        want_why(ENQ_ECORRUPT,
            header_check(&h, h.bytes + (uint64_t)off[i], "/a/space"),
            "was cut off");
}

TEST(another_version_is_refused_with_both_numbers)
{
    struct seg_header h = make(1000);
    char words[32];

    h.layout_version = 77;
    sign(&h);
    snprintf(words, sizeof(words), "this library has %d/", LAYOUT_VERSION);
    want_why(ENQ_EVERSION, judge(&h), "layout 77/");
    want_why(ENQ_EVERSION, judge(&h), words);
}

TEST(another_layout_of_the_same_version_is_refused)
{
    struct seg_header h = make(1000);
    char words[32];

    h.layout_hash ^= 1;
    sign(&h);
    snprintf(words, sizeof(words), "layout %d/", LAYOUT_VERSION);
    want_why(ENQ_EVERSION, judge(&h), words);
}

TEST(a_signed_header_with_wrong_numbers_is_refused)
{
    struct seg_header h = make(1000);

    switch (_i) {
    case 0:
        h.slots_max = 0;
        break;
    case 1:
        h.slots_max = SLOTS_MAX + 1;
        break;
    case 2:
        h.slots_max = UINT32_MAX;
        break;
    case 3:
        h.compat = 2;
        break;
    case 4:
        h.compat = UINT32_MAX;
        break;
    case 5:
        h.pages_max++;
        break;
    case 6:
        h.pages_at += PAGE_BYTES;
        break;
    case 7:
        h.arena_at -= PAGE_BYTES;
        break;
    case 8:
        h.arena_at = UINT64_MAX;
        break;
    case 9:
        h.bytes += PAGE_BYTES;
        break;
    case 10:
        h.slab_pages_max++;
        break;
    case 11:
        h.slab_pages_max--;
        break;
    default:
        h.slots_max = 999 * 1000;
        break;
    }
    sign(&h);
    want(ENQ_ECORRUPT, judge(&h));
}

TEST(the_boot_is_told_as_a_text)
{
    struct seg_header h = make(100);

    ck_assert_uint_eq(strnlen(h.boot_id, sizeof(h.boot_id)), 36);
}

TEST(a_segment_of_an_earlier_boot_is_stale)
{
    struct seg_header h = make(1000);

    h.boot_id[0] = h.boot_id[0] == 'a' ? 'b' : 'a';
    sign(&h);
    want(HEADER_STALE, judge(&h));
}

TEST(a_segment_of_another_time_namespace_is_refused)
{
    struct seg_header h = make(1000);

    h.timens_ns[_i] += 1000000000;
    sign(&h);
    want_why(ENQ_ENAMESPACE, judge(&h), "time namespace");
}

TEST(tokens_start_above_those_of_the_segment_before)
{
    struct header_wish wish = {.slots = 10, .mode = 0600};
    struct seg_header h;

    memset(&h, 0, sizeof(h));
    header_make(&h, &wish);
    ck_assert_uint_gt(h.token_base, UINT64_C(1700000000) * 1000000000);
    wish.token_above = h.token_base + UINT64_C(3600) * 1000000000;
    header_make(&h, &wish);
    ck_assert_uint_gt(h.token_base, wish.token_above);
}

/* The one before may have counted as far as the clock has come. */
TEST(a_token_to_start_with_is_never_the_last_one_before)
{
    static const struct {
        uint64_t above, start;
    } cases[] = {{0, CLOCK}, {CLOCK - 1, CLOCK}, {CLOCK, CLOCK + 1},
        {CLOCK + 1, CLOCK + 2}};

    clock_stands = true;
    for (unsigned i = 0; i < LENGTH(cases); i++)
        ck_assert_uint_eq(header_token_start(cases[i].above), cases[i].start);
    clock_stands = false;
}

TEST(two_headers_have_two_uuids_and_seeds)
{
    struct seg_header a = make(1000), b = make(1000);

    ck_assert_int_ne(memcmp(a.uuid, b.uuid, sizeof(a.uuid)), 0);
    ck_assert_uint_ne(a.hash_seed, b.hash_seed);
}

int main(void)
{
    unit_begin("header");
    ADD_LOOP(the_parts_of_a_segment_follow_each_other, LENGTH(some_slots));
    ADD_LOOP(there_are_slabs_for_all_slots_and_buckets_beside_them,
        LENGTH(some_slots));
    ADD_LOOP(every_entry_has_a_reference_and_a_handle, LENGTH(some_slots));
    ADD(a_typical_lock_takes_at_most_256_bytes);
    ADD(small_and_large_entries_begin_at_allowed_units);
    ADD(a_new_header_is_fine);
    ADD_LOOP(a_damaged_byte_is_refused, offsetof(struct seg_header, unlinked));
    ADD(bytes_after_the_checksum_may_change);
    ADD(a_file_of_another_length_is_refused);
    ADD(another_version_is_refused_with_both_numbers);
    ADD(another_layout_of_the_same_version_is_refused);
    ADD_LOOP(a_signed_header_with_wrong_numbers_is_refused, 13);
    ADD(the_boot_is_told_as_a_text);
    ADD(a_segment_of_an_earlier_boot_is_stale);
    ADD_LOOP(a_segment_of_another_time_namespace_is_refused, 2);
    ADD(tokens_start_above_those_of_the_segment_before);
    ADD(a_token_to_start_with_is_never_the_last_one_before);
    ADD(two_headers_have_two_uuids_and_seeds);
    return unit_end();
}
