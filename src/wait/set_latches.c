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
 * raised once too often; recovery makes the shards anew, and stores what the
 * gates' rings say (set_gates()). What it had placed so far is told by its
 * journal, or is over with its session.
 */
#include "wait/set_latches.h"

#include <string.h>

#include "base/point.h"
#include "lock/request.h"
#include "store/page.h"

/* The shards of a set as a bitmap: two members of one shard share its latch,
   and the ascending walk is the order of the rank, without sorting 64 keys. */
static uint32_t next_shard(const struct set *set, uint32_t i)
{
    for (; i < SHARDS; i = (i | 63) + 1) {
        uint64_t left = set->shards[i / 64] >> i % 64;

        if (left != 0)
            return i + (uint32_t)__builtin_ctzll(left);
    }
    return SHARDS;
}

/* True: one of them wants more buckets, a hint that is read under the latch. */
static bool leave_shards(struct set *set, uint32_t end)
{
    struct shard *shards = set->s->map->shards;
    uint32_t cramped = 0;

    enq_assert(end <= SHARDS);
    for (uint32_t i = next_shard(set, 0); i < end; i = next_shard(set, i + 1)) {
        cramped |= shards[i].cramped;
        latch_release(set->t, &shards[i].latch);
    }
    return cramped != 0;
}

/* Inside the latches, never before: see scope_enter_at(). Each gate's word is
   ordered by the latch of its own member's shard. */
static bool any_raised(const struct set *set)
{
    uint32_t raised = 0;

    EACH_MEMBER (m, set)
        raised |= shm_load_acquire(&m->scope.gate->raised);
    return raised != 0;
}

#define RAISED 1

/* RAISED: the latches are not held, and the set goes the wide way. It does not
   come back to the narrow one if the gate is down by then: the wide way is
   right whether or not there is a generic entry, since it raises each gate
   itself. */
static int enter_shards(struct set *set)
{
    struct shard *shards = set->s->map->shards;
    int rc;

    enq_assert(!set->generic && set->t->n_held == 0);
    for (uint32_t i = next_shard(set, 0); i < SHARDS;
         i = next_shard(set, i + 1)) {
        rc = latch_acquire(set->t, &shards[i].latch, RANK_SHARD);
        if (unlikely(rc != 0)) {
            leave_shards(set, i);
            return rc;
        }
    }
    /* Partner: scope_raise(), ordered by the latch of each of these shards. */
    if (likely(!any_raised(set)))
        return 0;
    leave_shards(set, SHARDS);
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

/* Each is raised, and if it was down, drained, while its latch and those of
   lower gates are held. A drain acquires the shards' latches one by one, and a
   thread that holds one of those never waits for a gate: gates have the lower
   rank. */
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

/* As scope_enter_at() begins one; the latches are the set's. All share what was
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
   steps of lock/ need not know of sets. In a wide set a member's shard is
   acquired by each step (guard_enter()), as in any wide scope. */
int set_enter(struct set *set)
{
    int rc = RAISED;

    enq_assert(set->n > 0 && set->t->n_held == 0);
    EACH_MEMBER (m, set)
        begin_scope(set, m);
    if (likely(!set->generic))
        rc = enter_shards(set);
    set->wide = rc == RAISED;
    if (likely(rc != RAISED))
        return rc;
    rc = enter_gates(set);
    EACH_MEMBER (m, set)
        m->scope.wide = true;
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

/* Outside of all latches, as it may call the kernel. `cramped` is a hint, and
   is read again here without the latch: a thread that has added buckets
   meanwhile has wiped it out. */
static void grow(struct set *set)
{
    struct map *map = set->s->map;

    enq_assert(set->t->n_held == 0);
    for (uint32_t i = next_shard(set, 0); i < SHARDS;
         i = next_shard(set, i + 1))
        if (unlikely(shm_load(&map->shards[i].cramped)))
            page_add_segment(map, set->t, i);
    EACH_MEMBER (m, set)
        if (unlikely(m->ask.id_bytes > 0))
            request_grow_ids(map, set->t, &m->ask);
}

/* In this order, as in scope_leave(): wakes are system calls, and the threads
   that they wake want the latches. A death in between leaves waiters that were
   granted and sleep: they wake by the liveness word of a session that they
   waited for, or by their tick (P3). Which shards of a wide set want buckets is
   not known: each is asked. */
void set_leave(struct set *set)
{
    bool cramped = true;

    enq_assert(set_is_entered(set));
    if (unlikely(set->wide))
        leave_gates(set);
    else
        cramped = leave_shards(set, SHARDS);
    ENQ_POINT("set.left");
    if (unlikely(set->t->n_wakes > 0)) {
        forget_own_wakes(set);
        scope_send_wakes(set->t);
    }
    if (unlikely(cramped || set->named))
        grow(set);
}
