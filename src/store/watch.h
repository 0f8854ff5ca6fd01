/*
 * watch.h - store: the deadline watch: has a lock's time come, without a clock.
 *
 * Even the coarse clock costs 3 ns and more, which is all that enq_valid() may
 * take. So the helper thread, which sleeps anyway, wakes up when the earliest
 * deadline of a session's own locks has come, and says so:
 *
 *	deadline > passed_ns	its time has not come; no clock is read
 *	else			it may have: the clock decides
 *
 * Both words are private to the process (struct session). `passed_ns` is
 * written by the helper only, and read without order: an old value is smaller,
 * and at worst lets a lock that has just run out pass for valid, as a late
 * helper would. A thread that takes a lock lowers `earliest_ns` by a swap, and
 * rings if the helper would wake up later than that (async/bell.c). A thread of
 * another session that shortens a ttl notifies the holder's (hold_renew()).
 * Where nobody watches (no helper, or a test turns time by hand) passed_ns is
 * INT64_MAX, and the clock decides.
 *
 * A helper that is late (its process was stopped) lets a lock that has run out
 * pass for valid only as long as nobody has taken it away: that shows in the
 * entry itself, which enq_valid() looks at first.
 *
 * A scan may miss a lock that is taken at that very moment, as neither side
 * pays for a fence; a second scan follows 50 ms later.
 */
#ifndef STORE_WATCH_H
#define STORE_WATCH_H

#include "store/slab.h"

/* Its ttl has certainly not ended yet: nothing is said of its session. */
HOT bool watch_says_no(const struct session *s, const struct entry *e)
{
    return shm_load(&e->deadline_ns) > shm_load(&s->passed_ns);
}

/* Would the helper come too late for it? Then watch_lower(), and ring. */
HOT bool watch_is_late_for(const struct session *s, int64_t deadline_ns)
{
    int64_t earliest_ns = shm_load(&s->earliest_ns);

    /* a lock without a ttl never is: INT64_MAX is not below INT64_MAX */
    return deadline_ns < earliest_ns ||
        (unlikely(shm_load(&s->margin_ns) > 0) && deadline_ns < INT64_MAX &&
            deadline_ns - shm_load(&s->margin_ns) < earliest_ns);
}

/* earliest_ns is at most this. By any thread of the process. */
void watch_lower(struct session *s, int64_t deadline_ns);

/* Goes through the session's locks: when is the next one to be looked at? */
typedef mono_t watch_find_fn(struct session *s, void *context);

/* One round of the helper: notes the time, and scans for the next deadline if
   one has come, by `find` or (NULL) by itself. Returns when to come back for
   this session at the latest. */
mono_t watch_round(struct session *s, mono_t now, watch_find_fn *find,
    void *context);

#endif
