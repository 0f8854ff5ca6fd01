/*
 * scan.c - floor 1: JSON from a stream of bytes (see scan.h).
 */
#include "wire/scan.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Of a number the longest that is one: 64 KiB of digits are none. */
#define NUMBER_BYTES_MAX 64u

struct cursor {
    const unsigned char *at, *end, *begin;
    struct scan_value *values;
    uint32_t room, n;
};

/* --- words --- */

static void skip_blanks_slow(struct cursor *c)
{
    while (c->at < c->end &&
        (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t'))
        c->at++;
}

/* Programs send none. */
static inline void skip_blanks(struct cursor *c)
{
    if (c->at < c->end && *c->at <= ' ')
        skip_blanks_slow(c);
}

static enum scan_found find_word(struct cursor *c, const char *word)
{
    for (; *word != '\0'; word++, c->at++) {
        if (c->at == c->end)
            return SCAN_MORE;
        if (*c->at != (unsigned char)*word)
            return SCAN_BAD;
    }
    return SCAN_WHOLE;
}

static bool is_digit(const struct cursor *c)
{
    return c->at < c->end && *c->at >= '0' && *c->at <= '9';
}

static enum scan_found find_digits(struct cursor *c)
{
    if (c->at == c->end)
        return SCAN_MORE;
    if (!is_digit(c))
        return SCAN_BAD;
    while (is_digit(c))
        c->at++;
    return SCAN_WHOLE;
}

static inline bool skip_one(struct cursor *c, char a, char b)
{
    if (c->at == c->end || (*c->at != a && *c->at != b))
        return false;
    c->at++;
    return true;
}

/* At the end of the bytes a number may go on. */
static enum scan_found find_number(struct cursor *c)
{
    const unsigned char *begin = c->at;
    enum scan_found found = SCAN_WHOLE;

    skip_one(c, '-', '-');
    if (!skip_one(c, '0', '0'))
        found = find_digits(c);
    if (found == SCAN_WHOLE && skip_one(c, '.', '.'))
        found = find_digits(c);
    if (found == SCAN_WHOLE && skip_one(c, 'e', 'E')) {
        skip_one(c, '+', '-');
        found = find_digits(c);
    }
    if ((size_t)(c->at - begin) > NUMBER_BYTES_MAX)
        return SCAN_BAD;
    return found == SCAN_WHOLE && c->at == c->end ? SCAN_MORE : found;
}

/* --- texts --- */

static int hex_digit(unsigned char h)
{
    if (h >= '0' && h <= '9')
        return h - '0';
    h |= 0x20;
    return h >= 'a' && h <= 'f' ? h - 'a' + 10 : -1;
}

static enum scan_found find_unit(struct cursor *c, int32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++, c->at++) {
        if (c->at == c->end)
            return SCAN_MORE;
        if (hex_digit(*c->at) < 0)
            return SCAN_BAD;
        *unit = *unit << 4 | hex_digit(*c->at);
    }
    return SCAN_WHOLE;
}

#define IS_HIGH(unit) ((unit) >= 0xd800 && (unit) <= 0xdbff)
#define IS_LOW(unit) ((unit) >= 0xdc00 && (unit) <= 0xdfff)

/* What cannot become a pair any more is told at once: nothing may follow. */
static enum scan_found find_units(struct cursor *c)
{
    int32_t unit, low = 0;
    enum scan_found found = find_unit(c, &unit);

    if (found != SCAN_WHOLE)
        return found;
    if (IS_LOW(unit))
        return SCAN_BAD;
    if (!IS_HIGH(unit))
        return SCAN_WHOLE;
    found = find_word(c, "\\u");
    if (found == SCAN_WHOLE)
        found = find_unit(c, &low);
    return found == SCAN_WHOLE && !IS_LOW(low) ? SCAN_BAD : found;
}

static enum scan_found find_escape(struct cursor *c)
{
    c->at++;
    if (c->at == c->end)
        return SCAN_MORE;
    if (*c->at == 'u') {
        c->at++;
        return find_units(c);
    }
    if (*c->at == '\0' || strchr("\"\\/bfnrt", *c->at) == NULL)
        return SCAN_BAD;
    c->at++;
    return SCAN_WHOLE;
}

/* The first byte says how many follow, and between what the second lies
   (Unicode 15, table 3-7); the others between 0x80 and 0xbf. */
static enum scan_found find_utf8(struct cursor *c)
{
    unsigned char first = *c->at, low = 0x80, high = 0xbf;
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
    for (c->at++; more > 0; more--, c->at++, low = 0x80, high = 0xbf) {
        if (c->at == c->end)
            return SCAN_MORE;
        if (*c->at < low || *c->at > high)
            return SCAN_BAD;
    }
    return SCAN_WHOLE;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

#ifdef __SSE2__
/* Of 16 bytes those that are not plain, a bit each. What has its highest bit
   set is below a blank, too, as signed numbers go. */
static inline unsigned special_of(const unsigned char *at)
{
    const __m128i w = _mm_loadu_si128((const __m128i *)at);

    return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_cmplt_epi8(w,
                                                        _mm_set1_epi8(' ')),
        _mm_or_si128(_mm_cmpeq_epi8(w, _mm_set1_epi8('"')),
            _mm_cmpeq_epi8(w, _mm_set1_epi8('\\')))));
}
#endif

/* The next byte that is not plain: a quote, a backslash, a control, or one of
   several of a character. */
static inline const unsigned char *plain_end(const unsigned char *at,
    const unsigned char *end)
{
#ifdef __SSE2__
    for (; end - at >= 16; at += 16) {
        unsigned special = special_of(at);
        if (special != 0)
            return at + __builtin_ctz(special);
    }
#endif
    while (at < end && is_plain(*at))
        at++;
    return at;
}

/* Up to the closing quote, from a byte on that is not plain. */
static enum scan_found find_rest(struct cursor *c, struct scan_value *v)
{
    enum scan_found found;

    for (; c->at < c->end && *c->at != '"'; c->at = plain_end(c->at, c->end)) {
        if (*c->at == '\\') {
            v->escaped = true;
            found = find_escape(c);
        } else if (*c->at >= 0x80) {
            found = find_utf8(c);
        } else {
            found = SCAN_BAD;
        }
        if (found != SCAN_WHOLE)
            return found;
    }
    if (c->at == c->end)
        return SCAN_MORE;
    v->bytes = (uint32_t)(c->at++ - c->begin) - v->begin;
    return SCAN_WHOLE;
}

/* --- values --- */

/* NULL: there is no room for another. */
static inline struct scan_value *add_value(struct cursor *c,
    enum scan_kind kind)
{
    struct scan_value *v = &c->values[c->n];

    if (c->n == c->room)
        return NULL;
    c->n++;
    *v = (struct scan_value){.begin = (uint32_t)(c->at - c->begin),
        .next = c->n,
        .kind = (uint8_t)kind};
    return v;
}

/* At its opening quote. Nearly all texts are plain up to their end. */
static inline enum scan_found find_text(struct cursor *c)
{
    struct scan_value *v = add_value(c, SCAN_TEXT);
    const unsigned char *at;

    if (v == NULL)
        return SCAN_MANY;
    v->begin++;
    at = plain_end(c->at + 1, c->end);
    if (at < c->end && *at == '"') {
        v->bytes = (uint32_t)(at - c->begin) - v->begin;
        c->at = at + 1;
        return SCAN_WHOLE;
    }
    c->at = at;
    return find_rest(c, v);
}

static enum scan_found find_value(struct cursor *c, unsigned depth);

static enum scan_found find_char_slow(struct cursor *c, char wanted)
{
    skip_blanks(c);
    if (c->at == c->end)
        return SCAN_MORE;
    return skip_one(c, wanted, wanted) ? SCAN_WHOLE : SCAN_BAD;
}

/* Mostly it is there, without blanks before it. */
static inline enum scan_found find_char(struct cursor *c, char wanted)
{
    return skip_one(c, wanted, wanted) ? SCAN_WHOLE : find_char_slow(c, wanted);
}

static inline enum scan_found find_member(struct cursor *c, unsigned depth)
{
    enum scan_found found;

    skip_blanks(c);
    if (c->at == c->end)
        return SCAN_MORE;
    if (*c->at != '"')
        return SCAN_BAD;
    found = find_text(c);
    if (found == SCAN_WHOLE)
        found = find_char(c, ':');
    if (found != SCAN_WHOLE)
        return found;
    return c->at < c->end && *c->at == '"' ? find_text(c)
                                           : find_value(c, depth);
}

static bool goes_on(struct cursor *c)
{
    skip_blanks(c);
    return skip_one(c, ',', ',');
}

static enum scan_found find_list(struct cursor *c, unsigned depth, char close)
{
    enum scan_found found;

    if (depth == SCAN_DEPTH_MAX)
        return SCAN_DEEP;
    c->at++;
    if (find_char(c, close) == SCAN_WHOLE)
        return SCAN_WHOLE;
    do
        found =
            close == '}' ? find_member(c, depth + 1) : find_value(c, depth + 1);
    while (found == SCAN_WHOLE && goes_on(c));
    return found == SCAN_WHOLE ? find_char(c, close) : found;
}

static enum scan_kind kind_at(const struct cursor *c)
{
    switch (*c->at) {
    case '{':
        return SCAN_OBJECT;
    case '[':
        return SCAN_ARRAY;
    case 'n':
        return SCAN_NULL;
    case 'f':
        return SCAN_FALSE;
    case 't':
        return SCAN_TRUE;
    default:
        return SCAN_NUMBER;
    }
}

static enum scan_found find_any(struct cursor *c, unsigned depth,
    enum scan_kind kind)
{
    static const char *const words[] = {"null", "false", "true"};

    if (kind == SCAN_OBJECT || kind == SCAN_ARRAY)
        return find_list(c, depth, kind == SCAN_OBJECT ? '}' : ']');
    return kind == SCAN_NUMBER ? find_number(c) : find_word(c, words[kind]);
}

static enum scan_found find_value(struct cursor *c, unsigned depth)
{
    struct scan_value *v;
    enum scan_found found;

    skip_blanks(c);
    if (c->at == c->end)
        return SCAN_MORE;
    if (*c->at == '"')
        return find_text(c);
    v = add_value(c, kind_at(c));
    if (v == NULL)
        return SCAN_MANY;
    found = find_any(c, depth, v->kind);
    v->bytes = (uint32_t)(c->at - c->begin) - v->begin;
    v->next = c->n;
    return found;
}

enum scan_found scan(struct scan *s, const char *bytes, size_t n, size_t *used)
{
    const unsigned char *begin = (const unsigned char *)bytes;
    struct cursor c = {begin, begin + n, begin, s->values, s->room, 0};
    enum scan_found found = find_value(&c, 0);

    s->n = c.n;
    *used = (size_t)(c.at - begin);
    return found;
}
