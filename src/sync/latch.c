/*
 * latch.c - sync: the latch when it is not free (see latch.h).
 */
#include "sync/latch.h"

#include <limits.h>

#include <urcu/arch.h>

#include "sync/hooks.h"
#include "sync/life.h"

/* Spins that may pay: about 2 us, longer than any critical section but that of a
   scan. Where the holder has been switched off, as with more threads than cores
   nearly every one has, they never do: so each time that they have not there
   are half as many the next time, and twice as many where they have. */
#define SPINS_MOST 200u
#define SPINS_LEAST 4u

static unsigned spins_of(const struct thread *me)
{
    return sys_cpus() > 1 ? SPINS_MOST >> me->spins_vain : 0;
}

static void note_spins(struct thread *me, bool paid)
{
    if (paid && me->spins_vain > 0)
        me->spins_vain--;
    else if (!paid && SPINS_MOST >> me->spins_vain > SPINS_LEAST)
        me->spins_vain++;
}

/*
 * The holder lives: marks the latch, and sleeps until it changes, the holder
 * dies, or @most_ns have passed.
 *
 * The liveness word is read before the latch is compared again, by our swap or
 * by the kernel: if the holder has released the latch and its slot is another
 * thread's by now, the latch has changed too, and we do not sleep on it.
 *
 * The kernel wakes one of those that sleep on the word of a thread that dies:
 * where it is this one, whoever watches over that thread's process is yet to be
 * told (session_watch_before()).
 */
static void sleep_on(struct thread *me, uint32_t *latch, uint32_t value,
    int64_t most_ns)
{
    const struct thread_slot *owner = at_thread(me->map, latch_owner(value));
    struct sys_watch watch[2] = {
        {latch, value | LATCH_WAITERS},
        {liveness_word(&owner->life),
            shm_load_acquire(liveness_word(&owner->life))},
    };

    if (!(value & LATCH_WAITERS) &&
        !shm_cas(latch, &value, value | LATCH_WAITERS))
        return;
    if (liveness_is_dead(watch[1].value))
        return;
    sys.sleep(watch, 2, mono_add_ns(sys.now(), most_ns));
    if (unlikely(liveness_is_dead(shm_load(watch[1].word))))
        sys.wake(watch[1].word, INT_MAX);
}

/*
 * The first tick is as long as this thread's last sleep for a latch was. Where
 * the holder is switched off, as with more threads than cores nearly every one
 * is, a sleep lasts until the scheduler comes round to it: 10 ms with 8
 * processes on 2 cores, a quarter of a second with 120. Ticks of a millisecond
 * were three in four of all sleeps there, and each is two changes of process,
 * after which the caches are another's.
 */
static int64_t first_tick(const struct thread *me)
{
    return me->latch_slept_ns > LATCH_TICK_NS ? me->latch_slept_ns
                                              : LATCH_TICK_NS;
}

static void note_slept(struct thread *me, mono_t since)
{
    int64_t slept_ns = sys.now().ns - since.ns;

    me->latch_slept_ns = slept_ns < LATCH_TICK_FIRST_MOST_NS
        ? slept_ns
        : LATCH_TICK_FIRST_MOST_NS;
}

/* Doubled each time: thousands of sleepers must not all come each few
   milliseconds. And no wake-up that is lost, as its receiver was killed, costs
   more than has been slept already, or the last time. */
static int64_t next_tick(int64_t tick_ns)
{
    return tick_ns < LATCH_TICK_MOST_NS ? tick_ns * 2 : tick_ns;
}

/*
 * Spins first, if the holder can be running on another CPU; then asks whether
 * the holder lives, and sleeps or recovers. Recovery frees the latch, and the
 * loop competes for it again like any other thread.
 *
 * The latch is loaded again after the holder was seen to be dead: a thread
 * releases its latches before it gives up its slot, so only a latch that still
 * names it was left behind. A recovery for nothing would be harmless, and slow.
 */
int latch_acquire_slow(struct thread *me, uint32_t *latch)
{
    int64_t tick_ns = first_tick(me);
    unsigned spins = spins_of(me);
    uint32_t mine = me->ref;
    mono_t since = {0}; /* it sleeps */

    enq_assert(!holds_latch(me, latch));
    thread_count(me, COUNT_CONTENDED);
    for (;;) {
        uint32_t value = shm_load(latch);

        if (value == 0) {
            if (shm_cas(latch, &value, mine)) {
                note_spins(me, since.ns == 0);
                if (since.ns != 0)
                    note_slept(me, since);
                return 0;
            }
        } else if (latch_owner(value) == me->ref) {
            return ENQ_ECORRUPT; /* nobody takes a latch twice: it is damaged */
        } else if (spins > 0) {
            spins--;
            caa_cpu_relax();
        } else if (thread_is_dead(me->map, latch_owner(value))) {
            int rc = 0;

            me->wanted = latch;
            if (shm_load(latch) == value)
                rc = hooks.recover(me->map, me);
            me->wanted = NULL;
            if (rc != 0)
                return rc;
        } else {
            if (since.ns == 0)
                since = sys.now();
            sleep_on(me, latch, value, tick_ns);
            tick_ns = next_tick(tick_ns);
            mine = me->ref | LATCH_WAITERS; /* others may sleep on it too */
        }
    }
}

/* Of one rank by ascending address. That order of all threads is why they
   cannot wait for each other in a cycle. */
void latch_rank_push(struct thread *me, const uint32_t *latch, enum rank rank)
{
    if (me->n_held > 0) {
        unsigned last = me->n_held - 1;

        enq_assert(me->held_rank[last] <= rank);
        enq_assert(me->held_rank[last] < rank || me->held[last] < latch);
    }
    enq_assert(me->n_held < HELD_MAX);
    me->held[me->n_held] = latch;
    me->held_rank[me->n_held++] = (uint8_t)rank;
}

/* Latches are released in any order. */
void latch_rank_pop(struct thread *me, const uint32_t *latch)
{
    unsigned i = me->n_held;

    while (i > 0 && me->held[i - 1] != latch)
        i--;
    enq_assert(i > 0);
    for (; i < me->n_held; i++) {
        me->held[i - 1] = me->held[i];
        me->held_rank[i - 1] = me->held_rank[i];
    }
    me->n_held--;
}
