/*
 * tie.c - segment: a lock that lasts as long as our memory (see tie.h).
 */
#include "segment/tie.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/signals.h"
#include "base/why.h"

/* Beyond any file's end, and apart from the registry's byte. */
#define TIES_AT (UINT64_C(1) << 62)
#define TIES_MASK (TIES_AT - 2) /* even: the byte behind it has a number, too */

/*
 * A child that is forked between the open and the madvise would have the lock
 * as well, for as long as it lives: so fork waits. (The child of a bare clone()
 * runs no handler: then the end of its parent may be seen only with its own,
 * where /proc does not show it.)
 */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool registered;

static void prepare(void)
{
    pthread_mutex_lock(&mutex);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

static void in_child(void)
{
    pthread_mutex_init(&mutex, NULL);
}

/* No signal meanwhile: its handler might fork. */
static int begin(sigset_t *before)
{
    int rc = 0;

    signals_block(before);
    if (!registered) /* ours is under process_enter() */
        rc = pthread_atfork(prepare, in_parent, in_child);
    if (rc == 0) {
        registered = true;
        pthread_mutex_lock(&mutex);
        return 0;
    }
    signals_restore(before);
    return why(-rc, "out of memory for the fork handlers");
}

static void end(const sigset_t *before)
{
    pthread_mutex_unlock(&mutex);
    signals_restore(before);
}

static bool is_same_file(int a, int b)
{
    struct stat sa, sb;

    return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_ino == sb.st_ino &&
        sa.st_dev == sb.st_dev;
}

/* A description that nobody else has. Not by /proc/self/fd, which need not be
   there. */
static int open_again(int fd, const char *path)
{
    int again = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

    if (again < 0)
        return why(errno == ENOENT ? -EAGAIN : -errno, "cannot open %s: %s",
            path, strerror(errno));
    if (is_same_file(fd, again))
        return again;
    close(again);
    return why(-EAGAIN, "%s was removed and made again", path);
}

static struct flock byte_at(uint64_t at)
{
    return (struct flock){.l_type = F_WRLCK,
        .l_whence = SEEK_SET,
        .l_start = (off_t)at,
        .l_len = 1};
}

/* Of 2^61 bytes two processes do not choose the same. */
static uint64_t lock_any(int fd)
{
    uint8_t random[16];
    struct flock lock;
    uint64_t at;

    id_random(random);
    memcpy(&at, random, sizeof(at));
    at = TIES_AT | (at & TIES_MASK);
    lock = byte_at(at);
    return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? at : 0;
}

static bool is_locked(int fd, uint64_t at)
{
    struct flock lock = byte_at(at);

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static int map_alone(int fd, const char *path, size_t bytes, void **base,
    uint64_t *at)
{
    int own = open_again(fd, path);

    if (own < 0)
        return own;
    *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_NORESERVE, own, 0);
    if (*base == MAP_FAILED) {
        close(own);
        return why(-ENOMEM,
            "cannot map %s: %zu bytes of address space (RLIMIT_AS?)", path,
            bytes);
    }
    /* a child must not act through it; and its page tables are not copied */
    madvise(*base, bytes, MADV_DONTFORK);
    *at = lock_any(own);
    close(own);
    if (*at != 0 && !is_locked(fd, *at))
        *at = 0; /* it hung on the descriptor alone */
    return 0;
}

int tie_map(int fd, const char *path, size_t bytes, void **base, uint64_t *at)
{
    sigset_t before;
    int rc = begin(&before);

    if (rc != 0)
        return rc;
    rc = map_alone(fd, path, bytes, base, at);
    end(&before);
    return rc;
}
