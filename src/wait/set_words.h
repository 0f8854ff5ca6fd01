/*
 * set_words.h - wait: the words of all keys of a lock set, held at once.
 */
#ifndef WAIT_SET_WORDS_H
#define WAIT_SET_WORDS_H

#include "wait/set.h"

#define EACH_MEMBER(m, set)                                                    \
    for (struct member *m = (set)->member; m < (set)->member + (set)->n; m++)

/* On 0 the words are held until set_leave(), and each member's scope is as
   scope_enter() would leave it. Faults: ENQ_ECORRUPT. */
int set_enter(struct set *set);

/* Lets go of them; then sends the wakes. */
void set_leave(struct set *set);

/* What the scope knows of its object may have changed since: by a step for
   another member of the same shard, whose lines may have moved. */
static inline void look_anew(struct member *m)
{
    m->scope.spot.line = NULL;
    m->scope.known = m->scope.vacant = false;
}

static inline void set_look_anew(struct set *set)
{
    EACH_MEMBER (m, set)
        look_anew(m);
}

#endif
