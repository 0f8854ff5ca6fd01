/*
 * atomic.h - base: the vocabulary for every word that another process may
 * read or write at the same time.
 *
 * The compiler's builtins and not liburcu's uatomic_*: uatomic in liburcu 0.13
 * is inline assembly, which ThreadSanitizer cannot see, and has no acquire
 * and release (DECISIONS.md). All are address-free: they act on bytes mapped
 * at different addresses.
 *
 * Each use names its partner: the function that loads what is stored here, or
 * stores what is loaded (sync/ATOMICS.md). Loads and stores under a latch need
 * no order; they use the macros where others read without it, and so that the
 * crash tests see each store.
 */
#ifndef BASE_ATOMIC_H
#define BASE_ATOMIC_H

#include "base/point.h"

#define shm_load(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define shm_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
/* Full barrier between every earlier shm_cas, shm_add ... and this load. */
#define shm_load_fence(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define shm_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* A variable that is set once, by a compare-and-swap, read by a thread that has
   been through that: a plain load. Others may still try the swap, which fails
   and writes nothing; the thread sanitizer calls that a race, and so gets an
   atomic load. */
#define shm_once(variable) (variable)
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#undef shm_once
#define shm_once(variable) shm_load(&(variable))
#endif
#endif

/* What others may see of a value that is written without any order: under a
   latch, say. In the crash profile the process may die right behind each
   of these. */
#define shm_store(p, v)                                                        \
    do {                                                                       \
        __atomic_store_n((p), (v), __ATOMIC_RELAXED);                          \
        STORE_POINT();                                                         \
    } while (0)
#define shm_store_release(p, v)                                                \
    do {                                                                       \
        __atomic_store_n((p), (v), __ATOMIC_RELEASE);                          \
        STORE_POINT();                                                         \
    } while (0)
/* Full barrier between this store and every later load. */
#define shm_store_fence(p, v) ((void)shm_swap((p), (v)))

#define SHM_STORED(expression)                                                 \
    __extension__({                                                            \
        __typeof__(expression) shm_was = (expression);                         \
        STORE_POINT();                                                         \
        shm_was;                                                               \
    })
#define shm_swap(p, v)                                                         \
    SHM_STORED(__atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST))
#define shm_add(p, v) SHM_STORED(__atomic_add_fetch((p), (v), __ATOMIC_SEQ_CST))
#define shm_and(p, v) SHM_STORED(__atomic_fetch_and((p), (v), __ATOMIC_SEQ_CST))
#define shm_or(p, v) SHM_STORED(__atomic_fetch_or((p), (v), __ATOMIC_SEQ_CST))

/* True when *p was `*expected` and is `v` now; else *expected is what it is. */
#define shm_cas(p, expected, v)                                                \
    SHM_STORED(__atomic_compare_exchange_n((p), (expected), (v), 0,            \
        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))

/* Functions of the uncontended pair: a call of each would cost more than what
   it does (the pair: 1,890 instructions with calls, 1,200 without). */
#define HOT static inline __attribute__((always_inline))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#endif
