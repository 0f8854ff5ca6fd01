/*
 * word.h - floor 3: the lock word: mutual exclusion inside the table.
 *
 *	0                            free
 *	thread ref                   held by that thread
 *	thread ref | WORD_WAITERS    held, and somebody may sleep on it
 *
 * Why not glibc's robust mutex: it can lose a wake-up when a process dies,
 * breaks across PID namespaces, and keeps pointers in shared memory
 * (RELIABILITY.md, traps 1 to 3); and a pair costs 9.4 ns against 4.7.
 *
 * A sleeper watches two words at once: the lock word, and the life word of
 * the thread that holds it. If the holder dies it wakes, and the dead's words
 * are healed by floor 4 (map->heal) before anyone gets in. If the holder dies
 * between letting go and waking, its life word wakes us as well; if all else
 * fails, the tick does.
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

int word_lock_slow(struct thread *me, uint32_t *word);

void word_rank_push(struct thread *me, const uint32_t *word, enum rank rank);
void word_rank_pop(struct thread *me, const uint32_t *word);
bool word_held(const struct thread *me, const uint32_t *word);

/* Returns: 0. Faults: ENQ_ECORRUPT, the word is not held: its dead owner left
   something that could not be repaired. Partner: word_unlock. */
static inline int word_lock(struct thread *me, uint32_t *word, enum rank rank)
{
    uint32_t free = 0;

    if (unlikely(!shm_cas(word, &free, me->ref))) {
        int rc = word_lock_slow(me, word);
        if (rc != 0)
            return rc;
    }
#ifdef ENQ_DEBUG
    word_rank_push(me, word, rank);
#else
    (void)rank;
#endif
    return 0;
}

static inline void word_unlock(struct thread *me, uint32_t *word)
{
#ifdef ENQ_DEBUG
    word_rank_pop(me, word);
#else
    (void)me;
#endif
    if (unlikely(shm_swap(word, 0) & WORD_WAITERS))
        sys.wake(word, 1);
}

static inline thread_ref_t word_owner(uint32_t value)
{
    return value & ~WORD_WAITERS;
}

#endif
