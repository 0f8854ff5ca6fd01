/*
 * plain.c - wire: what a JSON text consists of (see plain.h).
 */
#include "wire/plain.h"

#include <string.h>

/* --- UTF-8 --- */

/* The first byte says how many follow, and between what the second lies
   (Unicode 15, table 3-7); the others between 0x80 and 0xbf. */
enum scan_found pass_utf8(const unsigned char **at, const unsigned char *end)
{
    unsigned char first = **at, low = 0x80, high = 0xbf;
    int more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;

    if (first < 0xc2 || first > 0xf4)
        return SCAN_BAD;
    if (first == 0xe0)
        low = 0xa0;
    else if (first == 0xed)
        high = 0x9f;
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;
    for (++*at; more > 0; more--, ++*at, low = 0x80, high = 0xbf) {
        if (*at == end)
            return SCAN_MORE;
        if (**at < low || **at > high)
            return SCAN_BAD;
    }
    return SCAN_WHOLE;
}

/* --- escapes --- */

static enum scan_found pass_byte(const unsigned char **at,
    const unsigned char *end, unsigned char wanted)
{
    if (*at == end)
        return SCAN_MORE;
    if (**at != wanted)
        return SCAN_BAD;
    ++*at;
    return SCAN_WHOLE;
}

static int hex_digit(unsigned char h)
{
    if (h >= '0' && h <= '9')
        return h - '0';
    h |= 0x20;
    return h >= 'a' && h <= 'f' ? h - 'a' + 10 : -1;
}

static enum scan_found pass_unit(const unsigned char **at,
    const unsigned char *end, int32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++, ++*at) {
        if (*at == end)
            return SCAN_MORE;
        if (hex_digit(**at) < 0)
            return SCAN_BAD;
        *unit = *unit << 4 | hex_digit(**at);
    }
    return SCAN_WHOLE;
}

#define IS_HIGH(unit) ((unit) >= 0xd800 && (unit) <= 0xdbff)
#define IS_LOW(unit) ((unit) >= 0xdc00 && (unit) <= 0xdfff)

/* What cannot become a pair any more is told at once: nothing may follow. */
static enum scan_found pass_units(const unsigned char **at,
    const unsigned char *end)
{
    int32_t unit, low = 0;
    enum scan_found found = pass_unit(at, end, &unit);

    if (found != SCAN_WHOLE)
        return found;
    if (IS_LOW(unit))
        return SCAN_BAD;
    if (!IS_HIGH(unit))
        return SCAN_WHOLE;
    found = pass_byte(at, end, '\\');
    if (found == SCAN_WHOLE)
        found = pass_byte(at, end, 'u');
    if (found == SCAN_WHOLE)
        found = pass_unit(at, end, &low);
    return found == SCAN_WHOLE && !IS_LOW(low) ? SCAN_BAD : found;
}

enum scan_found pass_escape(const unsigned char **at, const unsigned char *end)
{
    ++*at;
    if (*at == end)
        return SCAN_MORE;
    if (**at == 'u') {
        ++*at;
        return pass_units(at, end);
    }
    if (**at == '\0' || strchr("\"\\/bfnrt", **at) == NULL)
        return SCAN_BAD;
    ++*at;
    return SCAN_WHOLE;
}
