/*
 * why.h - floor 0: the sentence behind a result, kept per thread.
 */
#ifndef BASE_WHY_H
#define BASE_WHY_H

/* Notes the sentence for enq_why() and returns `result`, so that a fault is
   explained where it is found: return why(-EINVAL, "no name"). */
int why(int result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
