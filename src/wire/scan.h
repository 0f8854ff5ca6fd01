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

/*
 * The text of a value, ended by a zero that takes the place of its closing
 * quote. NULL: it is no text, or has a zero byte in it. Changes @bytes, the
 * first time; the value is one of scan()'s, which found it whole.
 */
const char *scan_text_slow(struct scan_value *v, char *bytes);
static inline const char *scan_text(struct scan_value *v, char *bytes)
{
    if (v->kind != SCAN_TEXT || v->escaped || v->zero)
        return scan_text_slow(v, bytes);
    bytes[v->begin + v->bytes] = '\0';
    return bytes + v->begin;
}

/* An integer that is exact; a fraction is cut off. False: no number, or beyond
   2^63. A text is one as in JavaScript: " 12 ", "0x1f", "1e3", "". An unsigned
   one is digits only. */
bool scan_integer(struct scan_value *v, char *bytes, int64_t *out);
bool scan_unsigned(struct scan_value *v, char *bytes, uint64_t *out);

/* As JavaScript's String(x) has it, for what is no text, array or object: into
   @out, which has room for SCAN_WORD_BYTES. */
#define SCAN_WORD_BYTES 32
const char *scan_word(struct scan_value *v, char *bytes, char *out);

/*
 * Where the value under way may end: for one that comes in pieces, so that each
 * byte is looked at once, however small they are. Begin with zeros. False: not
 * within these bytes. True is a guess: scan() judges.
 */
struct frame {
    uint32_t depth;
    bool text, escape, word;
};

bool frame_ends(struct frame *f, const char *bytes, size_t n);

#endif
