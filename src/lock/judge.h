/*
 * judge.h - lock: may this request be granted? (SEMANTICS R2, R5-R7, R12)
 */
#ifndef LOCK_JUDGE_H
#define LOCK_JUDGE_H

#include "lock/scope.h"

/* What stands in a request's way. */
struct verdict {
    struct entry *holder; /* the earliest granted lock that conflicts */
    struct entry *waiter; /* else the earliest waiter in the way */
    uint32_t queue;       /* waiting for what overlaps */
    mono_t last_due;      /* the latest time that one of these is due */
    bool over;            /* something that overlaps has run out: see serve() */
};

/* Was `a` granted before `b`, or is there no `b`? */
bool granted_earlier(const struct entry *a, const struct entry *b);

static inline struct entry *verdict_blocker(const struct verdict *v)
{
    return v->holder != NULL ? v->holder : v->waiter;
}

/* The lock set whose waiting is all that is in the way; 0: none. */
static inline enq_handle verdict_set(const struct map *map,
    const struct verdict *v)
{
    return v->holder != NULL || v->waiter == NULL || !entry_is_of_set(v->waiter)
        ? 0
        : entry_handle(map, v->waiter);
}

/* Judges a new request, or (`self`) one that waits. Changes nothing.
   Returns: 0. Faults: ENQ_ECORRUPT. */
int judge(struct scope *s, const struct ask *ask, const struct entry *self,
    struct verdict *v);

/* Does `waiter` wait, and for this held lock? */
bool judge_wants(const struct map *map, const struct entry *waiter,
    const struct entry *held);

/* R7's exception: does this waiter wait for the asker himself? Then to wait
   behind it would be to wait for oneself. */
int judge_excuses(struct scope *s, const struct ask *asker,
    struct entry *waiter, bool *yes);

/*
 * Many locks as one: for each mode how many there are, and whether all are of
 * one owner. Enough to tell whether any of them conflicts with a request, as
 * in every mode table what conflicts for the same owner does for others.
 */
struct crowd {
    struct {
        uint32_t n;
        const struct entry *first;
        bool mixed; /* of more than one owner */
    } of[MODES];
};

void crowd_add(struct crowd *c, const struct map *map, const struct entry *e);
bool crowd_blocks(const struct crowd *c, const struct map *map,
    const struct ask *ask);
/* The same for locks that are lost but delayed: not in their owner's way. */
bool crowd_delays(const struct crowd *c, const struct map *map,
    const struct ask *ask);
/* Is one of them the asker's, or may be? */
bool crowd_may_own(const struct crowd *c, const struct map *map,
    const struct ask *ask);
/* All of the crowd are the asker's own, and of a mode that cumulates. */
bool crowd_cumulates(const struct crowd *c, const struct map *map,
    const struct ask *ask);

#endif
