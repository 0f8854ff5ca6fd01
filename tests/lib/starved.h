/*
 * starved.h - for how long a test had no processor.
 */
#ifndef LIB_STARVED_H
#define LIB_STARVED_H

#include <stdint.h>

/* How long threads of this process, and of its children, were ready to run and
   had no processor, so far: what a bound on a time allows to the machine. */
int64_t test_starved_ms(void);

#endif
