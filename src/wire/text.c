/*
 * text.c - wire: JSON into a buffer that grows (see text.h).
 */
#include "wire/text.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/plain.h"

bool text_grow(struct text *t, size_t more)
{
    size_t room = t->room < 256 ? 256 : t->room;
    char *bytes;

    if (t->failed)
        return false;
    while (room - t->n < more)
        room *= 2;
    bytes = realloc(t->bytes, room);
    if (bytes == NULL) {
        t->failed = true;
        t->room = t->n; /* nor anything shorter: there would be a hole */
        return false;
    }
    t->bytes = bytes;
    t->room = room;
    return true;
}

void text_free(struct text *t)
{
    free(t->bytes);
    *t = (struct text){0};
}

/* --- numbers --- */

static const char two_digits[] =
    "0001020304050607080910111213141516171819202122232425262728293031323334"
    "3536373839404142434445464748495051525354555657585960616263646566676869"
    "707172737475767778798081828384858687888990919293949596979899";

/* Of a number with eight at most all at once: four in each half, then two in
   each quarter, then one in each byte, the first in the lowest. The factors
   divide by 100 and by 10 whatever fits there: 5243 / 2^19, 103 / 2^10. */
static uint64_t eight_digits(uint32_t number)
{
    uint64_t w = number / 10000 | (uint64_t)(number % 10000) << 32, tens;

    tens = w * 5243 >> 19 & UINT64_C(0x0000007f0000007f);
    w = tens | (w - tens * 100) << 16;
    tens = w * 103 >> 10 & UINT64_C(0x000f000f000f000f);
    w = tens | (w - tens * 10) << 8;
    return htole64(w | UINT64_C(0x3030303030303030));
}

/* A token has 19 digits: 125 instructions instead of 200. */
void text_unsigned(struct text *t, uint64_t number)
{
    char digits[20], *end = digits + sizeof(digits), *at = end;
    uint32_t rest;

    for (; number >= 100000000; number /= 100000000) {
        uint64_t eight = eight_digits((uint32_t)(number % 100000000));
        memcpy(at -= sizeof(eight), &eight, sizeof(eight));
    }
    for (rest = (uint32_t)number; rest >= 10; rest /= 100)
        memcpy(at -= 2, two_digits + rest % 100 * 2, 2);
    if (rest > 0 || at == end)
        *--at = (char)('0' + rest);
    text_put(t, at, (size_t)(end - at));
}

void text_integer(struct text *t, int64_t number)
{
    if (number < 0)
        TEXT_PUT(t, "-");
    text_unsigned(t, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

/* --- texts --- */

/* The bytes of the character at @at, if it is sound UTF-8; else 0. The zero at
   the end of a text belongs to none. */
static size_t utf8_bytes(const unsigned char *at)
{
    const unsigned char *end = at;

    return pass_utf8(&end, at + 4) == SCAN_WHOLE ? (size_t)(end - at) : 0;
}

bool text_is_utf8(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at != '\0') {
        size_t n = *at < 0x80 ? 1 : utf8_bytes(at);

        if (n == 0)
            return false;
        at += n;
    }
    return true;
}

/* Of a sound character of two or three bytes: what a terminal acts upon, or
   turns the direction of writing, or no eye sees, is not fit to be shown. */
static bool is_unfit(const unsigned char *at, size_t n, unsigned *code)
{
    *code = n == 2
        ? (at[0] & 0x1fu) << 6 | (at[1] & 0x3fu)
        : (at[0] & 0xfu) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
    if (n == 2)
        return *code <= 0x9f || *code == 0x61c;
    return (*code >= 0x200b && *code <= 0x200f) ||
        (*code >= 0x2028 && *code <= 0x202e) ||
        (*code >= 0x2060 && *code <= 0x206f) || *code == 0xfeff;
}

static void put_control(struct text *t, unsigned c)
{
    static const char from[] = "\b\f\n\r\t", into[] = "bfnrt";
    const char *known = c < 0x20 ? strchr(from, (int)c) : NULL;
    char escape[8];

    if (known != NULL)
        snprintf(escape, sizeof(escape), "\\%c", into[known - from]);
    else
        snprintf(escape, sizeof(escape), "\\u%04x", c);
    text_put(t, escape, strlen(escape));
}

/* One that is not plain; returns what is behind it. */
static const unsigned char *put_special(struct text *t, const unsigned char *at)
{
    size_t n = utf8_bytes(at);
    unsigned code;

    if (*at == '"' || *at == '\\') {
        TEXT_PUT(t, "\\");
        text_put(t, (const char *)at, 1);
    } else if (*at < 0x20 || *at == 0x7f) {
        put_control(t, *at);
    } else if ((n == 2 || n == 3) && is_unfit(at, n, &code)) {
        put_control(t, code);
        return at + n;
    } else if (n > 0) {
        text_put(t, (const char *)at, n);
        return at + n;
    } else {
        TEXT_PUT(t, "\xef\xbf\xbd");
    }
    return at + 1;
}

void text_line(struct text *t, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at != '\0') {
        if (is_plain(*at) ? *at != 0x7f : *at == '"' || *at == '\\')
            text_put(t, (const char *)at++, 1);
        else
            at = put_special(t, at);
    }
}

void text_quote(struct text *t, const char *text)
{
    const unsigned char *at = (const unsigned char *)text, *from;

    TEXT_PUT(t, "\"");
    while (*at != '\0') {
        for (from = at; is_plain(*at) && *at != 0x7f; at++)
            continue;
        text_put(t, (const char *)from, (size_t)(at - from));
        if (*at != '\0')
            at = put_special(t, at);
    }
    TEXT_PUT(t, "\"");
}

/* --- members --- */

void text_member_text(struct text *t, const char *name, const char *value)
{
    text_member(t, name);
    text_quote(t, value);
}

void text_member_number(struct text *t, const char *name, int64_t value)
{
    text_member(t, name);
    text_integer(t, value);
}

void text_member_big(struct text *t, const char *name, uint64_t value)
{
    text_member(t, name);
    TEXT_PUT(t, "\"");
    text_unsigned(t, value);
    TEXT_PUT(t, "\"");
}
