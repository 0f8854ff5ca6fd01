/*
 * reap.c - recovery: sessions that are over (see reap.h).
 *
 * Two steps: each lock and each waiting request, under the latches of its own
 * key; then the slot and the slabs, under the recovery latch. `slot.ref` goes
 * last. As long as it is there the session is found dead by any thread, which
 * does all of it again: each step leaves alone what is done already (the model is
 * tests/spin/sweep.pml). Whom its threads have yet to tell of something, recovery
 * tells.
 *
 * Two may reap one session at once, and a third adopt a lock of it meanwhile.
 * Each entry is pinned, and looked at again inside; what is another session's
 * by then is left to that.
 */
#include "recovery/reap.h"

#include "base/assert.h"
#include "base/point.h"
#include "lock/hold_end.h"
#include "recovery/recover.h"
#include "store/page.h"
#include "store/walk.h"
#include "sync/life.h"

/* A look at each slot: cheap, where a recovery is not. A death right after it
   is found in the next round, or by whichever thread wants what the dead thread
   held. */
static bool any_dead_thread(const struct map *map)
{
    for (uint32_t i = 0; i < map_threads(map); i++) {
        thread_ref_t ref = shm_load_acquire(&map->threads[i].ref);
        if (ref != 0 && thread_is_dead(map, ref))
            return true;
    }
    return false;
}

/* What lay in the magazines of the dead is free: magazines are private memory,
   and gone. By a swap of this very state, as by all that walk the slabs without
   a latch (slab_each()). */
static bool uncache(void *context, struct entry *e, uint64_t state)
{
    (void)context;
    if (STATE_PHASE(state) == PHASE_CACHED)
        shm_cas(&e->state, &state,
            STATE(STATE_GENERATION(state) + 1, PHASE_FREE, 0, 0));
    return true;
}

/*
 * Under the recovery latch, which keeps two reapers apart: its slabs are
 * nobody's, its slot is free. Entries before pages: when a page is nobody's
 * another session may have it, and what is CACHED in it might be that one's. A
 * page that was claimed and not counted yet is not met here; the thread that
 * claimed it left the grow latch, and page_finish_claim() gives the page up.
 * `listens` by a swap, as `listeners` counts a session once, and the one that
 * closes wipes it out as well. `ref` last, and as a release: a thread that
 * finds it 0 may claim the slot (session.c), and has to find the rest erased.
 *
 * A death in here leaves the recovery latch, which the next thread takes over,
 * and the `ref`: that one's reaper begins again.
 */
static void erase(struct map *map, struct thread *t, session_ref_t ref,
    bool free_slot)
{
    struct session_slot *slot = at_session(map, ref);

    enq_assert(t->n_held == 0 && t->map == map);
    recover_lock(map, t, NULL);
    if (shm_load(&slot->ref) == ref) {
        slab_each_of(map, ref, uncache, NULL);
        page_orphan_all(map, ref);
        shm_store(&slot->adopted, 0);
        shm_store(&slot->loose, 0);
        if (shm_swap(&slot->listens, 0))
            shm_add(&map->h->listeners, -1);
        if (free_slot) {
            shm_store_release(&slot->ref, 0);
            thread_count(t, COUNT_OWNER_DEATHS);
        }
        ENQ_POINT("session.reaped");
    }
    recover_unlock(map);
}

/* The session is over: no thread of its process adds any locks, or takes pages
   in its name, any more. So when all of its entries have been through
   hold_release_all() there are no new ones, and the slot can go. If that fails
   the slot stays: the table is damaged, and what the session holds is not to be
   given on for that reason. */
int reap(struct session *s, struct thread *t, session_ref_t ref)
{
    int rc = hold_release_all(s, t, ref, GONE_DIED);

    enq_assert(t->n_held == 0 && ref != s->ref);
    if (rc == 0)
        erase(s->map, t, ref, true);
    return rc;
}

/* Close does what death does, in the same steps; only the proof is not needed,
   as the caller is the process itself. A death in here is that of any session:
   reaped by another, from the start. */
int retire(struct session *s, struct thread *t)
{
    int rc;

    enq_assert(t->n_held == 0);
    /* all of it ends here: a lock of ours that goes must not be handed to a
       waiter of ours, nor excuse one */
    shm_store_release(&s->slot->state, SESSION_ENDING);
    rc = hold_release_all(s, t, s->ref, GONE_NOT);
    if (rc == 0)
        erase(s->map, t, s->ref, false);
    return rc;
}

/* By a helper in its round, once a second, and by a thread in need of room or
   of a slot. The `ref` is compared again after session_is_dead(), which also
   says so of a slot that has been given to another session meanwhile. A session
   that is dead and not over keeps its locks (P14); `dying` has our helper look
   again soon. */
unsigned reap_dead(struct session *s, struct thread *t)
{
    struct map *map = s->map;
    bool dying = false;
    unsigned n = 0;

    enq_assert(t->n_held == 0);
    ENQ_POINT("reap.looks");
    /* threads first: one may have died inside a latch, or before its session
       began */
    if (any_dead_thread(map) && recover_noted(map, t) != 0)
        return 0;
    for (uint32_t i = 0; i < map_sessions(map); i++) {
        session_ref_t ref = shm_load_acquire(&map->sessions[i].ref);

        if (ref == 0 || !session_is_dead(map, ref) ||
            shm_load(&map->sessions[i].ref) != ref)
            continue;
        if (!session_prove(map, ref, true))
            dying = true;
        else if (reap(s, t, ref) == 0)
            n++;
    }
    /* a thread of those may have ended since, and not have told of something */
    if (n > 0 && any_dead_thread(map))
        recover_noted(map, t);
    shm_store(&map->dying, dying);
    return n;
}
