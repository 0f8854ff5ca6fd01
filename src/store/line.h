/*
 * line.h - store: which slots of an index line may hold a tag.
 *
 * Asked three times a pair (find, put in, take out), so that it decides much
 * of what a pair costs. Ten compares and branches are 40 instructions; with
 * SSE2, which every x86-64 has, all ten tags are compared in nine, without a
 * branch. Elsewhere a loop does the same.
 *
 * An empty slot has tag 0, which no object has (index.c): the free slots are
 * found in the same way.
 */
#ifndef STORE_LINE_H
#define STORE_LINE_H

#include "base/atomic.h"
#include "segment/layout.h"

/* A bit for each slot whose tag this is. */
unsigned line_slots_portable(const struct line *line, uint16_t tag);

#ifdef __SSE2__
#include <emmintrin.h>

/* The tags are read as 0..7 and 2..9: one run of 20 bytes, nothing beside. */
HOT unsigned line_slots(const struct line *line, uint16_t tag)
{
    const __m128i want = _mm_set1_epi16((short)tag);
    __m128i low = _mm_loadu_si128((const __m128i *)&line->tag[0]);
    __m128i high = _mm_loadu_si128((const __m128i *)&line->tag[2]);
    unsigned set =
        (unsigned)_mm_movemask_epi8(_mm_packs_epi16(_mm_cmpeq_epi16(low, want),
            _mm_cmpeq_epi16(high, want)));

    return (set & 0xff) | (set >> 6 & 0x300);
}
#else
#define line_slots line_slots_portable
#endif

#endif
