/*
 * hash.h - floor 0: a keyed 64-bit hash of short strings.
 *
 * Multiply-and-fold over 8-byte words. Keyed by the space's random seed, so
 * that keys chosen by an outsider do not all meet in one bucket line. Not for
 * secrets.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 u128;
    u128 r = (u128)a * b;

    return (uint64_t)r ^ (uint64_t)(r >> 64);
}

static inline uint64_t hash_bytes(const char *p, size_t n, uint64_t seed)
{
    uint64_t h = seed ^ UINT64_C(0x9e3779b97f4a7c15) ^ n;

    for (; n > 8; p += 8, n -= 8)
        h = hash_fold(h ^ bytes_load8(p), UINT64_C(0xd6e8feb86659fd93));
    h = hash_fold(h ^ bytes_word(p, n), UINT64_C(0xa3b195354a39b70d));
    return h ^ (h >> 29);
}

#endif
