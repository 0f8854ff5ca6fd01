/*
 * moment.h - lock: all that is held or waits of one name, at one moment.
 *
 * The table is walked while requests go on; then the cells where something has
 * changed meanwhile are (listing.h), until they are few. Then the gate is
 * raised and its latch held, as for a generic request, while these few are
 * looked at, and the gate's own ring: that is the moment. It lasts as long as
 * there is to be seen what is new, and not as the table is large.
 *
 * A walk goes through the buckets, of which the tags tell nearly all that are of
 * other names, shard by shard: a shard's latch is held meanwhile, so that
 * no bucket is split, and a bucket's where there may be one of the name. Where
 * much is of the name, the first walk goes through the slabs.
 * What is found is noted, and copied when all latches have been released; but
 * at the moment itself at once: it is the row.
 */
#ifndef LOCK_MOMENT_H
#define LOCK_MOMENT_H

#include "lock/copy_out.h"
#include "lock/listing.h"
#include "lock/table_scan.h"

/* One that was found: `found.copy` once it is in `copies`, at the same place. */
struct moment_row {
    struct table_scan_found found;
    int64_t deadline_ns; /* these four change of a lock that stays: by a */
    uint64_t heir;       /* renewal, an adoption, an heir, one that lets go */
    session_ref_t session;
    uint8_t on_death;
    uint32_t round; /* when it was seen last; 0: it is no row any more */
    uint32_t cell;  /* LIST_CELLS: a generic one's, looked at each time */
};

struct moment {
    struct map *map;
    struct thread *t;
    const struct table_scan_filter *filter;
    struct moment_row *rows;
    struct enq_info *copies;
    uint32_t *by_ref; /* row + 1, by the entry's ref: open addressing */
    uint32_t n, room, places;
    uint32_t name_hash;
    struct listing_use use;
    uint64_t cells[LIST_CELLS / 64]; /* to be looked at */
    struct copy_clocks clocks;
    uint32_t round;
    int rc;   /* of a walk with a callback */
    bool all; /* each cell is to be looked at */
    bool by_slabs, short_of_room;
    bool copies_due; /* there is to be room for them */
    bool at_once;    /* requests wait meanwhile */
};

/* filter->name is one. Returns: 0. Faults, explained: -ENOMEM; ENQ_ECORRUPT.
   Either way moment_free() is due. */
int moment_take(struct moment *m, struct map *map, struct thread *t,
    const struct table_scan_filter *filter);
void moment_free(struct moment *m);

#endif
