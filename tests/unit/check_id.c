/*
 * check_id.c - ids by arithmetic: text and back, and what is no such id.
 */
#include "base/id.h"

#include <stdlib.h>
#include <uuid/uuid.h>

#include "refuse.h"
#include "unit.h"

#define HANDLES ((UINT64_C(1) << 62) - 1)

static void there_and_back(uint64_t half, uint64_t handle)
{
    char text[ID_TEXT_BYTES];
    uint64_t half_back = 0, handle_back = 0;

    id_text(half, handle, text);
    ck_assert_uint_eq(strlen(text), ID_TEXT_BYTES - 1);
    ck_assert_msg(id_parse(text, &half_back, &handle_back), "%s", text);
    ck_assert_uint_eq(half, half_back);
    ck_assert_uint_eq(handle, handle_back);
}

TEST(text_leads_back_to_session_and_handle)
{
    uint64_t dice = unit_seed();

    for (int i = 0; i < 100000; i++)
        there_and_back(unit_random(&dice), unit_random(&dice) & HANDLES);
}

TEST(the_extremes_lead_back_too)
{
    static const uint64_t values[] = {0, 1, 2, HANDLES / 2, HANDLES - 1,
        HANDLES, UINT64_C(1) << 61, UINT64_C(1) << 30};

    for (size_t i = 0; i < LENGTH(values); i++) {
        there_and_back(0, values[i]);
        there_and_back(UINT64_MAX, values[i]);
    }
}

TEST(a_derived_id_is_a_random_uuid_to_others)
{
    uint8_t uuid_bytes[16];
    char text[ID_TEXT_BYTES];
    uuid_t uuid;

    for (uint64_t handle = 0; handle < 1000; handle++) {
        id_random(uuid_bytes);
        id_text(id_half(uuid_bytes), handle, text);
        ck_assert_int_eq(uuid_parse(text, uuid), 0);
        ck_assert_int_eq(uuid_variant(uuid), UUID_VARIANT_DCE);
        ck_assert_int_eq(uuid_type(uuid), UUID_TYPE_DCE_RANDOM);
    }
}

TEST(neighbouring_handles_do_not_look_alike)
{
    char a[ID_TEXT_BYTES], b[ID_TEXT_BYTES];
    unsigned differ = 0;

    id_text(7, 1000, a);
    id_text(7, 1001, b);
    for (unsigned i = 19; i < ID_TEXT_BYTES - 1; i++)
        differ += a[i] != b[i];
    ck_assert_uint_gt(differ, 8);
}

static const char *const strangers[] = {
    "",
    "product",
    "00000000-0000-4000-8000-00000000000",   /* short */
    "00000000-0000-4000-8000-0000000000000", /* long */
    "00000000-0000-4000-8000-00000000000g",
    "00000000_0000-4000-8000-000000000000",
    "000000000000-4000-8000-0000000000000",
    "{0000000-0000-4000-8000-000000000000",
    "00000000-0000-4000-0000-000000000000", /* other variants */
    "00000000-0000-4000-4000-000000000000",
    "00000000-0000-4000-c000-000000000000",
};

TEST(what_is_no_derived_id_is_refused)
{
    uint64_t half, handle;

    ck_assert_msg(!id_parse(strangers[_i], &half, &handle), "\"%s\" is taken",
        strangers[_i]);
}

TEST(parsing_does_not_read_beyond_the_end)
{
    uint64_t half, handle;

    for (size_t n = 0; n < 36; n++) {
        char text[37] = "00000000-0000-4000-8000-000000000000";

        text[n] = '\0';
        ck_assert(!id_parse(unit_at_edge(text, n + 1), &half, &handle));
    }
}

TEST(random_halves_differ)
{
    uint8_t a[16], b[16];

    id_random(a);
    id_random(b);
    ck_assert_int_ne(memcmp(a, b, 16), 0);
    ck_assert_uint_ne(id_half(a), id_half(b));
}

TEST(a_uuid_is_told_in_small_letters)
{
    static const uint8_t uuid[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x46,
        0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    char text[ID_TEXT_BYTES];

    id_uuid_text(uuid, text);
    ck_assert_str_eq(text, "00112233-4455-4677-8899-aabbccddeeff");
}

/* Of so many uuids each bit has been set in one, and not set in another, but for
   those that say what it is. */
TEST(a_random_uuid_says_what_it_is_and_all_else_of_it_is_random)
{
    uint8_t uuid[16], any[16] = {0}, all[16];

    memset(all, 0xff, sizeof(all));
    for (int n = 0; n < 1000; n++) {
        id_random(uuid);
        for (int i = 0; i < 16; i++) {
            any[i] |= uuid[i];
            all[i] &= uuid[i];
        }
    }
    for (int i = 0; i < 16; i++) {
        ck_assert_uint_eq(any[i], i == 6 ? 0x4f : i == 8 ? 0xbf : 0xff);
        ck_assert_uint_eq(all[i], i == 6 ? 0x40 : i == 8 ? 0x80 : 0);
    }
}

TEST(who_may_not_ask_the_kernel_for_random_bytes_gets_them_from_libuuid)
{
    uint8_t a[16] = {0}, b[16] = {0};

    ck_assert(refuse(SYS_getrandom));
    id_random(a);
    id_random(b);
    ck_assert_int_ne(memcmp(a, b, 16), 0);
    ck_assert_int_eq(uuid_type(a), UUID_TYPE_DCE_RANDOM);
    ck_assert_int_eq(uuid_variant(a), UUID_VARIANT_DCE);
}

/* libuuid's generator seeds random() anew, under a lock that a child may find
   taken for ever: see id_random. */
TEST(a_random_half_leaves_the_programs_own_random_numbers_alone)
{
    uint8_t uuid[16];
    int first;

    srand(1);
    first = rand();
    srand(1);
    id_random(uuid);
    ck_assert_int_eq(rand(), first);
}

int main(void)
{
    unit_begin("id");
    ADD(text_leads_back_to_session_and_handle);
    ADD(the_extremes_lead_back_too);
    ADD(a_derived_id_is_a_random_uuid_to_others);
    ADD(neighbouring_handles_do_not_look_alike);
    ADD_LOOP(what_is_no_derived_id_is_refused, LENGTH(strangers));
    ADD(parsing_does_not_read_beyond_the_end);
    ADD(random_halves_differ);
    ADD(a_uuid_is_told_in_small_letters);
    ADD(a_random_uuid_says_what_it_is_and_all_else_of_it_is_random);
    ADD_IF(may_refuse(), "no seccomp",
        who_may_not_ask_the_kernel_for_random_bytes_gets_them_from_libuuid);
    ADD(a_random_half_leaves_the_programs_own_random_numbers_alone);
    return unit_end();
}
