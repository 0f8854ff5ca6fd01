/*
 * check.c - recovery: is what is derived what the truth says?
 *
 * I1  every live entry is in exactly one ring, of its own object or gate
 * I2  rings close, forwards and backwards; of an object what is held comes first,
 *     then who waits, in order of arrival
 * I3  the index leads to each object from the bucket of its hash, once; a
 *     generic entry has its key's digest
 * I4  counts (objects, waiting, raised, queues) are those of the rings
 * I5  no two held entries conflict that overlap
 * I6  every page belongs to nobody, to a session, or to a shard
 * I7  tokens of an object are below its shard's, or its gate's
 * I8  no waiter has a longer bypass window than it may have been given
 * I9  the page of each waiter without a thread is marked (store/mark.h)
 */
#include "recovery/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lock/conflict.h"
#include "lock/ids.h"
#include "lock/queue.h"
#include "lock/transition.h"
#include "store/mark.h"
#include "store/walk.h"
#include "sync/latch.h"

void check_note(struct check_report *report, const char *format, ...)
{
    va_list args;
    int n;

    enq_assert(report->used <= report->room);
    report->findings++;
    if (report->used + 2 > report->room)
        return;
    va_start(args, format);
    n = vsnprintf(report->text + report->used, report->room - report->used - 1,
        format, args);
    va_end(args);
    if (n < 0)
        return;
    report->used += strlen(report->text + report->used);
    report->text[report->used++] = '\n';
    report->text[report->used] = '\0';
}

/*
 * What one check carries along. The table is not stopped: each bucket and gate
 * is looked at under its own latch, and so in itself of one moment; nothing is
 * compared between two of them. From an entry to its ring the way leads under
 * the latches of its key.
 *
 * Nothing is mended here. A finding names the invariant and the entry;
 * recover_all() makes all that is derived anew.
 */
struct check {
    struct map *map;
    struct thread *t;
    struct check_report *report;
    uint32_t shard;
    const struct bucket *bucket; /* of keys: its latch is held */
    uint32_t waiting;
    uint64_t linked; /* entries met in rings */
    mono_t now;
};

/* Of the same owner's locks any may stand beside any: one of two cumulated E
   may have been demoted, which asks nobody. So only what conflicts among
   different owners is wrong. */
static bool summary_excludes(const struct summary *held, const struct map *map,
    const struct ask *ask)
{
    for (unsigned mode = 1; mode < MODES; mode++) {
        if (held->of[mode].n == 0 ||
            !mode_conflicts(map->modes, mode, ask->mode, false))
            continue;
        if (held->of[mode].mixed ||
            !entry_owned_by(map, held->of[mode].first, ask))
            return true;
    }
    return false;
}

/* --- rings --- */

/* I5 for one object: each held lock against the summary of those before it, so
   that a ring of n is n steps and not n squared. What has run out, and is still
   linked, is in nobody's way (R14): it is left out, by one clock for the whole
   check. */
static void check_conflicts(struct check *c, struct entry *first)
{
    struct ring ring = ring_from(c->map, first);
    struct summary held = {0};
    struct entry *e;
    struct ask ask;

    enq_assert(c->t->n_held > 0);
    while ((e = ring_next(&ring)) != NULL) {
        if (!entry_is(e, PHASE_HELD) || entry_over(c->map, e, c->now) != ENQ_OK)
            continue;
        if (!entry_ask(c->map, e, &ask))
            check_note(c->report, "entry %x: damaged texts",
                map_ref(c->map, e));
        else if (summary_excludes(&held, c->map, &ask))
            check_note(c->report,
                "I5: \"%s\": entry %x (%c) is held beside one it conflicts "
                "with",
                ask.key.bytes, map_ref(c->map, e), mode_letter(ask.mode));
        summary_add(&held, c->map, e);
    }
}

/* The newest token of its bucket or gate. In check_member() that latch is held,
   and next_token() stores there first: so none in the ring may be above it. */
static uint64_t newest_token(const struct check *c, const struct entry *e)
{
    if (entry_is_generic(e))
        return shm_load(&c->map->gates[gate_of_hash(e->name_hash)].token);
    return c->bucket == NULL ? UINT64_MAX : shm_load(&c->bucket->token);
}

/* A generic entry whose digest is not its key's would overlap nothing. */
static bool is_digested(const struct map *map, const struct entry *e)
{
    struct key key;

    return entry_key(map, e, &key) &&
        key_digest(&key, map->hash_seed) == key.hash;
}

/* Those of one lock set have one ticket. */
static void check_waiter(struct check *c, const struct entry *e,
    uint64_t *ticket)
{
    ref_t ref = map_ref(c->map, e);

    if (!transition_window_is_sound(c->map, e))
        check_note(c->report, "I8: entry %x may be overtaken for %u ns", ref,
            shm_load(&e->window_ns));
    if (mark_is_wanted(e) && !mark_is_there(c->map, e))
        check_note(c->report, "I9: entry %x waits in a page without a mark",
            ref);
    if (e->ticket <= *ticket && !(e->ticket == *ticket && entry_is_of_set(e)))
        check_note(c->report, "I2: entry %x waits out of order", ref);
    *ticket = e->ticket;
}

/* One entry of a ring, in the order of the ring. Only the waiters' tickets are
   compared: a held entry's may be 0, or stand for a peer (ENTRY_HEIR). A gate's
   ring has keys of many names; whether an entry belongs to this gate is told by
   check_linked(). */
static void check_member(struct check *c, struct entry *first, struct entry *e,
    uint64_t *ticket)
{
    ref_t ref = map_ref(c->map, e);
    struct entry *next = at_entry(c->map, e->next);
    bool waiting = entry_is(e, PHASE_WAITING);

    enq_assert(c->t->n_held > 0);
    c->linked++;
    c->waiting += waiting;
    if (next == NULL || next->prev != ref)
        check_note(c->report, "I2: entry %x: its next does not lead back", ref);
    if (!state_is_live(shm_load(&e->state)))
        check_note(c->report, "I1: entry %x is linked but not live", ref);
    if (e->hash != first->hash && !entry_is_generic(e))
        check_note(c->report, "I1: entry %x is in another's ring", ref);
    if (entry_is_generic(e) && !is_digested(c->map, e))
        check_note(c->report, "I3: entry %x has not its key's digest", ref);
    if (!waiting && shm_load(&e->token) > newest_token(c, e))
        check_note(c->report, "I7: entry %x has a token above the newest", ref);
    if (waiting)
        check_waiter(c, e, ticket);
    else if (*ticket != 0 && !entry_is_generic(e))
        check_note(c->report, "I2: entry %x is held behind a waiter", ref);
}

/* What the last says of the queue (lock/queue.h). */
static void check_queue(struct check *c, struct entry *first, uint32_t waiting,
    bool sets)
{
    struct entry *last = queue_last(c->map, first);

    enq_assert(c->t->n_held > 0);
    if (queue_length(last) != waiting)
        check_note(c->report,
            "I4: the ring of entry %x: %u waiting, counted %u",
            map_ref(c->map, first), queue_length(last), waiting);
    if (sets && last != NULL && (shm_load(&last->queue) & QUEUE_SETS) == 0)
        check_note(c->report, "I4: the ring of entry %x: lock sets wait unsaid",
            map_ref(c->map, first));
}

/* What the first says of the ring: enough, and it alone (lock/links.h). */
static void check_modes(struct check *c, struct entry *first, struct entry *e)
{
    unsigned modes = shm_load(&first->ring_modes), mode;
    struct ask ask;

    enq_assert(c->t->n_held > 0);
    if (e != first && shm_load(&e->ring_modes) != 0)
        check_note(c->report,
            "I4: entry %x says what its ring holds, and is not the first",
            map_ref(c->map, e));
    if (modes == 0)
        return;
    mode = STATE_MODE(shm_load(&e->state)) % MODES;
    if (!entry_is(e, PHASE_HELD) || (modes & RING_HOLDS(mode)) == 0 ||
        ((modes & RING_MIXED) == 0 && entry_ask(c->map, e, &ask) &&
            !entry_owned_by(c->map, first, &ask)))
        check_note(c->report,
            "I4: entry %x is in a ring that is said to hold %#x",
            map_ref(c->map, e), modes);
}

/* The walk is bounded by the number of entries (ring_next()): a damaged ring is
   a finding and no endless loop (P8). Generic entries are not compared with
   each other here, as they overlap others beside their own ring:
   check_generic(). */
static void check_ring(struct check *c, struct entry *first)
{
    struct ring ring = ring_from(c->map, first);
    uint32_t before = c->waiting;
    uint64_t ticket = 0;
    bool sets = false;
    struct entry *e;

    enq_assert(c->t->n_held > 0);
    while ((e = ring_next(&ring)) != NULL) {
        check_member(c, first, e, &ticket);
        check_modes(c, first, e);
        sets |= entry_is(e, PHASE_WAITING) && entry_is_of_set(e);
    }
    if (ring.damaged) {
        check_note(c->report, "I2: the ring of entry %x does not close",
            map_ref(c->map, first));
    } else if (!entry_is_generic(first)) {
        check_queue(c, first, c->waiting - before, sets);
        check_conflicts(c, first);
    }
}

/* --- shards --- */

/* I3 both ways: the bucket leads to an entry, and its key leads back to this
   very entry. So an object that has two rings, or stands in a wrong bucket, is
   found. */
static void check_object(struct check *c, uint32_t bucket, ref_t ref)
{
    struct entry *first = at_entry(c->map, ref);
    struct spot spot;
    struct key key;

    enq_assert(c->shard < SHARDS && c->t->n_held == 2);
    if (first == NULL || !entry_key(c->map, first, &key)) {
        check_note(c->report, "I3: shard %u bucket %u leads to nothing (%x)",
            c->shard, bucket, ref);
        return;
    }
    spot = spot_of(first->name_hash, first->hash);
    if (spot.shard != c->shard || index_find(c->map, &spot, &key) != first)
        check_note(c->report, "I3: entry %x is not found by its key", ref);
    else
        check_ring(c, first);
}

/* An id is claimed and given up together with the entry's state, while its
   latch is held (place_with_id(), take_out_with_id()): so under that latch each
   id is of a live entry. */
static void check_id(struct check *c, uint32_t bucket, ref_t ref)
{
    struct entry *e = at_entry(c->map, ref);
    struct spot spot;

    enq_assert(c->shard >= SHARDS && c->t->n_held == 1);
    if (e == NULL || !spot_of_entry_id(c->map, e, &spot) ||
        spot.shard != c->shard || !state_is_live(shm_load(&e->state)))
        check_note(c->report, "I3: id shard %u bucket %u: entry %x has no id",
            c->shard - SHARDS, bucket, ref);
}

/* One of a slot, or of the chain (`i` BUCKET_SLOTS); once only. */
static void check_ref(struct check *c, const struct bucket *bucket,
    uint32_t number, unsigned i, ref_t ref)
{
    for (unsigned j = 0; j < i; j++)
        if (bucket->tag[j] != 0 && bucket->ref[j] == ref)
            check_note(c->report,
                "I3: shard %u bucket %u leads to entry %x twice", c->shard,
                number, ref);
    (c->shard >= SHARDS ? check_id : check_object)(c, number, ref);
}

/* Slots, then the chain of objects that found no slot; bounded, as that may be
   a cycle. */
static void check_bucket(struct check *c, const struct bucket *bucket,
    uint32_t number)
{
    uint32_t left = c->map->entries_max;

    c->bucket = bucket;
    for (unsigned i = 0; i < BUCKET_SLOTS; i++)
        if (bucket->tag[i] != 0 || bucket->ref[i] != 0)
            check_ref(c, bucket, number, i, bucket->ref[i]);
    for (ref_t ref = bucket->more; ref != 0 && left-- > 0;) {
        struct entry *e = at_entry(c->map, ref);

        check_ref(c, bucket, number, BUCKET_SLOTS, ref);
        ref = e == NULL ? 0 : c->shard >= SHARDS ? e->id_spill : e->spill;
    }
}

/* Under the shard's latch, so that it is not split; and its own. */
static int check_latched(struct check *c, uint32_t number)
{
    struct bucket *bucket = at_bucket(c->map, c->shard, number);
    int rc;

    enq_assert(holds_latch(c->t, &c->map->shards[c->shard].latch));
    if (bucket == NULL) {
        check_note(c->report, "I3: shard %u has no bucket %u", c->shard,
            number);
        return 0;
    }
    if (bucket_is_empty(bucket)) /* as nearly all are */
        return 0;
    if (c->shard >= SHARDS) {
        check_bucket(c, bucket, number);
        return 0;
    }
    rc = latch_acquire(c->t, &bucket->latch, RANK_BUCKET);
    if (rc != 0)
        return rc;
    check_bucket(c, bucket, number);
    latch_release(c->t, &bucket->latch);
    return 0;
}

/* The number of buckets is bounded before it is used. */
static int check_shard(struct check *c, struct thread *t)
{
    struct shard *shard = &c->map->shards[c->shard];
    uint32_t n_buckets;
    int rc = latch_acquire(t, &shard->latch,
        c->shard < SHARDS ? RANK_SHARD : RANK_ID);

    enq_assert(c->shard < SHARDS_ALL);
    if (rc != 0)
        return rc;
    n_buckets = shard_buckets(shard);
    if (shard->n_segments == 0 || shard->n_segments > SEGMENTS_MAX ||
        n_buckets < BUCKETS_FIRST || n_buckets > buckets_in(shard->n_segments))
        check_note(c->report, "I3: shard %u: %u buckets in %u segments",
            c->shard, n_buckets, shard->n_segments);
    if (n_buckets > buckets_in(SEGMENTS_MAX))
        n_buckets = buckets_in(SEGMENTS_MAX);
    for (uint32_t i = 0; i < n_buckets && rc == 0; i++)
        rc = check_latched(c, i);
    latch_release(t, &shard->latch);
    return rc;
}

/* --- gates --- */

/* `raised` counts generic entries and wide scopes under way; while we have the
   latch there are none of those, since each holds it until it has lowered the
   gate again. So it is the number of entries exactly. */
static int check_gate(struct check *c, struct thread *t, uint32_t number)
{
    struct gate *gate = &c->map->gates[number];
    uint64_t before = c->linked;
    struct entry *first;
    int rc = latch_acquire(t, &gate->latch, RANK_GATE);

    enq_assert(number < GATES);
    if (rc != 0)
        return rc;
    c->waiting = 0;
    first = at_entry(c->map, gate->head);
    if (first != NULL)
        check_ring(c, first);
    if ((shm_load(&gate->raised) & GATE_COUNT) != c->linked - before)
        check_note(c->report, "I4: gate %u: raised %u times for %llu entries",
            number, shm_load(&gate->raised),
            (unsigned long long)(c->linked - before));
    if (gate->n_waiting != c->waiting)
        check_note(c->report, "I4: gate %u: %u waiting, counted %u", number,
            gate->n_waiting, c->waiting);
    if (shm_load(&gate->n_queued) < c->waiting)
        check_note(c->report, "I4: gate %u: %u queued, at least %u", number,
            shm_load(&gate->n_queued), c->waiting);
    latch_release(t, &gate->latch);
    return 0;
}

/* --- entries, one by one --- */

struct use_search {
    const struct entry *wanted;
    bool found;
};

static bool see_wanted(void *context, struct entry *e)
{
    struct use_search *search = context;

    enq_assert(!search->found);
    search->found = e == search->wanted;
    return !search->found;
}

/* Still in the use that it was in when we chose which latches to acquire: only
   then they are its own. */
static bool is_same_use(const struct entry *e, uint64_t before)
{
    uint64_t state = shm_load_acquire(&e->state);

    return state_is_live(state) &&
        STATE_GENERATION(state) == STATE_GENERATION(before);
}

/* I3: an id that its caller brought leads to this entry. What has run out may
   have lost its id to another. */
static void check_brought(struct check *c, const struct entry *e)
{
    struct entry *found;
    struct spot spot;
    uint32_t *latch;
    size_t n;

    if (e->id_bytes == 0)
        return;
    if (!spot_of_entry_id(c->map, e, &spot)) {
        check_note(c->report, "entry %x: damaged id", map_ref(c->map, e));
        return;
    }
    latch = &c->map->shards[spot.shard].latch;
    if (latch_acquire(c->t, latch, RANK_ID) != 0)
        return;
    found = index_find_id(c->map, &spot, entry_id(c->map, e, &n));
    if (found != e && entry_over(c->map, e, sys.now()) == ENQ_OK)
        check_note(c->report, "I3: entry %x is not found by its id",
            map_ref(c->map, e));
    latch_release(c->t, latch);
}

/* I1: every live entry is reached from its key. By a visit, as a request would
   meet it. Without this an entry that is linked nowhere would be a lock that
   blocks nobody: no walk over rings can miss it. */
static bool check_linked(void *context, struct entry *e, uint64_t state)
{
    struct check *c = context;
    struct scope s = {.map = c->map, .t = c->t};
    struct use_search search = {e, false};
    struct key key;
    bool live;

    enq_assert(c->t->n_held == 0);
    if (!state_is_live(state) || scope_enter_entry(&s, e) != 0)
        return true;
    live = is_same_use(e, state);
    if (live && !entry_key(c->map, e, &key))
        check_note(c->report, "entry %x: damaged lengths", map_ref(c->map, e));
    else if (live && scope_visit(&s, &key, see_wanted, &search) == 0 &&
        !search.found)
        check_note(c->report, "I1: entry %x is live but linked nowhere",
            map_ref(c->map, e));
    if (live)
        check_brought(c, e);
    scope_leave(&s);
    return true;
}

/* I5 for what is generic: a held entry is checked as if it asked anew, before
   all waiters (ticket 0), so that only held locks can be in its way. */
static bool check_generic(void *context, struct entry *e, uint64_t state)
{
    struct check *c = context;
    struct scope s = {.map = c->map, .t = c->t};
    struct ask ask;
    struct verdict v;

    enq_assert(c->t->n_held == 0);
    if (!entry_is_generic(e) || !entry_is(e, PHASE_HELD) ||
        entry_over(c->map, e, c->now) != ENQ_OK ||
        scope_enter_entry(&s, e) != 0)
        return true;
    if (is_same_use(e, state) && entry_is(e, PHASE_HELD) &&
        entry_ask(c->map, e, &ask)) {
        ask.ticket = 0;
        if (conflict_check(&s, &ask, e, &v) == 0 && v.holder != NULL &&
            !entry_owned_by(c->map, v.holder, &ask))
            check_note(c->report,
                "I5: generic entry %x is held beside %x, which conflicts",
                map_ref(c->map, e), map_ref(c->map, v.holder));
    }
    scope_leave(&s);
    return true;
}

/* I6, without a latch. */
static void check_pages(struct check *c)
{
    for (uint32_t i = 0; i < map_pages_used(c->map); i++) {
        struct page_info info = map_page_info(c->map, i);

        if (info.kind > PAGE_BUCKETS ||
            (info.kind == PAGE_BUCKETS && info.owner >= SHARDS_ALL))
            check_note(c->report, "I6: page %u: kind %u, owner %x", i,
                info.kind, info.owner);
    }
}

/* Without a latch: a damaged text counts only if the entry is in the same state
   afterwards. Partner of the acquire: the transition's last store. */
static bool check_texts(void *context, struct entry *e, uint64_t state)
{
    struct check *c = context;
    struct ask ask;

    if (state_is_live(state) && !entry_ask(c->map, e, &ask) &&
        state_same(shm_load_acquire(&e->state), state))
        check_note(c->report, "entry %x: damaged texts", map_ref(c->map, e));
    return true;
}

void check_quiet(const struct map *map, struct check_report *report)
{
    /* nothing below writes: the map is only named, not changed */
    struct check c = {.map = (struct map *)map, .report = report};

    slab_each(map, check_texts, &c);
    check_pages(&c);
}

/* Gates and shards, then each entry by itself. A latch of a dead thread is
   recovered on the way, as by anyone (latch_acquire()), so that only what no
   recovery mends is found. */
int check_table(struct map *map, struct thread *t, struct check_report *report)
{
    struct check c = {.map = map, .t = t, .report = report, .now = sys.now()};
    int rc = 0;

    enq_assert(t->n_held == 0);
    thread_note_shards(t, NULL); /* at most: it reads only */
    for (uint32_t i = 0; i < GATES && rc == 0; i++)
        rc = check_gate(&c, t, i);
    for (c.shard = 0; c.shard < SHARDS_ALL && rc == 0; c.shard++)
        rc = check_shard(&c, t);
    if (rc != 0)
        return rc;
    slab_each(map, check_linked, &c);
    slab_each(map, check_generic, &c);
    check_quiet(map, report);
    return 0;
}
