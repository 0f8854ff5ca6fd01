/*
 * check.h - the history checker: does a round's history keep the promises?
 */
#ifndef MONKEY_CHECK_H
#define MONKEY_CHECK_H

#include "story.h"

/* The longest that anybody may be overtaken, where the space is not strict. */
#define WINDOW_MOST_NS (5 * NS_MS)

/* Checks all; the number of faults, and of each kind in s->faults. The
   caller ends the story. */
uint32_t check_book(struct story *s, const struct book *b, unsigned quiet);

/* Parts of it. */
void check_exclusion(struct story *s);
void check_tokens(struct story *s);
void check_overtaken(struct story *s);
void check_asleep(struct story *s);
void check_cycles(struct story *s);

/* Of a call that has no end: may it have been refused for one before? */
bool check_may_be_in_a_cycle(const struct story *s, const struct op *op);

/* How much of that time the machine was not at it, for all that is known. */
int64_t check_stalled_ns(const struct story *s, const struct op *w,
    int64_t from_ns, int64_t to_ns);

/* The same of its process, until then. */
int64_t check_unseen_ns(const struct story *s, const struct op *w, int64_t to);

/* How many of all have begun before that number. */
size_t check_begun_before(const struct story *s, uint64_t seq);

#endif
