/*
 * check_frame.c - a value that comes in pieces: it is found where it ends, the
 * same however it was split, and each byte is looked at once.
 */
#include "wire/frame.h"
#include "wire/scan.h"

#include <stdio.h>
#include <stdlib.h>

#include "unit.h"

#define ROOM 64

/* What a stream is cut into: where each value ends, or what is wrong. */
struct cut {
    size_t ends[64];
    unsigned n, scans;
    enum scan_found last;
};

/* Between values; they belong to none. */
static size_t blanks(const char *bytes, size_t n)
{
    size_t i = 0;

    while (i < n && strchr(" \t\r\n", bytes[i]) != NULL && bytes[i] != '\0')
        i++;
    return i;
}

/* All values that are whole from @from on; where the next one begins. */
static size_t take_whole(struct cut *cut, const char *bytes, size_t from,
    size_t n)
{
    static struct scan_value values[ROOM];
    size_t used;

    while ((from += blanks(bytes + from, n - from)) < n) {
        struct scan s = {values, ROOM, 0};
        cut->last = scan(&s, bytes + from, n - from, &used);
        cut->scans++;
        if (cut->last != SCAN_WHOLE)
            return from;
        from += used;
        cut->ends[cut->n++] = from;
    }
    return from;
}

/* As a connection does it, for pieces that end at @stops. */
static struct cut cut_up(const char *bytes, const size_t *stops, unsigned n)
{
    struct cut cut = {.last = SCAN_MORE};
    struct frame f = {0};
    size_t begin = 0, heard = 0;

    for (unsigned i = 0; i < n && cut.last <= SCAN_MORE; i++) {
        bool ends =
            heard == begin || frame_ends(&f, bytes + heard, stops[i] - heard);

        heard = stops[i];
        if (!ends)
            continue;
        begin = take_whole(&cut, bytes, begin, heard);
        f = (struct frame){0};
        (void)frame_ends(&f, bytes + begin, heard - begin);
    }
    return cut;
}

static const char *const streams[] = {
    "{\"OP\":\"1\",\"eleLock\":{\"name\":\"product\",\"argument\":[\"A\",\"@\"]"
    ","
    "\"mode\":\"E\",\"owner\":\"B\",\"waitTime\":0,\"uuid\":\"12925_1\"}}",
    "{\"OP\":\"2\",\"lockUUID\":\"1_1\"}{\"OP\":\"2\",\"lockUUID\":\"1_2\"}",
    " \r\n{\"a\":[{},[]]}\t\n {\"b\":\"}{][\\\"\\\\\"} ",
    "[\"\\u0041\\ud83d\\ude00\",\"\xf0\x9f\x98\x80\"]{}",
    "null true false 12 -1.5e3\n\"a\"\"b\\\"\"[]0 ",
    "12{\"a\":[1]}-3[[]]4\"a\"5 6",
    "{\"a\":\"\\\\\"}{\"b\":\"\\\\\\\"\"}",
};

static void want_same(const char *text, const struct cut *a,
    const struct cut *b, size_t split)
{
    ck_assert_msg(a->n == b->n && a->last == b->last,
        "%s: split at %zu: %u values, then %d, not %u and %d", text, split,
        b->n, b->last, a->n, a->last);
    for (unsigned i = 0; i < a->n; i++)
        ck_assert_uint_eq(a->ends[i], b->ends[i]);
}

TEST(values_split_at_any_byte_are_the_same)
{
    const char *text = streams[_i];
    size_t n = strlen(text), stops[2] = {n, n};
    struct cut whole = cut_up(text, stops, 1), parts;

    ck_assert_uint_gt(whole.n, 0);
    for (size_t at = 1; at < n; at++) {
        stops[0] = at;
        parts = cut_up(text, stops, 2);
        want_same(text, &whole, &parts, at);
    }
}

TEST(values_that_come_byte_by_byte_are_the_same)
{
    const char *text = streams[_i];
    size_t n = strlen(text), stops[256];
    struct cut whole, parts;

    for (size_t i = 0; i < n; i++)
        stops[i] = i + 1;
    whole = cut_up(text, &n, 1);
    parts = cut_up(text, stops, (unsigned)n);
    want_same(text, &whole, &parts, 0);
}

TEST(values_split_anyhow_are_the_same)
{
    const char *text = streams[_i];
    size_t n = strlen(text), stops[256];
    struct cut whole = cut_up(text, &n, 1), parts;
    uint64_t dice = unit_seed();

    for (int i = 0; i < 2000; i++) {
        unsigned pieces = 0;
        for (size_t at = 0; at < n; pieces++) {
            at += 1 + unit_random(&dice) % 20;
            stops[pieces] = at < n ? at : n;
        }
        parts = cut_up(text, stops, pieces);
        want_same(text, &whole, &parts, 0);
    }
}

/* 64 KiB in pieces of one byte must not cost 64 Ki scans. */
TEST(a_long_value_in_small_pieces_is_scanned_but_twice)
{
    enum { BYTES = 4096 };
    static char text[BYTES + 64];
    static size_t stops[BYTES + 64];
    int n = snprintf(text, sizeof(text), "{\"a\":[\"%0*d{}[]\\\\\",[{}]]}",
        BYTES, 0);
    struct cut cut;

    for (int i = 0; i < n; i++)
        stops[i] = (size_t)i + 1;
    cut = cut_up(text, stops, (unsigned)n);
    ck_assert_uint_eq(cut.n, 1);
    ck_assert_uint_eq(cut.scans, 2);
}

TEST(what_is_in_a_text_does_not_end_a_value)
{
    static const char *const open[] = {"{", "{\"}", "{\"\\\"}", "[\"]\",\"",
        "[[],{}", "\"", "\"a}]", "\"\\", "\"\\\"", "{\"a\":\"\\\\\\\"}"};

    for (size_t i = 0; i < LENGTH(open); i++) {
        struct frame f = {0};
        ck_assert_msg(!frame_ends(&f, open[i], strlen(open[i])), "%s", open[i]);
    }
}

int main(void)
{
    unit_begin("frame");
    ADD_LOOP(values_split_at_any_byte_are_the_same, LENGTH(streams));
    ADD_LOOP(values_that_come_byte_by_byte_are_the_same, LENGTH(streams));
    ADD_LOOP(values_split_anyhow_are_the_same, LENGTH(streams));
    ADD(a_long_value_in_small_pieces_is_scanned_but_twice);
    ADD(what_is_in_a_text_does_not_end_a_value);
    return unit_end();
}
