/*
 * moment.c - lock: all that is held or waits of one name, at one moment (see
 * moment.h).
 */
#include "lock/moment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/why.h"
#include "lock/scope.h"
#include "store/walk.h"

/* --- rows --- */

/* The kernel finds the memory before, not while others are kept waiting. */
static void touch(void *memory, size_t bytes)
{
    volatile char *p = memory;

    for (size_t i = 0; i < bytes; i += PAGE_BYTES)
        p[i] = 0;
}

/* Entries of a page are together, as they are met. */
static uint32_t *place_of(const struct moment *m, const struct entry *e)
{
    const uint32_t ref = map_ref(m->map, e), last = m->places - 1;
    uint32_t i = ref / UNITS_PER_PAGE * UINT32_C(0x9e3779b1) << 5 |
        ref % UNITS_PER_PAGE / SMALL_UNITS;

    enq_assert((m->places & last) == 0 && m->n < last);
    for (i &= last; m->by_ref[i] != 0; i = (i + 1) & last)
        if (m->rows[m->by_ref[i] - 1].found.e == e)
            break;
    return &m->by_ref[i];
}

static void drop_memory(struct moment *m)
{
    free(m->rows);
    free(m->copies);
    free(m->by_ref);
}

static void move_rows(struct moment *m, struct moment *to)
{
    for (uint32_t i = 0; i < m->n; i++) {
        struct moment_row *row = &to->rows[i];

        *row = m->rows[i];
        *place_of(to, row->found.e) = i + 1;
        if (row->found.copy == NULL)
            continue;
        to->copies[i] = m->copies[i];
        row->found.copy = &to->copies[i];
    }
}

#define ROOM_FIRST 256u

/* With no latch held. */
static int more_room(struct moment *m, uint32_t room)
{
    struct moment more = *m;

    for (more.places = 256; more.places < 4 * room; more.places *= 2)
        continue;
    more.room = room;
    more.rows = table_scan_memory(room * sizeof(*more.rows));
    if (m->copies_due)
        more.copies = table_scan_memory(room * sizeof(*more.copies));
    more.by_ref = calloc(more.places, sizeof(*more.by_ref));
    if (more.rows == NULL || more.by_ref == NULL ||
        (m->copies_due && more.copies == NULL)) {
        drop_memory(&more);
        return why(-ENOMEM, "out of memory for a list of %u locks", room);
    }
    touch(more.by_ref, more.places * sizeof(*more.by_ref));
    move_rows(m, &more);
    drop_memory(m);
    *m = more;
    return 0;
}

static int make_room(struct moment *m)
{
    m->short_of_room = false;
    return more_room(m, 2 * m->room);
}

/* Room for what may be new at the moment. */
static int spare_room(struct moment *m)
{
    uint32_t spare = m->n / 16 + ROOM_FIRST / 8;
    int rc = 0;

    m->copies_due = true;
    if (m->room - m->n < spare)
        rc = more_room(m, m->n + 2 * spare);
    if (rc == 0 && m->copies == NULL)
        m->copies = table_scan_memory(m->room * sizeof(*m->copies));
    if (rc == 0 && m->copies == NULL)
        rc = why(-ENOMEM, "out of memory for a list of %u locks", m->room);
    if (rc == 0) {
        touch(&m->rows[m->n], spare * sizeof(*m->rows));
        touch(&m->copies[m->n], spare * sizeof(*m->copies));
    }
    return rc;
}

/* It is no row if it has changed since it was noted: then its cell was marked
   before, and is looked at again. */
static void copy_row(struct moment *m, struct moment_row *row)
{
    struct enq_info *copy = &m->copies[row - m->rows];

    memset(copy, 0, offsetof(struct enq_info, owner));
    if (copy_info(m->map, row->found.e, row->found.state, &m->clocks, copy))
        row->found.copy = copy;
    else
        row->round = 0;
}

static struct moment_row row_of(const struct entry *e, uint64_t state)
{
    return (struct moment_row){
        .found = table_scan_row(e, state),
        .deadline_ns = shm_load(&e->deadline_ns),
        .heir = shm_load(&e->heir),
        .session = shm_load(&e->session),
        .on_death = shm_load(&e->on_death),
    };
}

/* The same grant as was noted, and copied, and all as it was? What has been
   noted is of before the copy, so that a change between the two is met as
   well; none of these becomes again what it was. A waiter's words are other
   ones, of which the copy tells nothing. */
static bool is_same(const struct moment_row *row, const struct moment_row *now)
{
    return row->found.copy != NULL &&
        state_same(row->found.state, now->found.state) &&
        (STATE_PHASE(now->found.state) == PHASE_WAITING ||
            (row->found.token == now->found.token &&
                row->deadline_ns == now->deadline_ns &&
                row->heir == now->heir && row->session == now->session &&
                row->on_death == now->on_death));
}

static bool cell_is_due(const struct moment *m, uint32_t cell)
{
    return cell == LIST_CELLS || (m->cells[cell / 64] >> cell % 64 & 1) != 0;
}

/* Under the latches that guard it; or under none (see_slab()). */
static void note(struct moment *m, const struct entry *e, uint64_t state,
    uint32_t cell)
{
    struct moment_row now = row_of(e, state);
    uint32_t *place = place_of(m, e);
    struct moment_row *row;

    if (*place != 0 && is_same(&m->rows[*place - 1], &now)) {
        m->rows[*place - 1].round = m->round;
        return;
    }
    if (!copy_matches(m->map, e, m->filter->name, m->filter->owner,
            m->clocks.now))
        return;
    if (*place == 0 && m->n == m->room) {
        m->short_of_room = true;
        return;
    }
    if (*place == 0)
        *place = ++m->n;
    row = &m->rows[*place - 1];
    *row = now;
    row->round = m->round;
    row->cell = cell;
    if (m->at_once)
        copy_row(m, row);
}

/* --- the walk --- */

/* @first  NULL: what led to it is damaged */
static int see_ring(struct moment *m, struct entry *first, bool generic)
{
    struct ring ring = ring_from(m->map, first);
    struct entry *e;

    if (first == NULL)
        return ENQ_ECORRUPT;
    while ((e = ring_next(&ring)) != NULL) {
        uint32_t cell = generic ? LIST_CELLS : listing_cell(e->hash);
        uint64_t state = shm_load(&e->state);

        if (e->name_hash == m->name_hash && cell_is_due(m, cell) &&
            state_is_live(state))
            note(m, e, state, cell);
    }
    return ring.damaged ? ENQ_ECORRUPT : 0;
}

static int see_objects(struct moment *m, const struct bucket *bucket)
{
    unsigned name = spot_name_tag(m->name_hash);
    uint32_t left = m->map->entries_max;
    int rc = 0;

    for (unsigned i = 0; i < BUCKET_SLOTS && rc == 0; i++)
        if (bucket->tag[i] != 0 && bucket->tag[i] >> 8 == name)
            rc = see_ring(m, at_entry(m->map, bucket->ref[i]), false);
    for (ref_t ref = bucket->more; ref != 0 && rc == 0;) {
        struct entry *e = at_entry(m->map, ref);

        if (e == NULL || left-- == 0)
            return ENQ_ECORRUPT;
        ref = e->spill;
        rc = see_ring(m, e, false);
    }
    return rc;
}

static int see_bucket(struct moment *m, struct bucket *bucket)
{
    int rc;

    if (bucket == NULL)
        return ENQ_ECORRUPT;
    if (m->at_once)
        visit(VISIT_AT_ONCE);
    if (scope_may_skip(m->map, bucket, spot_name_tag(m->name_hash),
            m->use.remade))
        return 0;
    rc = latch_acquire(m->t, &bucket->latch, RANK_BUCKET);
    if (rc != 0)
        return rc;
    ENQ_POINT("list.bucket_latched");
    rc = see_objects(m, bucket);
    latch_release(m->t, &bucket->latch);
    return rc;
}

/* Buckets of one cell: of a shard that has fewer than cells, one of several. */
static int see_cell(struct moment *m, uint32_t shard, uint32_t cell, uint32_t n)
{
    uint32_t i = cell;
    int rc = 0;

    if (n <= LIST_CELLS_A_SHARD)
        i = bucket_number((uint64_t)cell << 8, n);
    for (; i < n && rc == 0; i += LIST_CELLS_A_SHARD) {
        if (i + LIST_CELLS_A_SHARD < n)
            __builtin_prefetch(at_bucket(m->map, shard,
                i + LIST_CELLS_A_SHARD));
        rc = see_bucket(m, at_bucket(m->map, shard, i));
    }
    return rc;
}

static int see_cells(struct moment *m, uint32_t shard, uint32_t n)
{
    const uint32_t from = shard * LIST_CELLS_A_SHARD;
    int rc = 0;

    for (uint32_t i = 0; i < LIST_CELLS_A_SHARD && rc == 0; i++)
        if (cell_is_due(m, from + i))
            rc = see_cell(m, shard, i, n);
    return rc;
}

/* In the order of their addresses: quicker than by cells, where many are due. */
static int see_row(struct moment *m, const struct bucket_row *row)
{
    unsigned name = spot_name_tag(m->name_hash);
    int rc = 0;

    for (uint32_t i = 0; i < row->n && rc == 0; i++) {
        visit(VISIT_BUCKET);
        scope_fetch_ahead(m->map, row, i, name);
        rc = see_bucket(m, &row->first[i]);
    }
    return rc;
}

static int see_all(struct moment *m, uint32_t shard, uint32_t n)
{
    struct bucket_row row;
    int rc = 0;

    for (uint32_t i = 0; i < n && rc == 0; i += row.n)
        rc = scope_row(m->map, shard, i, n, &row) ? see_row(m, &row)
                                                  : ENQ_ECORRUPT;
    return rc;
}

#define CELL_WORDS (LIST_CELLS_A_SHARD / 64)

static unsigned cells_due(const struct moment *m, uint32_t shard)
{
    unsigned n = 0;

    for (unsigned i = 0; i < CELL_WORDS; i++)
        n += (unsigned)__builtin_popcountll(m->cells[shard * CELL_WORDS + i]);
    return n;
}

static int see_shard(struct moment *m, uint32_t number)
{
    struct shard *shard = &m->map->shards[number];
    unsigned due = cells_due(m, number);
    uint32_t n;
    int rc;

    if (due == 0)
        return 0;
    rc = latch_acquire(m->t, &shard->latch, RANK_SHARD);
    if (rc != 0)
        return rc;
    thread_note_shard(m->t, number);
    /* Partner: spot_mend(), before a request's load of `raised`. */
    n = shm_load_fence(&shard->n_buckets);
    if ((n & SHARD_EMPTY) == 0)
        rc = due > LIST_CELLS_A_SHARD / 4 ? see_all(m, number, n)
                                          : see_cells(m, number, n);
    latch_release(m->t, &shard->latch);
    if (!m->at_once)
        ENQ_POINT("list.shard");
    return rc;
}

/* --- the walk through the slabs ---
 *
 * Where much is of the name, its entries are met sooner in the order of their
 * addresses. Under no latch: who was inside before the gate was told is waited
 * for, all others mark what they change.
 */

static bool drain_bucket(void *context, uint32_t shard, struct bucket *bucket)
{
    struct moment *m = context;

    if (shm_load_fence(&bucket->latch) == 0)
        return true;
    thread_note_shard(m->t, shard);
    m->rc = latch_acquire(m->t, &bucket->latch, RANK_BUCKET);
    if (m->rc == 0)
        latch_release(m->t, &bucket->latch);
    return m->rc == 0;
}

/* What is read here may be of a use of the entry that comes after: then the row
   is not copied, and the cell of either use is marked. */
static bool see_slab(void *context, struct entry *e, uint64_t state)
{
    struct moment *m = context;

    if (state_is_live(state) && shm_load(&e->name_hash) == m->name_hash &&
        shm_load(&e->generic) == 0)
        note(m, e, state, listing_cell(shm_load(&e->hash)));
    return !m->short_of_room;
}

#define PAGES_AT_ONCE 256

static int see_slabs(struct moment *m)
{
    uint32_t page = 0;

    m->rc = 0;
    for (uint32_t i = 0; i < SHARDS; i++)
        if (!map_each_bucket(m->map, i, drain_bucket, m))
            return m->rc;
    for (;;) {
        uint32_t next =
            slab_each_from(m->map, page, PAGES_AT_ONCE, see_slab, m);

        if (!m->at_once)
            ENQ_POINT("list.slabs");
        if (!m->short_of_room)
            page = next;
        if (m->short_of_room ? m->at_once : page == 0)
            return 0;
        m->rc = m->short_of_room ? make_room(m) : 0;
        if (m->rc != 0)
            return m->rc;
    }
}

/* --- rounds --- */

/* Under its latch. */
static int see_gate(struct moment *m)
{
    ref_t head = m->use.gate->head;

    return head == 0 ? 0 : see_ring(m, at_entry(m->map, head), true);
}

/* What was to be seen in this round and was not is no row any more. */
static void drop_unseen(struct moment *m)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (m->rows[i].round != m->round && cell_is_due(m, m->rows[i].cell))
            m->rows[i].round = 0;
}

/* By then it is known whether there are more than pages: see_slabs(). */
#define SHARDS_FIRST 8u
#define MANY 1000u

static int choose(struct moment *m)
{
    uint32_t expected = m->n * (SHARDS / SHARDS_FIRST);

    m->by_slabs = expected > MANY && expected > map_pages_used(m->map);
    expected += expected / 4;
    return m->by_slabs && expected > m->room ? more_room(m, expected) : 0;
}

/* Short of room at the moment: in vain. */
static int see_due(struct moment *m)
{
    int rc = 0;

    for (uint32_t i = 0; i < SHARDS && rc == 0 && !(m->all && m->by_slabs);) {
        rc = see_shard(m, i);
        if (!m->short_of_room)
            i++;
        else if (m->at_once)
            return rc;
        else if (rc == 0)
            rc = make_room(m);
        if (rc == 0 && i == SHARDS_FIRST && m->round == 1 && !m->by_slabs)
            rc = choose(m);
    }
    return rc == 0 && m->all && m->by_slabs ? see_slabs(m) : rc;
}

/* All that is due, with nobody kept waiting but for a bucket, or a split. */
static int walk(struct moment *m)
{
    int rc;

    enq_assert(!m->at_once && m->t->n_held == 0);
    m->round++;
    m->clocks = copy_clocks();
    rc = see_due(m);
    drop_unseen(m);
    if (rc == 0)
        rc = spare_room(m); /* before there are copies to be moved */
    for (uint32_t i = 0; i < m->n && rc == 0; i++)
        if (m->rows[i].round != 0 && m->rows[i].found.copy == NULL)
            copy_row(m, &m->rows[i]);
    ENQ_POINT("list.walked");
    return rc;
}

static void all_are_due(struct moment *m)
{
    memset(m->cells, 0xff, sizeof(m->cells));
    m->all = true;
}

static uint32_t take_marks(struct moment *m)
{
    uint32_t due = 0;

    listing_take(&m->use, m->cells);
    for (uint32_t i = 0; i < SHARDS; i++)
        due += cells_due(m, i);
    return due;
}

/* Others that want a lock of the gate's names wait. */
static int look_at_once(struct moment *m)
{
    int rc;

    m->round++;
    m->clocks = copy_clocks();
    m->at_once = true;
    if (listing_is_whole(&m->use))
        take_marks(m);
    else
        all_are_due(m);
    ENQ_POINT("list.at_once");
    rc = see_gate(m);
    if (rc == 0)
        rc = see_due(m);
    m->at_once = false;
    return rc;
}

/* Raising the gate sends every request for the name to the gate's latch, and
   those for other names of the gate. A death in here: recovery stores `raised`
   as the gate's ring says. */
static int freeze(struct moment *m)
{
    struct gate *gate = m->use.gate;
    int rc = spare_room(m);

    if (rc == 0)
        rc = latch_acquire(m->t, &gate->latch, RANK_GATE);
    if (rc != 0)
        return rc;
    shm_add(&gate->raised, 1);
    rc = look_at_once(m);
    shm_add(&gate->raised, -1);
    latch_release(m->t, &gate->latch);
    return rc;
}

#define CELLS_FEW 32
#define ROUNDS 6

/* Each round is shorter than the one before, unless the name's requests mark
   as fast as a walk is: then the moment is as long as a round. */
static int rounds(struct moment *m)
{
    uint32_t due = LIST_CELLS;
    int rc = 0;

    all_are_due(m);
    for (unsigned i = 0; i < ROUNDS && rc == 0 && due > CELLS_FEW; i++) {
        rc = walk(m);
        memset(m->cells, 0, sizeof(m->cells));
        m->all = false;
        due = take_marks(m);
    }
    do {
        if (rc == 0 && m->short_of_room)
            rc = make_room(m);
        if (rc == 0)
            rc = freeze(m);
    } while (rc == 0 && m->short_of_room);
    drop_unseen(m);
    return rc;
}

int moment_take(struct moment *m, struct map *map, struct thread *t,
    const struct table_scan_filter *filter)
{
    uint64_t hash =
        hash_bytes(filter->name, strlen(filter->name) + 1, map->hash_seed);
    int rc;

    memset(m, 0, sizeof(*m));
    m->map = map;
    m->t = t;
    m->filter = filter;
    m->name_hash = (uint32_t)hash;
    rc = more_room(m, ROOM_FIRST);
    if (rc != 0)
        return rc;
    listing_begin(&m->use, map, t, &map->gates[gate_of_hash(m->name_hash)]);
    rc = rounds(m);
    listing_end(&m->use);
    thread_note_inside(t, INSIDE_NONE);
    return rc;
}

void moment_free(struct moment *m)
{
    drop_memory(m);
    m->rows = NULL;
    m->copies = NULL;
    m->by_ref = NULL;
    m->n = 0;
}
