/*
 * word.h - sync: the lock word: mutual exclusion inside the table.
 *
 *	0                            free
 *	thread ref                   held by that thread
 *	thread ref | WORD_WAITERS    held, and somebody may sleep on it
 *
 * Why not glibc's robust mutex: it can lose a wake-up when a process dies,
 * breaks across PID namespaces, and keeps pointers in shared memory; and a
 * pair costs 9.4 ns against 4.7.
 *
 * A sleeper watches two words at once: the lock word, and the life word of
 * the thread that holds it. If the holder dies it wakes, and the dead's words
 * are healed by recovery/heal.c (map->heal) before anyone gets in. If the
 * holder dies between letting go and waking, its life word wakes us as well; if
 * all else fails, the tick does.
 *
 * Under a lock word: no system call (RANK_GROW excepted), no malloc, no user
 * code. A holder that is stopped stops those who want the word.
 */
#ifndef SYNC_WORD_H
#define SYNC_WORD_H

#include "base/assert.h"
#include "sync/sys.h"
#include "sync/thread.h"

#define WORD_WAITERS 0x80000000u
#define WORD_TICK_NS NS_PER_MS

int word_lock_slow(struct thread *me, uint32_t *word);

void word_rank_push(struct thread *me, const uint32_t *word, enum rank rank);
void word_rank_pop(struct thread *me, const uint32_t *word);
bool word_held(const struct thread *me, const uint32_t *word);

/* True: it is ours. Partner: word_unlock. */
static inline bool word_try(struct thread *me, uint32_t *word, enum rank rank)
{
    uint32_t free = 0;

    if (unlikely(!shm_cas(word, &free, me->ref)))
        return false;
#ifdef ENQ_DEBUG
    word_rank_push(me, word, rank);
#else
    (void)rank;
#endif
    return true;
}

/* Returns: 0. Faults: ENQ_ECORRUPT, the word is not held: its dead owner left
   something that could not be repaired. */
static inline int word_lock(struct thread *me, uint32_t *word, enum rank rank)
{
    int rc;

    if (likely(word_try(me, word, rank)))
        return 0;
    rc = word_lock_slow(me, word);
#ifdef ENQ_DEBUG
    if (rc == 0)
        word_rank_push(me, word, rank);
#endif
    return rc;
}

/*
 * A load and a store, where nobody waits: an exchange would cost 6 ns more,
 * half of what the word costs at all. In between somebody may set WAITERS, and
 * our store wipes it out. He is not lost by that: the kernel compares the word
 * before it puts him to sleep, and finds it free. Only if we are off the CPU
 * just between the two does he sleep, for one of his ticks: WORD_TICK_NS at
 * first, 40 ms at most.
 */
static inline void word_unlock(struct thread *me, uint32_t *word)
{
#ifdef ENQ_DEBUG
    word_rank_pop(me, word);
#endif
    if (likely(shm_load(word) == me->ref)) {
        shm_store_release(word, 0);
        return;
    }
    shm_swap(word, 0);
    sys.wake(word, 1);
}

static inline thread_ref_t word_owner(uint32_t value)
{
    return value & ~WORD_WAITERS;
}

#endif
