/*
 * why.c - base: results as texts, and the sentence behind the last one.
 */
#include "base/why.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "enq.h"

static __thread char why_text[WHY_BYTES];
static __thread why_words_fn *why_words; /* NULL: why_text is the sentence */
static __thread _Alignas(8) char why_facts[WHY_FACTS_BYTES];

static const char mark[] = "..."; /* what is behind it had no room */

static size_t show_byte(char *out, char byte)
{
    unsigned char b = (unsigned char)byte;

    if (b >= 0x20 && b != 0x7f) {
        *out = byte;
        return 1;
    }
    return (size_t)snprintf(out, sizeof("\\xHH"), "\\x%02x", b);
}

/* One line, whatever the texts are that it quotes. */
static void keep(const char *raw)
{
    size_t used = 0, last = sizeof(why_text) - sizeof("\\xHH...");

    for (; *raw != '\0' && used <= last; raw++)
        used += show_byte(why_text + used, *raw);
    why_text[used] = '\0';
    if (*raw != '\0')
        memcpy(why_text + used, mark, sizeof(mark));
}

int why(int result, const char *format, ...)
{
    char raw[WHY_BYTES];
    va_list args;

    why_words = NULL;
    va_start(args, format);
    vsnprintf(raw, sizeof(raw), format, args);
    va_end(args);
    keep(raw);
    return result;
}

void why_copy(char *out, size_t n, const char *text)
{
    if ((size_t)snprintf(out, n, "%s", text) >= n)
        memcpy(out + n - sizeof(mark), mark, sizeof(mark));
}

void why_ms(char out[WHY_MS_BYTES], int64_t ms)
{
    long long s = ms / 1000, tenth = ms % 1000 / 100;

    if (ms < 1000)
        snprintf(out, WHY_MS_BYTES, "%lld ms", (long long)ms);
    else if (s < 10 && tenth != 0)
        snprintf(out, WHY_MS_BYTES, "%lld.%lld s", s, tenth);
    else if (s < 60)
        snprintf(out, WHY_MS_BYTES, "%lld s", s);
    else if (s < 3600)
        snprintf(out, WHY_MS_BYTES, "%lld min %lld s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, WHY_MS_BYTES, "%lld h %lld min", s / 3600, s / 60 % 60);
    else
        snprintf(out, WHY_MS_BYTES, "%lld d %lld h", s / 86400, s / 3600 % 24);
}

void *why_later(why_words_fn *words)
{
    why_words = words;
    return why_facts;
}

ENQ_API const char *enq_why(void)
{
    char raw[WHY_BYTES];

    if (why_words != NULL) {
        why_words(why_facts, raw, sizeof(raw));
        keep(raw);
    }
    why_words = NULL;
    return why_text[0] != '\0' ? why_text : "nothing went wrong so far";
}

static const struct {
    int value;
    const char *name, *text;
} results[] = {
#define X(name, value, text) {(value), #name, (text)},
    ENQ_RESULT_MAP(X)
#undef X
};

/* Of a result that is not ours. The C library has no words for a number that is
   no errno, large or negative: INT_MIN's is the same again. */
static int errno_of(int result)
{
    return (int)-(unsigned)result;
}

ENQ_API const char *enq_strerror(int result)
{
    const char *text;

    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i].value == result)
            return results[i].text;
    text = strerrordesc_np(errno_of(result));
    return text != NULL ? text : "unknown result";
}

ENQ_API const char *enq_result_name(int result)
{
    const char *name;

    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i].value == result)
            return results[i].name;
    name = strerrorname_np(errno_of(result));
    return name != NULL ? name : "UNKNOWN";
}

ENQ_API int enq_version(void)
{
    return ENQ_VERSION_MAJOR * 10000 + ENQ_VERSION_MINOR * 100 +
        ENQ_VERSION_PATCH;
}
