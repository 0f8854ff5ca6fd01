/*
 * words.c - the small change of the scenario language: durations, splitting,
 * result names, mode letters, overlap of keys. Pure functions; the overlap is
 * written here once more, on purpose, and not taken from the library.
 */
#include "spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* "50ms", "5s", "15m", "0", "-2", "forever" */
bool parse_ms(const char *text, int64_t *ms)
{
    char *end;

    if (strcmp(text, "forever") == 0) {
        *ms = ENQ_FOREVER;
        return true;
    }
    *ms = strtoll(text, &end, 10);
    if (end == text)
        return false;
    if (strcmp(end, "s") == 0)
        *ms *= 1000;
    else if (strcmp(end, "m") == 0)
        *ms *= 60000;
    else if (strcmp(end, "ms") != 0 && *end != 0)
        return false;
    return true;
}

/* "20ms..1s", or one duration for both ends */
bool parse_range(const char *text, int64_t *low, int64_t *high)
{
    char first[32];
    const char *dots = strstr(text, "..");

    if (dots == NULL) {
        *high = 0;
        return parse_ms(text, low) && parse_ms(text, high);
    }
    if ((size_t)(dots - text) >= sizeof(first))
        return false;
    memcpy(first, text, (size_t)(dots - text));
    first[dots - text] = 0;
    return parse_ms(first, low) && parse_ms(dots + 2, high);
}

static char *word_end(char *p)
{
    if (*p == '[')
        while (*p != 0 && *p != ']')
            p++;
    while (*p != 0 && !isspace((unsigned char)*p))
        p++;
    return p;
}

/* Cuts text at blanks, in place; "[a b]" is one word. -1: too many. */
int split(char *text, char **words, int max)
{
    int n = 0;

    for (char *p = text;;) {
        while (isspace((unsigned char)*p))
            p++;
        if (*p == 0)
            return n;
        if (n == max)
            return -1;
        words[n++] = p;
        p = word_end(p);
        if (*p != 0)
            *p++ = 0;
    }
}

/* of "key=value"; NULL when the word is something else */
const char *value_of(const char *word, const char *key)
{
    size_t n = strlen(key);

    if (strncmp(word, key, n) != 0 || word[n] != '=')
        return NULL;
    return word + n + 1;
}

const char *bare(const char *word)
{
    return strcmp(word, "\"\"") == 0 ? "" : word;
}

static const struct {
    int result;
    const char *name;
} results[] = {
#define X(name, value, text) {name, #name},
    ENQ_RESULT_MAP(X)
#undef X
        {-EINVAL, "ENQ_einval"},
    {-ENAMETOOLONG, "ENQ_enametoolong"},
    {-EOPNOTSUPP, "ENQ_eopnotsupp"},
    {-EROFS, "ENQ_erofs"},
    {-ENOENT, "ENQ_enoent"},
    {-E2BIG, "ENQ_e2big"},
    {-EAGAIN, "ENQ_eagain"},
    {-ENOSPC, "ENQ_enospc"},
    {-ENOMEM, "ENQ_enomem"},
    {-EACCES, "ENQ_eacces"},
};

/* ENQ_BUSY is "busy", ENQ_EFULL is "full", -EINVAL is "einval" */
const char *result_word(int result)
{
    static char word[32];
    size_t n = 0;
    const char *name = NULL;

    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i].result == result)
            name = results[i].name + 4;
    if (name == NULL)
        return "a result without a name";
    if (result <= ENQ_EVERSION)
        name++;
    for (; n < sizeof(word) - 1 && name[n] != 0; n++)
        word[n] = (char)tolower((unsigned char)name[n]);
    word[n] = 0;
    return word;
}

bool result_known(const char *word)
{
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (strcmp(result_word(results[i].result), word) == 0)
            return true;
    return false;
}

char mode_letter(int mode)
{
    return mode >= ENQ_MODE_S && mode <= ENQ_MODE_O ? " SEXO"[mode] : '?';
}

/* 0, which is no mode, when the word is none */
enum enq_mode mode_of(const char *word)
{
    static const char letters[] = "SEXO";
    const char *at = word[0] != 0 ? strchr(letters, word[0]) : NULL;

    if (at == NULL || word[1] != 0)
        return (enum enq_mode)0;
    return (enum enq_mode)(at - letters + ENQ_MODE_S);
}

static bool generic(const struct object *o, const char *field, uint32_t i)
{
    return strcmp(field, "@") == 0 && !(o->literal >> i & 1);
}

bool objects_overlap(const struct object *a, const struct object *b)
{
    const char *fa = a->key, *fb = b->key;

    if (strcmp(a->name, b->name) != 0 || a->fields != b->fields)
        return false;
    for (uint32_t i = 0; i < a->fields; i++) {
        if (strcmp(fa, fb) != 0 && !generic(a, fa, i) && !generic(b, fb, i))
            return false;
        fa += strlen(fa) + 1;
        fb += strlen(fb) + 1;
    }
    return true;
}
