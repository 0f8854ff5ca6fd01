/*
 * fields.h - channel: from the members of a JSON object to those of a struct,
 * by a table. Pure.
 */
#ifndef CHANNEL_FIELDS_H
#define CHANNEL_FIELDS_H

#include <stddef.h>

#include "wire/scan.h"

enum field_kind {
    FIELD_U64,
    FIELD_I64,
    FIELD_I32,
    FIELD_U32,
    FIELD_U8,    /* a number, or true */
    FIELD_TEXT,  /* const char *: into the bytes */
    FIELD_CHARS, /* copied, cut where there is no room */
    FIELD_MODE,  /* uint8_t, of a letter */
    FIELD_DEATH, /* uint8_t, of a word */
    FIELD_VALUE, /* struct scan_value *: as it is */
};

struct field {
    const char *name;
    enum field_kind kind;
    size_t at, bytes;
};

#define FIELD(kind, name, type, member)                                        \
    {                                                                          \
        name, kind, offsetof(type, member), sizeof(((type *)0)->member)        \
    }

/*
 * @v      the object; of anything else nothing is read
 * @out    the struct. What is not told, or is of another kind, stays as it is
 */
void fields_read(char *bytes, struct scan_value *v, const struct field *fields,
    size_t n, void *out);

/* The elements of an array: the first, and the one behind it. NULL: no more. */
struct scan_value *fields_first(struct scan_value *v);
struct scan_value *fields_next(const struct scan_value *array,
    struct scan_value *v);

#endif
