/*
 * session.c - recovery: sessions come and go.
 *
 * A slot is used by one session after the other; `ref` says by which, as it has
 * the slot's generation in it. All that others look at by a `ref` (liveness
 * word, process, `over`) is compared with it, so that nothing known of a past
 * session is taken for one about the present one.
 *
 * The registry lock is not a latch: a lock on a byte of the file, which the
 * kernel drops when the process dies. So whatever a death in here leaves is a
 * slot whose `ref` is 0, or one whose thread is dead, which is reaped.
 */
#include "recovery/session.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/id.h"
#include "base/point.h"
#include "base/why.h"
#include "recovery/reap.h"
#include "store/notify.h"
#include "store/page.h"
#include "sync/life.h"

/* As with thread slots: life first, reference last (release; partners: look()
   in life.c, and all that read the other fields after an acquire load of
   `ref`). A death before that leaves a free slot, and the next thread makes its
   mutex anew. Generation 0 is left out, so that no reference is 0. What the
   last session of the slot had asked for (events, heirs) is wiped before the
   `ref` is there. */
static int claim(struct session *s, uint32_t i)
{
    struct session_slot *slot = &s->map->sessions[i];
    uint32_t generation = (slot->generation + 1) % SESSION_GENERATIONS;
    int rc = life_begin(&slot->life);

    enq_assert(i < SESSIONS_MAX);
    if (rc != 0)
        return why(rc, "cannot begin a session in %s: %s", s->map->path,
            strerror(-rc));
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

/* Under the registry lock. `sessions_high` bounds all walks over the slots: a
   slot has memory behind it before the number is stored (release; partner:
   map_sessions()): a full file system is an error here and a SIGBUS there. */
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

/* The one behind watches us from now on. */
static void tell_neighbour(const struct session *s)
{
    session_ref_t behind = session_behind(s->map, s->ref);

    if (behind != 0)
        notify_session(s->map, behind, NOTIFICATION_NEIGHBOUR);
}

/* Where all slots are taken, or there is no memory for one more, the dead may
   have some: they are reaped, and it is tried once more. That is done on behalf
   of a session that has no reference yet, and so is none of those, and owns no
   page. */
int session_begin(struct session *s, struct thread *t, struct map *map)
{
    int rc;

    enq_assert(t->map == map && t->n_held == 0);
    s->map = map;
    s->ref = 0;
    slab_session_init(s);
    rc = find_locked(s);
    if ((rc == -EAGAIN || page_is_short(rc)) && reap_dead(s, t) > 0)
        rc = find_locked(s);
    if (rc == -EAGAIN)
        why(rc, "%s is full: it has room for %u sessions", map->path,
            SESSIONS_MAX);
    if (rc != 0)
        slab_session_fini(s);
    else
        tell_neighbour(s);
    return rc;
}

/* Free first, then unlocked, under the registry lock: once `ref` is 0 another
   thread may claim the slot, and would make a mutex anew that is still in our
   robust list; the lock keeps it out until we are through. Without that lock
   (the descriptor was closed under us) unlocked first: a death in between shows
   as an unlocked mutex of a slot in use, which counts as dead. See slot_free()
   in thread.c. */
void session_end(struct session *s)
{
    thread_ref_t keeper = shm_load(&s->slot->keeper);
    bool locked = map_registry_lock(s->map) == 0;

    enq_assert(s->slot != NULL);
    if (!locked)
        life_end(&s->slot->life);
    shm_store_release(&s->slot->ref, 0);
    if (locked) {
        life_end(&s->slot->life);
        map_registry_unlock(s->map);
    }
    session_unwatch(s->map, keeper);
    slab_session_fini(s);
}
