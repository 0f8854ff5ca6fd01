/*
 * set.c - wait: lock sets: several locks asked for as one (see set.h).
 */
#include "wait/set.h"

#include <string.h>

#include "base/point.h"
#include "lock/bypass.h"
#include "lock/request.h"
#include "lock/serve.h"
#include "store/journal.h"
#include "wait/set_words.h"

/* --- before it is asked --- */

static bool at_odds(const struct map *map, const struct ask *a,
    const struct ask *b)
{
    bool same = a->owner_bytes > 1; /* nobody's is not even his own */

    return a->key.name_hash == b->key.name_hash &&
        (a->key.hash == b->key.hash || (a->key.generic | b->key.generic)) &&
        key_overlaps(&a->key, &b->key) &&
        (mode_conflicts(map->modes, a->mode, b->mode, same) ||
            mode_conflicts(map->modes, b->mode, a->mode, same));
}

static uint32_t find_at_odds(const struct set *set, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (at_odds(set->s->map, &set->member[k].ask, &set->member[i].ask))
            return k;
    return SET_FINE;
}

uint32_t set_check_slowly(const struct set *set, uint32_t *other)
{
    for (uint32_t i = 0; i < set->n; i++) {
        *other = find_at_odds(set, i);
        if (*other != SET_FINE)
            return i;
    }
    return SET_FINE;
}

void set_give_back(struct set *set, unsigned n)
{
    while (n-- > 0)
        slab_give(set->s, set->t, set->member[n].place.e);
}

/* --- all at once --- */

/* Told before anything else (request.c). */
static int refuse_same_id(struct set *set)
{
    int rc = 0;

    for (unsigned i = 0; rc == 0 && set->named && i < set->n; i++) {
        struct member *m = &set->member[i];

        m->scope.dying = 0;
        if (m->ask.id_bytes > 0)
            rc = request_same_id(&m->scope, &m->ask, set->blocker);
        if (rc != 0)
            set->refused = i;
    }
    return rc;
}

/* All of them, though one is refused: who queues has to know who was there. */
static int decide_once(struct set *set, bool all)
{
    int rc = 0, one;

    for (unsigned i = 0; i < set->n; i++) {
        struct member *m = &set->member[i];

        if (unlikely(set->crowded))
            look_anew(m);
        one = request_may(&m->scope, &m->ask, rc == 0 ? set->blocker : NULL);
        if (likely(one == 0))
            continue;
        if (rc == 0)
            set->refused = i;
        if (rc == 0 || one != ENQ_BUSY)
            rc = one;
        if (!all || rc != ENQ_BUSY)
            return rc;
    }
    return rc;
}

/* Whatever has run out is dropped as it is met, and others are granted what
   they waited for: then those that were decided before are decided anew. */
static int decide(struct set *set, bool all)
{
    uint32_t changes;
    int rc = unlikely(set->named) ? refuse_same_id(set) : 0;

    if (unlikely(rc != 0))
        return rc;
    do {
        changes = set->t->changes;
        rc = decide_once(set, all);
        if (unlikely(changes != set->t->changes))
            set_look_anew(set);
    } while (unlikely(changes != set->t->changes) &&
        (rc == 0 || rc == ENQ_BUSY));
    return rc;
}

/* Of some that were placed, and some that were not yet, none is any more. */
static void take_back(struct set *set, unsigned placed)
{
    for (unsigned i = 0; i < set->n; i++) {
        struct member *m = &set->member[i];

        look_anew(m);
        if (i < placed)
            change_drop(&m->scope, m->place.e, GONE_NOT);
        else
            slab_give(set->s, set->t, m->place.e);
    }
}

/* It may have been, and be a member's by now. */
static void look_if_vacant(struct member *m)
{
    bool was = m->scope.vacant;

    look_anew(m);
    m->scope.vacant = was && !index_may_have(m->scope.map, &m->scope.spot);
}

static int hold_one(struct set *set, struct member *m)
{
    struct entry *e = m->place.e;
    bool vacant = m->scope.vacant;
    int rc;

    rc = change_hold(&m->scope, &m->ask, e);
    if (unlikely(rc != 0))
        return rc;
    ENQ_POINT("set.member_held");
    m->place.token = e->token;
    if (likely(vacant || nobody_waits(&m->scope)))
        return 0;
    set->passes = set->passes || change_may_let_pass(&m->scope, e);
    return change_note_suitors(&m->scope, e);
}

static void begin_lasting(struct set *set)
{
    uint64_t ticket = shm_add(&set->s->map->h->ticket, 1);

    EACH_MEMBER (m, set)
        shm_store(&m->place.e->ticket, ticket);
    journal_begin(set->t, set->s->ref, ticket);
}

static void read_clock(struct set *set)
{
    mono_t tick = sys.coarse();

    EACH_MEMBER (m, set)
        m->scope.tick = tick;
}

/* An id may have been claimed by another since it was seen to be free. */
static int hold(struct set *set)
{
    int rc = 0;

    if (unlikely(set->lasting))
        begin_lasting(set);
    read_clock(set);
    for (unsigned i = 0; rc == 0 && i < set->n; i++) {
        if (unlikely(set->crowded))
            look_if_vacant(&set->member[i]);
        rc = hold_one(set, &set->member[i]);
        if (unlikely(rc != 0)) {
            set->refused = i;
            set->blocker->owner[0] = '\0';
            take_back(set, i);
        }
    }
    if (unlikely(set->lasting))
        journal_end(set->t);
    return rc;
}

int set_serve_behind(struct set *set)
{
    int rc = 0;

    EACH_MEMBER (m, set) {
        look_anew(m);
        if (rc == 0)
            rc = serve(&m->scope, &m->ask.key, NULL);
    }
    return rc;
}

static void link_members(struct set *set)
{
    const struct map *map = set->s->map;

    EACH_MEMBER (m, set) {
        struct member *next =
            m + 1 < set->member + set->n ? m + 1 : set->member;
        shm_store(&m->place.e->token, map_ref(map, next->place.e));
    }
    ENQ_POINT("set.linked");
}

static int queue(struct set *set)
{
    int rc = 0;

    set->ticket = set->bypass.asker = shm_add(&set->s->map->h->ticket, 1);
    for (unsigned i = 0; rc == 0 && i < set->n; i++) {
        struct member *m = &set->member[i];

        if (set->crowded)
            look_anew(m);
        m->ask.ticket = m->place.ticket = set->ticket;
        rc = change_queue(&m->scope, &m->ask, m->place.e);
        if (rc != 0) {
            set->refused = i;
            set->blocker->owner[0] = '\0';
            take_back(set, i);
            return rc;
        }
    }
    link_members(set);
    set_look_anew(set);
    EACH_MEMBER (m, set)
        if (rc == 0)
            rc = change_note_asked(&m->scope, &m->ask);
    return rc == 0 ? ENQ_PENDING : rc;
}

/* *given: the entries are given back already. */
static int ask(struct set *set, bool wait, bool *given)
{
    int rc = set_enter(set);

    if (unlikely(rc != 0))
        return rc;
    ENQ_POINT("set.entered");
    EACH_MEMBER (m, set)
        entry_fill(m->place.e, &m->ask);
    rc = decide(set, wait);
    if (likely(rc == 0)) {
        rc = hold(set);
        *given = rc != 0;
        if (unlikely(rc == 0 && set->passes))
            rc = set_serve_behind(set);
    } else if (rc == ENQ_BUSY && wait) {
        rc = queue(set);
        *given = rc != ENQ_PENDING;
    }
    set_leave(set);
    return rc;
}

/* Refused as another set waits in the way: perhaps for our owner. */
static bool may_pass_one(struct set *set)
{
    return bypass_learn(&set->bypass, set->s, set->t,
        set->member[set->refused].scope.behind, set->owner);
}

/* Or by one who was dying, and is over. */
static bool pays(struct set *set, int rc)
{
    return request_is_free_now(&set->member[set->refused].scope, rc) ||
        (rc == ENQ_BUSY && may_pass_one(set));
}

static void begin(struct set *set)
{
    bypass_begin(&set->bypass, UINT64_MAX);
    set->owner = ask_owner_hash(set->s->map, &set->member[0].ask);
}

int set_lock(struct set *set, bool wait)
{
    bool given = false;
    int rc;

    begin(set);
    EACH_MEMBER (m, set)
        m->place.generation = STATE_GENERATION(shm_load(&m->place.e->state));
    do
        rc = ask(set, wait, &given);
    while (unlikely(rc > ENQ_OK) && !given && pays(set, rc));
    if (unlikely(rc != ENQ_OK && rc != ENQ_PENDING) && !given)
        set_give_back(set, set->n);
    if (rc != ENQ_PENDING)
        bypass_end(&set->bypass);
    return rc;
}

int set_test(struct set *set)
{
    int rc;

    begin(set);
    do {
        rc = set_enter(set);
        if (rc != 0)
            break;
        rc = decide(set, false);
        set_leave(set);
    } while (rc > ENQ_OK && pays(set, rc));
    set_give_back(set, set->n);
    bypass_end(&set->bypass);
    return rc;
}
