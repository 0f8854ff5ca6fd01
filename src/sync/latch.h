/*
 * latch.h - sync: the latch: mutual exclusion inside the table.
 *
 *	0                            free
 *	thread ref                   held by that thread
 *	thread ref | LATCH_WAITERS    held, and somebody may sleep on it
 *
 * Why not glibc's robust mutex: it can lose a wake-up when a process dies,
 * breaks across PID namespaces, and keeps pointers in shared memory; and a
 * pair costs 9.4 ns against 4.7. One futex word with the owner in it, as in a
 * PI futex, lets a thread that finds the latch taken ask whether its holder
 * lives.
 *
 * A sleeper watches two futex words at once (futex_waitv): the latch, and the
 * liveness word of the thread that holds it.
 *
 *	the holder releases	it wakes one sleeper of the latch
 *	it dies inside		its liveness word wakes a sleeper; the latch
 *				stays in the dead thread's name, and the next
 *				thread recovers (hooks.h) before it gets in
 *	it dies between store	the same word wakes a sleeper, which finds the
 *	and wake-up		latch free
 *	all else fails		the tick: a sleep lasts 1 ms at first, or as
 *				long as this thread had to sleep for its last
 *				latch (256 ms at most), then for as long as all
 *				before it, a second at most
 *
 * So a latch is never freed by anyone but its holder, or recovery after what it
 * guards has been repaired: a latch that is free guards a consistent part.
 *
 * Under a latch: no system call (RANK_GROW excepted), no malloc, no user code.
 * A holder that is stopped stops all threads that want the latch.
 */
#ifndef SYNC_LATCH_H
#define SYNC_LATCH_H

#include "base/assert.h"
#include "sync/sys.h"
#include "sync/thread.h"

#define LATCH_WAITERS 0x80000000u
#define LATCH_TICK_NS NS_PER_MS
#define LATCH_TICK_FIRST_MOST_NS (256 * NS_PER_MS)
#define LATCH_TICK_MOST_NS sys_look_every(NS_PER_S)

/* latch_acquire() when the latch is not free; without the rank. */
int latch_acquire_slow(struct thread *me, uint32_t *latch);

/* The latches of this thread, in order: enq_asserts that ranks ascend. Only
   debug builds push and pop. */
void latch_rank_push(struct thread *me, const uint32_t *latch, enum rank rank);
void latch_rank_pop(struct thread *me, const uint32_t *latch);

/*
 * For enq_assert() only: has this thread acquired the latch? Of its own record,
 * which debug builds keep (latch_rank_push): the latch itself is bytes of the
 * segment, which another process may have written, and is never asserted.
 */
static inline bool holds_latch(const struct thread *t, const uint32_t *latch)
{
    unsigned i = 0;

    while (i < t->n_held && t->held[i] != latch)
        i++;
    return i < t->n_held;
}

/* True: it is ours. The swap acquires: what was done under the latch before is
   seen. Partner: latch_release(), and free_latch() of recovery. */
static inline bool latch_try(struct thread *me, uint32_t *latch, enum rank rank)
{
    uint32_t free = 0;

    if (unlikely(!shm_cas(latch, &free, me->ref)))
        return false;
#ifdef ENQ_DEBUG
    latch_rank_push(me, latch, rank);
#else
    (void)rank;
#endif
    return true;
}

/* Blocks until the latch is ours. Returns: 0. Faults: ENQ_ECORRUPT, the latch
   is not held: its dead holder left something that could not be repaired, or it
   names this thread, which does not hold it. */
static inline int latch_acquire(struct thread *me, uint32_t *latch,
    enum rank rank)
{
    int rc;

    if (likely(latch_try(me, latch, rank)))
        return 0;
    rc = latch_acquire_slow(me, latch);
#ifdef ENQ_DEBUG
    if (rc == 0)
        latch_rank_push(me, latch, rank);
#endif
    return rc;
}

/*
 * A load and a store, where nobody waits: an exchange would cost 6 ns more,
 * half of what the latch costs at all. In between a thread may set WAITERS, and
 * our store wipes it out. That thread is not lost: the kernel compares the
 * latch before it puts the thread to sleep, and finds it free. Only if we are
 * off the CPU just between the two does it sleep, for one of its ticks.
 *
 * The release order (store or exchange) is the partner of latch_try(). An
 * exchange that found WAITERS wakes one; that one acquires the latch with the
 * mark set, as it cannot know whether others sleep.
 */
static inline void latch_release(struct thread *me, uint32_t *latch)
{
#ifdef ENQ_DEBUG
    latch_rank_pop(me, latch);
#endif
    if (likely(shm_load(latch) == me->ref)) {
        shm_store_release(latch, 0);
        return;
    }
    shm_swap(latch, 0);
    sys.wake(latch, 1);
}

static inline thread_ref_t latch_owner(uint32_t value)
{
    return value & ~LATCH_WAITERS;
}

#endif
