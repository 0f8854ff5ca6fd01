/*
 * value.h - wire: what a value of scan()'s says: texts, integers, words.
 */
#ifndef WIRE_VALUE_H
#define WIRE_VALUE_H

#include "wire/scan.h"

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

#endif
