/*
 * check_value.c - what the values of scan() say: texts without their escapes,
 * numbers exactly, and both as JavaScript has them.
 */
#include "wire/scan.h"
#include "wire/value.h"

#include <stdio.h>
#include <stdlib.h>

#include "unit.h"

static struct scan_value value;
static char bytes[256];

/* The only value of @json; what is a number ends at a blank. */
static struct scan_value *read_value(const char *json)
{
    struct scan s = {&value, 1, 0};
    size_t used;
    int n = snprintf(bytes, sizeof(bytes), "%s ", json);

    ck_assert_msg(scan(&s, bytes, (size_t)n, &used) == SCAN_WHOLE, "%s", json);
    return &value;
}

/* --- texts --- */

static const struct {
    const char *json, *text; /* NULL: none */
} texts[] = {
    {"\"\"", ""},
    {"\"Computer\"", "Computer"},
    {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
    {"\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00.\"",
        "A\xc3\xa9\xe2\x82\xac"
        "\xf0\x9f\x98\x80."},
    {"\"\\u007f\\u0080\\u07ff\\u0800\\uffff\"",
        "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"},
    {"\"\\ud800\\udc00\\udbff\\udfff\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
    {"\"\xc3\xa9\\n\xf0\x9f\x98\x80\"", "\xc3\xa9\n\xf0\x9f\x98\x80"},
    {"\"\\\\u0041\"", "\\u0041"},
    {"\"\\u0001\\u001f\"", "\x01\x1f"},
    {"\"\\u0000\"", NULL},
    {"\"a\\u0000b\"", NULL},
    {"\"\\n\\u0000\"", NULL},
    {"null", NULL},
    {"true", NULL},
    {"12", NULL},
    {"[]", NULL},
    {"{}", NULL},
};

TEST(a_text_is_what_its_escapes_mean)
{
    struct scan_value *v = read_value(texts[_i].json);
    const char *text = scan_text(v, bytes);

    if (texts[_i].text == NULL)
        ck_assert_ptr_null(text);
    else
        ck_assert_str_eq(text, texts[_i].text);
}

TEST(a_text_that_is_read_again_is_the_same)
{
    struct scan_value *v = read_value("\"a\\\\n\\\\u0041\\n\"");

    for (int i = 0; i < 3; i++)
        ck_assert_str_eq(scan_text(v, bytes), "a\\n\\u0041\n");
    ck_assert_uint_eq(v->bytes, strlen("a\\n\\u0041\n"));
}

TEST(a_text_is_ended_where_its_quote_was_and_nothing_else_changes)
{
    static const char json[] = "[\"a\\n\",\"b\"]";
    struct scan_value all[3];
    struct scan s = {all, 3, 0};
    char copy[sizeof(json)];
    size_t used;

    memcpy(copy, json, sizeof(json));
    ck_assert_uint_eq(scan(&s, copy, sizeof(json) - 1, &used), SCAN_WHOLE);
    ck_assert_str_eq(scan_text(&all[2], copy), "b");
    ck_assert_str_eq(scan_text(&all[1], copy), "a\n");
    ck_assert_str_eq(scan_text(&all[2], copy), "b");
    ck_assert_mem_eq(copy + 6, ",\"b\0]", 6);
}

/* --- integers --- */

static const struct {
    const char *json;
    bool is;
    int64_t number;
} integers[] = {
    {"0", true, 0},
    {"-0", true, 0},
    {"15", true, 15},
    {"-15", true, -15},
    {"9007199254740993", true, INT64_C(9007199254740993)},
    {"9223372036854775807", true, INT64_MAX},
    {"-9223372036854775808", true, INT64_MIN},
    {"9223372036854775808", false, 0},
    {"-9223372036854775809", false, 0},
    {"1e3", true, 1000},
    {"1E+3", true, 1000},
    {"2.5", true, 2},
    {"-2.9", true, -2},
    {"0.999", true, 0},
    {"1e18", true, INT64_C(1000000000000000000)},
    {"1e21", false, 0},
    {"1e400", false, 0},
    {"1e-400", true, 0},
    {"null", false, 0},
    {"true", false, 0},
    {"[]", false, 0},
    {"[ ]", false, 0},
    {"{}", false, 0},
    /* texts, as ECMA-262 7.1.4.1 */
    {"\"15\"", true, 15},
    {"\"-15\"", true, -15},
    {"\"+15\"", true, 15},
    {"\" 15 \"", true, 15},
    {"\"\\t\\n\\u000b\\f\\r 15\\n\"", true, 15},
    {"\"\"", true, 0},
    {"\" \\n\"", true, 0},
    {"\"007\"", true, 7},
    {"\"0x1F\"", true, 31},
    {"\"0X1f\"", true, 31},
    {"\"0o17\"", true, 15},
    {"\"0b101\"", true, 5},
    {"\"-0x1f\"", false, 0},
    {"\"0x\"", false, 0},
    {"\"0x-1\"", false, 0},
    {"\"0x0x1\"", false, 0},
    {"\"0x1p3\"", false, 0},
    {"\"0x1.8\"", false, 0},
    {"\"0o8\"", false, 0},
    {"\"0b2\"", false, 0},
    {"\"1e3\"", true, 1000},
    {"\".5e1\"", true, 5},
    {"\"5.\"", true, 5},
    {"\".\"", false, 0},
    {"\"e5\"", false, 0},
    {"\"1 5\"", false, 0},
    {"\"15ms\"", false, 0},
    {"\"+-5\"", false, 0},
    {"\"Infinity\"", false, 0},
    {"\"-Infinity\"", false, 0},
    {"\"inf\"", false, 0},
    {"\"nan\"", false, 0},
    {"\"NaN\"", false, 0},
    {"\"1_000\"", false, 0},
    {"\"1,5\"", false, 0},
    {"\"15\\u0000\"", false, 0},
    {"\"9223372036854775807\"", true, INT64_MAX},
    {"\"9223372036854775808\"", false, 0},
};

TEST(an_integer_is_exact_and_a_text_one_as_in_javascript)
{
    struct scan_value *v = read_value(integers[_i].json);
    int64_t number = 77;
    bool is = scan_integer(v, bytes, &number);

    ck_assert_msg(is == integers[_i].is, "%s", integers[_i].json);
    if (is)
        ck_assert_msg(number == integers[_i].number, "%s is %lld",
            integers[_i].json, (long long)number);
}

static const struct {
    const char *json;
    bool is;
    uint64_t number;
} unsigneds[] = {
    {"0", true, 0},
    {"17", true, 17},
    {"\"17\"", true, 17},
    {"18446744073709551615", true, UINT64_MAX},
    {"\"18446744073709551615\"", true, UINT64_MAX},
    {"18446744073709551616", false, 0},
    {"-1", false, 0},
    {"-0", false, 0},
    {"1e3", false, 0},
    {"1.0", false, 0},
    {"\"+1\"", false, 0},
    {"\"-1\"", false, 0},
    {"\"0x10\"", false, 0},
    {"\"\"", false, 0},
    {"\" \"", false, 0},
    {"\"12a\"", false, 0},
    {"true", false, 0},
    {"null", false, 0},
    {"[ ]", false, 0},
};

TEST(a_handle_or_token_is_digits_and_nothing_else)
{
    struct scan_value *v = read_value(unsigneds[_i].json);
    uint64_t number = 77;
    bool is = scan_unsigned(v, bytes, &number);

    ck_assert_msg(is == unsigneds[_i].is, "%s", unsigneds[_i].json);
    if (is)
        ck_assert_uint_eq(number, unsigneds[_i].number);
}

TEST(a_text_that_is_longer_than_any_number_is_none)
{
    char json[128];
    int64_t number;
    uint64_t other;

    for (int n = 60; n < 100; n++) {
        snprintf(json, sizeof(json), "\"%0*d\"", n, 5);
        ck_assert_int_eq(scan_integer(read_value(json), bytes, &number),
            n < 72);
        ck_assert_int_eq(scan_unsigned(read_value(json), bytes, &other),
            n < 72);
        snprintf(json, sizeof(json), "\"%*d%*s\"", n / 2, 5, n / 2, "");
        ck_assert(scan_integer(read_value(json), bytes, &number));
        ck_assert_int_eq(number, 5);
    }
}

/* --- words: String(x) --- */

static const struct {
    const char *json, *word; /* NULL: none */
} words[] = {
    {"null", ""},
    {"true", "true"},
    {"false", "false"},
    {"0", "0"},
    {"-0", "0"},
    {"-0.0e5", "0"},
    {"1", "1"},
    {"-1", "-1"},
    {"10", "10"},
    {"1.0", "1"},
    {"1.50", "1.5"},
    {"0.1", "0.1"},
    {"-0.1", "-0.1"},
    {"123.456", "123.456"},
    {"1e2", "100"},
    {"1e20", "100000000000000000000"},
    {"123456789012345678901", "123456789012345680000"},
    {"999999999999999999999", "1e+21"},
    {"1e21", "1e+21"},
    {"-1.5e21", "-1.5e+21"},
    {"1.7976931348623157e308", "1.7976931348623157e+308"},
    {"1e309", "Infinity"},
    {"-1e309", "-Infinity"},
    {"0.000001", "0.000001"},
    {"0.00000123", "0.00000123"},
    {"0.0000001", "1e-7"},
    {"1.5e-7", "1.5e-7"},
    {"5e-324", "5e-324"},
    {"1e-400", "0"},
    {"9007199254740991", "9007199254740991"},
    {"9007199254740993", "9007199254740992"},
    {"0.30000000000000004", "0.30000000000000004"},
    {"-0.0000012345678901234567", "-0.0000012345678901234567"},
    {"7.1202363472230444e-307", "7.120236347223045e-307"}, /* 2^-1017 */
    {"\"a\"", NULL},
    {"[]", NULL},
    {"{}", NULL},
};

TEST(a_word_is_what_javascript_writes)
{
    char word[SCAN_WORD_BYTES];
    const char *got = scan_word(read_value(words[_i].json), bytes, word);

    if (words[_i].word == NULL)
        ck_assert_ptr_null(got);
    else
        ck_assert_str_eq(got, words[_i].word);
}

/* Whatever the double: its word is that double again, and fits. */
TEST(the_word_of_any_number_leads_back_to_it)
{
    uint64_t dice = unit_seed();

    for (int i = 0; i < 100000; i++) {
        union {
            uint64_t bits;
            double number;
        } any = {.bits = unit_random(&dice)};
        char json[64], word[SCAN_WORD_BYTES + 1];
        const char *got;

        if ((any.bits >> 52 & 0x7ff) == 0x7ff)
            continue;
        snprintf(json, sizeof(json), "%.17e", any.number);
        word[SCAN_WORD_BYTES] = 77;
        got = scan_word(read_value(json), bytes, word);
        ck_assert_msg(strtod(got, NULL) == any.number, "%s: %s", json, got);
        ck_assert_int_eq(word[SCAN_WORD_BYTES], 77);
    }
}

int main(void)
{
    unit_begin("value");
    ADD_LOOP(a_text_is_what_its_escapes_mean, LENGTH(texts));
    ADD(a_text_that_is_read_again_is_the_same);
    ADD(a_text_is_ended_where_its_quote_was_and_nothing_else_changes);
    ADD_LOOP(an_integer_is_exact_and_a_text_one_as_in_javascript,
        LENGTH(integers));
    ADD_LOOP(a_handle_or_token_is_digits_and_nothing_else, LENGTH(unsigneds));
    ADD(a_text_that_is_longer_than_any_number_is_none);
    ADD_LOOP(a_word_is_what_javascript_writes, LENGTH(words));
    ADD(the_word_of_any_number_leads_back_to_it);
    return unit_end();
}
