/*
 * limit.h - a value of a limit, tried (promise P12).
 */
#ifndef EXHAUST_LIMIT_H
#define EXHAUST_LIMIT_H

#include "frame.h"

/* A value of a limit was tried, and answered as it should be. What counts is
   each place where one is, however often it comes by. */
#define tried(expected, call)                                                  \
    do {                                                                       \
        static bool counted_here;                                              \
                                                                               \
        want(expected, call);                                                  \
        if (!counted_here)                                                     \
            count(FIGURE_LIMITS);                                              \
        counted_here = true;                                                   \
    } while (0)

/* A lock, given back at once. */
int ask(struct enq *e, const struct enq_req *req);

#endif
