/*
 * why.c - floor 0: results as texts, and the sentence behind the last one.
 */
#include "base/why.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "enq.h"

static __thread char why_text[512];
static __thread why_words_fn *why_words; /* NULL: why_text is the sentence */
static __thread _Alignas(8) char why_facts[WHY_FACTS_BYTES];

int why(int result, const char *format, ...)
{
    va_list args;

    why_words = NULL;
    va_start(args, format);
    vsnprintf(why_text, sizeof(why_text), format, args);
    va_end(args);
    return result;
}

void *why_later(why_words_fn *words)
{
    why_words = words;
    return why_facts;
}

ENQ_API const char *enq_why(void)
{
    if (why_words != NULL)
        why_words(why_facts, why_text, sizeof(why_text));
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
