/*
 * mend.c - recovery: one bucket, or gate, from its own links (see mend.h).
 */
#include "recovery/mend.h"

#include "recovery/relink.h"

/* Private, but for the list: what was met hangs together by the link that is
   made anew last. */
struct met {
    struct map *map;
    const struct part *part;
    struct entry *first, *last;
    bool hand; /* the one in hand is among them */
    uint32_t n;
    uint32_t left;
};

static ref_t *list_link(const struct met *m, struct entry *e)
{
    return m->part->shard >= SHARDS ? &e->id_spill : &e->prev;
}

static struct bucket *bucket_of_entry(const struct map *map, uint32_t shard,
    const struct entry *e)
{
    struct spot spot;

    if (!index_respot(map, shard, e, &spot) || spot.shard != shard)
        return NULL;
    return bucket_of_hash(map, shard, spot.hash);
}

/* Live, and of this bucket. One that is not live was on its way in, or is on its
   way out. It may be live again, and another's in another bucket, whose latch
   others hold: where the session of the dead was reaped, and its pages taken
   anew, before its thread was known to be dead. What is of this bucket stays so
   meanwhile, as it leaves by this bucket's latch. Partner of the acquire:
   set_state() in transition.c. */
static bool is_ours(const struct met *m, const struct entry *e)
{
    const struct part *part = m->part;

    if (!state_is_live(shm_load_acquire(&e->state)))
        return false;
    if (part->gate != NULL)
        return entry_is_generic(e) &&
            &m->map->gates[gate_of_hash(e->name_hash)] == part->gate;
    return (part->shard >= SHARDS || !entry_is_generic(e)) &&
        bucket_of_entry(m->map, part->shard, e) == part->bucket;
}

static void keep(struct met *m, struct entry *e)
{
    ref_t ref = map_ref(m->map, e);

    if (!is_ours(m, e))
        return;
    if (ref == m->part->in_hand)
        m->hand = true;
    shm_store(list_link(m, e), 0);
    if (m->last != NULL)
        shm_store(list_link(m, m->last), ref);
    else
        m->first = e;
    m->last = e;
    m->n++;
}

/* A first entry that has just left the ring leads into it, to the second, and
   the last leads to the second as well. */
static int ring(struct met *m, struct entry *first)
{
    struct entry *second = at_entry(m->map, first->next), *e = second;

    keep(m, first);
    while (e != first) {
        struct entry *next;

        if (e == NULL || m->left-- == 0)
            return ENQ_ECORRUPT;
        next = at_entry(m->map, e->next);
        keep(m, e);
        if (next == second)
            break;
        e = next;
    }
    return 0;
}

/* An id has one entry, and no ring. */
static int object(struct met *m, struct entry *first)
{
    if (first == NULL)
        return ENQ_ECORRUPT;
    if (state_is_live(shm_load_acquire(&first->state)) && !is_ours(m, first))
        return 0;
    if (m->part->shard < SHARDS)
        return ring(m, first);
    keep(m, first);
    return 0;
}

static bool in_slot(const struct bucket *bucket, ref_t ref)
{
    bool in = false;

    if (bucket == NULL)
        return false;
    for (unsigned i = 0; i < BUCKET_SLOTS; i++)
        in |= bucket->tag[i] != 0 && bucket->ref[i] == ref;
    return in;
}

static int meet_gate(struct met *m)
{
    struct entry *first = at_entry(m->map, m->part->gate->head);

    if (m->part->gate->head == 0)
        return 0;
    return first == NULL || !is_ours(m, first) ? ENQ_ECORRUPT : ring(m, first);
}

static int meet_slots(struct met *m, const struct bucket *bucket,
    const struct bucket *met)
{
    int rc = 0;

    for (unsigned i = 0; i < BUCKET_SLOTS && rc == 0; i++)
        if (bucket->tag[i] != 0 && !in_slot(met, bucket->ref[i]))
            rc = object(m, at_entry(m->map, bucket->ref[i]));
    return rc;
}

static int meet_chain(struct met *m, const struct bucket *bucket)
{
    int rc = 0;

    for (ref_t ref = bucket->more; ref != 0 && rc == 0;) {
        struct entry *e = at_entry(m->map, ref);
        bool twice = in_slot(bucket, ref);

        if (e == NULL || m->left-- == 0)
            return ENQ_ECORRUPT;
        ref = *spill_of(m->part->shard, e);
        if (!twice)
            rc = object(m, e);
    }
    return rc;
}

static int meet_bucket(struct met *m)
{
    const struct bucket *bucket = m->part->bucket, *beyond = m->part->beyond;
    int rc = meet_slots(m, bucket, NULL);

    if (rc == 0)
        rc = meet_chain(m, bucket);
    if (rc == 0 && beyond != NULL)
        rc = meet_slots(m, beyond, bucket);
    if (rc == 0 && beyond != NULL)
        rc = meet_chain(m, beyond);
    return rc;
}

/* What a split has in hand has not left its ring. */
static int meet_in_hand(struct met *m)
{
    struct entry *e =
        m->part->in_hand == 0 ? NULL : at_entry(m->map, m->part->in_hand);

    if (e == NULL || m->hand)
        return 0;
    if (m->part->beyond != NULL)
        return object(m, e);
    keep(m, e);
    return 0;
}

static void rouse_later(struct roused *roused, const struct map *map,
    const struct entry *e)
{
    if (!entry_is(e, PHASE_WAITING) && entry_sleeps(e) <= ASLEEP_LOOKING)
        return;
    if (roused->n < ROUSED_FEW)
        roused->refs[roused->n] = map_ref(map, e);
    roused->n++;
}

static int link_one(struct met *m, struct entry *e, struct roused *roused)
{
    const struct part *part = m->part;

    if (!is_ours(m, e))
        return ENQ_ECORRUPT;
    if (part->gate != NULL) {
        relink_generic(m->map, e);
        return 0;
    }
    rouse_later(roused, m->map, e);
    return part->shard < SHARDS ? relink_concrete(m->map, e)
                                : relink_id(m->map, e, shm_load(&e->state));
}

/* Each once: what was met twice has made a shorter list of it, or a cycle. */
static int link_all(struct met *m, struct roused *roused)
{
    struct entry *e = m->first;
    uint32_t left = m->n;
    int rc = 0;

    while (e != NULL && left > 0 && rc == 0) {
        ref_t next = *list_link(m, e);

        rc = link_one(m, e, roused);
        ENQ_POINT("recover.mended");
        e = next == 0 ? NULL : at_entry(m->map, next);
        left--;
    }
    return rc == 0 && (e != NULL || left > 0) ? ENQ_ECORRUPT : rc;
}

static void clear(struct part *part)
{
    if (part->gate == NULL) {
        bucket_clear(part->bucket);
        return;
    }
    shm_store(&part->gate->head, 0);
    shm_store(&part->gate->n_waiting, 0);
}

int mend(struct map *map, struct part *part, struct roused *roused)
{
    struct met m = {.map = map, .part = part, .left = map->entries_max};
    int rc = part->gate != NULL ? meet_gate(&m) : meet_bucket(&m);

    if (rc == 0)
        rc = meet_in_hand(&m);
    if (rc != 0)
        return rc;
    part->linked = m.n;
    clear(part);
    return link_all(&m, roused);
}

bool mend_id_part(const struct map *map, uint32_t shard, ref_t in_hand,
    struct part *part)
{
    const struct entry *e = in_hand == 0 ? NULL : at_entry(map, in_hand);

    *part = (struct part){.shard = shard, .in_hand = in_hand};
    part->bucket =
        e == NULL || e->id_bytes == 0 ? NULL : bucket_of_entry(map, shard, e);
    return part->bucket != NULL;
}
