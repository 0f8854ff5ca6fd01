/*
 * bytes.h - base: copying and reading short runs of bytes. Private memory only,
 * or bytes that no other thread writes: nothing here is atomic.
 *
 * Names, keys and owners are some ten bytes long. For those a call of memcpy
 * costs more than the copy: two moves that overlap do any length from 8 to 16,
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

/* Every byte of a run of 1 to 16, in two words: different words for different
   bytes of one length. */
struct bytes_ends {
    uint64_t first, last;
};

static inline struct bytes_ends bytes_ends(const char *p, size_t n)
{
    if (n >= 8)
        return (struct bytes_ends){bytes_load8(p), bytes_load8(p + (n - 8))};
    if (n >= 4)
        return (struct bytes_ends){bytes_load4(p), bytes_load4(p + (n - 4))};
    return (struct bytes_ends){
        (uint8_t)p[0], (uint64_t)(uint8_t)p[n / 2] << 8 | (uint8_t)p[n - 1]};
}

static inline void bytes_put_ends(char *to, struct bytes_ends w, size_t n)
{
    if (n >= 8) {
        memcpy(to, &w.first, 8);
        memcpy(to + n - 8, &w.last, 8);
    } else if (n >= 4) {
        memcpy(to, &w.first, 4);
        memcpy(to + n - 4, &w.last, 4);
    } else {
        to[0] = (char)w.first;
        to[n / 2] = (char)(w.last >> 8);
        to[n - 1] = (char)w.last;
    }
}

/* n is not 0. */
static inline void bytes_copy(char *to, const char *from, size_t n)
{
    if (n <= 16)
        bytes_put_ends(to, bytes_ends(from, n), n);
    else
        memcpy(to, from, n);
}

#endif
