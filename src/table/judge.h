/*
 * judge.h - floor 4: may this request be granted? (SEMANTICS R2, R5-R7, R12)
 */
#ifndef TABLE_JUDGE_H
#define TABLE_JUDGE_H

#include "table/scope.h"

/* What stands in a request's way. */
struct verdict {
    struct entry *holder; /* the earliest granted lock that conflicts */
    struct entry *waiter; /* else the earliest waiter in the way */
    uint32_t queue;       /* waiting for what overlaps */
    bool over;            /* something that overlaps has run out: see serve() */
};

/* Was `a` granted before `b`, or is there no `b`? */
bool granted_earlier(const struct entry *a, const struct entry *b);

static inline struct entry *verdict_blocker(const struct verdict *v)
{
    return v->holder != NULL ? v->holder : v->waiter;
}

/* Judges a new request, or (`self`) one that waits. Changes nothing.
   Returns: 0. Faults: ENQ_ECORRUPT. */
int judge(struct scope *s, const struct ask *ask, const struct entry *self,
    struct verdict *v);

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
/* All of the crowd are the asker's own, and of a mode that cumulates. */
bool crowd_cumulates(const struct crowd *c, const struct map *map,
    const struct ask *ask);

#endif
