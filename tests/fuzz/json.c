/*
 * json.c - the scanner beside another reader of JSON, jansson: of every text
 * both say that it is JSON, or both that it is none, and both read the same
 * values.
 *
 * They differ, as they should, in what is listed at differs(): depth, the
 * length and range of numbers, U+0000 in a key, a zero byte. Of a member that
 * comes twice both take the last.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "wire/scan.h"
#include "wire/value.h"

#define ROOM 512
#define TEXT_BYTES 1024

/* --- texts --- */

struct maker {
    struct feed *f;
    char text[TEXT_BYTES];
    size_t n;
};

static void put(struct maker *m, const char *bytes, size_t n)
{
    if (n > TEXT_BYTES - 8 - m->n)
        return;
    memcpy(m->text + m->n, bytes, n);
    m->n += n;
}

static void put_plain(struct maker *m, uint8_t pick)
{
    static const char *const plain[] = {"null", "true", "false", "0", "-0",
        "1e3", "-12.5E-2", "9223372036854775807", "9223372036854775808",
        "1e308", "1e309", "5e-324", "\"\"", "\"@\"", "\"\\u0000\"",
        "\"\\ud83d\\ude00\"", "\"\\u00e9\\n\\/\"", "\"\xc3\xa9\xe2\x82\xac\"",
        "\"\xf0\x9f\x98\x80\"", "[]", "{}", " ", "\"a\\\\\\\"b\""};
    const char *text = plain[pick % LENGTH(plain)];

    put(m, text, strlen(text));
}

static void put_number(struct maker *m)
{
    char text[64];
    uint64_t bits = feed_word(m->f, 8);
    double number;

    memcpy(&number, &bits, sizeof(number));
    if (number - number != 0)
        number = 0;
    if (feed_byte(m->f) & 1)
        snprintf(text, sizeof(text), "%lld", (long long)bits);
    else
        snprintf(text, sizeof(text), "%.*g", feed_byte(m->f) % 20, number);
    put(m, text, strlen(text));
}

/* Any bytes between quotes, as they come. */
static void put_text(struct maker *m)
{
    size_t n = feed_byte(m->f) % 16;

    put(m, "\"", 1);
    for (; n > 0 && feed_more(m->f); n--)
        put(m, (const char *)m->f->at++, 1);
    put(m, "\"", 1);
}

static void put_value(struct maker *m, unsigned depth)
{
    uint8_t pick = feed_byte(m->f);
    bool object = pick & 1;

    if (pick < 96 || depth == 20) {
        put_plain(m, pick);
    } else if (pick < 128) {
        put_number(m);
    } else if (pick < 160) {
        put_text(m);
    } else {
        put(m, object ? "{" : "[", 1);
        for (unsigned i = 0, n = pick / 2 % 4; i < n; i++) {
            put(m, ", ", i == 0 ? 0 : 1 + i % 2);
            if (object)
                put_text(m);
            put(m, ": ", object ? 1 + i % 2 : 0);
            put_value(m, depth + 1);
        }
        put(m, object ? "}" : "]", 1);
    }
}

/* --- the same? --- */

static void compare_value(struct scan_value *v, char *bytes, json_t *other);

static bool comes_again(const struct scan_value *v, struct scan_value *key,
    char *bytes)
{
    struct scan_value *at = key + 1 + key[1].span;
    const struct scan_value *end = v + v->span;

    for (; at < end; at += 1 + at[1].span) {
        scan_text(at, bytes);
        if (at->bytes == key->bytes &&
            memcmp(bytes + at->begin, bytes + key->begin, at->bytes) == 0)
            return true;
    }
    return false;
}

static void compare_object(struct scan_value *v, char *bytes, json_t *other)
{
    struct scan_value *at = v + 1, *end = v + v->span;
    size_t n = 0;

    for (; at < end; at += 1 + at[1].span) {
        const char *name = scan_text(at, bytes);

        if (name == NULL || comes_again(v, at, bytes))
            continue;
        compare_value(at + 1, bytes, json_object_get(other, name));
        n++;
    }
    if (json_object_size(other) != n)
        fuzz_fail("%zu members, not %zu", n, json_object_size(other));
}

static void compare_array(struct scan_value *v, char *bytes, json_t *other)
{
    struct scan_value *at = v + 1, *end = v + v->span;
    size_t n = 0;

    for (; at < end; at += at->span)
        compare_value(at, bytes, json_array_get(other, n++));
    if (json_array_size(other) != n)
        fuzz_fail("%zu elements, not %zu", n, json_array_size(other));
}

static bool same_number(struct scan_value *v, char *bytes, const json_t *other)
{
    char word[SCAN_WORD_BYTES];
    int64_t number;

    if (json_is_integer(other))
        return scan_integer(v, bytes, &number) &&
            number == json_integer_value(other);
    return strtod(scan_word(v, bytes, word), NULL) == json_real_value(other);
}

static bool same_text(struct scan_value *v, char *bytes, const json_t *other)
{
    scan_text(v, bytes);
    return v->bytes == json_string_length(other) &&
        memcmp(bytes + v->begin, json_string_value(other), v->bytes) == 0;
}

static void compare_value(struct scan_value *v, char *bytes, json_t *other)
{
    static const json_type types[] = {JSON_NULL, JSON_FALSE, JSON_TRUE,
        JSON_REAL, JSON_STRING, JSON_ARRAY, JSON_OBJECT};

    if (other == NULL ||
        (json_typeof(other) != types[v->kind] && !json_is_integer(other)))
        fuzz_fail("a value of kind %d is another", v->kind);
    if (v->kind == SCAN_OBJECT)
        compare_object(v, bytes, other);
    else if (v->kind == SCAN_ARRAY)
        compare_array(v, bytes, other);
    else if (v->kind == SCAN_NUMBER ? !same_number(v, bytes, other)
            : v->kind == SCAN_TEXT  ? !same_text(v, bytes, other)
                                    : false)
        fuzz_fail("a value is not the same");
}

/* --- both --- */

/* What one of them takes and the other does not, on purpose. */
static bool differs(enum scan_found found, const json_error_t *error,
    const char *text, size_t n, size_t used)
{
    unsigned digits = 0;

    if (found != SCAN_WHOLE && memchr(text, '\0', n) != NULL)
        return true; /* jansson loses one that follows a number */
    switch (json_error_code(error)) {
    case json_error_numeric_overflow:
    case json_error_null_byte_in_key:
        return true;
    default:
        break;
    }
    /* of a number 64 bytes; ours is at the next one */
    while (digits < used && strchr("0123456789+-.eE", text[used - digits - 1]))
        digits++;
    return found == SCAN_DEEP || (found == SCAN_BAD && digits > 64);
}

static void say(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, text[i] > ' ' && text[i] < 127 ? "%c" : "\\x%02x",
            (unsigned char)text[i]);
}

static void judge_both(char *text, size_t n)
{
    struct scan_value values[ROOM];
    struct scan s = {values, ROOM, 0};
    json_error_t error = {.line = 0};
    size_t used;
    enum scan_found found = scan(&s, text, n, &used);
    json_t *other = json_loadb(text, n, JSON_ALLOW_NUL, &error);

    if (found == SCAN_WHOLE && used != n)
        found = SCAN_BAD;
    if ((found == SCAN_WHOLE) != (other != NULL) &&
        !differs(found, &error, text, n, used)) {
        say(text, n);
        fuzz_fail(": found %d at %zu, jansson says: %s", (int)found, used,
            other == NULL ? error.text : "JSON");
    }
    if (found == SCAN_WHOLE && other != NULL)
        compare_value(values, text, other);
    json_decref(other);
}

/* Half of them as they are, half by the rules, and with a byte or two wrong. */
void fuzz_json(const uint8_t *data, size_t n)
{
    static bool seeded;
    struct feed f = {data, data + n};
    struct maker m = {.f = &f, .n = 0};
    uint8_t how = feed_byte(&f);
    uint8_t at[2] = {0, 0}, wrong[2] = {0, 0};

    if (!seeded) /* the order of its members is ours to choose */
        json_object_seed(1);
    seeded = true;
    for (unsigned i = 0; i < how % 3; i++) {
        at[i] = feed_byte(&f);
        wrong[i] = feed_byte(&f);
    }
    put(&m, "[", 1);
    if (how & 128)
        put(&m, (const char *)f.at, (size_t)(f.end - f.at));
    while (!(how & 128) && feed_more(&f)) {
        put(&m, ",", m.n > 1);
        put_value(&m, 0);
    }
    put(&m, "]", 1);
    for (unsigned i = 0; i < how % 3; i++)
        if (m.n > 2)
            m.text[1 + at[i] % (m.n - 2)] = (char)wrong[i];
    judge_both(m.text, m.n);
}
