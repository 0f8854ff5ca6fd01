/*
 * why.h - floor 0: the sentence behind a result, kept per thread.
 */
#ifndef BASE_WHY_H
#define BASE_WHY_H

#include <stddef.h>

/* Notes the sentence for enq_why() and returns `result`, so that a fault is
   explained where it is found: return why(-EINVAL, "no name"). */
int why(int result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * The same for outcomes so ordinary that the sentence is seldom read: the
 * caller leaves the facts in the room returned (WHY_FACTS_BYTES, the thread's
 * own), and they are put into words when enq_why() asks. A refusal takes 80 ns
 * less.
 */
#define WHY_FACTS_BYTES 320
typedef void why_words_fn(const void *facts, char *text, size_t n);
void *why_later(why_words_fn *words);

#endif
