/*
 * hash.h - base: a keyed 64-bit hash of short strings.
 *
 * Multiply-and-fold over pairs of 8-byte words. Keyed by the space's random
 * seed, so that keys chosen by an outsider do not all meet in one bucket.
 * Not for secrets.
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

#define HASH_STEP UINT64_C(0xd6e8feb86659fd93)
#define HASH_LAST UINT64_C(0xa3b195354a39b70d)

/* Both factors depend on what nobody outside knows: a constant there could be
   met by chosen bytes, and the product would be zero for all of them. */
static inline uint64_t hash_mix(uint64_t h, struct bytes_ends w, uint64_t salt)
{
    return hash_fold(h ^ w.first, (h << 32 | h >> 32) ^ salt ^ w.last);
}

/* The last 1 to 16 bytes of a text: one multiplication for most names. The length
   shall be told by the highest byte, in which the first 16 multiples differ, and
   where the last word of a text has its zero. In the bits of a letter it would
   be undone by that letter: "w100" and "w1000" had one hash, and their owners
   were one. */
static inline uint64_t hash_end(struct bytes_ends w, size_t n, uint64_t h)
{
    return hash_mix(h, w, HASH_LAST * n);
}

/* n > 16: all but the last 16 bytes or less. */
static inline uint64_t hash_front(const char **p, size_t *n, uint64_t h)
{
    for (; *n > 16; *p += 16, *n -= 16)
        h = hash_mix(h, bytes_ends(*p, 16), HASH_STEP);
    return h;
}

static inline uint64_t hash_bytes(const char *p, size_t n, uint64_t h)
{
    if (n == 0)
        return hash_fold(h, HASH_STEP);
    if (n > 16)
        h = hash_front(&p, &n, h ^ n);
    return hash_end(bytes_ends(p, n), n, h);
}

/* The same, and copies the bytes (n > 0): read once for both. */
static inline uint64_t hash_copy(char *to, const char *p, size_t n, uint64_t h)
{
    struct bytes_ends w;

    if (n > 16) {
        memcpy(to, p, n);
        return hash_bytes(p, n, h);
    }
    w = bytes_ends(p, n);
    bytes_put_ends(to, w, n);
    return hash_end(w, n, h);
}

/* The next throw of somebody's dice, which a moment shakes: of two whose dice
   are alike or whose moments are, all bits differ. A moment in its own bits
   would not do: within a microsecond of each other, all throws would be
   neighbours. */
static inline uint64_t hash_dice(uint64_t dice, uint64_t moment)
{
    return hash_fold(hash_fold((dice + 1) ^ moment, HASH_STEP), HASH_LAST);
}

#endif
