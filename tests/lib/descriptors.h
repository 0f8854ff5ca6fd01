/*
 * descriptors.h - a test ends with the descriptors that it began with.
 *
 * What is left is one that its own code forgot, or one that the library did: a
 * worker that opens and closes a space a thousand times has none to lose.
 */
#ifndef LIB_DESCRIPTORS_H
#define LIB_DESCRIPTORS_H

#include <stddef.h>

/* Those that are open now are not asked for later. */
void descriptors_begin(void);

/* How many more are open, and of the first of them "4 (what it leads to)"; a
   number that stands for something else than before is one more. 0 and an empty
   text if there is none, or where /proc does not say. */
size_t descriptors_left(char *text, size_t bytes);

#endif
