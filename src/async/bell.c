/*
 * bell.c - async: how the helper thread is told (see bell.h).
 */
#include "async/bell.h"

#include "store/notify.h"
#include "sync/sys.h"
#include "wait/lock_event.h"

struct helper_bell helper_bell;

void helper_ring(void)
{
    shm_add(&helper_bell.rings, 1);
    sys.wake(&helper_bell.rings, 1);
}

void helper_come_at(mono_t at)
{
    if (at.ns < shm_load(&helper_bell.wakes_ns))
        helper_ring();
}

void helper_report_death(struct session *s)
{
    (void)s;
    shm_store(&helper_bell.death, 1);
    helper_ring();
}

void helper_watch_slow(struct enq *e, const struct entry *entry)
{
    int64_t deadline_ns = shm_load(&entry->deadline_ns);
    mono_t at = {deadline_ns};

    if (notify_is_wanted(e->map, e->session.ref))
        at = mono_min(at,
            lock_event_near(deadline_ns, shm_load(&entry->ttl_ms)));
    watch_lower(&e->session, at.ns);
    helper_come_at(at);
}

void helper_note(struct enq *e, enq_handle handle)
{
    uint64_t state;
    struct entry *entry = entry_of_handle(e->map, handle, &state);

    if (entry != NULL)
        helper_watch(e, entry);
}
