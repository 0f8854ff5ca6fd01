/*
 * bucket.h - store: which slots of a bucket may hold a tag.
 *
 * A pair of lock and unlock asks this three times (find, put in, take out), so
 * it decides much of what a pair costs. Ten compares and branches are 40
 * instructions; with SSE2, which every x86-64 has, all ten tags are compared in
 * nine, without a branch. Elsewhere a loop does the same.
 *
 * An empty slot has tag 0, which no object has (spot_tag in index.h), so the
 * same question finds the free slots.
 *
 * A bucket is read and written under the latch of its shard only.
 */
#ifndef STORE_BUCKET_H
#define STORE_BUCKET_H

#include "base/atomic.h"
#include "segment/layout.h"

/* A bit for each slot that has this tag: bit i for slot i. A tag is no proof:
   the caller compares the whole key of each candidate. */
unsigned bucket_slots_portable(const struct bucket *bucket, uint16_t tag);

#ifdef __SSE2__
#include <emmintrin.h>

/* The tags are read as 0..7 and 2..9: one run of 20 bytes, nothing beside. */
HOT unsigned bucket_slots(const struct bucket *bucket, uint16_t tag)
{
    const __m128i want = _mm_set1_epi16((short)tag);
    __m128i low = _mm_loadu_si128((const __m128i *)&bucket->tag[0]);
    __m128i high = _mm_loadu_si128((const __m128i *)&bucket->tag[2]);
    unsigned set =
        (unsigned)_mm_movemask_epi8(_mm_packs_epi16(_mm_cmpeq_epi16(low, want),
            _mm_cmpeq_epi16(high, want)));

    return (set & 0xff) | (set >> 6 & 0x300);
}
#else
#define bucket_slots bucket_slots_portable
#endif

#endif
