/*
 * check_text.c - JSON into a buffer that grows: escapes, members, numbers, and
 * what becomes of it without memory.
 */
#include "wire/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "unit.h"
#include "wire/scan.h"
#include "wire/value.h"

/* What has been put, as a text. */
static const char *so_far(struct text *t)
{
    TEXT_PUT(t, "\0");
    ck_assert(!t->failed);
    t->n--;
    return t->bytes;
}

static const struct {
    const char *text, *quoted;
} quotes[] = {
    {"", "\"\""},
    {"a\xc2\x9b\xe2\x80\xae\xef\xbb\xbf\xc3\xbc",
        "\"a\\u009b\\u202e\\ufeff\xc3\xbc\""},
    {"Computer", "\"Computer\""},
    {"a\"b\\c/", "\"a\\\"b\\\\c/\""},
    {"\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\""},
    {"\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\""},
    {"\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "\"\\u0080\\u009b\\u009f\xc2\xa0\""},
    {"\xd8\x9c\xe2\x80\x8f\xe2\x80\xa8\xe2\x80\xae\xe2\x81\xa6\xef\xbb\xbf",
        "\"\\u061c\\u200f\\u2028\\u202e\\u2066\\ufeff\""},
    {"\xe2\x80\x8a\xe2\x80\x8b\xe2\x80\x8d\xe2\x81\xa0\xe2\x81\xaf\xe2\x81\xb0",
        "\"\xe2\x80\x8a\\u200b\\u200d\\u2060\\u206f\xe2\x81\xb0\""},
    {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
    {"\xed\x9f\xbf\xee\x80\x80", "\"\xed\x9f\xbf\xee\x80\x80\""},
    /* no UTF-8: U+FFFD for each byte that is none */
    {"\x80", "\"\xef\xbf\xbd\""},
    {"a\xff\xfe", "\"a\xef\xbf\xbd\xef\xbf\xbd\""},
    {"\xc3", "\"\xef\xbf\xbd\""},
    {"\xc3\"", "\"\xef\xbf\xbd\\\"\""},
    {"\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
    {"\xf0\x9f\x98", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    {"\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
    {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    {"\xf4\x90\x80\x80",
        "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
};

TEST(what_cannot_stand_in_a_text_is_escaped)
{
    struct text t = {0};
    /* with its zero it ends where no memory is */
    char *edge = unit_at_edge(quotes[_i].text, strlen(quotes[_i].text) + 1);

    text_quote(&t, edge);
    ck_assert_str_eq(so_far(&t), quotes[_i].quoted);
    text_free(&t);
}

TEST(whatever_is_quoted_is_read_back)
{
    uint64_t dice = unit_seed();

    for (int i = 0; i < 20000; i++) {
        char plain[16] = "", again[128];
        struct text t = {0};
        struct scan_value v;
        struct scan s = {&v, 1, 0};
        size_t used, n = unit_random(&dice) % sizeof(plain);

        for (size_t at = 0; at < n; at++) /* half of it is ASCII */
            plain[at] = (char)(unit_random(&dice) %
                (unit_random(&dice) % 2 ? 256 : 128));
        plain[sizeof(plain) - 1] = '\0';
        text_quote(&t, plain);
        ck_assert_uint_eq(scan(&s, t.bytes, t.n, &used), SCAN_WHOLE);
        ck_assert_uint_eq(used, t.n);
        snprintf(again, sizeof(again), "%s", scan_text(&v, t.bytes));
        if (strstr(again, "\xef\xbf\xbd") == NULL)
            ck_assert_str_eq(again, plain);
        text_free(&t);
    }
}

TEST(numbers_are_written_to_their_extremes)
{
    struct text t = {0};

    text_unsigned(&t, 0);
    TEXT_PUT(&t, " ");
    text_unsigned(&t, UINT64_MAX);
    TEXT_PUT(&t, " ");
    text_integer(&t, INT64_MAX);
    TEXT_PUT(&t, " ");
    text_integer(&t, INT64_MIN);
    TEXT_PUT(&t, " ");
    text_integer(&t, -1);
    ck_assert_str_eq(so_far(&t),
        "0 18446744073709551615 9223372036854775807"
        " -9223372036854775808 -1");
    text_free(&t);
}

TEST(a_big_number_is_a_text_and_a_small_one_is_none)
{
    struct text t = {0};

    TEXT_PUT(&t, "{\"RC\":\"0\"");
    text_member_text(&t, "OWNER", "B \"x\"");
    text_member_number(&t, "RESULT", -22);
    text_member_big(&t, "TOKEN", UINT64_MAX);
    text_member(&t, "LOCKS");
    TEXT_PUT(&t, "[]}");
    ck_assert_str_eq(so_far(&t),
        "{\"RC\":\"0\",\"OWNER\":\"B \\\"x\\\"\",\"RESULT\":-22,"
        "\"TOKEN\":\"18446744073709551615\",\"LOCKS\":[]}");
    text_free(&t);
}

/* Every length around the places where the buffer grows. */
TEST(a_long_list_is_the_same_as_its_parts)
{
    struct text t = {0};
    char wanted[32];
    size_t at = 0;

    for (unsigned i = 0; i < 100000; i++) {
        text_unsigned(&t, i);
        text_put(&t, ",", i % 3 == 0);
    }
    for (unsigned i = 0; i < 100000; i++) {
        int n =
            snprintf(wanted, sizeof(wanted), "%u%s", i, i % 3 == 0 ? "," : "");
        ck_assert(t.n >= at + (size_t)n);
        ck_assert_mem_eq(t.bytes + at, wanted, (size_t)n);
        at += (size_t)n;
    }
    ck_assert_uint_eq(t.n, at);
    text_free(&t);
    ck_assert_ptr_null(t.bytes);
    ck_assert_uint_eq(t.n + t.room, 0);
}

TEST(a_put_of_any_size_finds_room)
{
    static char bytes[70000];

    for (size_t n = 0; n < sizeof(bytes); n = n * 2 + 1) {
        struct text t = {0};
        text_put(&t, bytes, n);
        text_put(&t, bytes, n + 1);
        ck_assert_uint_eq(t.n, 2 * n + 1);
        ck_assert_uint_ge(t.room, t.n);
        text_free(&t);
    }
}

TEST(without_memory_it_takes_no_more_and_says_so)
{
    const struct rlimit little = {1 << 26, 1 << 26};
    struct text t = {0};
    size_t kept;

    ck_assert_int_eq(setrlimit(RLIMIT_AS, &little), 0);
    for (int i = 0; i < 1 << 20 && !t.failed; i++)
        text_quote(&t,
            "some hundred bytes of a reply that nobody reads, and "
            "another one behind it, and so on, for ever");
    ck_assert(t.failed);
    kept = t.n;
    text_quote(&t, "more");
    text_member_number(&t, "more", 1);
    ck_assert_uint_eq(t.n, kept);
    text_free(&t);
    ck_assert(!t.failed);
}

TEST(a_line_for_a_person_keeps_quotes_and_no_line_breaks)
{
    struct text t = {0};

    text_line(&t, "no \"C:\\a\"\n\x1b[2J\xc2\x9b \xe2\x80\xae\xff\x7f.");
    ck_assert_str_eq(so_far(&t),
        "no \"C:\\a\"\\n\\u001b[2J\\u009b \\u202e\xef\xbf\xbd\\u007f.");
    text_free(&t);
}

int main(void)
{
    unit_begin("text");
    ADD_LOOP(what_cannot_stand_in_a_text_is_escaped, LENGTH(quotes));
    ADD(whatever_is_quoted_is_read_back);
    ADD(numbers_are_written_to_their_extremes);
    ADD(a_big_number_is_a_text_and_a_small_one_is_none);
    ADD(a_long_list_is_the_same_as_its_parts);
    ADD(a_put_of_any_size_finds_room);
    /* its memory cannot be limited: it maps terabytes for itself */
    if (!UNIT_SANITIZED)
        ADD(without_memory_it_takes_no_more_and_says_so);
    ADD(a_line_for_a_person_keeps_quotes_and_no_line_breaks);
    return unit_end();
}
