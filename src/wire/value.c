/*
 * value.c - wire: what the values of scan() say (see value.h).
 */
#include "wire/value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- texts --- */

static uint32_t hex(const char *at)
{
    char digits[5] = {at[0], at[1], at[2], at[3]};

    return (uint32_t)strtoul(digits, NULL, 16);
}

static char *put_utf8(char *to, uint32_t point)
{
    if (point < 0x80) {
        *to++ = (char)point;
    } else if (point < 0x800) {
        *to++ = (char)(0xc0 | point >> 6);
        *to++ = (char)(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
        *to++ = (char)(0xe0 | point >> 12);
        *to++ = (char)(0x80 | (point >> 6 & 0x3f));
        *to++ = (char)(0x80 | (point & 0x3f));
    } else {
        *to++ = (char)(0xf0 | point >> 18);
        *to++ = (char)(0x80 | (point >> 12 & 0x3f));
        *to++ = (char)(0x80 | (point >> 6 & 0x3f));
        *to++ = (char)(0x80 | (point & 0x3f));
    }
    return to;
}

/* @at is behind the backslash; scan() has seen that all of it is there. */
static const char *unescape_one(const char *at, char **to)
{
    static const char from[] = "bfnrt", into[] = "\b\f\n\r\t";
    const char *known = strchr(from, *at);
    uint32_t point;

    if (*at != 'u') {
        *(*to)++ = known == NULL ? *at : into[known - from];
        return at + 1;
    }
    point = hex(at + 1);
    at += 5;
    if (point >= 0xd800 && point <= 0xdbff) {
        point = 0x10000 + ((point - 0xd800) << 10 | (hex(at + 2) - 0xdc00));
        at += 6;
    }
    *to = put_utf8(*to, point);
    return at;
}

/* What is unescaped is shorter than what was sent. */
static void unescape(struct scan_value *v, char *bytes)
{
    char *to = bytes + v->begin;
    const char *at = to, *end = to + v->bytes;

    while (at < end) {
        if (*at == '\\')
            at = unescape_one(at + 1, &to);
        else
            *to++ = *at++;
    }
    v->bytes = (uint32_t)(to - bytes) - v->begin;
    v->zero = memchr(bytes + v->begin, '\0', v->bytes) != NULL;
    v->escaped = false;
}

const char *scan_text_slow(struct scan_value *v, char *bytes)
{
    if (v->kind != SCAN_TEXT)
        return NULL;
    if (v->escaped)
        unescape(v, bytes);
    bytes[v->begin + v->bytes] = '\0';
    return v->zero ? NULL : bytes + v->begin;
}

/* --- numbers --- */

/* Of a number or a text what may be a number, without the blanks around it,
   ended by a zero. @out has room for any number that scan() takes for one. */
#define NUMBER_BYTES 72

static bool number_text(struct scan_value *v, char *bytes, char *out)
{
    static const char blanks[] = " \t\n\v\f\r";
    const char *text = bytes + v->begin;
    size_t n = v->bytes, skip;

    if (v->kind == SCAN_TEXT && (text = scan_text(v, bytes)) == NULL)
        return false;
    if (v->kind != SCAN_TEXT && v->kind != SCAN_NUMBER)
        return false;
    if (v->kind == SCAN_TEXT) {
        n = v->bytes;
        skip = strspn(text, blanks);
        for (text += skip, n -= skip; n > 0; n--)
            if (strchr(blanks, text[n - 1]) == NULL)
                break;
    }
    if (n >= NUMBER_BYTES)
        return false;
    memcpy(out, text, n);
    out[n] = '\0';
    return true;
}

/* 0x1f, 0o17, 0b11: without a sign. 10: another kind of number; 1: none, which
   strtoll() might take for one. */
static int base_of(const char *text)
{
    static const struct {
        char letter, base;
        const char *digits;
    } kinds[] = {{'x', 16, "0123456789abcdefABCDEF"}, {'o', 8, "01234567"},
        {'b', 2, "01"}};

    for (int i = 0; i < 3 && text[0] == '0'; i++)
        if ((text[1] | 0x20) == kinds[i].letter)
            return text[2] != '\0' &&
                    text[2 + strspn(text + 2, kinds[i].digits)] == '\0'
                ? kinds[i].base
                : 1;
    return 10;
}

static bool whole_number(const char *text, int64_t *out)
{
    int base = base_of(text);
    char *end;

    if (base == 1)
        return false;
    errno = 0;
    *out = strtoll(text + (base == 10 ? 0 : 2), &end, base);
    return *end == '\0' && errno == 0;
}

#define TWO_63 9223372036854775808.0

/* Nothing but digits, and not too many: as handles and tokens come. */
static bool plain_digits(const struct scan_value *v, const char *bytes,
    uint64_t *out)
{
    const char *at = bytes + v->begin;
    uint64_t number = 0;

    if ((v->kind != SCAN_TEXT && v->kind != SCAN_NUMBER) || v->bytes == 0 ||
        v->bytes > 19)
        return false;
    for (uint32_t i = 0; i < v->bytes; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(at[i] - '0');
    }
    *out = number;
    return true;
}

/* As ECMA-262 (7.1.4.1) takes a text for a number: nothing is zero, and what C
   knows beside it is none. */
bool scan_integer(struct scan_value *v, char *bytes, int64_t *out)
{
    char text[NUMBER_BYTES], *end;
    uint64_t plain;
    double number;

    if (plain_digits(v, bytes, &plain) && plain <= INT64_MAX) {
        *out = (int64_t)plain;
        return true;
    }
    if (!number_text(v, bytes, text))
        return false;
    if (whole_number(text, out))
        return true;
    if (strspn(text, "0123456789+-.eE") != strlen(text))
        return false;
    number = strtod(text, &end); /* 1e3, 2.5 */
    if (*end != '\0' || !(number > -TWO_63 && number < TWO_63))
        return false;
    *out = (int64_t)number;
    return true;
}

bool scan_unsigned(struct scan_value *v, char *bytes, uint64_t *out)
{
    char text[NUMBER_BYTES], *end;

    if (plain_digits(v, bytes, out))
        return true;
    if (!number_text(v, bytes, text) || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0;
}

/* d.ddde+xx: one more in its last digit. Of 9.99 there is no next one. */
static void next_up(char *text)
{
    char *at = strchr(text, 'e');

    while (--at > text && (*at == '9' || *at == '.'))
        if (*at == '9')
            *at = '0';
    if (*at != '9')
        ++*at;
}

/* The shortest digits that mean this number. A power of two is nearer to the
   number below it than to the one above: what means it may be a little higher
   than what it is rounded to. */
static int shortest(double number, char *out)
{
    int digits = 0;

    for (;; digits++) {
        snprintf(out, NUMBER_BYTES, "%.*e", digits, number);
        if (strtod(out, NULL) == number || digits == 17)
            break;
        next_up(out);
        if (strtod(out, NULL) == number)
            break;
    }
    return digits + 1;
}

/* The digits of @text, d.ddde+xx, and its exponent. */
static int take_apart(const char *text, char *digits)
{
    for (; *text != 'e'; text++)
        if (*text >= '0' && *text <= '9')
            *digits++ = *text;
    *digits = '\0';
    return atoi(text + 1);
}

/*
 * @text: d.ddde+xx with @n digits, of what is above zero. As ECMAScript's
 * Number::toString has it: the shortest digits, padded with zeros; plain from
 * 1e-6 to below 1e21, else with an exponent. At most 17 digits, so that
 * SCAN_WORD_BYTES are enough with a sign before them.
 */
static void js_number(double number, int n, const char *text, char *out)
{
    char digits[NUMBER_BYTES];
    int exponent = take_apart(text, digits);

    if (exponent < -6 || exponent >= 21) {
        snprintf(out, SCAN_WORD_BYTES - 1, "%.1s%s%.16se%+d", digits,
            n > 1 ? "." : "", digits + 1, exponent);
    } else if (exponent >= n) {
        memset(out, '0', (size_t)exponent + 1);
        memcpy(out, digits, (size_t)n);
        out[exponent + 1] = '\0';
    } else {
        snprintf(out, SCAN_WORD_BYTES - 1, "%.*f", n - 1 - exponent, number);
    }
}

const char *scan_word(struct scan_value *v, char *bytes, char *out)
{
    static const char *const words[] = {"", "false", "true"};
    char text[NUMBER_BYTES];
    double number;
    int n;

    if (v->kind <= SCAN_TRUE)
        return words[v->kind];
    if (v->kind != SCAN_NUMBER || !number_text(v, bytes, text))
        return NULL;
    number = strtod(text, NULL);
    if (number == 0)
        return "0";
    if (isinf(number))
        return number > 0 ? "Infinity" : "-Infinity";
    n = shortest(fabs(number), text);
    out[0] = '-';
    js_number(fabs(number), n, text, out + (number < 0));
    return out;
}
