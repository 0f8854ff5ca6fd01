/*
 * plain.h - wire: what a JSON text consists of: runs of bytes that stand for
 * themselves, characters of UTF-8, and escapes.
 *
 * Nearly all texts are plain from one quote to the other: passed over by 16
 * bytes at a time they cost a third of what they cost byte by byte.
 */
#ifndef WIRE_PLAIN_H
#define WIRE_PLAIN_H

#include "wire/scan.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* No quote, no backslash, no control, and not one of several bytes. */
static inline bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

#define PLAIN_BYTES 16u

/* How many of so many bytes, all within reach, are plain, from the first on.
   What has its highest bit set is below a blank, as signed numbers go. */
static inline unsigned plain_bytes(const unsigned char *at)
{
#ifdef __SSE2__
    const __m128i w = _mm_loadu_si128((const __m128i *)at);
    const __m128i low = _mm_cmplt_epi8(w, _mm_set1_epi8(' '));
    const __m128i quote = _mm_cmpeq_epi8(w, _mm_set1_epi8('"'));
    const __m128i slash = _mm_cmpeq_epi8(w, _mm_set1_epi8('\\'));
    const __m128i special = _mm_or_si128(low, _mm_or_si128(quote, slash));

    return (unsigned)__builtin_ctz((unsigned)_mm_movemask_epi8(special) |
        1u << PLAIN_BYTES);
#else
    unsigned n = 0;

    while (n < PLAIN_BYTES && is_plain(at[n]))
        n++;
    return n;
#endif
}

/* The first from @at on that is not plain, or @end. */
static inline const unsigned char *plain_end(const unsigned char *at,
    const unsigned char *end)
{
    for (; end - at >= (ptrdiff_t)PLAIN_BYTES; at += PLAIN_BYTES) {
        unsigned n = plain_bytes(at);
        if (n < PLAIN_BYTES)
            return at + n;
    }
    while (at < end && is_plain(*at))
        at++;
    return at;
}

/*
 * Passes over what is not plain: an escape, at its backslash; a character of
 * several bytes, at its first, which is no ASCII. SCAN_MORE where it is cut off
 * by @end, SCAN_BAD with *at at the first byte that is wrong.
 */
enum scan_found pass_escape(const unsigned char **at, const unsigned char *end);
enum scan_found pass_utf8(const unsigned char **at, const unsigned char *end);

#endif
