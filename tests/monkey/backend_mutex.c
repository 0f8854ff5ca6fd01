/*
 * backend_mutex.c - what is known to be broken: the monkey's calibration.
 *
 * A plain robust process-shared mutex for each key, waited for without a
 * bound: one that unlocks it and is killed between the store that frees it and
 * the wake-up leaves a waiter asleep on a free mutex, if a third has come in
 * between. A monkey that does not find that finds nothing. And a lock that
 * excludes nobody.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend.h"

#define MUTEXES 2

static struct mutexes {
    struct {
        pthread_mutex_t mutex;
        uint64_t token;
    } of[MUTEXES];
    uint64_t token;
} * shared;

static bool make(const struct backend *self)
{
    pthread_mutexattr_t attr;

    (void)self;
    if (shared == NULL)
        shared = log_shared(sizeof(*shared));
    memset(shared, 0, sizeof(*shared));
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    for (unsigned i = 0; i < MUTEXES; i++)
        if (pthread_mutex_init(&shared->of[i].mutex, &attr) != 0)
            return false;
    return true;
}

static void nothing(void)
{
}

static bool enter(const struct life *life)
{
    (void)life;
    return true;
}

static int lock(struct op *op, enq_handle *handle)
{
    int rc = pthread_mutex_lock(&shared->of[op->key].mutex);

    if (rc == EOWNERDEAD)
        rc = pthread_mutex_consistent(&shared->of[op->key].mutex);
    *handle = op->begin_seq;
    op->ident = op->begin_seq;
    op->token = ++shared->of[op->key].token;
    return -rc;
}

static int unlock(const struct op *op, enq_handle handle, uint64_t token)
{
    (void)handle;
    (void)token;
    return -pthread_mutex_unlock(&shared->of[op->key].mutex);
}

static int lock_nothing(struct op *op, enq_handle *handle)
{
    *handle = op->begin_seq;
    op->ident = op->begin_seq;
    op->token = __atomic_add_fetch(&shared->token, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static int unlock_nothing(const struct op *op, enq_handle handle,
    uint64_t token)
{
    (void)op;
    (void)handle;
    (void)token;
    return 0;
}

const struct backend backend_mutex = {
    .name = "mutex",
    .keys = MUTEXES,
    .make = make,
    .unmake = nothing,
    .enter = enter,
    .leave = nothing,
    .lock = lock,
    .unlock = unlock,
};

const struct backend backend_none = {
    .name = "none",
    .keys = MUTEXES,
    .make = make,
    .unmake = nothing,
    .enter = enter,
    .leave = nothing,
    .lock = lock_nothing,
    .unlock = unlock_nothing,
};
