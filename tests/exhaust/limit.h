/*
 * limit.h - a value of a limit, tried (promise P12).
 */
#ifndef EXHAUST_LIMIT_H
#define EXHAUST_LIMIT_H

#include "frame.h"

/* A value of a limit was tried, and answered as it should be. */
#define tried(expected, call)                                                  \
    do {                                                                       \
        want(expected, call);                                                  \
        count(FIGURE_LIMITS);                                                  \
    } while (0)

/* A lock, given back at once. */
int ask(struct enq *e, const struct enq_req *req);

#endif
