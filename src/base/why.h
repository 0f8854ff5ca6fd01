/*
 * why.h - base: the sentence behind a result, kept per thread.
 */
#ifndef BASE_WHY_H
#define BASE_WHY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WHY_BYTES 2048

/* For "%.64s%s": a text that may be longer than any that is legal, and where it
   is cut, a mark: a cut text must not pass for another. */
#define WHY_CUT(text) (text), strlen(text) > 64 ? "..." : ""

/* For "%.*s%s": an address without its options: one may be a secret. */
#define WHY_ADDRESS(address)                                                   \
    (int)why_most((address), "?", 200), (address),                             \
        strcspn((address), "?") > 200 ? "..." : ""

/* For "%.*s": the name of the option at '?'. */
#define WHY_OPTION(rest) (int)why_most((rest), "=", 64), (rest)

static inline size_t why_most(const char *text, const char *end, size_t most)
{
    size_t n = strcspn(text, end);

    return n < most ? n : most;
}

/* A copy, which ends in "..." if n is too few. */
void why_copy(char *out, size_t n, const char *text);

/* A time as every message shows it: "250 ms", "1.5 s", "42 s", "2 min 10 s". */
#define WHY_MS_BYTES 40
void why_ms(char out[WHY_MS_BYTES], int64_t ms);

/* Notes the sentence for enq_why() and returns `result`, so that a fault is
   explained where it is found: return why(-EINVAL, "no name"). Of texts that
   others have chosen control characters are shown as \xHH; what has no room
   ends in "...". */
int why(int result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * The same for outcomes so ordinary that the sentence is seldom read: the
 * caller leaves the facts in the room returned (WHY_FACTS_BYTES, the thread's
 * own), and they are put into words when enq_why() asks. A refusal takes 80 ns
 * less.
 */
#define WHY_FACTS_BYTES 832
typedef void why_words_fn(const void *facts, char *text, size_t n);
void *why_later(why_words_fn *words);

#endif
