/*
 * set_words.c - wait: the words of all keys of a lock set (see
 * set_words.h).
 */
#include "wait/set_words.h"

#include <string.h>

#include "base/point.h"
#include "lock/request.h"
#include "store/page.h"

static uint32_t next_shard(const struct set *set, uint32_t i)
{
    for (; i < SHARDS; i = (i | 63) + 1) {
        uint64_t left = set->shards[i / 64] >> i % 64;

        if (left != 0)
            return i + (uint32_t)__builtin_ctzll(left);
    }
    return SHARDS;
}

/* True: one of them wants more lines. */
static bool leave_shards(struct set *set, uint32_t end)
{
    struct shard *shards = set->s->map->shards;
    uint32_t cramped = 0;

    for (uint32_t i = next_shard(set, 0); i < end; i = next_shard(set, i + 1)) {
        cramped |= shards[i].cramped;
        word_unlock(set->t, &shards[i].word);
    }
    return cramped != 0;
}

static bool any_raised(const struct set *set)
{
    uint32_t raised = 0;

    EACH_MEMBER (m, set)
        raised |= shm_load_acquire(&m->scope.gate->raised);
    return raised != 0;
}

#define RAISED 1

static int enter_shards(struct set *set)
{
    struct shard *shards = set->s->map->shards;
    int rc;

    for (uint32_t i = next_shard(set, 0); i < SHARDS;
         i = next_shard(set, i + 1)) {
        rc = word_lock(set->t, &shards[i].word, RANK_SHARD);
        if (unlikely(rc != 0)) {
            leave_shards(set, i);
            return rc;
        }
    }
    /* Partner: scope_raise(). */
    if (likely(!any_raised(set)))
        return 0;
    leave_shards(set, SHARDS);
    return RAISED;
}

/* Their gates, each once, ascending. */
static unsigned gates_of(const struct set *set, struct gate **gates)
{
    unsigned n = 0;

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

static void leave_gates(struct set *set)
{
    struct scope s = {.map = set->s->map, .t = set->t};
    struct gate *gates[ENQ_SET_MAX];
    unsigned n = gates_of(set, gates);

    while (n-- > 0) {
        s.gate = gates[n];
        scope_lower(&s);
    }
}

static int enter_gates(struct set *set)
{
    struct scope s = {.map = set->s->map, .t = set->t};
    struct gate *gates[ENQ_SET_MAX];
    unsigned n = gates_of(set, gates);
    int rc;

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

int set_enter(struct set *set)
{
    int rc = RAISED;

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

/* Whoever is looked at just now need not be called; but for what others want of
   what was granted. */
static bool is_needless(const struct set *set, const struct entry *e)
{
    return set_has_entry(set, e) && (shm_load(&e->state) & STATE_ASKED) == 0;
}

static void forget_own_wakes(struct set *set)
{
    struct thread *t = set->t;
    unsigned kept = 0;

    for (unsigned i = 0; i < t->n_wakes; i++)
        if (!is_needless(set, t->wakes[i]))
            t->wakes[kept++] = t->wakes[i];
    t->n_wakes = kept;
}

static void grow(struct set *set)
{
    struct map *map = set->s->map;

    for (uint32_t i = next_shard(set, 0); i < SHARDS;
         i = next_shard(set, i + 1))
        if (unlikely(shm_load(&map->shards[i].cramped)))
            page_add_segment(map, set->t, i);
    EACH_MEMBER (m, set)
        if (unlikely(m->ask.id_bytes > 0))
            request_grow_ids(map, set->t, &m->ask);
}

void set_leave(struct set *set)
{
    bool cramped = true;

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
