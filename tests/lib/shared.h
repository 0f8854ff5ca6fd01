/*
 * shared.h - zeroed memory that a program shares with its children.
 */
#ifndef LIB_SHARED_H
#define LIB_SHARED_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static inline void *test_shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return p;
}

#endif
