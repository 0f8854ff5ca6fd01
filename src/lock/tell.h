/*
 * tell.h - lock: copies of entries for callers.
 */
#ifndef LOCK_TELL_H
#define LOCK_TELL_H

#include "lock/judge.h"

/* Who stands in the way, at this moment; under the scope. NULL: nobody. Notes
   in s->dying if he holds what he has by a session that is dying. */
void tell_blocker(struct scope *s, const struct entry *e, uint32_t queue,
    struct enq_blocker *out);

/* Who took the lock that this handle means, if there was room to note it. */
void tell_taker(const struct map *map, enq_handle handle,
    char owner[ENQ_OWNER_BYTES]);

/* The time on both clocks, read once for a whole list. */
struct tell_clocks {
    mono_t now;
    int64_t wall_ms;
};
struct tell_clocks tell_clocks(void);

/*
 * A copy of an entry, with or without its words held, if it is the request
 * still that had this state, with the mode it has by now: of one moment, but
 * for deadline and token, which are single words. Of one that waited it says
 * so, though it was granted since. False: it is gone, or damaged.
 */
bool tell_info(const struct map *map, const struct entry *e, uint64_t state,
    const struct tell_clocks *clocks, struct enq_info *out);

/* Has the live entry this name, and this owner? NULL: any. False as well when
   it is damaged or has run out. */
bool tell_matches(const struct map *map, const struct entry *e,
    const char *name, const char *owner, mono_t now);

#endif
