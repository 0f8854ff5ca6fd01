/*
 * whole.h - of a set of locks that are asked for together: all or none.
 */
#ifndef MONKEY_WHOLE_H
#define MONKEY_WHOLE_H

#include "story.h"

void whole_begin(struct story *s);

/*
 * A member of a set whose taker died in the call, that outlives it: was the
 * set granted for all that is known of the others? Then it is held for sure
 * since that moment; else nothing is set.
 */
void whole_was_granted(const struct story *s, const struct op *op,
    uint64_t *seq, int64_t *ns);

/* After all spans are found. */
void whole_check(struct story *s);

#endif
