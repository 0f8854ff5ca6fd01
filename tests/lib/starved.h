/*
 * starved.h - for how long a test had no processor.
 */
#ifndef LIB_STARVED_H
#define LIB_STARVED_H

#include <stdbool.h>
#include <stdint.h>

/* How long threads of this process, and of its children, were ready to run and
   had no processor, so far: what a bound on a time allows to the machine. It
   never falls. By one thread at a time. */
int64_t test_starved_ms(void);

/* Is there a thread of this process, but the one that asks, or of a child, that
   runs, would run if it had a processor, or waits inside the kernel, at this
   moment? What is starved now is counted above only when it gets one. */
bool test_has_ready(void);

#endif
