/*
 * journal.c - store: a lock set under way (see journal.h).
 */
#include "store/journal.h"

#include "base/point.h"
#include "store/walk.h"
#include "sync/life.h"

void journal_begin(struct thread *t, session_ref_t of, uint64_t ticket)
{
    shm_store(&t->slot->set_of, of);
    shm_store_release(&t->slot->set, ticket); /* partner: journal_undo() */
    ENQ_POINT("set.begun");
}

/* Release: all members were placed before. Partner: journal_undo(). */
void journal_end(struct thread *t)
{
    shm_store_release(&t->slot->set, 0);
    ENQ_POINT("set.committed");
}

struct undo {
    session_ref_t of;
    uint64_t ticket;
};

/*
 * The lock is not taken out of the table: it may be linked in a shard where
 * nobody died, as in a wide scope the latch of each shard is released before
 * the next is acquired. It runs out instead, so that every reader finds it over
 * and the next request that meets it drops it. Nobody ever had it: so it
 * neither outlives its session nor delays others (on_death is overwritten). The
 * generation grows, so that relink() and lists which found it before look anew.
 */
static bool undo_one(void *context, struct entry *e, uint64_t state)
{
    const struct undo *u = context;

    if (STATE_PHASE(state) == PHASE_HELD && shm_load(&e->session) == u->of &&
        shm_load(&e->ticket) == u->ticket) {
        shm_store(&e->deadline_ns, 0);
        shm_store(&e->on_death, (uint8_t)ENQ_DEATH_RELEASE);
        shm_store_release(&e->state,
            STATE(STATE_GENERATION(state) + 1, PHASE_HELD, STATE_MODE(state),
                GONE_NOT));
        ENQ_POINT("recover.set_undone");
    }
    return true;
}

void journal_undo(struct map *map)
{
    for (uint32_t i = 0; i < map_threads(map); i++) {
        struct thread_slot *slot = &map->threads[i];
        struct undo undo = {0, shm_load_acquire(&slot->set)};
        thread_ref_t ref = shm_load_acquire(&slot->ref);

        if (undo.ticket == 0 || ref == 0 || !thread_is_dead(map, ref))
            continue;
        /* again: a thread that gave its slot back meanwhile had committed, and
           `set_of` may be the next one's */
        undo.of = shm_load(&slot->set_of);
        if (shm_load_acquire(&slot->set) != undo.ticket)
            continue;
        slab_each_of(map, undo.of, undo_one, &undo);
        shm_store(&slot->set, 0); /* only now may the slot be reclaimed */
    }
}
