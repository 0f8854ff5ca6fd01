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
    VISIT_EDGE, /* of the wait-for graph: looked at whether it is one */
    VISITS
};

#ifdef ENQ_VISITS
extern __thread uint64_t visits[VISITS];
#define visit(what) ((void)visits[what]++)
#else
#define visit(what) ((void)0)
#endif

#endif
