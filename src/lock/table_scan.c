/*
 * table_scan.c - lock: lists and counts (see table_scan.h).
 *
 * Nothing stands still during a walk. First the entries that match are noted
 * with the state that each had, which costs little; the caller sorts them, and
 * copies what it wants (copy_info()). A row of which the state has changed
 * since is left out or copied again, so that each row is consistent in itself.
 * A list of one name can be of one moment: then its gate is held while the
 * notes are made (table_scan_freeze()).
 */
#include "lock/table_scan.h"

#include <string.h>

#include "base/hash.h"
#include "base/id.h"
#include "lock/copy_out.h"
#include "lock/scope.h"
#include "store/walk.h"
#include "sync/latch.h"
#include "sync/life.h"

struct collect {
    const struct map *map;
    const struct table_scan_filter *filter;
    struct table_scan_found *out;
    size_t n, total;
    const struct table_scan_found *known, *known_end; /* by address */
    mono_t now;
};

/* More may match than there is room for: they are counted, and the caller comes
   again with more room. */
static bool note(struct collect *c, const struct table_scan_found *found)
{
    enq_assert(c->out != NULL || c->n == 0);
    if (c->total < c->n)
        c->out[c->total] = *found;
    c->total++;
    return true;
}

/* What was found before and is the same grant now: nothing but its state is
   read. Both walks go through the slabs by address, so that one cursor does. */
static const struct table_scan_found *recall(struct collect *c,
    const struct entry *e, uint64_t state)
{
    enq_assert(c->known <= c->known_end);
    while (c->known < c->known_end && c->known->e < e)
        c->known++;
    return c->known < c->known_end && c->known->e == e &&
            state_same(c->known->state, state)
        ? c->known
        : NULL;
}

/* Fields are loaded plainly: what has changed in between is found when the copy
   is made, by the state. */
static bool collect(void *context, struct entry *e, uint64_t state)
{
    struct collect *c = context;
    bool waiting = STATE_PHASE(state) == PHASE_WAITING;
    const struct table_scan_found *known;

    if (!state_is_live(state))
        return true;
    known = recall(c, e, state);
    if (known != NULL)
        return note(c, known);
    if (!copy_matches(c->map, e, c->filter->name, c->filter->owner, c->now))
        return true;
    return note(c,
        &(struct table_scan_found){e, state,
            waiting ? e->ticket : (uint64_t)e->since_ns, e->token, NULL});
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
    struct collect c = {map, filter, out, n, 0, NULL, NULL, sys.now()};

    enq_assert(out != NULL || n == 0);
    slab_each(map, collect, &c);
    return c.total;
}

size_t table_scan_list_again(const struct map *map,
    const struct table_scan_filter *filter,
    const struct table_scan_found *known, size_t known_n,
    struct table_scan_found *out, size_t n)
{
    struct collect c = {
        map, filter, out, n, 0, known, known + known_n, sys.now()};

    enq_assert(out != NULL || n == 0);
    slab_each(map, collect, &c);
    return c.total;
}

/* Raising the gate sends every request for the name to the gate's latch, which
   is held from here to table_scan_thaw(); the drain lets those inside finish, as
   the walk looks at entries without their latches. Requests for the other names
   of this gate wait as well. A death in between: recovery stores `raised` as
   the gate's ring says. */
int table_scan_freeze(struct map *map, struct thread *t, const char *name,
    struct table_scan_freeze *f)
{
    uint64_t hash = hash_bytes(name, strlen(name) + 1, map->hash_seed);
    int rc;

    enq_assert(t->n_held == 0);
    f->gate = &map->gates[gate_of_hash((uint32_t)hash)];
    rc = latch_acquire(t, &f->gate->latch, RANK_GATE);
    if (rc != 0)
        return rc;
    shm_add(&f->gate->raised, 1);
    rc = scope_drain(map, t);
    if (rc != 0)
        table_scan_thaw(map, t, f);
    return rc;
}

void table_scan_thaw(struct map *map, struct thread *t,
    const struct table_scan_freeze *f)
{
    enq_assert(holds_latch(t, &f->gate->latch));
    (void)map;
    shm_add(&f->gate->raised, -1);
    latch_release(t, &f->gate->latch);
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
    out->bytes_used = SEG_FIXED_END - SEG_GATES + PAGE_BYTES +
        map_threads(map) * sizeof(struct thread_slot) +
        map_sessions(map) * sizeof(struct session_slot) +
        (uint64_t)map_pages_used(map) * (PAGE_BYTES + sizeof(struct page_info));
    memcpy(out->overflow_owner, h->overflow_owner,
        sizeof(out->overflow_owner) - 1);
    out->unlinked = shm_load(&h->unlinked) || map_links(map) == 0;
    count_slots(map, out);
    sum_counters(map, sum);
    copy_counters(sum, out);
    slab_each(map, tally, &t);
}
