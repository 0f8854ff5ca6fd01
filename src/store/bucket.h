/*
 * bucket.h - store: which slots of a bucket may hold a tag.
 *
 * A pair of lock and unlock asks this three times (find, put in, take out), so
 * it decides much of what a pair costs. Eight compares and branches are 32
 * instructions; with SSE2, which every x86-64 has, all eight tags are compared
 * in four, without a branch. Elsewhere a loop does the same.
 *
 * An empty slot has tag 0, which no object has (spot_tag in index.h), so the
 * same question finds the free slots.
 *
 * A bucket is read and written under its latch (ids: the shard's) only; but for
 * the look of a wide scope: may_skip() in lock/scope.c.
 */
#ifndef STORE_BUCKET_H
#define STORE_BUCKET_H

#include <stdbool.h>

#include "base/atomic.h"
#include "segment/layout.h"

/* A bit for each slot that has this tag: bit i for slot i. A tag is no proof:
   the caller compares the whole key of each candidate. */
unsigned bucket_slots_portable(const struct bucket *bucket, uint16_t tag);
/* The same for a name: which may have a key of it? By the tag's high half, and
   the bit that each tag has, as a name's half may be 0. Of a bucket that nobody
   has latched, in one look. */
#define TAG_OF_NAME 0xff01u
unsigned bucket_slots_of_name_portable(const struct bucket *bucket,
    unsigned name);

/* The thread sanitizer does not see that a vector is loaded without a latch on
   purpose. */
#ifdef __SSE2__
#define BUCKET_VECTORS 1
#endif
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#undef BUCKET_VECTORS
#endif
#endif

#ifdef BUCKET_VECTORS
#include <emmintrin.h>

/* 16 bits of all ones become 8 of them: a byte each, of which the mask takes
   one bit. */
HOT unsigned bucket_slots(const struct bucket *bucket, uint16_t tag)
{
    const __m128i want = _mm_set1_epi16((short)tag);
    __m128i tags = _mm_loadu_si128((const __m128i *)bucket->tag);

    return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(_mm_cmpeq_epi16(tags,
                                                           want),
        _mm_setzero_si128()));
}

HOT unsigned bucket_slots_of_name(const struct bucket *bucket, unsigned name)
{
    const __m128i half = _mm_set1_epi16((short)TAG_OF_NAME);
    const __m128i want = _mm_set1_epi16((short)(name << 8 | 1));
    __m128i tags = _mm_loadu_si128((const __m128i *)bucket->tag);

    return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(
        _mm_cmpeq_epi16(_mm_and_si128(tags, half), want), _mm_setzero_si128()));
}
#else
#define bucket_slots bucket_slots_portable
#define bucket_slots_of_name bucket_slots_of_name_portable
#endif

static inline bool bucket_is_empty(const struct bucket *bucket)
{
    return bucket_slots(bucket, 0) == (1u << BUCKET_SLOTS) - 1 &&
        shm_load(&bucket->more) == 0;
}

#endif
