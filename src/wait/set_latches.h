/*
 * set_latches.h - wait: the latches of all keys of a lock set, held at once.
 */
#ifndef WAIT_SET_LATCHES_H
#define WAIT_SET_LATCHES_H

#include "wait/set.h"

#define EACH_MEMBER(m, set)                                                    \
    for (struct member *m = (set)->member; m < (set)->member + (set)->n; m++)

/* Its entry, in the same use of it. */
static inline bool is_mine(const struct member *m)
{
    uint64_t state = shm_load_acquire(&m->place.e->state);

    return STATE_GENERATION(state) == m->place.generation;
}

/* For enq_assert() only: the latch of each member's scope is held. */
static inline bool set_is_entered(const struct set *set)
{
    EACH_MEMBER (m, set)
        if (!scope_is_entered(&m->scope))
            return false;
    return true;
}

/*
 * On 0 the latches are held until set_leave(), and each member's scope is as
 * scope_enter() would leave it. No deadlock of latches: all of one rank are
 * acquired by ascending address, gates before buckets. A wide set holds no
 * bucket: each step acquires its own, one at a time. Faults: ENQ_ECORRUPT.
 */
int set_enter(struct set *set);

/* Releases them; then sends the wakes. */
void set_leave(struct set *set);

/* What the scope knows of its object may have changed since: by a step for
   another member of the same bucket. */
static inline void look_anew(struct member *m)
{
    m->scope.known = m->scope.vacant = false;
}

static inline void set_look_anew(struct set *set)
{
    EACH_MEMBER (m, set)
        look_anew(m);
}

/* Is that the entry of a member? */
bool set_has_entry(const struct set *set, const struct entry *e);

#endif
