/*
 * copy_out.h - lock: copies of entries for callers.
 */
#ifndef LOCK_COPY_OUT_H
#define LOCK_COPY_OUT_H

#include "lock/conflict.h"

/* What stands in the way, at this moment; under the scope. NULL: nothing. Notes
   its session in s->dying if that is dying and holds the lock. */
void copy_blocker(struct scope *s, const struct entry *e, uint32_t queue,
    struct enq_blocker *out);

/* The owner that took the lock of this handle, if there was room to note it. */
void copy_taker(const struct map *map, enq_handle handle,
    char owner[ENQ_OWNER_BYTES]);

/* The time on both clocks, read once for a whole list. */
struct copy_clocks {
    mono_t now;
    int64_t wall_ms;
};
struct copy_clocks copy_clocks(void);

/*
 * A copy of an entry, with or without its latches held, if it is the request
 * still that had this state, with the mode it has by now: of one moment, but
 * for deadline and token, which are single words. Of one that waited it says
 * so, though it was granted since. False: it is gone, or damaged.
 */
bool copy_info(const struct map *map, const struct entry *e, uint64_t state,
    const struct copy_clocks *clocks, struct enq_info *out);

/* Has the live entry this name, and this owner? NULL: any. False as well when
   it is damaged or has run out. */
bool copy_matches(const struct map *map, const struct entry *e,
    const char *name, const char *owner, mono_t now);

#endif
