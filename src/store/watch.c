/*
 * watch.c - store: whose time has come (see watch.h).
 */
#include "store/watch.h"

#include "sync/sys.h"

#define AGAIN_NS (50 * NS_PER_MS)
#define SHARE 20

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

static int64_t find_earliest(const struct session *s, mono_t after)
{
    struct look l = {s, after.ns, INT64_MAX};

    if (shm_load(&s->slot->adopted))
        slab_each(s->map, see_deadline, &l);
    else
        slab_each_of(s->map, s->ref, see_deadline, &l);
    return l.earliest_ns;
}

/* Scans seldom: each so many times of what it takes. */
static void scan(struct session *s, mono_t now, watch_find_fn *find,
    void *context)
{
    int64_t found = find == NULL ? find_earliest(s, now) : find(s, context).ns;
    mono_t after = sys.now();
    mono_t rest = mono_add_ns(now, (after.ns - now.ns) * SHARE);

    watch_lower(s, found < rest.ns ? rest.ns : found);
}

/* A first scan because one is due, which forgets the old hint; a second one
   that only adds to what the first has found. */
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
