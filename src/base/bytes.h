/*
 * bytes.h - floor 0: copying and reading short runs of bytes.
 *
 * Names, keys and owners are some ten bytes long. For those a call of memcpy
 * costs more than the copy; two moves that overlap do any length from 8 to 16,
 * two halves any from 4 to 7, and no byte outside is touched.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t bytes_load8(const char *p)
{
    uint64_t w;

    memcpy(&w, p, 8);
    return w;
}

static inline uint32_t bytes_load4(const char *p)
{
    uint32_t w;

    memcpy(&w, p, 4);
    return w;
}

/* 0 to 8 bytes as one word: different words for different bytes of one n. */
static inline uint64_t bytes_word(const char *p, size_t n)
{
    if (n >= 4)
        return (uint64_t)bytes_load4(p) << 32 | bytes_load4(p + (n - 4));
    if (n == 0)
        return 0;
    return (uint64_t)(uint8_t)p[0] << 16 | (uint64_t)(uint8_t)p[n / 2] << 8 |
        (uint8_t)p[n - 1];
}

static inline void bytes_copy(char *to, const char *from, size_t n)
{
    uint64_t first, last;

    if (n > 16 || n < 4) {
        memcpy(to, from, n);
        return;
    }
    if (n >= 8) {
        first = bytes_load8(from);
        last = bytes_load8(from + (n - 8));
        memcpy(to, &first, 8);
        memcpy(to + n - 8, &last, 8);
    } else {
        uint32_t head = bytes_load4(from), tail = bytes_load4(from + (n - 4));
        memcpy(to, &head, 4);
        memcpy(to + n - 4, &tail, 4);
    }
}

#endif
