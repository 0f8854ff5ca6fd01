/*
 * fields.c - channel: from JSON to structs (see fields.h).
 */
#include "channel/fields.h"

#include <string.h>

#include "rules/mode.h"
#include "wire/value.h"

/* --- values --- */

static void read_u8(struct scan_value *v, char *bytes, uint8_t *out)
{
    uint64_t number;

    if (v->kind == SCAN_TRUE || v->kind == SCAN_FALSE)
        *out = v->kind == SCAN_TRUE;
    else if (scan_unsigned(v, bytes, &number) && number <= UINT8_MAX)
        *out = (uint8_t)number;
}

static void read_chars(const char *text, char *out, size_t bytes)
{
    size_t n = strlen(text);

    if (n >= bytes)
        n = bytes - 1;
    memcpy(out, text, n);
    out[n] = '\0';
}

static uint8_t death_of(const char *word)
{
    switch (word[0]) {
    case 'l':
        return ENQ_DEATH_LEASE;
    case 'k':
        return ENQ_DEATH_KEEP;
    default:
        return ENQ_DEATH_RELEASE;
    }
}

static void read_word(const struct field *f, const char *text, void *out)
{
    switch (f->kind) {
    case FIELD_TEXT:
        *(const char **)out = text;
        break;
    case FIELD_CHARS:
        read_chars(text, out, f->bytes);
        break;
    case FIELD_MODE:
        *(uint8_t *)out = (uint8_t)mode_from_letter(text);
        break;
    default:
        *(uint8_t *)out = death_of(text);
        break;
    }
}

static void read_integer(const struct field *f, int64_t number, void *out)
{
    if (f->kind == FIELD_I64)
        *(int64_t *)out = number;
    else if (f->kind == FIELD_I32)
        *(int32_t *)out = (int32_t)number;
    else
        *(uint32_t *)out = (uint32_t)number;
}

static void read_one(char *bytes, const struct field *f, struct scan_value *v,
    void *out)
{
    const char *text;
    int64_t number;

    switch (f->kind) {
    case FIELD_VALUE:
        *(struct scan_value **)out = v;
        break;
    case FIELD_U64:
        (void)scan_unsigned(v, bytes, out);
        break;
    case FIELD_U8:
        read_u8(v, bytes, out);
        break;
    case FIELD_I64:
    case FIELD_I32:
    case FIELD_U32:
        if (scan_integer(v, bytes, &number))
            read_integer(f, number, out);
        break;
    default:
        text = scan_text(v, bytes);
        if (text != NULL)
            read_word(f, text, out);
        break;
    }
}

/* --- objects --- */

/* Members come in the order of the table, mostly: the search goes on where the
   one before has ended. */
static const struct field *find(const struct field *fields, size_t n,
    const char *name, size_t *at)
{
    for (size_t tried = 0; tried < n; tried++, ++*at) {
        if (*at >= n)
            *at = 0;
        if (fields[*at].name[0] == name[0] &&
            strcmp(fields[*at].name, name) == 0)
            return &fields[(*at)++];
    }
    return NULL;
}

void fields_read(char *bytes, struct scan_value *v, const struct field *fields,
    size_t n, void *out)
{
    struct scan_value *at = v + 1, *end = v + v->span;
    size_t hint = 0;

    if (v->kind != SCAN_OBJECT)
        return;
    for (; at < end; at += 1 + at[1].span) {
        const char *name = scan_text(at, bytes);
        const struct field *f =
            name == NULL ? NULL : find(fields, n, name, &hint);

        if (f != NULL)
            read_one(bytes, f, at + 1, (char *)out + f->at);
    }
}

/* --- arrays --- */

struct scan_value *fields_first(struct scan_value *v)
{
    if (v == NULL || v->kind != SCAN_ARRAY || v->span == 1)
        return NULL;
    return v + 1;
}

struct scan_value *fields_next(const struct scan_value *array,
    struct scan_value *v)
{
    struct scan_value *next = v + v->span;

    return next < array + array->span ? next : NULL;
}
