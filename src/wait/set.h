/*
 * set.h - wait: lock sets: several locks asked for as one.
 *
 * All or none: a set is decided, granted, queued and given up while the latches
 * of all its keys are held. Where no gate of its names is raised these are the
 * latches of their buckets, by ascending address; else (or where a member is
 * generic) the gates' latches, each gate raised, and a bucket's for each step.
 *
 * A waiting set is one waiter: its members have one ticket, and stand with it
 * in the queue of each key, where they let nothing pass that may not. A step
 * that makes way for a member grants it nothing, but wakes the set, which tries
 * for all its keys anew: no other step grants several locks at once. When one
 * member is cancelled, or broken, the set is.
 *
 * That all latches are held makes the step one for the living. Of a thread that
 * is killed while it takes a set: see journal.h.
 */
#ifndef WAIT_SET_H
#define WAIT_SET_H

#include "lock/transition.h"
#include "wait/wait.h"

struct member {
    struct ask ask; /* its key's bytes are those in the entry */
    struct place place;
    struct scope scope;
};

/* Each once, though several members may be of it. */
struct set_buckets {
    unsigned n;
    struct bucket *at[ENQ_SET_MAX];
};

struct set {
    struct session *s;
    struct thread *t;
    struct member *member;
    unsigned n;
    uint64_t shards[SHARDS / 64]; /* of its keys */
    bool generic;                 /* a member is */
    bool wide;                    /* as it was entered */
    bool lasting; /* a member outlives its process, be it for a delay */
    bool named;   /* a member's id is its caller's */
    bool crowded; /* two of its keys are of one shard, or the same */
    bool passes;  /* its owner waits, where it was granted at once */
    bool cycles;
    uint64_t ticket; /* while it waits */
    uint64_t owner;  /* of all: its hash, or 0 */
    mono_t deadline;
    struct bypass bypass;
    struct set_buckets buckets; /* whose latches are held: narrow */
    /* what the first refusal said: of which member, and what is in the way */
    unsigned refused;
    struct enq_blocker *blocker;
};

/* A set of none yet, of set->s. */
static inline void set_begin(struct set *set)
{
    memset(set->shards, 0, sizeof(set->shards));
    set->generic = set->named = set->crowded = set->passes = false;
    set->lasting = shm_load(&set->s->slot->heirs) != 0;
}

/* It was granted, under all latches. The waiters ahead of its owner's earlier
   requests may wait for that owner now, and so be passed (R7); or these
   requests cumulate (R6). */
int set_grant_behind(struct set *set);

/* A member whose request is packed, in its entry. */
HOT void set_note(struct set *set, struct member *m)
{
    uint32_t shard = shard_of_hash(m->ask.key.hash);
    uint64_t *shards = &set->shards[shard / 64];

    enq_assert(m->place.e != NULL);
    m->ask.key.bytes = m->place.e->payload;
    m->ask.on_death |= ENTRY_SET;
    set->crowded |= *shards >> shard % 64 & 1;
    set->lasting |=
        (m->ask.on_death & ~(ENTRY_SET | ENTRY_PEER)) != ENQ_DEATH_RELEASE;
    set->named |= m->ask.id_bytes > 0;
    if (unlikely(m->ask.key.generic != 0))
        set->generic = true;
    else
        *shards |= UINT64_C(1) << shard % 64;
}

/* Two members that cannot be held at once (their numbers), or SET_FINE.
   Concrete keys of different shards have nothing in common. */
#define SET_FINE UINT32_MAX
uint32_t set_check_slowly(const struct set *set, uint32_t *other);
HOT uint32_t set_check(const struct set *set, uint32_t *other)
{
    return likely(!set->crowded && !set->generic)
        ? SET_FINE
        : set_check_slowly(set, other);
}

/*
 * Asks once, without blocking: all members are held, or none.
 *
 * @queue  not granted: the set waits from now on (ENQ_PENDING)
 *
 * Returns: ENQ_OK, ENQ_BUSY, ENQ_PENDING, ENQ_EXISTS. Unless ENQ_OK or
 *          ENQ_PENDING the entries are given back.
 * Faults:  ENQ_ECORRUPT.
 */
int set_lock(struct set *set, bool queue);
int set_test(struct set *set); /* leaves no trace; the entries are given back */

/* Gives back entries that were not asked with yet. */
void set_give_back(struct set *set, unsigned n);

/* Of any member: each leads to the next. */
static inline enq_handle set_handle(const struct set *set)
{
    return place_handle(set->s->map, &set->member[0].place);
}

static inline struct places set_places(const struct set *set)
{
    return (struct places){
        &set->member[0].place, sizeof(struct member), set->n};
}

#endif
