/*
 * malloc_count.c - counts every call of the allocator in a program it is
 * preloaded into, and writes the sum to the file $MALLOC_COUNT at the end.
 * glibc's own names behind the public ones spare us dlsym(), which allocates.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *__libc_realloc(void *old, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

static _Atomic unsigned long calls;

void *malloc(size_t n)
{
    atomic_fetch_add(&calls, 1);
    return __libc_malloc(n);
}

void *calloc(size_t count, size_t n)
{
    atomic_fetch_add(&calls, 1);
    return __libc_calloc(count, n);
}

void *realloc(void *old, size_t n)
{
    atomic_fetch_add(&calls, 1);
    return __libc_realloc(old, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    atomic_fetch_add(&calls, 1);
    return __libc_memalign(alignment, n);
}

int posix_memalign(void **out, size_t alignment, size_t n)
{
    void *p = aligned_alloc(alignment, n);

    *out = p;
    return p == NULL ? ENOMEM : 0;
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("MALLOC_COUNT");
    char line[32];
    int fd = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT, 0600);

    if (fd < 0)
        return;
    int n = snprintf(line, sizeof(line), "%lu\n", atomic_load(&calls));
    if (write(fd, line, (size_t)n) != n)
        _exit(EXIT_FAILURE);
    close(fd);
}
