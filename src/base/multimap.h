/*
 * multimap.h - base: numbers 0, 1, 2 ... found by 64-bit keys, of which several
 * may be the same: chains in arrays that grow. The numbers are indices of the
 * caller's own array. Private memory, for one thread.
 */
#ifndef BASE_MULTIMAP_H
#define BASE_MULTIMAP_H

#include <stdbool.h>
#include <stdint.h>

#define MULTIMAP_NONE UINT32_MAX

struct multimap_link {
    uint64_t key;
    uint32_t next; /* or that it was taken */
};

/* Made by {0}. */
struct multimap {
    struct multimap_link *links; /* `room` of them, and so many chains */
    uint32_t *chains;
    uint32_t n, room;
};

/* Room for so many, so that it does not grow one by one. False: no memory, and
   nothing has changed. */
bool multimap_reserve(struct multimap *m, uint32_t n);

/* The next number gets this key. False: no memory, and nothing has changed. */
bool multimap_add(struct multimap *m, uint64_t key);

/* A number with this key, or MULTIMAP_NONE. */
uint32_t multimap_find(const struct multimap *m, uint64_t key);

/* The same, and it is not found again. */
uint32_t multimap_take(struct multimap *m, uint64_t key);

void multimap_free(struct multimap *m);

#endif
