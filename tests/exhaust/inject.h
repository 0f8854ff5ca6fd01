/*
 * inject.h - calls of the library that fail on order, and what it allocates.
 *
 * The program defines the functions itself; the library is linked into it, so
 * that its calls (and malloc's of libc on its behalf) come here first.
 */
#ifndef EXHAUST_INJECT_H
#define EXHAUST_INJECT_H

#include <stdbool.h>

enum kind {
    KIND_NONE,
    KIND_MEMORY, /* malloc, calloc, realloc, aligned_alloc */
    KIND_MMAP,
    KIND_MADVISE,
    KIND_OPEN,
    KIND_FOPEN,
    KIND_FSTAT,
    KIND_STAT,
    KIND_FCHMOD,
    KIND_FTRUNCATE,
    KIND_FALLOCATE,
    KIND_LINK,
    KIND_RENAME, /* rename, renameat2 */
    KIND_UNLINK,
    KIND_FLOCK,
    KIND_FCNTL,
    KIND_READ, /* read, pread */
    KIND_WRITE,
    KIND_THREAD,     /* pthread_create */
    KIND_ATTR,       /* pthread_attr_init */
    KIND_MUTEX_INIT, /* pthread_mutex_init */
    KIND_ROBUST,     /* pthread_mutex_lock of a robust mutex */
    KIND_KEY,        /* pthread_key_create */
    KIND_SPECIFIC,   /* pthread_setspecific */
    KIND_FUTEX,      /* futex_waitv */
    KIND_RANDOM,     /* getrandom */
    KIND_HOST,       /* gethostname */
    KINDS
};

/* Which call fails, and how. */
struct shot {
    enum kind kind;
    unsigned nth; /* from 1 */
    int error;
    bool on; /* and all of its kind after it */
};

const char *kind_name(enum kind kind);

/* From now on, in all threads. */
void inject_arm(const struct shot *shot);
/* No more. How many calls have failed. */
unsigned inject_disarm(void);

/* SIGKILL instead of the n-th call, of whatever kind; 0: no more. */
void inject_kill(unsigned nth);

/* Before the next call of the kind, and only then. */
void inject_before(enum kind kind, void (*f)(void));

/* Allocated and not freed so far, by anybody. */
long live_blocks(void);

#endif
