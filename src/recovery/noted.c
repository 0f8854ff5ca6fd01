/*
 * noted.c - recovery: which parts the dead have left half made, by their latches
 * and by what they have noted (see repair.h).
 */
#include "recovery/repair.h"

#include "base/point.h"
#include "store/walk.h"
#include "sync/life.h"

/* The latch again: its owner may have let go of it and ended, slot and all,
   between our two looks, and the latch may be a living thread's by now. A dead
   thread gives nothing back. Acquire, as the partner of latch_release(): what
   a latch's last holder did is done when it names another. */
bool dead_holds(const struct map *map, const uint32_t *latch)
{
    uint32_t value = shm_load_acquire(latch), again;

    ENQ_POINT("recover.liveness_read");
    if (value == 0 || !thread_is_dead(map, latch_owner(value)))
        return false;
    again = shm_load_acquire(latch);
    return again != 0 && latch_owner(again) == latch_owner(value);
}

/* Of a bucket the latch itself is the note, as there may be a million: from now
   on it names nobody. A thread that takes over from us finds it so. */
static void note_bucket(struct repair *r, uint32_t shard, struct bucket *bucket)
{
    if (!r->all)
        shm_swap(&bucket->latch, NOBODY);
    ENQ_POINT("recover.bucket_noted");
    r->needed = true;
    set_bit(r->shards, shard);
}

/* What the dead holder of this latch had in hand, and was splitting, or nothing.
   False: its notes do not say all that it had, or are another's by now. */
static bool tell_in_hand(const struct repair *r, const uint32_t *latch,
    ref_t *in_hand, struct split *split)
{
    thread_ref_t ref = latch_owner(shm_load_acquire(latch));
    const struct thread_slot *slot = at_thread(r->map, ref);

    *in_hand = shm_load(&slot->in_hand);
    if (!map_split_of(r->map, slot, split))
        *split = (struct split){.begun = false};
    return shm_load(&slot->inside) != INSIDE_MANY &&
        shm_load_acquire(&slot->ref) == ref;
}

static void add_part(struct repair *r, struct part part)
{
    if (r->n_parts < PARTS_FEW)
        r->parts[r->n_parts++] = part;
    else
        r->whole = true;
}

static bool is_part(const struct repair *r, const struct bucket *bucket)
{
    for (unsigned i = 0; i < r->n_parts; i++)
        if (r->parts[i].bucket == bucket)
            return true;
    return false;
}

/* In the name of a thread that was splitting this one: what was in the new bucket
   is this one's. */
static struct bucket *beyond(const struct split *split,
    const struct bucket *bucket)
{
    return split->begun && split->from == bucket ? split->to : NULL;
}

static bool look_at_bucket(void *context, uint32_t shard, struct bucket *bucket)
{
    struct repair *r = context;
    struct part part = {.bucket = bucket, .shard = shard};
    struct split split = {.begun = false};

    if (!r->all &&
        (shm_load(&bucket->latch) == 0 || !dead_holds(r->map, &bucket->latch)))
        return true;
    if (bucket_is_noted(bucket) && is_part(r, bucket))
        return true;
    if (!r->all && !tell_in_hand(r, &bucket->latch, &part.in_hand, &split))
        r->whole = true;
    part.beyond = beyond(&split, bucket);
    if (&bucket->latch == r->wanted)
        r->wanted = NULL;
    note_bucket(r, shard, bucket);
    add_part(r, part);
    return true;
}

static void look_at_buckets(struct repair *r)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        if (r->everywhere || bit(r->scanned, i))
            map_each_bucket(r->map, i, look_at_bucket, r);
}

/* By what the dead have noted (mend.h). The latch has to name the very thread:
   nobody's, it is what a recovering thread has left that died. */
static void note_part(struct repair *r, const struct thread_slot *slot,
    thread_ref_t ref)
{
    uint64_t inside = shm_load(&slot->inside);
    struct part part = {.shard = shard_of_hash(inside)};
    struct split split;

    if (inside == INSIDE_MANY)
        r->everywhere = true;
    for (unsigned i = 0; i < SHARDS / 64 && inside == INSIDE_SEVERAL; i++)
        r->scanned[i] |= shm_load(&slot->shards[i]);
    if (inside == INSIDE_MANY || inside == INSIDE_SEVERAL ||
        inside == INSIDE_NONE)
        return;
    part.bucket = bucket_of_hash(r->map, part.shard, inside);
    if (map_split_of(r->map, slot, &split)) {
        part.shard = split.shard;
        part.bucket = split.from;
        part.beyond = beyond(&split, split.from);
    }
    part.in_hand = shm_load(&slot->in_hand);
    if (part.bucket == NULL || part.shard >= SHARDS ||
        latch_owner(shm_load_acquire(&part.bucket->latch)) != ref)
        return;
    if (&part.bucket->latch == r->wanted)
        r->wanted = NULL;
    note_bucket(r, part.shard, part.bucket);
    add_part(r, part);
}

static void note_parts(struct repair *r)
{
    for (uint32_t i = 0; i < map_threads(r->map) && !r->everywhere; i++) {
        const struct thread_slot *slot = &r->map->threads[i];
        thread_ref_t ref = shm_load_acquire(&slot->ref);

        if (ref != 0 && thread_is_dead(r->map, ref))
            note_part(r, slot, ref);
    }
}

static bool note_latch(struct repair *r, const uint32_t *latch)
{
    if (!r->all && !dead_holds(r->map, latch))
        return false;
    if (latch == r->wanted)
        r->wanted = NULL;
    r->needed = true;
    return true;
}

/* Its holder was splitting a bucket, or had an entry in hand, or has changed
   nothing. */
static void note_id_shard(struct repair *r, uint32_t i)
{
    struct split split;
    struct part part;
    ref_t in_hand;

    set_bit(r->freed_ids, i - SHARDS);
    if (!tell_in_hand(r, &r->map->shards[i].latch, &in_hand, &split))
        r->whole = true;
    else if (split.begun && split.shard == i)
        add_part(r,
            (struct part){.bucket = split.from,
                .beyond = split.to,
                .shard = i,
                .in_hand = in_hand});
    else if (mend_id_part(r->map, i, in_hand, &part))
        add_part(r, part);
    if (!r->all)
        shm_swap(&r->map->shards[i].latch, NOBODY); /* as note_bucket() does */
}

static void note_gate(struct repair *r, uint32_t i)
{
    struct part part = {.gate = &r->map->gates[i]};
    struct split none;

    set_bit(r->gates, i);
    if (!tell_in_hand(r, &part.gate->latch, &part.in_hand, &none))
        r->whole = true;
    add_part(r, part);
}

/*
 * What is noted here is repaired and freed, nothing else: a latch whose owner
 * dies later names it still, and the next thread that wants it recovers again.
 * Gates first: of a thread that dies meanwhile with a gate and a bucket, the
 * bucket is noted at least. No noted latch changes hands, as nobody but us
 * frees those of the dead: the recovery latch guards that.
 *
 * A shard's latch guards nothing that has to be repaired: of a split that was
 * under way the old bucket is noted, and that it is empty is taken back
 * (free_shard()).
 */
void note_dead_latches(struct repair *r)
{
    enq_assert(!r->needed && r->rc == 0);
    r->grow = note_latch(r, &r->map->h->grow_latch);
    for (uint32_t i = 0; i < GATES; i++)
        if (note_latch(r, &r->map->gates[i].latch))
            note_gate(r, i);
    if (!r->everywhere)
        note_parts(r);
    for (uint32_t i = 0; i < SHARDS_ALL; i++) {
        if (!dead_holds(r->map, &r->map->shards[i].latch))
            continue;
        note_latch(r, &r->map->shards[i].latch);
        if (i < SHARDS)
            set_bit(r->freed, i);
        else
            note_id_shard(r, i);
    }
    look_at_buckets(r);
    if (r->wanted != NULL && dead_holds(r->map, r->wanted)) {
        r->everywhere = r->whole = true;
        look_at_buckets(r);
    }
    r->whole = r->needed && (r->whole || r->all);
}
