/*
 * set.c - wait: lock sets: several locks asked for as one (see set.h).
 *
 * A call has three parts. Under all latches each member is decided; if all may
 * be granted, each is held, else each queues, or none does. Between the first
 * verdict and the last transition no latch is released, so that the living see
 * one step. What makes it one step for a thread that finds this one dead: if
 * all members end with their process, they are over as soon as it is, half a
 * set or a whole one; else the journal says what to undo (store/journal.h).
 */
#include "wait/set.h"

#include <string.h>

#include "base/point.h"
#include "lock/bypass.h"
#include "lock/grant_scan.h"
#include "lock/request.h"
#include "store/journal.h"
#include "wait/set_latches.h"

/* --- before it is asked --- */

/* Two that cannot be held at once, whichever is granted first: the mode table
   is asked both ways. The set would wait for itself for ever, and no cycle
   would show it, as an owner that waits for itself is none: hence -EINVAL. */
static bool at_odds(const struct map *map, const struct ask *a,
    const struct ask *b)
{
    bool same = a->owner_bytes > 1; /* nobody's is not even its own */

    return a->key.name_hash == b->key.name_hash &&
        (a->key.hash == b->key.hash || (a->key.generic | b->key.generic)) &&
        key_overlaps(&a->key, &b->key) &&
        (mode_conflicts(map->modes, a->mode, b->mode, same) ||
            mode_conflicts(map->modes, b->mode, a->mode, same));
}

static uint32_t find_at_odds(const struct set *set, uint32_t i)
{
    enq_assert(i < set->n);
    for (uint32_t k = 0; k < i; k++)
        if (at_odds(set->s->map, &set->member[k].ask, &set->member[i].ask))
            return k;
    return SET_FINE;
}

uint32_t set_check_slowly(const struct set *set, uint32_t *other)
{
    enq_assert(set->n <= ENQ_SET_MAX);
    for (uint32_t i = 0; i < set->n; i++) {
        *other = find_at_odds(set, i);
        if (*other != SET_FINE)
            return i;
    }
    return SET_FINE;
}

/* PHASE_CACHED still, and private: no latch is needed. */
void set_give_back(struct set *set, unsigned n)
{
    enq_assert(n <= set->n && set->t->n_held == 0);
    while (n-- > 0)
        slab_give(set->s, set->t, set->member[n].place.e);
}

/* --- all at once --- */

/* ENQ_EXISTS is told before anything else (request.c), and so for all members
   before any is decided: otherwise a set that is asked for again, with the same
   ids, would be told that its own locks are in the way. */
static int refuse_same_id(struct set *set)
{
    int rc = 0;

    enq_assert(set_is_entered(set));
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

/* The first refusal is the one that is told. With `all` the others are decided
   nevertheless: to queue is to know the last_due of each key. Each scope looks
   for the first time: decide() sees to that. */
static int decide_once(struct set *set, bool all)
{
    int rc = 0, one;

    enq_assert(set_is_entered(set));
    for (unsigned i = 0; i < set->n; i++) {
        struct member *m = &set->member[i];

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
   they waited for: then those that were decided before are decided anew, until
   all verdicts are of one state. `changes` counts such steps. It ends, as each
   round that is repeated has dropped or granted an entry that was there. */
static int decide(struct set *set, bool all)
{
    uint32_t changes;
    int rc = unlikely(set->named) ? refuse_same_id(set) : 0;

    enq_assert(set_is_entered(set));
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

/* Of some that were placed, and some that were not yet, none is any more. No
   grant scan runs: no other thread has seen them, so that none waits for them.
   If this thread dies in here, those that are still held are undone by the
   journal, which has not ended yet, or are over with their session. */
static void take_back(struct set *set, unsigned placed)
{
    enq_assert(placed < set->n && set_is_entered(set));
    for (unsigned i = 0; i < set->n; i++) {
        struct member *m = &set->member[i];

        look_anew(m);
        if (i < placed)
            transition_drop(&m->scope, m->place.e, GONE_NOT);
        else
            slab_give(set->s, set->t, m->place.e);
    }
}

/* `vacant` is a verdict, and of the time before the other members were placed:
   one of them may be of the same bucket, or have the very key. It is looked up
   again, and never becomes true here: a key that had entries was decided by
   them. */
static void look_if_vacant(struct member *m)
{
    bool was = m->scope.vacant;

    enq_assert(scope_is_entered(&m->scope));
    look_anew(m);
    m->scope.vacant = was && !index_may_have(m->scope.map, &m->scope.spot);
}

/* The token is copied under the latches: it is what the caller gets, and the
   entry may be lost to a promotion right after. Waiters for this key are noted
   for the holder's session, as of any grant (transition_note_waiters()).
   Whether the grant lets its owner's earlier requests pass is only noted: the
   scan for that waits until all members are held. */
static int hold_one(struct set *set, struct member *m)
{
    struct entry *e = m->place.e;
    bool vacant = m->scope.vacant;
    int rc;

    enq_assert(scope_is_entered(&m->scope));
    rc = transition_hold(&m->scope, &m->ask, e);
    if (unlikely(rc != 0))
        return rc;
    ENQ_POINT("set.member_held");
    m->place.token = e->token;
    if (likely(vacant || nobody_waits(&m->scope, e)))
        return 0;
    set->passes = set->passes || transition_may_let_pass(&m->scope, e);
    return transition_note_waiters(&m->scope, e);
}

/* The journal says what to undo before there is anything (journal.h): all
   members have the ticket, and then the slot names it. The members are private
   still, so that only the journal's own stores have an order. */
static void begin_lasting(struct set *set)
{
    uint64_t ticket = shm_add(&set->s->map->h->ticket, 1);

    enq_assert(set->lasting && set_is_entered(set));
    EACH_MEMBER (m, set)
        shm_store(&m->place.e->ticket, ticket);
    journal_begin(set->t, set->s->ref, ticket);
}

/* One reading for all members whose ttl begins by the coarse clock
   (scope_start()). */
static void read_clock(struct set *set)
{
    mono_t tick = sys.coarse();

    EACH_MEMBER (m, set)
        m->scope.tick = tick;
}

/* An id may have been claimed by another since it was seen to be free, as its
   latch is not among those that are held: then all are taken back. The journal
   ends with its commit, or after all is undone; no step in between may return
   past it. */
static int hold(struct set *set)
{
    int rc = 0;

    enq_assert(set_is_entered(set));
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

int set_grant_behind(struct set *set)
{
    int rc = 0;

    enq_assert(set_is_entered(set));
    EACH_MEMBER (m, set) {
        look_anew(m);
        if (rc == 0)
            rc = grant_scan(&m->scope, &m->ask.key, NULL);
    }
    return rc;
}

/* A waiter has no token: its word leads to the next member (entry_next_of_set).
   The ring is closed under all latches, so that a search for cycles finds no
   half of it; from the queueing of each member until then it is 0. */
static void link_members(struct set *set)
{
    const struct map *map = set->s->map;

    enq_assert(set_is_entered(set));
    EACH_MEMBER (m, set) {
        struct member *next =
            m + 1 < set->member + set->n ? m + 1 : set->member;
        shm_store(&m->place.e->next_member, map_ref(map, next->place.e));
    }
    ENQ_POINT("set.linked");
}

/* One ticket for all, taken under all latches: members stand in each ring in
   the order of their tickets (I2), as no latch was released since. */
static int queue(struct set *set)
{
    int rc = 0;

    enq_assert(set_is_entered(set));
    set->ticket = set->bypass.asker = shm_add(&set->s->map->h->ticket, 1);
    for (unsigned i = 0; rc == 0 && i < set->n; i++) {
        struct member *m = &set->member[i];

        if (set->crowded)
            look_anew(m);
        m->ask.ticket = m->place.ticket = set->ticket;
        m->place.owner = set->owner;
        rc = transition_queue(&m->scope, &m->ask, m->place.e);
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
            rc = transition_note_asked(&m->scope, &m->ask);
    return rc == 0 ? ENQ_PENDING : rc;
}

/* *given: the entries are given back already. They are filled under the
   latches, as one request's is (entry_fill()), and for each attempt anew: where
   it is made again, the entries were never placed. */
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
            rc = set_grant_behind(set);
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
    enq_assert(set->refused < set->n && set->t->n_held == 0);
    return bypass_learn(&set->bypass, set->s, set->t,
        set->member[set->refused].scope.behind, set->owner);
}

/* Is it worth another attempt? Both questions need latches of other keys, or
   system calls, so that they are asked with none held; the next attempt decides
   by what was learned. Each attempt learns of one session or one set more, or
   is the last. */
static bool pays(struct set *set, int rc)
{
    enq_assert(set->t->n_held == 0);
    return request_is_free_now(&set->member[set->refused].scope, rc) ||
        (rc == ENQ_BUSY && may_pass_one(set));
}

static void begin(struct set *set)
{
    bypass_begin(&set->bypass, UINT64_MAX);
    set->owner = ask_owner_hash(set->s->map, &set->member[0].ask);
}

/* The generations are noted before any member can be seen: they tell later
   whether an entry is still this set's (is_mine()). */
int set_lock(struct set *set, bool wait)
{
    bool given = false;
    int rc;

    enq_assert(set->n > 0 && set->n <= ENQ_SET_MAX && set->t->n_held == 0);
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

/* Nothing is placed. What has run out is dropped all the same, and its waiters
   granted, as request_test() does. */
int set_test(struct set *set)
{
    int rc;

    enq_assert(set->n > 0 && set->n <= ENQ_SET_MAX && set->t->n_held == 0);
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
