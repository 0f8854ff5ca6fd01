/*
 * set_latches.c - wait: the latches of all keys of a lock set (see
 * set_latches.h).
 *
 * Why all at once: what is decided for one member must hold until the last is
 * placed, and others must see all members or none. This is two-phase locking
 * (G&R), of latches; the order of their ranks keeps threads from waiting for
 * each other in a cycle.
 *
 * A thread that dies in here leaves latches that name it, and gates that are
 * raised once too often; recovery makes the buckets anew, and stores what the
 * gates' rings say (set_gates()). What it had placed so far is told by its
 * journal, or is over with its session.
 */
#include "wait/set_latches.h"

#include <string.h>

#include "base/point.h"
#include "lock/request.h"
#include "store/grow.h"

/* In order of the addresses, which is that of their rank. */
static void buckets_add(struct set_buckets *b, struct bucket *bucket)
{
    unsigned i = b->n;

    while (i > 0 && b->at[i - 1] > bucket)
        i--;
    if (i > 0 && b->at[i - 1] == bucket)
        return;
    memmove(&b->at[i + 1], &b->at[i], (b->n - i) * sizeof(struct bucket *));
    b->at[i] = bucket;
    b->n++;
}

static int find_buckets(struct set *set)
{
    struct map *map = set->s->map;
    int rc = 0;

    set->buckets.n = 0;
    EACH_MEMBER (m, set) {
        while (unlikely(!spot_look_up(map, &m->scope.spot)) && rc == 0)
            rc = spot_mend(map, &m->scope.spot);
        if (unlikely(rc != 0))
            return rc;
        buckets_add(&set->buckets, m->scope.spot.bucket);
    }
    return 0;
}

/* Under the latches: see spot_is_current(). */
static bool are_current(const struct set *set)
{
    EACH_MEMBER (m, set)
        if (unlikely(!spot_is_current(set->s->map, &m->scope.spot)))
            return false;
    return true;
}

static void leave_buckets(struct set *set, unsigned n)
{
    enq_assert(n <= set->buckets.n);
    while (n-- > 0)
        latch_release(set->t, &set->buckets.at[n]->latch);
    thread_note_inside(set->t, INSIDE_NONE);
}

static int latch_buckets(struct set *set)
{
    thread_note_shards(set->t, set->shards);
    for (unsigned i = 0; i < set->buckets.n; i++) {
        int rc = latch_acquire(set->t, &set->buckets.at[i]->latch, RANK_BUCKET);

        if (unlikely(rc != 0)) {
            leave_buckets(set, i);
            return rc;
        }
    }
    return 0;
}

/* Inside the latches, never before: see scope_enter_at_once(). A gate that is listed
   only counts as raised: the marks of two keys may be met by two looks of the
   list, which would see half of the set; beside the gate's latch it cannot. */
static bool any_raised(const struct set *set)
{
    uint32_t raised = 0;

    EACH_MEMBER (m, set)
        raised |= shm_load_fence(&m->scope.gate->raised);
    return raised != 0;
}

#define RAISED 1

/* RAISED: the latches are not held, and the set goes the wide way. It does not
   come back to the narrow one if the gate is down by then: the wide way is
   right whether or not there is a generic entry, since it raises each gate
   itself. Each round that is repeated another thread has split a bucket. */
static int enter_buckets(struct set *set)
{
    int rc;

    enq_assert(!set->generic && set->t->n_held == 0);
    for (;;) {
        rc = find_buckets(set);
        if (likely(rc == 0))
            rc = latch_buckets(set);
        if (unlikely(rc != 0))
            return rc;
        if (likely(are_current(set)))
            break;
        leave_buckets(set, set->buckets.n);
    }
    /* Partner: scope_raise(). */
    if (likely(!any_raised(set)))
        return 0;
    leave_buckets(set, set->buckets.n);
    return RAISED;
}

/* Their gates, each once, ascending: the order of their rank. */
static unsigned gates_of(const struct set *set, struct gate **gates)
{
    unsigned n = 0;

    enq_assert(set->n <= ENQ_SET_MAX);
    EACH_MEMBER (m, set) {
        unsigned i = n;

        while (i > 0 && gates[i - 1] > m->scope.gate)
            i--;
        if (i > 0 && gates[i - 1] == m->scope.gate)
            continue;
        memmove(&gates[i + 1], &gates[i], (n - i) * sizeof(struct gate *));
        gates[i] = m->scope.gate;
        n++;
    }
    return n;
}

/* A scope for each gate in turn, of which scope_lower() uses nothing but thread
   and gate: the members' own scopes are of keys, and two of them may share a
   gate. */
static void leave_gates(struct set *set)
{
    struct scope s = {.map = set->s->map, .t = set->t};
    struct gate *gates[ENQ_SET_MAX];
    unsigned n = gates_of(set, gates);

    enq_assert(set->wide);
    while (n-- > 0) {
        s.gate = gates[n];
        scope_lower(&s);
    }
}

/* Each is raised while its latch and those of lower gates are held. */
static int enter_gates(struct set *set)
{
    struct scope s = {.map = set->s->map, .t = set->t};
    struct gate *gates[ENQ_SET_MAX];
    unsigned n = gates_of(set, gates);
    int rc;

    enq_assert(set->wide && set->t->n_held == 0);
    for (unsigned i = 0; i < n; i++) {
        s.gate = gates[i];
        rc = scope_raise(&s);
        if (rc != 0) {
            while (i-- > 0) {
                s.gate = gates[i];
                scope_lower(&s);
            }
            return rc;
        }
    }
    return 0;
}

/* A member may be an entry that is in the table already: see scope_pass(). */
static int pass_buckets(struct set *set)
{
    int rc = 0;

    EACH_MEMBER (m, set)
        if (rc == 0 && m->ask.key.generic == 0)
            rc = scope_pass(&m->scope);
    if (rc != 0)
        leave_gates(set);
    return rc;
}

/* As scope_enter_at_once() begins one; the latches are the set's. All share what was
   learned of sets that may be passed, as all are one request. */
static void begin_scope(struct set *set, struct member *m)
{
    struct scope *s = &m->scope;

    scope_begin(s, set->s, set->t);
    s->gate = &s->map->gates[gate_of_hash(m->ask.key.name_hash)];
    s->spot = spot_of(m->ask.key.name_hash, m->ask.key.hash);
    s->wide = s->vacant = s->known = false;
    s->now = s->last_due = (mono_t){0};
    s->behind = 0;
    s->bypass = &set->bypass;
}

/* The members' scopes look as if each had been entered by itself, so that the
   steps of lock/ need not know of sets. In a wide set a member's bucket is
   latched by each step (guard_enter()), as in any wide scope. */
int set_enter(struct set *set)
{
    int rc = RAISED;

    enq_assert(set->n > 0 && set->t->n_held == 0);
    EACH_MEMBER (m, set)
        begin_scope(set, m);
    if (likely(!set->generic))
        rc = enter_buckets(set);
    set->wide = rc == RAISED;
    if (likely(rc != RAISED))
        return rc;
    rc = enter_gates(set);
    EACH_MEMBER (m, set)
        m->scope.wide = true;
    if (rc == 0)
        rc = pass_buckets(set);
    return rc;
}

bool set_has_entry(const struct set *set, const struct entry *e)
{
    EACH_MEMBER (m, set)
        if (m->place.e == e && is_mine(m))
            return true;
    return false;
}

/* A member need not be woken by its own look; but its session is to be told of
   what others want of a lock that was granted. */
static bool is_needless(const struct set *set, const struct entry *e)
{
    return set_has_entry(set, e) && (shm_load(&e->state) & STATE_ASKED) == 0;
}

/* Before the wakes are sent: a scan in the set's own name tells it to retry,
   like any set that it passes, and would wake the very thread that looks. */
static void forget_own_wakes(struct set *set)
{
    struct thread *t = set->t;
    unsigned kept = 0;

    enq_assert(t->n_held == 0 && t->n_wakes <= WAKES_MAX);
    for (unsigned i = 0; i < t->n_wakes; i++)
        if (!is_needless(set, t->wakes[i]))
            t->wakes[kept++] = t->wakes[i];
    t->n_wakes = kept;
}

/* Outside of all latches, as it may call the kernel. */
static void grow(struct set *set)
{
    struct map *map = set->s->map;

    enq_assert(set->t->n_held == 0);
    EACH_MEMBER (m, set) {
        uint32_t shard = m->scope.spot.shard;

        if (unlikely(shm_load(&map->shards[shard].cramped)))
            index_grow(map, set->t, shard);
        if (unlikely(m->ask.id_bytes > 0))
            request_grow_ids(map, set->t, &m->ask);
    }
}

static bool is_cramped(const struct set *set)
{
    uint32_t cramped = 0;

    EACH_MEMBER (m, set)
        cramped |= shm_load(&set->s->map->shards[m->scope.spot.shard].cramped);
    return cramped != 0;
}

/* In this order, as in scope_leave(): wakes are system calls, and the threads
   that they wake want the latches. A death in between leaves waiters that were
   granted and sleep: they wake by the liveness word of a session that they
   waited for, or by their tick (P3). */
void set_leave(struct set *set)
{
    enq_assert(set_is_entered(set));
    if (unlikely(set->wide))
        leave_gates(set);
    else
        leave_buckets(set, set->buckets.n);
    ENQ_POINT("set.left");
    if (unlikely(set->t->n_wakes > 0)) {
        forget_own_wakes(set);
        scope_send_wakes(set->t);
    }
    if (unlikely(set->named || is_cramped(set)))
        grow(set);
}
