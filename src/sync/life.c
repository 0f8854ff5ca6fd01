/*
 * life.c - floor 3: is it dead? (see life.h)
 */
#include "sync/life.h"

#include <string.h>

int life_begin(pthread_mutex_t *life)
{
    pthread_mutexattr_t attr;
    int rc;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    rc = pthread_mutex_init(life, &attr);
    pthread_mutexattr_destroy(&attr);
    if (rc != 0)
        return -rc;
    rc = pthread_mutex_lock(life);
    if (rc != 0)
        return -rc;
    shm_or((uint32_t *)life, FUTEX_WAITERS);
    return 0;
}

void life_end(pthread_mutex_t *life)
{
    pthread_mutex_unlock(life);
}

void life_clear(pthread_mutex_t *life)
{
    memset(life, 0, sizeof(*life));
}

/* Slot in use by `ref`? Then its word, then again: a slot that was given to
   another in between says nothing about us. */
static bool is_dead(const uint32_t *slot_ref, const pthread_mutex_t *life,
    uint32_t ref)
{
    uint32_t word;

    if (shm_load_acquire(slot_ref) != ref)
        return true;
    word = shm_load_acquire(life_word(life));
    if (shm_load_acquire(slot_ref) != ref)
        return true;
    return life_word_is_dead(word);
}

bool thread_is_dead(const struct map *map, thread_ref_t ref)
{
    const struct thread_slot *slot = at_thread(map, ref);

    return is_dead(&slot->ref, &slot->life, ref);
}

bool session_is_dead(const struct map *map, session_ref_t ref)
{
    const struct session_slot *slot = at_session(map, ref);

    return is_dead(&slot->ref, &slot->life, ref);
}

bool session_watch(const struct map *map, session_ref_t ref,
    struct sys_watch *watch)
{
    const struct session_slot *slot = at_session(map, ref);

    watch->word = life_word(&slot->life);
    watch->value = shm_load_acquire(watch->word);
    return !life_word_is_dead(watch->value) &&
        shm_load_acquire(&slot->ref) == ref;
}
