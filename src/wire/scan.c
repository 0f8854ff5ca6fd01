/*
 * scan.c - wire: JSON from a stream of bytes (see scan.h).
 */
#include "wire/scan.h"

#include <string.h>

#include "wire/plain.h"

/* Of a number the longest that is one: 64 KiB of digits are none. */
#define NUMBER_BYTES_MAX 64u

/* What a short name, its quotes and its colon take, and the quote of a text. */
#define NAME_BYTES (PLAIN_BYTES + 3)

/* Pointers rather than numbers: a store to a value cannot be one to these. */
struct cursor {
    const unsigned char *at, *end, *begin;
    struct scan_value *values, *next, *room_end;
    struct scan_value
        *open[SCAN_DEPTH_MAX]; /* what we are in, outermost first */
    unsigned depth;
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

/* Up to the closing quote, from a byte on that is not plain. */
static enum scan_found find_rest(struct cursor *c, struct scan_value *v)
{
    enum scan_found found;

    for (; c->at < c->end && *c->at != '"'; c->at = plain_end(c->at, c->end)) {
        if (*c->at == '\\') {
            v->escaped = true;
            found = pass_escape(&c->at, c->end);
        } else if (*c->at >= 0x80) {
            found = pass_utf8(&c->at, c->end);
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

/* At @at there is one; false: no room for it. */
static inline bool add_value(struct cursor *c, const unsigned char *at,
    size_t bytes, enum scan_kind kind)
{
    struct scan_value *v = c->next;

    if (v == c->room_end)
        return false;
    c->next = v + 1;
    *v = (struct scan_value){.begin = (uint32_t)(at - c->begin),
        .bytes = (uint32_t)bytes,
        .span = 1,
        .kind = (uint8_t)kind};
    return true;
}

static enum scan_found find_char(struct cursor *c, char wanted)
{
    skip_blanks(c);
    if (c->at == c->end)
        return SCAN_MORE;
    return skip_one(c, wanted, wanted) ? SCAN_WHOLE : SCAN_BAD;
}

/* At its opening quote. Nearly all texts are plain up to their end. */
static inline enum scan_found find_text(struct cursor *c)
{
    const unsigned char *from = c->at + 1, *at = plain_end(from, c->end);

    if (!add_value(c, from, (size_t)(at - from), SCAN_TEXT))
        return SCAN_MANY;
    c->at = at;
    if (at == c->end || *at != '"')
        return find_rest(c, c->next - 1);
    c->at++;
    return SCAN_WHOLE;
}

static enum scan_kind kind_at(const struct cursor *c)
{
    unsigned char first = *c->at;

    return first == '{' ? SCAN_OBJECT
        : first == '['  ? SCAN_ARRAY
        : first == 'n'  ? SCAN_NULL
        : first == 'f'  ? SCAN_FALSE
        : first == 't'  ? SCAN_TRUE
                        : SCAN_NUMBER;
}

/* No text. An array or object is opened: find_more() goes on. */
static enum scan_found find_other(struct cursor *c)
{
    static const char *const words[] = {"null", "false", "true"};
    enum scan_kind kind = kind_at(c);
    struct scan_value *v = c->next;
    enum scan_found found;

    if (!add_value(c, c->at, 0, kind))
        return SCAN_MANY;
    if (kind == SCAN_OBJECT || kind == SCAN_ARRAY) {
        if (c->depth == SCAN_DEPTH_MAX)
            return SCAN_DEEP;
        c->open[c->depth++] = v;
        c->at++;
        return SCAN_WHOLE;
    }
    found = kind == SCAN_NUMBER ? find_number(c) : find_word(c, words[kind]);
    v->bytes = (uint32_t)(c->at - c->begin) - v->begin;
    return found;
}

static inline enum scan_found find_value(struct cursor *c)
{
    skip_blanks(c);
    if (c->at == c->end)
        return SCAN_MORE;
    return *c->at == '"' ? find_text(c) : find_other(c);
}

/* --- arrays and objects --- */

/*
 * A short name and a text, both plain, and no blanks: as programs write most of
 * their members. False: it has to be looked at more closely. Two values for
 * half of what they cost one after the other, as what is within reach is asked
 * once.
 */
static inline bool find_plain_member(struct cursor *c)
{
    const unsigned char *name = c->at + 1, *text, *text_end;
    unsigned n;

    if (c->end - name < (ptrdiff_t)NAME_BYTES || c->room_end - c->next < 2 ||
        *c->at != '"')
        return false;
    n = plain_bytes(name);
    if (n == PLAIN_BYTES || memcmp(name + n, "\":\"", 3) != 0)
        return false;
    text = name + n + 3;
    text_end = plain_end(text, c->end);
    if (text_end == c->end || *text_end != '"')
        return false;
    add_value(c, name, n, SCAN_TEXT);
    add_value(c, text, (size_t)(text_end - text), SCAN_TEXT);
    c->at = text_end + 1;
    return true;
}

static inline enum scan_found find_any_member(struct cursor *c)
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
    return found == SCAN_WHOLE ? find_value(c) : found;
}

static inline enum scan_found find_members(struct cursor *c)
{
    while (find_plain_member(c))
        if (!skip_one(c, ',', ','))
            return SCAN_WHOLE;
    return find_any_member(c);
}

static void close_list(struct cursor *c, struct scan_value *list)
{
    c->at++;
    c->depth--;
    list->bytes = (uint32_t)(c->at - c->begin) - list->begin;
    list->span = (uint32_t)(c->next - list);
}

/* What comes next in the innermost array or object, or its end. */
static inline enum scan_found find_more(struct cursor *c)
{
    struct scan_value *list = c->open[c->depth - 1];
    bool object = list->kind == SCAN_OBJECT, first = c->next == list + 1;

    skip_blanks(c);
    if (c->at == c->end)
        return SCAN_MORE;
    if (*c->at == (object ? '}' : ']')) {
        close_list(c, list);
        return SCAN_WHOLE;
    }
    if (!first && !skip_one(c, ',', ','))
        return SCAN_BAD;
    return object ? find_members(c) : find_value(c);
}

enum scan_found scan(struct scan *s, const char *bytes, size_t n, size_t *used)
{
    const unsigned char *begin = (const unsigned char *)bytes;
    enum scan_found found;
    struct cursor c; /* not set to zeros: `open` costs more than a value */

    c.at = c.begin = begin;
    c.end = begin + n;
    c.values = c.next = s->values;
    c.room_end = s->values + s->room;
    c.depth = 0;
    found = find_value(&c);
    while (found == SCAN_WHOLE && c.depth > 0)
        found = find_more(&c);
    s->n = (uint32_t)(c.next - c.values);
    *used = (size_t)(c.at - begin);
    return found;
}
