/*
 * inject.c - calls that fail on order (see inject.h).
 *
 * System calls go to the kernel directly; what libc does more than that is
 * asked of the next definition. malloc and its family are libc's own under
 * their other names: dlsym() may need them itself.
 */
#include "inject.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"

static struct shot shot;
static unsigned passed, fired;
static bool armed;
static long blocks;

static const char *const names[KINDS] = {"nothing", "memory", "mmap", "madvise",
    "open", "fopen", "fstat", "stat", "fchmod", "ftruncate", "fallocate",
    "link", "rename", "unlink", "flock", "fcntl", "read", "write", "thread",
    "attr", "mutex_init", "robust", "key", "specific", "futex", "random",
    "host"};

const char *kind_name(enum kind kind)
{
    return names[kind];
}

void inject_arm(const struct shot *which)
{
    shot = *which;
    passed = fired = 0;
    __atomic_store_n(&armed, true, __ATOMIC_SEQ_CST);
}

unsigned inject_disarm(void)
{
    __atomic_store_n(&armed, false, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&fired, __ATOMIC_SEQ_CST);
}

long live_blocks(void)
{
    return __atomic_load_n(&blocks, __ATOMIC_RELAXED);
}

static unsigned kill_in;

void inject_kill(unsigned nth)
{
    __atomic_store_n(&kill_in, nth, __ATOMIC_SEQ_CST);
}

static void die_if_due(void)
{
    if (__atomic_load_n(&kill_in, __ATOMIC_RELAXED) != 0 &&
        __atomic_add_fetch(&kill_in, -1, __ATOMIC_SEQ_CST) == 0)
        kill(getpid(), SIGKILL);
}

static enum kind before_kind;
static void (*before)(void);

void inject_before(enum kind kind, void (*f)(void))
{
    before_kind = kind;
    before = f;
}

static void pause_before(enum kind kind)
{
    void (*f)(void) = before;

    if (kind != before_kind)
        return;
    before_kind = KIND_NONE;
    f();
}

static bool fails(enum kind kind)
{
    unsigned number;

    die_if_due();
    pause_before(kind);
    if (!__atomic_load_n(&armed, __ATOMIC_ACQUIRE) || shot.kind != kind)
        return false;
    number = __atomic_add_fetch(&passed, 1, __ATOMIC_SEQ_CST);
    if (number != shot.nth && !(shot.on && number > shot.nth))
        return false;
    __atomic_add_fetch(&fired, 1, __ATOMIC_SEQ_CST);
    errno = shot.error;
    return true;
}

/* The definition after ours, found at its first use. */
static void *next_of(void **known, const char *name)
{
    void *f = __atomic_load_n(known, __ATOMIC_RELAXED);

    if (f == NULL) {
        f = dlsym(RTLD_NEXT, name);
        __atomic_store_n(known, f, __ATOMIC_RELAXED);
    }
    return f;
}

#define NEXT(name)                                                             \
    static void *known_;                                                       \
    __typeof__(name) *next_;                                                   \
    *(void **)(&next_) = next_of(&known_, #name)

/* --- memory --- */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p);

static void *counted(void *p)
{
    if (p != NULL)
        __atomic_add_fetch(&blocks, 1, __ATOMIC_RELAXED);
    return p;
}

void *malloc(size_t n)
{
    return fails(KIND_MEMORY) ? NULL : counted(__libc_malloc(n));
}

void *calloc(size_t n, size_t size)
{
    return fails(KIND_MEMORY) ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *p, size_t n)
{
    void *q;

    if (fails(KIND_MEMORY))
        return NULL;
    q = __libc_realloc(p, n);
    return p == NULL ? counted(q) : q;
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return fails(KIND_MEMORY) ? NULL : counted(__libc_memalign(alignment, n));
}

void free(void *p)
{
    if (p != NULL)
        __atomic_add_fetch(&blocks, -1, __ATOMIC_RELAXED);
    __libc_free(p);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (fails(KIND_MMAP))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}

int madvise(void *at, size_t n, int advice)
{
    if (fails(KIND_MADVISE))
        return -1;
    return (int)syscall(SYS_madvise, at, n, advice);
}

/* --- files --- */

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list args;

    va_start(args, flags);
    if (flags & (O_CREAT | O_TMPFILE))
        mode = va_arg(args, mode_t);
    va_end(args);
    if (fails(KIND_OPEN))
        return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    NEXT(fopen);

    return fails(KIND_FOPEN) ? NULL : next_(path, mode);
}

int fstat(int fd, struct stat *st)
{
    return fails(KIND_FSTAT) ? -1 : (int)syscall(SYS_fstat, fd, st);
}

int stat(const char *path, struct stat *st)
{
    return fails(KIND_STAT) ? -1 : (int)syscall(SYS_stat, path, st);
}

int fchmod(int fd, mode_t mode)
{
    return fails(KIND_FCHMOD) ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}

int ftruncate(int fd, off_t n)
{
    return fails(KIND_FTRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, fd, n);
}

int posix_fallocate(int fd, off_t at, off_t n)
{
    if (fails(KIND_FALLOCATE))
        return shot.error;
    return syscall(SYS_fallocate, fd, 0, at, n) == 0 ? 0 : errno;
}

int linkat(int from, const char *path, int to, const char *name, int flags)
{
    if (fails(KIND_LINK))
        return -1;
    return (int)syscall(SYS_linkat, from, path, to, name, flags);
}

int rename(const char *from, const char *to)
{
    return fails(KIND_RENAME) ? -1 : (int)syscall(SYS_rename, from, to);
}

int renameat2(int from, const char *path, int to, const char *name,
    unsigned flags)
{
    if (fails(KIND_RENAME))
        return -1;
    return (int)syscall(SYS_renameat2, from, path, to, name, flags);
}

int unlink(const char *path)
{
    return fails(KIND_UNLINK) ? -1 : (int)syscall(SYS_unlink, path);
}

int flock(int fd, int what)
{
    return fails(KIND_FLOCK) ? -1 : (int)syscall(SYS_flock, fd, what);
}

int fcntl(int fd, int what, ...)
{
    va_list args;
    long arg;

    va_start(args, what);
    arg = va_arg(args, long);
    va_end(args);
    return fails(KIND_FCNTL) ? -1 : (int)syscall(SYS_fcntl, fd, what, arg);
}

ssize_t read(int fd, void *to, size_t n)
{
    return fails(KIND_READ) ? -1 : syscall(SYS_read, fd, to, n);
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    return fails(KIND_READ) ? -1 : syscall(SYS_pread64, fd, to, n, at);
}

ssize_t write(int fd, const void *from, size_t n)
{
    return fails(KIND_WRITE) ? -1 : syscall(SYS_write, fd, from, n);
}

/* --- threads --- */

int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
    void *(*f)(void *), void *arg)
{
    NEXT(pthread_create);

    return fails(KIND_THREAD) ? shot.error : next_(thread, attr, f, arg);
}

int pthread_attr_init(pthread_attr_t *attr)
{
    NEXT(pthread_attr_init);

    return fails(KIND_ATTR) ? shot.error : next_(attr);
}

int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
    NEXT(pthread_mutex_init);

    return fails(KIND_MUTEX_INIT) ? shot.error : next_(mutex, attr);
}

#define ROBUST_KIND 16 /* of __kind, as glibc numbers it */

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    NEXT(pthread_mutex_lock);

    if (mutex->__data.__kind & ROBUST_KIND && fails(KIND_ROBUST))
        return shot.error;
    return next_(mutex);
}

int pthread_key_create(pthread_key_t *key, void (*end)(void *))
{
    NEXT(pthread_key_create);

    return fails(KIND_KEY) ? shot.error : next_(key, end);
}

int pthread_setspecific(pthread_key_t key, const void *value)
{
    NEXT(pthread_setspecific);

    return fails(KIND_SPECIFIC) ? shot.error : next_(key, value);
}

/* --- others --- */

long syscall(long number, ...)
{
    NEXT(syscall);
    long a[6];
    va_list args;

    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_futex_waitv && fails(KIND_FUTEX))
        return -1;
    return next_(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

ssize_t getrandom(void *to, size_t n, unsigned flags)
{
    return fails(KIND_RANDOM) ? -1 : syscall(SYS_getrandom, to, n, flags);
}

int gethostname(char *name, size_t n)
{
    NEXT(gethostname);

    return fails(KIND_HOST) ? -1 : next_(name, n);
}
