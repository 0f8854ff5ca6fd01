/*
 * check_channel_fields.c - from the members of an object to those of a struct:
 * in any order, of any kind, and what is otherwise stays as it is.
 */
#include "channel/fields.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

struct all {
    uint64_t u64;
    int64_t i64;
    int32_t i32;
    uint32_t u32;
    uint8_t flag, mode, death;
    const char *text;
    char chars[5];
    struct scan_value *value;
};

static const struct field fields[] = {
    FIELD(FIELD_U64, "u64", struct all, u64),
    FIELD(FIELD_I64, "i64", struct all, i64),
    FIELD(FIELD_I32, "i32", struct all, i32),
    FIELD(FIELD_U32, "u32", struct all, u32),
    FIELD(FIELD_U8, "flag", struct all, flag),
    FIELD(FIELD_MODE, "mode", struct all, mode),
    FIELD(FIELD_DEATH, "death", struct all, death),
    FIELD(FIELD_TEXT, "text", struct all, text),
    FIELD(FIELD_CHARS, "chars", struct all, chars),
    FIELD(FIELD_VALUE, "value", struct all, value),
};

#define N LENGTH(fields)

static struct scan_value values[64];
static char bytes[512];

static void scan_all(const char *json)
{
    struct scan s = {values, LENGTH(values), 0};
    size_t used;
    int n = snprintf(bytes, sizeof(bytes), "%s ", json);

    ck_assert_msg(scan(&s, bytes, (size_t)n, &used) == SCAN_WHOLE, "%s", json);
}

static struct all read_into(struct all out, const char *json)
{
    scan_all(json);
    fields_read(bytes, values, fields, N, &out);
    return out;
}

static struct all read_all(const char *json)
{
    return read_into((struct all){0}, json);
}

/* --- objects --- */

static const char *const members[N] = {
    "\"u64\":\"18446744073709551615\"",
    "\"i64\":-9007199254740991",
    "\"i32\":-7",
    "\"u32\":4294967295",
    "\"flag\":true",
    "\"mode\":\"E\"",
    "\"death\":\"keep\"",
    "\"text\":\"a text\"",
    "\"chars\":\"four\"",
    "\"value\":[1,2]",
};

static void is_whole(const struct all *got)
{
    ck_assert_uint_eq(got->u64, UINT64_MAX);
    ck_assert_int_eq(got->i64, -INT64_C(9007199254740991));
    ck_assert_int_eq(got->i32, -7);
    ck_assert_uint_eq(got->u32, UINT32_MAX);
    ck_assert_uint_eq(got->flag, 1);
    ck_assert_uint_eq(got->mode, ENQ_MODE_E);
    ck_assert_uint_eq(got->death, ENQ_DEATH_KEEP);
    ck_assert_str_eq(got->text, "a text");
    ck_assert_str_eq(got->chars, "four");
    ck_assert_int_eq(got->value->kind, SCAN_ARRAY);
}

/* From each member on, forwards and backwards: each follows each. */
TEST(members_may_come_in_any_order_and_others_between_them)
{
    for (unsigned first = 0; first < N; first++)
        for (unsigned step = 1; step < N; step += 2) { /* or it is no round */
            char json[512] = "{";
            struct all got;

            if (step == 5)
                continue;
            for (unsigned i = 0; i < N; i++) {
                strcat(json, members[(first + i * step) % N]);
                strcat(json, i == N / 2 ? ",\"ufo\":{\"u64\":1}," : ",");
            }
            strcat(json, "\"i\":3}");
            got = read_all(json);
            is_whole(&got);
        }
}

TEST(the_last_of_several_with_a_name_counts)
{
    ck_assert_int_eq(read_all("{\"i32\":1,\"u32\":5,\"i32\":2}").i32, 2);
}

/* --- what is not told --- */

static const char *const no_members[] = {
    "{}",
    "[{\"i32\":1}]",
    "[\"i32\",1]",
    "\"i32\"",
    "null",
    "{\"u64\":-1,\"i64\":[],\"i32\":\"x\",\"u32\":null}",
    "{\"u64\":true,\"i64\":false,\"i32\":[1],\"u32\":{}}",
    "{\"flag\":256,\"mode\":1,\"death\":2,\"text\":3,\"chars\":4}",
    "{\"flag\":-1,\"mode\":null,\"death\":null,\"text\":null,\"chars\":null}",
    "{\"flag\":\"yes\"}",
    "{\"I32\":1,\"i3\":1,\"i322\":1,\"\":1}",
};

TEST(what_is_not_told_or_of_another_kind_stays_as_it_is)
{
    struct all before = {0x1234, 2, 3, 4, 5, ENQ_MODE_S, ENQ_DEATH_LEASE, bytes,
                   "five", NULL},
               got = read_into(before, no_members[_i]);

    ck_assert_uint_eq(got.u64, 0x1234);
    ck_assert_int_eq(got.i64, 2);
    ck_assert_int_eq(got.i32, 3);
    ck_assert_uint_eq(got.u32, 4);
    ck_assert_uint_eq(got.flag, 5);
    ck_assert_uint_eq(got.mode, ENQ_MODE_S);
    ck_assert_uint_eq(got.death, ENQ_DEATH_LEASE);
    ck_assert_ptr_eq(got.text, bytes);
    ck_assert_str_eq(got.chars, "five");
    ck_assert_ptr_null(got.value);
}

/* --- values --- */

TEST(a_value_is_told_as_it_is)
{
    ck_assert_int_eq(read_all("{\"value\":7}").value->kind, SCAN_NUMBER);
    ck_assert_int_eq(read_all("{\"value\":true}").value->kind, SCAN_TRUE);
    ck_assert_int_eq(read_all("{\"value\":null}").value->kind, SCAN_NULL);
}

TEST(a_flag_is_a_number_or_a_word)
{
    ck_assert_uint_eq(read_all("{\"flag\":true}").flag, 1);
    ck_assert_uint_eq(
        read_into((struct all){.flag = 1}, "{\"flag\":false}").flag, 0);
    ck_assert_uint_eq(read_all("{\"flag\":255}").flag, 255);
    ck_assert_uint_eq(read_into((struct all){.flag = 1}, "{\"flag\":0}").flag,
        0);
}

TEST(a_text_that_has_no_room_is_cut)
{
    ck_assert_str_eq(read_all("{\"chars\":\"123\"}").chars, "123");
    ck_assert_str_eq(read_all("{\"chars\":\"1234\"}").chars, "1234");
    ck_assert_str_eq(read_all("{\"chars\":\"12345\"}").chars, "1234");
    ck_assert_str_eq(
        read_into((struct all){.chars = "1234"}, "{\"chars\":\"\"}").chars, "");
}

TEST(a_mode_and_a_death_are_told_by_their_words)
{
    ck_assert_uint_eq(read_all("{\"mode\":\"S\"}").mode, ENQ_MODE_S);
    ck_assert_uint_eq(read_all("{\"mode\":\"X\"}").mode, ENQ_MODE_X);
    ck_assert_uint_eq(read_all("{\"mode\":\"O\"}").mode, ENQ_MODE_O);
    ck_assert_uint_eq(read_all("{\"death\":\"lease\"}").death, ENQ_DEATH_LEASE);
    ck_assert_uint_eq(read_all("{\"death\":\"keep\"}").death, ENQ_DEATH_KEEP);
    ck_assert_uint_eq(
        read_into((struct all){.death = 1}, "{\"death\":\"release\"}").death,
        ENQ_DEATH_RELEASE);
}

/* --- arrays --- */

static const char *const no_elements[] = {
    "[]", "{\"a\":1}", "{}", "\"[1]\"", "7"};

TEST(what_is_no_array_or_empty_has_no_first_element)
{
    scan_all(no_elements[_i]);
    ck_assert_ptr_null(fields_first(values));
    ck_assert_ptr_null(fields_first(NULL));
}

TEST(elements_follow_each_other_whatever_is_in_them)
{
    static const enum scan_kind kinds[] = {
        SCAN_ARRAY, SCAN_OBJECT, SCAN_ARRAY, SCAN_TEXT, SCAN_NUMBER};
    struct scan_value *v;

    scan_all("[[1,[2,3]],{\"a\":[4]},[],\"b\",5]");
    v = fields_first(values);
    for (unsigned i = 0; i < LENGTH(kinds); i++) {
        ck_assert_ptr_nonnull(v);
        ck_assert_int_eq(v->kind, kinds[i]);
        v = fields_next(values, v);
    }
    ck_assert_ptr_null(v);
}

int main(void)
{
    unit_begin("channel-fields");
    ADD(members_may_come_in_any_order_and_others_between_them);
    ADD(the_last_of_several_with_a_name_counts);
    ADD_LOOP(what_is_not_told_or_of_another_kind_stays_as_it_is,
        LENGTH(no_members));
    ADD(a_value_is_told_as_it_is);
    ADD(a_flag_is_a_number_or_a_word);
    ADD(a_text_that_has_no_room_is_cut);
    ADD(a_mode_and_a_death_are_told_by_their_words);
    ADD_LOOP(what_is_no_array_or_empty_has_no_first_element,
        LENGTH(no_elements));
    ADD(elements_follow_each_other_whatever_is_in_them);
    return unit_end();
}
