/*
 * selftest.h - tests of the checker: histories written by hand.
 */
#ifndef MONKEY_SELFTEST_H
#define MONKEY_SELFTEST_H

#include "log.h"

/* Uses the book; counts into the two. */
void selftest(struct book *b, unsigned *passed, unsigned *failed);

#endif
