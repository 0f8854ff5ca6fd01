/*
 * notify.c - store: notifies a session that one of its entries changed (see
 * notify.h).
 */
#include "store/notify.h"

#include "sync/tick.h"

/*
 * The number first, then the word: while it is missing the helper sees an old
 * number in its place, and calls the notification lost. The fence stands
 * between the count and the load of `asleep`: of helper and sender at least one
 * sees the other.
 */
void notify_session(const struct map *map, session_ref_t to, ref_t entry)
{
    struct session_slot *slot = at_session(map, to);
    uint32_t number = shm_add(&slot->notifications, 1);

    shm_store_release(&slot->notification[number % NOTIFICATIONS_KEPT],
        (uint64_t)number << 32 | entry);
    shm_fence(); /* partner: notification_watch() */
    if (shm_load(&slot->asleep))
        sys.wake(&slot->notifications, 1);
}

/* What a listening session is told of a held lock; see wait/lock_event.h. */
static bool has_event(uint64_t state)
{
    return STATE_PHASE(state) == PHASE_GONE || (state & STATE_ASKED) != 0;
}

void notify(const struct map *map, struct entry *e)
{
    /* partner of this load: sleep_on() in wait/waiter.c. The fence of our side is
       in scope_send_wakes(), once for all entries of a scope */
    uint32_t asleep = entry_sleeps(e);
    session_ref_t session = shm_load(&e->session);

    if (asleep == ASLEEP_THREAD || asleep == ASLEEP_BEHIND) {
        tick_trace(&e->asleep);
        notify_sleepers(e);
    }
    if (asleep >= ASLEEP_STARTED ||
        (has_event(shm_load(&e->state)) && notify_is_wanted(map, session)))
        notify_session(map, session, map_ref(map, e));
}

enum notification_kind notification_take(const struct session_slot *slot,
    uint32_t *seen, ref_t *entry)
{
    uint32_t newest = shm_load_acquire(&slot->notifications), next = *seen + 1;
    uint64_t note;

    if (newest == *seen)
        return NOTIFICATION_NONE;
    note = shm_load_acquire(&slot->notification[next % NOTIFICATIONS_KEPT]);
    /* numbers wrap: differences count, not which is greater. After a loss all
       up to `newest` are settled by one look at everything */
    if (newest - *seen > NOTIFICATIONS_KEPT || note >> 32 != next) {
        *seen = newest;
        return NOTIFICATION_LOST;
    }
    *seen = next;
    *entry = (ref_t)note;
    return NOTIFICATION_ONE;
}

/* A full fence behind the store: then the futex compares `notifications`.
   Partner: notify_session(). */
struct sys_watch notification_watch(struct session_slot *slot, uint32_t seen)
{
    shm_store_fence(&slot->asleep, 1);
    return (struct sys_watch){&slot->notifications, seen};
}

void notification_watched(struct session_slot *slot)
{
    shm_store(&slot->asleep, 0);
}
