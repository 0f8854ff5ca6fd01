/*
 * visit.h - base: how much of a table a call looks at.
 *
 * What a call costs may depend on what it must touch, never on how many others
 * hold, wait, are attached or are dead. Time is too noisy to show that, visits
 * are not: the crash profile counts, for each thread, what its calls look at,
 * and tests/growth has a budget of it. In the released library there is nothing
 * of this.
 */
#ifndef BASE_VISIT_H
#define BASE_VISIT_H

#include <stdint.h>

enum visit_of {
    VISIT_ENTRY,
    VISIT_BUCKET,
    VISIT_PAGE, /* its word in the directory */
    VISIT_SESSION,
    VISIT_THREAD,
    VISIT_EDGE,    /* of the wait-for graph: looked at whether it is one */
    VISIT_AT_ONCE, /* a bucket, by a list that keeps others waiting */
    VISITS
};

#ifdef ENQ_VISITS
extern __thread uint64_t visits[VISITS];
extern uint64_t *visits_of_helper; /* its thread's; NULL: there was none */
#define visit(what) ((void)visits[what]++)
#define visit_by_helper() ((void)(visits_of_helper = visits))
#else
#define visit_by_helper() ((void)0)
#define visit(what) ((void)0)
#endif

#endif
