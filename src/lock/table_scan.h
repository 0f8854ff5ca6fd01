/*
 * table_scan.h - lock: looking at the whole table: lists, counts, checks.
 *
 * Lists and counts walk the slabs, not the index, without any latch:
 * nobody is stopped, a read-only mapping will do, and no link is trusted.
 */
#ifndef LOCK_TABLE_SCAN_H
#define LOCK_TABLE_SCAN_H

#include "store/slab.h"

struct table_scan_filter {
    const char *name, *owner; /* NULL: all */
};

/* One that matches, by reference: a copy is made by copy_info() if its state
   is still this. Holders come before waiters, each by arrival. */
struct table_scan_found {
    const struct entry *e;
    uint64_t state, order, token;
    const struct enq_info *copy; /* if one was made already: moment.h */
};

/* For many of them, or of their copies; to be freed. */
void *table_scan_memory(size_t bytes);

/* As it is noted. */
struct table_scan_found table_scan_row(const struct entry *e, uint64_t state);

/* Notes up to n that match, by address; returns how many there are. */
size_t table_scan_list(const struct map *map,
    const struct table_scan_filter *filter, struct table_scan_found *out,
    size_t n);

/* For qsort(3). */
int table_scan_by_arrival(const void *a, const void *b);

void table_scan_stats(const struct map *map, struct enq_stats *out);

#endif
