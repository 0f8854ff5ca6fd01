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
    size_t used = 0, room = sizeof(why_text) - sizeof(mark) - sizeof("\\xHH");

    for (; *raw != '\0' && used < room; raw++)
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

ENQ_API const char *enq_strerror(int result)
{
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i].value == result)
            return results[i].text;
    if (result < 0 && result > -4096) {
        const char *text = strerrordesc_np(-result);
        if (text != NULL)
            return text;
    }
    return "unknown result";
}

ENQ_API const char *enq_result_name(int result)
{
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i].value == result)
            return results[i].name;
    if (result < 0 && result > -4096) {
        const char *name = strerrorname_np(-result);
        if (name != NULL)
            return name;
    }
    return "UNKNOWN";
}

ENQ_API int enq_version(void)
{
    return ENQ_VERSION_MAJOR * 10000 + ENQ_VERSION_MINOR * 100 +
        ENQ_VERSION_PATCH;
}
