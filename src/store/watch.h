/*
 * watch.h - store: whose time has come, without a clock.
 *
 * Even the coarse clock costs 3 ns and more, which is all of what enq_valid()
 * may take. So the one who sleeps anyway, the helper thread, wakes up when the
 * earliest deadline of a session's own locks has come, and says so:
 *
 *	deadline > passed_ns	its time has not come; no clock is read
 *	else			it may have: the clock decides
 *
 * Whoever takes a lock lowers earliest_ns, and rings if the helper would wake
 * up later than that: with the default ttl never, as it makes a round each
 * second. Where nobody watches (no helper, or time is turned by hand by a
 * test) passed_ns is INT64_MAX.
 *
 * A helper that is late (its process was stopped) lets a lock that has run out
 * pass for valid, as long as nobody else has taken it away: that shows in the
 * entry itself.
 *
 * A lock taken in the very moment of a scan might be missed by it, as neither
 * side pays for a fence; a second scan follows 50 ms later.
 */
#ifndef STORE_WATCH_H
#define STORE_WATCH_H

#include "store/slab.h"

/* Certainly not over yet, as far as its own time goes. */
HOT bool watch_says_no(const struct session *s, const struct entry *e)
{
    return shm_load(&e->deadline_ns) > shm_load(&s->passed_ns);
}

/* Would the watcher miss it? Then watch_lower(), and ring for him. */
HOT bool watch_is_late_for(const struct session *s, int64_t deadline_ns)
{
    int64_t earliest_ns = shm_load(&s->earliest_ns);

    /* a lock without a ttl never is: INT64_MAX is not below INT64_MAX */
    return deadline_ns < earliest_ns ||
        (unlikely(shm_load(&s->margin_ns) > 0) && deadline_ns < INT64_MAX &&
            deadline_ns - shm_load(&s->margin_ns) < earliest_ns);
}

void watch_lower(struct session *s, int64_t deadline_ns);

/* Goes through the session's locks: when is the next to be looked at? */
typedef mono_t watch_find_fn(struct session *s, void *context);

/* By the helper. Notes the time; looks for the next deadline if one has come,
   by `find` or (NULL) by itself. When to come back for this session at the
   latest. */
mono_t watch_round(struct session *s, mono_t now, watch_find_fn *find,
    void *context);

#endif
