/*
 * survey.h - lock: looking at the whole table: lists, counts, checks.
 *
 * Lists and counts walk the slabs, not the index, without any lock word:
 * nobody is stopped, a read-only mapping will do, and no link is trusted.
 */
#ifndef LOCK_SURVEY_H
#define LOCK_SURVEY_H

#include "store/slab.h"

struct survey_filter {
    const char *name, *owner; /* NULL: all */
};

/* One that matches, by reference: a copy is made by tell_info() if its state
   is still this. Holders come before waiters, each by arrival. */
struct survey_found {
    const struct entry *e;
    uint64_t state, order, token;
    const struct enq_info *copy; /* if one was made already */
};

/* Notes up to n that match, by address; returns how many there are. */
size_t survey_list(const struct map *map, const struct survey_filter *filter,
    struct survey_found *out, size_t n);

/* The same a moment later, with what is known from then: for a name that is
   frozen, where each microsecond counts. */
size_t survey_again(const struct map *map, const struct survey_filter *filter,
    const struct survey_found *known, size_t known_n, struct survey_found *out,
    size_t n);

/* For qsort(3). */
int survey_by_arrival(const void *a, const void *b);

/* Stops all requests for a name, and lets them go on. */
struct survey_freeze {
    struct gate *gate;
};
int survey_freeze(struct map *map, struct thread *t, const char *name,
    struct survey_freeze *f);
void survey_thaw(struct map *map, struct thread *t,
    const struct survey_freeze *f);

void survey_stats(const struct map *map, struct enq_stats *out);

#endif
