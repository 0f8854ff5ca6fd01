/*
 * text.c - floor 1: JSON into a buffer that grows (see text.h).
 */
#include "wire/text.h"

#include <stdio.h>
#include <stdlib.h>

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

void text_unsigned(struct text *t, uint64_t number)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021"
                                "22232425262728293031323334353637383940414243"
                                "44454647484950515253545556575859606162636465"
                                "66676869707172737475767778798081828384858687"
                                "888990919293949596979899";
    char digits[20];
    size_t at = sizeof(digits);

    for (; number >= 10; number /= 100)
        memcpy(digits + (at -= 2), pairs + number % 100 * 2, 2);
    if (number > 0 || at == sizeof(digits))
        digits[--at] = (char)('0' + number);
    text_put(t, digits + at, sizeof(digits) - at);
}

void text_integer(struct text *t, int64_t number)
{
    if (number < 0)
        TEXT_PUT(t, "-");
    text_unsigned(t, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

/* --- texts --- */

/* The bytes of the character at @at, if it is sound UTF-8; else 0. */
static size_t utf8_bytes(const unsigned char *at)
{
    size_t n = at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;

    if (n == 0 || at[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80) /* the zero at the end is none either */
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return n;
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

static void put_control(struct text *t, unsigned char c)
{
    static const char from[] = "\b\f\n\r\t", into[] = "bfnrt";
    const char *known = strchr(from, c);
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

    if (*at == '"' || *at == '\\') {
        TEXT_PUT(t, "\\");
        text_put(t, (const char *)at, 1);
    } else if (*at < 0x20) {
        put_control(t, *at);
    } else if (n > 0) {
        text_put(t, (const char *)at, n);
        return at + n;
    } else {
        TEXT_PUT(t, "\xef\xbf\xbd");
    }
    return at + 1;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

void text_quote(struct text *t, const char *text)
{
    const unsigned char *at = (const unsigned char *)text, *from;

    TEXT_PUT(t, "\"");
    while (*at != '\0') {
        for (from = at; is_plain(*at); at++)
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
