/*
 * call.c - store: notifies a session that one of its entries changed (see
 * call.h).
 */
#include "store/call.h"

void call_session(const struct map *map, session_ref_t to, ref_t entry)
{
    struct session_slot *slot = at_session(map, to);
    uint32_t number = shm_add(&slot->calls, 1);

    shm_store_release(&slot->call[number % CALLS_KEPT],
        (uint64_t)number << 32 | entry);
    shm_fence(); /* partner: call_watch() */
    if (shm_load(&slot->asleep))
        sys.wake(&slot->calls, 1);
}

static bool is_news(uint64_t state)
{
    return STATE_PHASE(state) == PHASE_GONE || (state & STATE_ASKED) != 0;
}

void call_up(const struct map *map, struct entry *e)
{
    uint32_t asleep = shm_load(&e->asleep);
    session_ref_t session = shm_load(&e->session);

    if (asleep == ASLEEP_THREAD)
        sys.wake((const uint32_t *)&e->state, 1);
    if (asleep >= ASLEEP_STARTED ||
        (is_news(shm_load(&e->state)) && call_is_wanted(map, session)))
        call_session(map, session, map_ref(map, e));
}

enum call_kind call_take(const struct session_slot *slot, uint32_t *seen,
    ref_t *entry)
{
    uint32_t newest = shm_load_acquire(&slot->calls), next = *seen + 1;
    uint64_t call;

    if (newest == *seen)
        return CALL_NONE;
    call = shm_load_acquire(&slot->call[next % CALLS_KEPT]);
    if (newest - *seen > CALLS_KEPT || call >> 32 != next) {
        *seen = newest;
        return CALL_LOST;
    }
    *seen = next;
    *entry = (ref_t)call;
    return CALL_ONE;
}

struct sys_watch call_watch(struct session_slot *slot, uint32_t seen)
{
    shm_store_fence(&slot->asleep, 1);
    return (struct sys_watch){&slot->calls, seen};
}

void call_watched(struct session_slot *slot)
{
    shm_store(&slot->asleep, 0);
}
