/*
 * peer.h - whose connections, sessions, waits and locks there are: of which
 * address, or user of a unix socket. None is to have all.
 *
 * One is there while it has anything; with several loops its counters are
 * written by all.
 */
#ifndef BRIDGE_PEER_H
#define BRIDGE_PEER_H

#include "bridge.h"

struct peer {
    struct table_node by_name;
    uint32_t uses; /* under the mutex, as is conns */
    uint32_t conns;
    _Atomic uint32_t sessions, waits, locks;
    char name[PEER_BYTES];
};

/* A connection of the one called @name. NULL: it has @most, or no memory. */
struct peer *peer_comes(struct share *share, const char *name, int64_t most);
void peer_goes(struct share *share, struct peer *peer);

/* A session with so many locks is its own, from now; @peer. */
struct peer *peer_has_session(struct share *share, struct peer *peer,
    uint32_t locks);
void peer_ends_session(struct share *share, struct peer *peer, uint32_t locks);

/*
 * Locks of no session: as none was opened, or as they have outlived it. Such a
 * lock counts for its asker's address, until it is gone: given back here, or
 * its holder, that is this process, is told so; of one that nobody holds any
 * more nobody is told, so that it is looked for now and then.
 */
void peer_has_lock(struct bridge *b, struct peer *from, enq_handle handle);
/* The same of one that a bridge had which is gone; @tag: its peer. */
void peer_inherits(struct bridge *b, const char *tag, enq_handle handle);
void peer_lost_lock(struct share *share, enq_handle handle);
void peer_tick(struct bridge *b);

bool peer_begin(struct share *share);
void peer_end(struct share *share);

/* One loop need not ask others. */
static inline void peer_count(const struct share *share,
    _Atomic uint32_t *counter, uint32_t by)
{
    if (share->n > 1)
        atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
    else
        atomic_store_explicit(counter,
            atomic_load_explicit(counter, memory_order_relaxed) + by,
            memory_order_relaxed);
}

#endif
