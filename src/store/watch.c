/*
 * watch.c - store: whose time has come (see watch.h).
 */
#include "store/watch.h"

#include "store/walk.h"
#include "sync/sys.h"

#define AGAIN_NS (50 * NS_PER_MS) /* from one scan to its second */
#define SHARE 20                  /* at most 1/20 of the time is for scans */

/* A swap, as several threads and the helper lower it at once, and the lowest
   must stay. */
void watch_lower(struct session *s, int64_t deadline_ns)
{
    int64_t earliest = shm_load(&s->earliest_ns);

    while (deadline_ns < earliest &&
        !shm_cas(&s->earliest_ns, &earliest, deadline_ns))
        continue;
}

struct look {
    const struct session *s;
    int64_t after_ns, earliest_ns;
};

static bool see_deadline(void *context, struct entry *e, uint64_t state)
{
    struct look *l = context;
    int64_t deadline = shm_load(&e->deadline_ns);

    if (deadline > l->after_ns && deadline < l->earliest_ns &&
        STATE_PHASE(state) == PHASE_HELD && shm_load(&e->session) == l->s->ref)
        l->earliest_ns = deadline;
    return true;
}

/* Locks that it has adopted lie in the slabs of other sessions: then the whole
   table is scanned. */
static int64_t find_earliest(const struct session *s, mono_t after)
{
    struct look l = {s, after.ns, INT64_MAX};

    if (shm_load(&s->slot->adopted))
        slab_each(s->map, see_deadline, &l);
    else
        slab_each_of(s->map, s->ref, see_deadline, &l);
    return l.earliest_ns;
}

/* One scan. The next one is SHARE times as far off as this one took, at least,
   whatever deadlines there are: many locks with short ttls cost a bounded part
   of one CPU. */
static void scan(struct session *s, mono_t now, watch_find_fn *find,
    void *context)
{
    int64_t found = find == NULL ? find_earliest(s, now) : find(s, context).ns;
    mono_t after = sys.now();
    mono_t rest = mono_add_ns(now, (after.ns - now.ns) * SHARE);

    watch_lower(s, found < rest.ns ? rest.ns : found);
}

/*
 * `passed_ns` first, then the scan: a lock taken in between is seen by the scan
 * or lowers earliest_ns itself. The first scan, as a deadline has come, forgets
 * the old hint; the second only adds to what the first found, for the sake of a
 * lock whose entry the first scan did not see yet and whose lowering it wiped
 * out.
 */
mono_t watch_round(struct session *s, mono_t now, watch_find_fn *find,
    void *context)
{
    mono_t next;

    shm_store(&s->passed_ns, now.ns);
    if (mono_reached((mono_t){shm_load(&s->earliest_ns)}, now)) {
        shm_store(&s->earliest_ns, INT64_MAX);
        scan(s, now, find, context);
        s->second_ns = mono_add_ns(sys.now(), AGAIN_NS).ns;
    } else if (s->second_ns != 0 && mono_reached((mono_t){s->second_ns}, now)) {
        s->second_ns = 0;
        scan(s, now, find, context);
    }
    next = (mono_t){shm_load(&s->earliest_ns)};
    return s->second_ns == 0 ? next : mono_min(next, (mono_t){s->second_ns});
}
