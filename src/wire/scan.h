/*
 * scan.h - wire: JSON from a stream of bytes, in place. Pure: no memory, no
 * system call, nothing kept between calls but what the caller keeps.
 *
 *	bytes of a read --> frame_end() --> scan() --> values --> scan_text()
 *...
 *
 * What is read is not changed until a whole value has been found; then its
 * texts are unescaped where they lie. RFC 8259, and no more: UTF-8 is checked,
 * surrogates come in pairs, numbers have their form.
 */
#ifndef WIRE_SCAN_H
#define WIRE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCAN_DEPTH_MAX 16u

enum scan_kind {
    SCAN_NULL,
    SCAN_FALSE,
    SCAN_TRUE,
    SCAN_NUMBER,
    SCAN_TEXT,
    SCAN_ARRAY,
    SCAN_OBJECT, /* its keys and values take turns */
};

struct scan_value {
    uint32_t begin, bytes; /* as it was sent; of a text: between its quotes */
    uint32_t span;         /* itself, and all values that are in it */
    uint8_t kind;
    bool escaped; /* there is something to unescape still */
    bool zero;    /* there was a zero byte among it */
};

enum scan_found {
    SCAN_WHOLE, /* a value */
    SCAN_MORE,  /* so far the begin of one, or blanks */
    SCAN_BAD,   /* no JSON */
    SCAN_DEEP,  /* deeper than SCAN_DEPTH_MAX */
    SCAN_MANY,  /* more values than there is room for */
};

struct scan {
    struct scan_value *values; /* the caller's */
    uint32_t room, n;
};

/*
 * The first value of @bytes: s->values[0]. @used: the bytes up to its end, or
 * to what is wrong. @n < 2^32.
 */
enum scan_found scan(struct scan *s, const char *bytes, size_t n, size_t *used);

#endif
