/*
 * text.c - see text.h. Pure.
 */
#include "text.h"

#include <enq.h>
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
bool text_is_fit(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } acted_upon[] = {
        {0x00, 0x1f},
        {0x7f, 0x9f},
        {0x61c, 0x61c},
        {0x200b, 0x200f},
        {0x2028, 0x202e},
        {0x2060, 0x206f},
        {0xfeff, 0xfeff},
    };

    for (size_t i = 0; i < sizeof(acted_upon) / sizeof(acted_upon[0]); i++)
        if (code >= acted_upon[i].first && code <= acted_upon[i].last)
            return false;
    return true;
}

size_t text_fit(const char *s)
{
    uint32_t code;
    size_t n = text_sequence(s, &code);

    return n > 0 && text_is_fit(code) ? n : 0;
}

/* --- bounded --- */

struct writer {
    char *out;
    size_t n, used;
    size_t whole; /* used so far, with room for the dots behind it */
    bool cut;
};

static const char dots[] = "...";

static void put(struct writer *w, const char *piece, size_t n)
{
    if (w->cut || w->used + n >= w->n) {
        w->cut = true;
        return;
    }
    memcpy(w->out + w->used, piece, n);
    w->used += n;
    if (w->used + sizeof(dots) <= w->n)
        w->whole = w->used;
}

static size_t put_end(struct writer *w)
{
    if (w->cut && w->n >= sizeof(dots)) {
        memcpy(w->out + w->whole, dots, sizeof(dots) - 1);
        w->used = w->whole + sizeof(dots) - 1;
    }
    w->out[w->used] = '\0';
    return w->used;
}

static void put_byte(struct writer *w, char byte)
{
    char piece[8];

    snprintf(piece, sizeof(piece), "\\x%02x", (unsigned char)byte);
    put(w, piece, 4);
}

size_t text_clean(char *out, size_t n, const char *in)
{
    struct writer w = {.out = out, .n = n};

    while (*in != '\0' && !w.cut) {
        size_t take = text_fit(in);
        if (take == 0)
            put_byte(&w, *in);
        else
            put(&w, in, take);
        in += take == 0 ? 1 : take;
    }
    return put_end(&w);
}

size_t text_fit_name(const char *name, const char *at)
{
    bool loose = at == name || at[-1] == ' ' || at[1] == '\0';

    return *at == ' ' && loose ? 0 : text_fit(at);
}

static void put_name(struct writer *w, const char *in, char quote)
{
    for (const char *at = in; *at != '\0';) {
        size_t take = text_fit_name(in, at);
        if (take == 0)
            put_byte(w, *at++);
        if (take == 1 && (*at == '\\' || *at == quote))
            put(w, "\\", 1);
        put(w, at, take);
        at += take;
    }
}

size_t text_name(char *out, size_t n, const char *in)
{
    struct writer w = {.out = out, .n = n};

    put_name(&w, in, '\\');
    return put_end(&w);
}

size_t text_quoted(char *out, size_t n, const char *in)
{
    struct writer w = {.out = out, .n = n};
    bool plain = strpbrk(in, " \"'(),;:") == NULL;

    if (!plain)
        put(&w, "\"", 1);
    put_name(&w, in, plain ? '\\' : '"');
    if (!plain)
        put(&w, "\"", 1);
    return put_end(&w);
}

void text_vformat(char *out, size_t n, const char *format, va_list args)
{
    int wanted = vsnprintf(out, n, format, args);
    size_t end = n - sizeof(dots);

    if (wanted < 0 || (size_t)wanted < n)
        return;
    while (end > 0 && ((unsigned char)out[end] & 0xc0) == 0x80)
        end--; /* of a character's bytes but the first */
    memcpy(out + end, dots, sizeof(dots));
}

void text_format(char *out, size_t n, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text_vformat(out, n, format, args);
    va_end(args);
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

void text_time(char *out, size_t n, int64_t ms)
{
    long long s = ms / 1000, tenth = ms % 1000 / 100;

    if (ms < 1000)
        snprintf(out, n, "%lld ms", (long long)ms);
    else if (s < 10 && tenth != 0)
        snprintf(out, n, "%lld.%lld s", s, tenth);
    else if (s < 60)
        snprintf(out, n, "%lld s", s);
    else if (s < 3600)
        snprintf(out, n, "%lld min %lld s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, n, "%lld h %lld min", s / 3600, s / 60 % 60);
    else
        snprintf(out, n, "%lld d %lld h", s / 86400, s / 3600 % 24);
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
