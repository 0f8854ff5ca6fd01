/*
 * tell.h - floor 4: copies of entries for callers.
 */
#ifndef TABLE_TELL_H
#define TABLE_TELL_H

#include "table/judge.h"

/* Who stands in the way, at this moment; under the scope. NULL: nobody. */
void tell_blocker(struct scope *s, const struct entry *e, uint32_t queue,
    struct enq_blocker *out);

/*
 * A copy of an entry, with or without its words held: made between two equal
 * readings of its state, so that it is of one moment, but for deadline and
 * token, which are single words. False: it is not live, or changed meanwhile,
 * or is damaged.
 */
bool tell_info(const struct map *map, const struct entry *e, mono_t now,
    struct enq_info *out);

/* The order of lists: holders first, then waiters, each by arrival. */
struct tell_order {
    bool waiting;
    uint64_t order;
};
struct tell_order tell_order_of(const struct entry *e);

#endif
