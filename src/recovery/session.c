/*
 * session.c - recovery: sessions come and go.
 */
#include "recovery/session.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/id.h"
#include "base/point.h"
#include "base/why.h"
#include "recovery/heal.h"
#include "store/page.h"
#include "sync/life.h"

/* As with thread slots: life first, reference last. */
static int claim(struct session *s, uint32_t i)
{
    struct session_slot *slot = &s->map->sessions[i];
    uint32_t generation = (slot->generation + 1) % SESSION_GENERATIONS;
    int rc = life_begin(&slot->life);

    if (rc != 0)
        return why(rc, "no session in %s: %s", s->map->path, strerror(-rc));
    shm_store(&slot->generation, generation == 0 ? 1 : generation);
    id_random(slot->uuid);
    life_of(s->map, &slot->process);
    shm_store(&slot->state, SESSION_LIVE);
    shm_store(&slot->loose, 0);
    shm_store(&slot->adopted, 0);
    shm_store(&slot->keeper, shm_load(&s->map->keeper));
    shm_store(&slot->heirs, 0);
    shm_store(&slot->listens, 0);
    shm_store(&slot->started, 0);
    shm_store(&slot->asleep, 0);
    s->slot = slot;
    s->ref = slot->generation << SESSION_BITS | i;
    s->id_half = id_half(slot->uuid);
    ENQ_POINT("session.claimed");
    shm_store_release(&slot->ref, s->ref);
    ENQ_POINT("session.registered");
    return 0;
}

/* Under the registry lock. */
static int find(struct session *s)
{
    struct seg_header *h = s->map->h;

    for (uint32_t i = 0; i < SESSIONS_MAX; i++) {
        uint64_t at = SEG_SESSIONS + i * sizeof(struct session_slot);

        if (i >= h->sessions_high) {
            int rc = map_reserve(s->map, at, sizeof(struct session_slot));
            if (rc != 0)
                return why(rc, "no room for a session in %s: %s", s->map->path,
                    strerror(-rc));
            shm_store_release(&h->sessions_high, i + 1);
        }
        if (shm_load(&s->map->sessions[i].ref) == 0)
            return claim(s, i);
    }
    return -EAGAIN;
}

static int find_locked(struct session *s)
{
    int rc = map_registry_lock(s->map);

    if (rc != 0)
        return rc;
    rc = find(s);
    map_registry_unlock(s->map);
    return rc;
}

int session_begin(struct session *s, struct thread *t, struct map *map)
{
    int rc;

    s->map = map;
    s->ref = 0;
    slab_session_init(s);
    rc = find_locked(s);
    if ((rc == -EAGAIN || page_is_short(rc)) && bury_dead(s, t) > 0)
        rc = find_locked(s);
    if (rc == -EAGAIN)
        why(rc, "%s has room for %u sessions at once, and for no more",
            map->path, SESSIONS_MAX);
    if (rc != 0)
        slab_session_fini(s);
    return rc;
}

/* Free first, then unlocked, under the registry lock: see thread.c. */
void session_end(struct session *s)
{
    bool locked = map_registry_lock(s->map) == 0;

    if (!locked)
        life_end(&s->slot->life);
    shm_store_release(&s->slot->ref, 0);
    if (locked) {
        life_end(&s->slot->life);
        map_registry_unlock(s->map);
    }
    slab_session_fini(s);
}
