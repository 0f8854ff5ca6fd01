/*
 * assert.h - base: what only a bug of this process could break.
 *
 * Bytes of the segment are never asserted: another process wrote them. They
 * are checked, and a failed check is ENQ_ECORRUPT.
 */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

#ifdef ENQ_DEBUG
#include <assert.h>
#define enq_assert(x) assert(x)
#else
#define enq_assert(x) ((void)sizeof(x))
#endif

#endif
