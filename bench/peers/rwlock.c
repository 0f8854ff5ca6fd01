/*
 * rwlock.c - the floor for shared locks, which a mutex does not have:
 * the read side of one process-shared pthread_rwlock. It is not robust: the
 * death of a reader would block writers for ever.
 */
#include "harness/bench.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

static int arena_open(const struct trial *t, void **arena)
{
    pthread_rwlockattr_t attr;
    void *lock = mmap(NULL, sizeof(pthread_rwlock_t), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    (void)t;
    if (lock == MAP_FAILED)
        return errno;
    *arena = lock;
    int rc = pthread_rwlockattr_init(&attr);
    if (rc == 0)
        rc = pthread_rwlockattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    if (rc == 0)
        rc = pthread_rwlock_init(lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    return rc;
}

static void arena_close(const struct trial *t, void *arena)
{
    (void)t;
    munmap(arena, sizeof(pthread_rwlock_t));
}

static int attach(struct seat *s)
{
    s->mine = s->arena;
    return 0;
}

static void detach(struct seat *s)
{
    s->mine = NULL;
}

static int rwlock_failed(struct seat *s, int rc)
{
    return seat_fail(s, "pthread_rwlock: %s", strerror(rc));
}

static int take(struct seat *s)
{
    int rc = pthread_rwlock_rdlock(s->mine);

    return rc == 0 ? 0 : rwlock_failed(s, rc);
}

static int give(struct seat *s)
{
    int rc = pthread_rwlock_unlock(s->mine);

    return rc == 0 ? 0 : rwlock_failed(s, rc);
}

static int share_batch(struct seat *s, uint32_t n)
{
    pthread_rwlock_t *l = s->mine;

    for (uint32_t i = 0; i < n; i++) {
        int rc = pthread_rwlock_rdlock(l);
        if (rc == 0)
            rc = pthread_rwlock_unlock(l);
        if (rc != 0)
            return rwlock_failed(s, rc);
    }
    return 0;
}

const struct subject subject_rwlock = {
    .name = "rwlock",
    .what = "the read side of a process-shared rwlock",
    .floor = true,
    SUBJECT_CALLS(arena_open, arena_close, attach, detach),
    .acts =
        {
            [WORK_SHARE] = {ACT_PAIRS(share_batch, take, give)},
        },
};
