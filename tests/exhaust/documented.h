/*
 * documented.h - is this a fault that enq.h says a function may return?
 */
#ifndef EXHAUST_DOCUMENTED_H
#define EXHAUST_DOCUMENTED_H

#include <stdbool.h>

/* `call` without enq_. Whatever is named in the function's comment counts. */
bool documented(const char *call, int rc);

#endif
