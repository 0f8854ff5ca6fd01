/*
 * check_scan.c - JSON from a stream: what is a value, what is none, what may
 * become one, and where each of its parts lies.
 */
#include "wire/scan.h"

#include <stdio.h>
#include <stdlib.h>

#include "unit.h"

#define ROOM 64

static struct scan_value values[ROOM];

/* The bytes lie before a page without memory. */
static enum scan_found find(const void *bytes, size_t n, size_t *used)
{
    struct scan s = {values, ROOM, 0};

    return scan(&s, unit_at_edge(bytes, n), n, used);
}

static enum scan_found find_text(const char *text, size_t *used)
{
    return find(text, strlen(text), used);
}

static const char *const found_names[] = {
    "whole", "more", "bad", "deep", "many"};

static void want_found(enum scan_found wanted, const char *text, size_t at)
{
    size_t used;
    enum scan_found found = find_text(text, &used);

    ck_assert_msg(found == wanted, "%s is %s, not %s", text, found_names[found],
        found_names[wanted]);
    ck_assert_msg(used == at, "%s: %s at %zu, not %zu", text,
        found_names[found], used, at);
}

/* --- what is a value --- */

static const struct {
    const char *text;
    size_t used;
    enum scan_kind kind;
} wholes[] = {
    {"null", 4, SCAN_NULL},
    {"false", 5, SCAN_FALSE},
    {"true", 4, SCAN_TRUE},
    {"{}", 2, SCAN_OBJECT},
    {"[]", 2, SCAN_ARRAY},
    {" \t\r\n{ \t\r\n} ", 10, SCAN_OBJECT},
    {"[ ] ]", 3, SCAN_ARRAY},
    {"{}{}", 2, SCAN_OBJECT},
    {"\"\"", 2, SCAN_TEXT},
    {"\"\x7f\"", 3, SCAN_TEXT},
    {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", 18, SCAN_TEXT},
    {"\"\\u0000\\uFFFF\\ud800\\uDC00\\udbff\\udfff\"", 38, SCAN_TEXT},
    {"\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\"", 18,
        SCAN_TEXT},
    {"\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"", 10, SCAN_TEXT},
    {"0 ", 1, SCAN_NUMBER},
    {"-0,", 2, SCAN_NUMBER},
    {"10]", 2, SCAN_NUMBER},
    {"-12.50e+07}", 10, SCAN_NUMBER},
    {"1E-400 ", 6, SCAN_NUMBER},
    {"[1,-2,3.4]", 10, SCAN_ARRAY},
    {"{\"a\":1,\"a\":[true,null]}", 23, SCAN_OBJECT},
};

TEST(what_is_a_value_is_found_with_its_end)
{
    want_found(SCAN_WHOLE, wholes[_i].text, wholes[_i].used);
    ck_assert_uint_eq(values[0].kind, wholes[_i].kind);
}

TEST(its_parts_are_found_where_they_lie)
{
    static const char text[] = " {\"a\":[1 , \"b\\n\"],\"\" : {\"c\":null}}";
    static const struct scan_value parts[] = {
        {1, sizeof(text) - 2, 9, SCAN_OBJECT, false, false},
        {3, 1, 1, SCAN_TEXT, false, false},
        {6, 11, 3, SCAN_ARRAY, false, false},
        {7, 1, 1, SCAN_NUMBER, false, false},
        {12, 3, 1, SCAN_TEXT, true, false},
        {19, 0, 1, SCAN_TEXT, false, false},
        {23, 10, 3, SCAN_OBJECT, false, false},
        {25, 1, 1, SCAN_TEXT, false, false},
        {28, 4, 1, SCAN_NULL, false, false},
    };

    want_found(SCAN_WHOLE, text, sizeof(text) - 1);
    for (size_t i = 0; i < LENGTH(parts); i++) {
        ck_assert_uint_eq(values[i].begin, parts[i].begin);
        ck_assert_uint_eq(values[i].bytes, parts[i].bytes);
        ck_assert_uint_eq(values[i].span, parts[i].span);
        ck_assert_uint_eq(values[i].kind, parts[i].kind);
        ck_assert_uint_eq(values[i].escaped, parts[i].escaped);
    }
}

/* --- what is none --- */

static const struct {
    const char *text;
    size_t at; /* the first byte that cannot be */
} bads[] = {
    {"}", 0},
    {"]", 0},
    {",", 0},
    {"GET / HTTP/1.1", 0},
    {"nul1", 3},
    {"NULL", 0},
    {"tru ", 3},
    {"'a'", 0},
    {"{]", 1},
    {"[}", 1},
    {"{a:1}", 1},
    {"{1:1}", 1},
    {"{\"a\" 1}", 5},
    {"{\"a\":}", 5},
    {"{\"a\":1,}", 7},
    {"{\"a\":1 \"b\":2}", 7},
    {"{,}", 1},
    {"[,]", 1},
    {"[1,]", 3},
    {"[1 2]", 3},
    {"[01]", 2},
    {"+1", 0},
    {".5", 0},
    {"-a", 1},
    {"--1", 1},
    {"1.e", 2},
    {"[1.]", 3},
    {"1e+-", 3},
    {"[1e]", 3},
    {"[0x10]", 2},
    {"[NaN]", 1},
    {"[-Infinity]", 2},
    {"[1,\x0b 2]", 3},
    {"\xef\xbb\xbf{}", 0}, /* a byte order mark */
    {"// a\n{}", 0},
};

TEST(what_is_none_is_refused_at_its_first_wrong_byte)
{
    want_found(SCAN_BAD, bads[_i].text, bads[_i].at);
}

static const char *const bad_texts[] = {"\x01", "\t", "\n", "\x1f", "\\a",
    "\\'", "\\0", "\\x41", "\\U0041", "\\u004g", "\\u-001", "\\u 041",
    "\\udc00", "\\udfff", "\\ud800x", "\\ud800\\n", "\\ud800\\u0041", "\\u004",
    "\\ud800", "\\ud800\\", "\\ud800\\udc0", "\\ud800\\ud800", "\\ud800\\ue000",
    "\\ud800\\uDBFF", "\\uDBFF\\u00zz", "\x80", "\xbf", "\xc0\x80", "\xc1\xbf",
    "\xc2\x41", "\xc2\xc2", "\xe0\x9f\xbf", "\xe1\x80\x41", "\xed\xa0\x80",
    "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf1\x80\x80\xc0", "\xf4\x90\x80\x80",
    "\xf5\x80\x80\x80", "\xfe", "\xff"};

TEST(a_text_with_a_broken_escape_or_no_utf8_is_refused)
{
    char text[64];
    size_t used;

    snprintf(text, sizeof(text), "{\"a%s\":0}", bad_texts[_i]);
    ck_assert_uint_eq(find_text(text, &used), SCAN_BAD);
    snprintf(text, sizeof(text), "[\"%s\"]", bad_texts[_i]);
    ck_assert_uint_eq(find_text(text, &used), SCAN_BAD);
}

TEST(a_zero_byte_is_no_blank_and_no_part_of_a_text)
{
    size_t used;

    ck_assert_uint_eq(find("\0{}", 3, &used), SCAN_BAD);
    ck_assert_uint_eq(find("{\0}", 3, &used), SCAN_BAD);
    ck_assert_uint_eq(find("\"\0\"", 3, &used), SCAN_BAD);
    ck_assert_uint_eq(find("\"\\\0\"", 4, &used), SCAN_BAD);
    ck_assert_uint_eq(find("nul\0", 4, &used), SCAN_BAD);
}

/* --- what may become one --- */

TEST(every_begin_of_a_value_asks_for_more)
{
    const char *text = wholes[_i].text;
    size_t used;

    for (size_t n = 0; n < wholes[_i].used; n++)
        ck_assert_msg(find(text, n, &used) == SCAN_MORE, "%.*s", (int)n, text);
}

TEST(a_number_ends_only_where_something_follows)
{
    static const char *const numbers[] = {"0", "-1", "12.5", "1e3"};

    for (size_t i = 0; i < LENGTH(numbers); i++)
        want_found(SCAN_MORE, numbers[i], strlen(numbers[i]));
}

/* --- limits --- */

static char *nested(unsigned depth, const char *open, const char *close)
{
    static char text[256];

    text[0] = '\0';
    for (unsigned i = 0; i < depth; i++)
        strcat(text, open);
    strcat(text, "1");
    for (unsigned i = 0; i < depth; i++)
        strcat(text, close);
    return text;
}

TEST(sixteen_levels_are_not_too_deep_and_seventeen_are)
{
    size_t used;

    ck_assert_uint_eq(find_text(nested(15, "[", "]"), &used), SCAN_WHOLE);
    ck_assert_uint_eq(find_text(nested(16, "[", "]"), &used), SCAN_WHOLE);
    ck_assert_uint_eq(find_text(nested(17, "[", "]"), &used), SCAN_DEEP);
    ck_assert_uint_eq(used, 16);
    ck_assert_uint_eq(find_text(nested(16, "{\"\":", "}"), &used), SCAN_WHOLE);
    ck_assert_uint_eq(find_text(nested(17, "{\"\":", "}"), &used), SCAN_DEEP);
}

/* Five values each. Of short members two are taken at once, while there are
   bytes enough behind them. */
static const char *const fives[] = {
    "[1,{\"a\":2}]",
    "[true,false,[null]]",
    "{\"a\":\"b\",\"c\":\"d\"}                                    ",
    "{\"a\":\"b\",\"c\":4}                                        ",
    "{\"a\":[],\"c\":\"d\"}                                       ",
};

TEST(more_values_than_there_is_room_for_are_too_many)
{
    size_t used;

    for (uint32_t room = 0; room <= 6; room++) {
        struct scan s = {values, room, 0};

        values[room].begin = 4711;
        ck_assert_uint_eq(scan(&s, fives[_i], strlen(fives[_i]), &used),
            room < 5 ? SCAN_MANY : SCAN_WHOLE);
        ck_assert_uint_eq(s.n, room < 5 ? room : 5);
        ck_assert_uint_eq(values[room].begin, 4711);
    }
}

TEST(a_number_has_at_most_64_bytes)
{
    char text[80];
    size_t used;

    for (size_t n = 63; n <= 66; n++) {
        memset(text, '1', n);
        text[n] = ' ';
        ck_assert_uint_eq(find(text, n + 1, &used),
            n <= 64 ? SCAN_WHOLE : SCAN_BAD);
    }
}

/* --- anything --- */

struct maker {
    char text[512];
    size_t n;
    uint64_t dice;
};

static void put(struct maker *m, const char *text)
{
    size_t n = strlen(text);

    memcpy(m->text + m->n, text, n);
    m->n += n;
}

static void make_value(struct maker *m, unsigned depth)
{
    static const char *const plain[] = {"null", "true", "false", "0", "-7",
        "12.5e-3", "\"\"", "\"Computer\"", "\"\\u00e9\\n\"", "\"\xc3\xa9\"",
        "\"\\ud83d\\ude00\"", "\"@\"", " 17 ", "[]", "{}"};
    unsigned pick = unit_random(&m->dice) % (LENGTH(plain) + 8);
    unsigned members = unit_random(&m->dice) % 4;

    if (pick < LENGTH(plain) || depth == 4 || m->n > 300) {
        put(m, plain[pick % LENGTH(plain)]);
        return;
    }
    put(m, pick % 2 ? "[ " : "{\n");
    for (unsigned i = 0; i < members; i++) {
        put(m, i > 0 ? "," : "");
        put(m, pick % 2 ? "" : "\"k\\t\" :");
        make_value(m, depth + 1);
    }
    put(m, pick % 2 ? "]" : "\t}");
}

static void damage(struct maker *m)
{
    static const char bytes[] = "{}[]\",:\\u0e-+. \n\x01\x80\xc3\xff"
                                "dt/";

    for (unsigned n = unit_random(&m->dice) % 3; n > 0; n--)
        m->text[unit_random(&m->dice) % m->n] =
            bytes[unit_random(&m->dice) % sizeof(bytes)];
}

/* The verdict on all the bytes is that on the first of them that is final. */
static void judge_every_begin(const char *text, size_t n)
{
    enum scan_found found = SCAN_MORE, other;
    size_t used = 0, other_used, at;
    char *edge = unit_at_edge(text, n);

    for (at = 0; at <= n && found == SCAN_MORE; at++) {
        struct scan s = {values, ROOM, 0};

        memmove(edge + n - at, text, at);
        found = scan(&s, edge + n - at, at, &used);
    }
    other = find(text, n, &other_used);
    if (found == SCAN_MORE)
        return;
    ck_assert_msg(found == other && used == other_used,
        "%.*s: %s at %zu, with more bytes %s at %zu", (int)n, text,
        found_names[found], used, found_names[other], other_used);
}

TEST(more_bytes_do_not_change_a_verdict)
{
    struct maker m = {.dice = unit_seed()};

    for (int i = 0; i < 3000; i++) {
        m.n = 0;
        make_value(&m, 0);
        put(&m, " ");
        damage(&m);
        judge_every_begin(m.text, m.n);
    }
}

TEST(what_is_made_by_the_rules_is_whole)
{
    struct maker m = {.dice = unit_seed()};

    for (int i = 0; i < 20000; i++) {
        struct scan_value room[512];
        struct scan s = {room, LENGTH(room), 0};
        size_t used;

        m.n = 0;
        make_value(&m, 0);
        put(&m, ",");
        ck_assert_msg(scan(&s, m.text, m.n, &used) == SCAN_WHOLE, "%.*s",
            (int)m.n, m.text);
        ck_assert_uint_eq(room[0].span, s.n);
    }
}

int main(void)
{
    unit_begin("scan");
    ADD_LOOP(what_is_a_value_is_found_with_its_end, LENGTH(wholes));
    ADD(its_parts_are_found_where_they_lie);
    ADD_LOOP(what_is_none_is_refused_at_its_first_wrong_byte, LENGTH(bads));
    ADD_LOOP(a_text_with_a_broken_escape_or_no_utf8_is_refused,
        LENGTH(bad_texts));
    ADD(a_zero_byte_is_no_blank_and_no_part_of_a_text);
    ADD_LOOP(every_begin_of_a_value_asks_for_more, LENGTH(wholes));
    ADD(a_number_ends_only_where_something_follows);
    ADD(sixteen_levels_are_not_too_deep_and_seventeen_are);
    ADD_LOOP(more_values_than_there_is_room_for_are_too_many, LENGTH(fives));
    ADD(a_number_has_at_most_64_bytes);
    ADD(more_bytes_do_not_change_a_verdict);
    ADD(what_is_made_by_the_rules_is_whole);
    return unit_end();
}
