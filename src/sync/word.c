/*
 * word.c - sync: the lock word when it is not free (see word.h).
 */
#include "sync/word.h"

#include <urcu/arch.h>

#include "sync/life.h"

/* About 2 us: longer than any critical section but that of a scan. */
#define SPINS 200

/* Held by a living thread: note that somebody sleeps, and sleep. */
static void sleep_on(struct thread *me, uint32_t *word, uint32_t value,
    int64_t most_ns)
{
    const struct thread_slot *owner = at_thread(me->map, word_owner(value));
    struct sys_watch watch[2] = {
        {word, value | WORD_WAITERS},
        {life_word(&owner->life), shm_load_acquire(life_word(&owner->life))},
    };

    if (!(value & WORD_WAITERS) && !shm_cas(word, &value, value | WORD_WAITERS))
        return;
    if (!life_word_is_dead(watch[1].value))
        sys.wait(watch, 2, mono_add_ns(sys.now(), most_ns));
}

/* Longer each time: a thousand sleepers must not all come each millisecond. */
static int64_t next_tick(int64_t tick_ns)
{
    return tick_ns < SYS_TICK_NS ? tick_ns * 2 : tick_ns;
}

int word_lock_slow(struct thread *me, uint32_t *word)
{
    int64_t tick_ns = WORD_TICK_NS;
    uint32_t mine = me->ref;

    enq_assert(!word_held(me, word));
    thread_count(me, COUNT_CONTENDED);
    for (unsigned spins = 0;; spins++) {
        uint32_t value = shm_load(word);

        if (value == 0) {
            if (shm_cas(word, &value, mine))
                return 0;
        } else if (word_owner(value) == me->ref) {
            return ENQ_ECORRUPT; /* nobody takes a word twice: it is damaged */
        } else if (spins < SPINS && sys_cpus() > 1) {
            caa_cpu_relax();
        } else if (thread_is_dead(me->map, word_owner(value))) {
            int rc = shm_load(word) == value ? me->map->heal(me->map, me) : 0;
            if (rc != 0)
                return rc;
        } else {
            sleep_on(me, word, value, tick_ns);
            tick_ns = next_tick(tick_ns);
            mine = me->ref | WORD_WAITERS; /* others may sleep on it too */
        }
    }
}

void word_rank_push(struct thread *me, const uint32_t *word, enum rank rank)
{
    if (me->n_held > 0) {
        unsigned last = me->n_held - 1;

        enq_assert(me->held_rank[last] <= rank);
        enq_assert(me->held_rank[last] < rank || me->held[last] < word);
    }
    enq_assert(me->n_held < HELD_MAX);
    me->held[me->n_held] = word;
    me->held_rank[me->n_held++] = (uint8_t)rank;
}

void word_rank_pop(struct thread *me, const uint32_t *word)
{
    unsigned i = me->n_held;

    while (i > 0 && me->held[i - 1] != word)
        i--;
    enq_assert(i > 0);
    for (; i < me->n_held; i++) {
        me->held[i - 1] = me->held[i];
        me->held_rank[i - 1] = me->held_rank[i];
    }
    me->n_held--;
}

bool word_held(const struct thread *me, const uint32_t *word)
{
    return word_owner(shm_load(word)) == me->ref;
}
