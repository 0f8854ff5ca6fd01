/*
 * table_scan.c - lock: lists and counts (see table_scan.h).
 *
 * Nothing stands still during a walk. First the entries that match are noted
 * with the state that each had, which costs little; the caller sorts them, and
 * copies what it wants (copy_info()). A row of which the state has changed
 * since is left out or copied again, so that each row is consistent in itself.
 * A list of one name is of one moment: moment.c.
 */
#include "lock/table_scan.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/id.h"
#include "lock/copy_out.h"
#include "store/walk.h"
#include "sync/life.h"

#define HUGE_BYTES ((size_t)2 << 20)

/* In huge pages where the kernel has them: 60 MB, which 100,000 locks take,
   cost 15,000 page faults otherwise, and those a third of the time. */
void *table_scan_memory(size_t bytes)
{
    void *memory;

    if (bytes < HUGE_BYTES)
        return malloc(bytes);
    bytes = (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
    memory = aligned_alloc(HUGE_BYTES, bytes);
    if (memory != NULL)
        (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

struct collect {
    const struct map *map;
    const struct table_scan_filter *filter;
    struct table_scan_found *out;
    size_t n, total;
    mono_t now;
};

/* More may match than there is room for: they are counted, and the caller comes
   again with more room. */
static void note(struct collect *c, const struct table_scan_found *found)
{
    enq_assert(c->out != NULL || c->n == 0);
    if (c->total < c->n)
        c->out[c->total] = *found;
    c->total++;
}

struct table_scan_found table_scan_row(const struct entry *e, uint64_t state)
{
    bool waiting = STATE_PHASE(state) == PHASE_WAITING;

    return (struct table_scan_found){
        e, state, waiting ? e->ticket : (uint64_t)e->since_ns, e->token, NULL};
}

/* Fields are loaded plainly: what has changed in between is found when the copy
   is made, by the state. */
static bool collect(void *context, struct entry *e, uint64_t state)
{
    struct collect *c = context;
    struct table_scan_found found;

    if (!state_is_live(state) ||
        !copy_matches(c->map, e, c->filter->name, c->filter->owner, c->now))
        return true;
    found = table_scan_row(e, state);
    note(c, &found);
    return true;
}

int table_scan_by_arrival(const void *a, const void *b)
{
    const struct table_scan_found *x = a, *y = b;
    int waits = (STATE_PHASE(x->state) == PHASE_WAITING) -
        (STATE_PHASE(y->state) == PHASE_WAITING);

    if (waits != 0)
        return waits;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

size_t table_scan_list(const struct map *map,
    const struct table_scan_filter *filter, struct table_scan_found *out,
    size_t n)
{
    struct collect c = {map, filter, out, n, 0, sys.now()};

    enq_assert(out != NULL || n == 0);
    slab_each(map, collect, &c);
    return c.total;
}

/* --- counts --- */

struct tally {
    const struct map *map;
    struct enq_stats *out;
    mono_t now;
};

static bool tally(void *context, struct entry *e, uint64_t state)
{
    struct tally *t = context;

    if (!state_is_live(state))
        return true;
    if (STATE_PHASE(state) == PHASE_WAITING) {
        t->out->waiting++;
    } else if (entry_over(t->map, e, t->now) != ENQ_OK) {
        t->out->expired++;
    } else {
        t->out->held++;
        t->out->orphaned += session_is_over(t->map, e->session);
    }
    return true;
}

/* Each thread counts in its own slot, without an atomic addition
   (thread_count()). A slot that is given up adds its numbers to `retired`, so
   that a sum may be wrong for a moment, by one thread's. */
static void sum_counters(const struct map *map, uint64_t sum[COUNTERS])
{
    for (unsigned c = 0; c < COUNTERS; c++)
        sum[c] = shm_load(&map->h->retired[c]);
    for (uint32_t i = 0; i < map_threads(map); i++)
        for (unsigned c = 0; c < COUNTERS; c++)
            sum[c] += shm_load(&map->threads[i].counts[c]);
}

static void copy_counters(const uint64_t sum[COUNTERS], struct enq_stats *out)
{
    out->grants = sum[COUNT_GRANTS] + sum[COUNT_WAIT_GRANTS];
    out->refusals = sum[COUNT_REFUSALS];
    out->waits = sum[COUNT_WAITS];
    out->wait_grants = sum[COUNT_WAIT_GRANTS];
    out->timeouts = sum[COUNT_TIMEOUTS];
    out->cancels = sum[COUNT_CANCELS];
    out->releases = sum[COUNT_RELEASES];
    out->expiries = sum[COUNT_EXPIRIES];
    out->promotes = sum[COUNT_PROMOTES];
    out->promotes_refused = sum[COUNT_PROMOTES_REFUSED];
    out->lost = sum[COUNT_LOST];
    out->forced = sum[COUNT_FORCED];
    out->overflows = sum[COUNT_OVERFLOWS];
    out->owner_deaths = sum[COUNT_OWNER_DEATHS];
    out->recoveries = sum[COUNT_RECOVERIES];
    out->contended = sum[COUNT_CONTENDED];
}

static void count_slots(const struct map *map, struct enq_stats *out)
{
    for (uint32_t i = 0; i < map_threads(map); i++)
        out->threads += shm_load(&map->threads[i].ref) != 0;
    for (uint32_t i = 0; i < map_sessions(map); i++)
        out->sessions += shm_load(&map->sessions[i].ref) != 0;
    out->threads_max = THREADS_MAX;
    out->sessions_max = SESSIONS_MAX;
}

void table_scan_stats(const struct map *map, struct enq_stats *out)
{
    const struct seg_header *h = map->h;
    struct tally t = {map, out, sys.now()};
    uint64_t sum[COUNTERS];

    memcpy(out->space, map->path, sizeof(out->space) - 1);
    id_uuid_text(h->uuid, out->uuid);
    strncpy(out->compat, map->modes->name, sizeof(out->compat) - 1);
    out->layout = h->layout_version;
    out->strict = h->strict;
    out->created_ms = h->created_wall_ms;
    out->slots_max = h->slots_max;
    out->bytes_max = h->bytes;
    out->bytes_used = SEG_DIRS - SEG_GATES + PAGE_BYTES +
        map_threads(map) * sizeof(struct thread_slot) +
        map_sessions(map) * sizeof(struct session_slot) +
        (uint64_t)map_pages_used(map) * (PAGE_BYTES + DIRECTORY_BYTES);
    memcpy(out->overflow_owner, h->overflow_owner,
        sizeof(out->overflow_owner) - 1);
    out->unlinked = shm_load(&h->unlinked) || map_links(map) == 0;
    count_slots(map, out);
    sum_counters(map, sum);
    copy_counters(sum, out);
    slab_each(map, tally, &t);
}
