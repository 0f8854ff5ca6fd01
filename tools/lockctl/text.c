/*
 * text.c - see text.h. Pure.
 */
#include "text.h"

#include <enq.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

size_t text_sequence(const char *s, uint32_t *code)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {
        {0x80, 0x00, 0},
        {0xe0, 0xc0, 0x80},
        {0xf0, 0xe0, 0x800},
        {0xf8, 0xf0, 0x10000},
    };
    const unsigned char *u = (const unsigned char *)s;
    size_t n = 0;

    while (n < 4 && (u[0] & forms[n].mask) != forms[n].lead)
        n++;
    if (n == 4)
        return 0;
    *code = u[0] & (unsigned char)~forms[n].mask;
    for (size_t i = 1; i <= n; i++) {
        if ((u[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (u[i] & 0x3f);
    }
    bool surrogate = *code >= 0xd800 && *code <= 0xdfff;
    if (*code < forms[n].least || *code > 0x10ffff || surrogate)
        return 0;
    return n + 1;
}

/* The line and paragraph separators and the marks that turn the direction
   of writing would let a name disguise the rest of its row. */
static bool is_harmless(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } acted_upon[] = {
        {0x00, 0x1f},
        {0x7f, 0x9f},
        {0x61c, 0x61c},
        {0x200e, 0x200f},
        {0x2028, 0x202e},
        {0x2066, 0x2069},
        {0xfeff, 0xfeff},
    };

    for (size_t i = 0; i < sizeof(acted_upon) / sizeof(acted_upon[0]); i++)
        if (code >= acted_upon[i].first && code <= acted_upon[i].last)
            return false;
    return true;
}

size_t text_clean(char *out, size_t n, const char *in)
{
    size_t used = 0;

    while (*in != '\0') {
        uint32_t code;
        char piece[8];
        size_t take = text_sequence(in, &code);
        if (take == 0 || !is_harmless(code)) {
            take = 1;
            snprintf(piece, sizeof(piece), "\\x%02x", (unsigned char)*in);
        } else {
            snprintf(piece, sizeof(piece), "%.*s", (int)take, in);
        }
        size_t more = strlen(piece);
        if (used + more >= n)
            break;
        memcpy(out + used, piece, more);
        used += more;
        in += take;
    }
    out[used] = '\0';
    return used;
}

size_t text_width(const char *clean)
{
    size_t width = 0;

    for (; *clean != '\0'; clean++)
        width += (*clean & 0xc0) != 0x80;
    return width;
}

void text_duration(char *out, size_t n, int64_t ms)
{
    int64_t s = ms / 1000;

    if (ms == ENQ_FOREVER)
        snprintf(out, n, "none");
    else if (s < 1)
        snprintf(out, n, "%dms", (int)ms);
    else if (s < 60)
        snprintf(out, n, "%ds", (int)s);
    else if (s < 3600)
        snprintf(out, n, "%dm%02ds", (int)(s / 60), (int)(s % 60));
    else if (s < 86400)
        snprintf(out, n, "%dh%02dm", (int)(s / 3600), (int)(s / 60 % 60));
    else
        snprintf(out, n, "%lldd%02dh", (long long)(s / 86400),
            (int)(s / 3600 % 24));
}

void text_wall_clock(char *out, size_t n, int64_t ms)
{
    time_t s = (time_t)(ms / 1000);
    char day[32];
    struct tm tm;

    if (gmtime_r(&s, &tm) == NULL)
        memset(&tm, 0, sizeof(tm));
    strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, n, "%s.%03dZ", day, (int)(ms % 1000));
}
