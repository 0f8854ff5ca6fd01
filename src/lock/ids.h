/*
 * ids.h - lock: ids that callers brought, each to one entry.
 *
 * Kept in the shards SHARDS.. of the index. Derived ids need none of this:
 * see base/id.h.
 */
#ifndef LOCK_IDS_H
#define LOCK_IDS_H

#include "lock/scope.h"
#include "store/index.h"

/* Under the latch of the id's shard: the entry that has this id now, brought or
   derived, and its state; NULL. Of one that is derived that latch guards
   nothing: entry_used_anew() tells whether what was read of it is its own. */
struct entry *ids_holder_locked(struct map *map, struct spot *spot,
    const char *id, uint64_t *state);

/* Under the same: `e` has the id from now on. ENQ_EXISTS: a live entry has
   it. */
int ids_claim_locked(struct map *map, struct spot *spot, const char *id,
    struct entry *e);

/*
 * The entry that has this id, brought or derived, and the handle that names
 * it. A derived id finds its entry also when the lock is gone, as long as that
 * is remembered; one that was brought, only while it is live.
 */
struct entry *ids_find(struct map *map, struct thread *t, const char *id,
    enq_handle *handle);

/* The id of an entry as text. `state`: what it was when the entry was read. */
void ids_text(const struct map *map, const struct entry *e, uint64_t state,
    char text[ENQ_ID_BYTES]);

#endif
