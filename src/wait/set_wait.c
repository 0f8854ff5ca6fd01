/*
 * set_wait.c - wait: lock sets that wait (see set_wait.h).
 *
 * A waiting set holds nothing and is granted by nobody else: a scan of one key
 * sees that one member could go, and of the others nothing. So it wakes the set
 * (STATE_RETRY), and the set's own thread, or its session's helper, acquires
 * all latches and tries for all keys. What a single waiter's look does for one
 * key is done here for each: grant scan, verdict, and, if it has to wait on,
 * what to sleep on, all before a latch is released.
 *
 * A death in any step leaves waiters of a dead session, which the next grant
 * scan of each key drops one by one (R21), or, in the middle of the grant, a
 * journal.
 */
#include "wait/set_wait.h"

#include <string.h>

#include "base/point.h"
#include "lock/copy_out.h"
#include "lock/grant_scan.h"
#include "lock/request.h"
#include "store/journal.h"
#include "wait/set_latches.h"

/* In the same use of the entry: a cancelled member may be another request's,
   and wait as that. */
static bool waits(const struct member *m)
{
    return is_mine(m) && entry_is(m->place.e, PHASE_WAITING);
}

/* The helper's glance, with no latch held: bits of states, and of those only.
   True for nothing costs one look; a change after the glance is seen by the
   next. */
bool set_has_moved(const struct set *set)
{
    const uint64_t notes = STATE_RETRY | STATE_CYCLE;

    EACH_MEMBER (m, set)
        if (!waits(m) || (shm_load(&m->place.e->state) & notes) != 0)
            return true;
    return false;
}

/* It made way for those behind it at this key: hence the scan (R8, R13). The
   key is copied, as the entry may be another's as soon as it is out. */
static int drop_waiting(struct member *m)
{
    char bytes[KEY_BYTES_MAX];
    struct key key;
    int rc;

    enq_assert(scope_is_entered(&m->scope));
    look_anew(m);
    if (!entry_key(m->scope.map, m->place.e, &key) ||
        key_bytes(&key) > sizeof(bytes))
        return ENQ_ECORRUPT;
    memcpy(bytes, key.bytes, key_bytes(&key));
    key.bytes = bytes;
    rc = transition_drop(&m->scope, m->place.e, GONE_NOT);
    return rc != 0 ? rc : grant_scan(&m->scope, &key, NULL);
}

/* Out of the queues, under all latches: no other thread sees a part of the set
   waiting. What others have taken out, to be told of it, is given back; its
   entry is linked nowhere, so that the compare-and-swap alone decides. */
static int withdraw(struct set *set, int answer)
{
    int rc = 0;

    enq_assert(set_is_entered(set));
    EACH_MEMBER (m, set) {
        uint64_t state = shm_load_acquire(&m->place.e->state);

        if (STATE_GENERATION(state) != m->place.generation)
            continue;
        if (STATE_PHASE(state) == PHASE_WAITING && rc == 0)
            rc = drop_waiting(m);
        else if (STATE_PHASE(state) == PHASE_GONE)
            shm_cas(&m->place.e->state, &state,
                STATE(STATE_GENERATION(state) + 1, PHASE_FREE, 0, 0));
    }
    ENQ_POINT("set.withdrawn");
    return rc != 0 ? rc : answer;
}

/* In the name of all members: what waits ahead, and may go, goes; and what has
   run out is dropped: a member too, when its session ends. That may take out
   any member, also one that was looked at before. Requests are read back from
   the entries, whose texts last as long as the wait. */
static int grant_all(struct set *set)
{
    int rc = 0;

    enq_assert(set_is_entered(set));
    EACH_MEMBER (m, set) {
        look_anew(m);
        if (!waits(m))
            return ENQ_CANCELLED;
        if (!entry_ask(m->scope.map, m->place.e, &m->ask))
            return ENQ_ECORRUPT;
        rc = grant_scan_looking(&m->scope, &m->ask.key, NULL);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* request_decide() drops what has run out and may grant others; judge_all()
   repeats for that. The blocker is copied where the answer may be the last. */
static int judge_one(struct set *set, unsigned i, bool tell)
{
    struct member *m = &set->member[i];
    struct verdict v;
    int rc;

    enq_assert(i < set->n && scope_is_entered(&m->scope));
    look_anew(m);
    rc = request_decide(&m->scope, &m->ask, m->place.e, &v);
    if (rc != 0 || verdict_blocker(&v) == NULL)
        return rc;
    set->refused = i;
    if (tell)
        copy_blocker(&m->scope, verdict_blocker(&v), v.queue, set->blocker);
    return ENQ_BUSY;
}

/* ENQ_BUSY: one may not be granted. All verdicts are of one state of the
   table: see decide() in set.c. */
static int judge_all(struct set *set, bool tell)
{
    uint32_t changes;
    int rc;

    enq_assert(set_is_entered(set));
    do {
        changes = set->t->changes;
        rc = 0;
        for (unsigned i = 0; rc == 0 && i < set->n; i++)
            rc = judge_one(set, i, tell);
    } while (rc == 0 && changes != set->t->changes);
    set_look_anew(set);
    return rc;
}

static bool all_wait(const struct set *set)
{
    EACH_MEMBER (m, set)
        if (!waits(m))
            return false;
    return true;
}

/* The tickets are those of the queue, and so is the journal's: undo finds the
   members by it. From its first store to journal_end() a death undoes all of
   them; partner: journal_undo(), in recovery. What wakes the other waiters of a
   lock that is granted for less than a tick is done once for all
   (wake_if_brief() in grant_scan.c). */
static int grant(struct set *set)
{
    int rc = 0;

    enq_assert(set_is_entered(set));
    if (set->lasting)
        journal_begin(set->t, set->s->ref, set->ticket);
    EACH_MEMBER (m, set) {
        if (rc == 0)
            rc = transition_grant(&m->scope, m->place.e);
        if (rc == 0)
            rc = transition_note_waiters(&m->scope, m->place.e);
        m->place.token = m->place.e->token;
    }
    if (set->lasting)
        journal_end(set->t);
    if (likely(!set->t->brief))
        return rc;
    set->t->brief = false; /* see wake_if_brief() in grant_scan.c */
    EACH_MEMBER (m, set)
        if (rc == 0)
            rc = scope_wake_waiters(&m->scope, &m->ask.key);
    return rc;
}

/* It is awake, and has looked: what makes way from now on wakes it anew. Under
   all latches, as retry_set() sets the mark: none can come in between. */
static void clear_retries(struct set *set)
{
    const uint64_t notes = STATE_RETRY | STATE_SOONER;

    enq_assert(set_is_entered(set));
    EACH_MEMBER (m, set)
        if (shm_load(&m->place.e->state) & notes)
            shm_and(&m->place.e->state, ~notes);
    ENQ_POINT("set.tried");
}

/* Under all latches: decided and granted in one step. A member that is gone, as
   it was cancelled or its session ended, takes the whole set with it. The
   deadline is read before the verdict and looked at after it: where both have
   come the grant wins (R10). The marks are cleared only when the set waits on,
   and under the latches: what makes way later marks it anew. */
static int try(struct set *set)
{
    bool last;
    int rc;

    enq_assert(set_is_entered(set));
    rc = grant_all(set);
    last = mono_reached(set->deadline, scope_clock(&set->member[0].scope));
    if (rc == 0)
        rc = judge_all(set, last);
    if (rc >= 0 && !all_wait(set))
        return withdraw(set, ENQ_CANCELLED);
    if (rc == 0) {
        rc = grant(set);
        return rc == 0 ? set_grant_behind(set) : rc;
    }
    if (rc != ENQ_BUSY)
        return rc;
    clear_retries(set);
    return last ? withdraw(set, ENQ_TIMEDOUT) : ENQ_PENDING;
}

/* All own states first, in the order of the members: any of them may change.
   They are up to 64 of the 128 words that the kernel takes. */
static int watch(struct set *set, struct blockers *b)
{
    int rc = 0;

    enq_assert(set_is_entered(set));
    blockers_begin(b, set->deadline, true);
    EACH_MEMBER (m, set)
        blockers_own(b, m->place.e);
    EACH_MEMBER (m, set)
        if (rc == 0)
            rc = blockers_add(b, &m->scope, &m->ask, m->place.e);
    blockers_end(b);
    return rc;
}

/* The blocker is told as it is at this moment (R12), so the set is judged once
   more. One that could go by now is withdrawn nevertheless: its caller has
   asked for that, or it is in a cycle. ENQ_NOTHELD: some member does not wait
   any more; the set was granted, or its next look finds that it was cancelled.
   Where one is lost only as the set is judged, the others are withdrawn here:
   half a set waits for nothing. */
int set_withdraw(struct set *set)
{
    int rc = set_enter(set);

    if (rc != 0)
        return rc;
    rc = all_wait(set) ? judge_all(set, true) : ENQ_NOTHELD;
    if (rc == 0 || rc == ENQ_BUSY)
        rc = withdraw(set, all_wait(set) ? ENQ_OK : ENQ_NOTHELD);
    set_leave(set);
    return rc;
}

/* --- as a waiter --- */

struct waiting_set {
    struct waiter waiter;
    struct set *set;
};

static struct set *set_of(struct waiter *w)
{
    return caa_container_of(w, struct waiting_set, waiter)->set;
}

static int look(struct waiter *w)
{
    struct set *set = set_of(w);
    int rc = set_enter(set), fault = 0;

    if (rc != 0)
        return rc;
    rc = try(set);
    if (rc == ENQ_PENDING)
        fault = watch(set, &w->b);
    set_leave(set);
    return fault != 0 ? fault : rc;
}

/* The cycle was found with no latch held. */
static int leave_cycle(struct waiter *w)
{
    int rc = set_withdraw(set_of(w));

    return rc == ENQ_OK ? ENQ_DEADLOCK : rc == ENQ_NOTHELD ? ENQ_PENDING : rc;
}

static void begin(struct waiting_set *w, struct set *set)
{
    static const struct waiter_kind kind = {look, leave_cycle};

    *w = (struct waiting_set){.set = set,
        .waiter = {.kind = &kind,
            .s = set->s,
            .t = set->t,
            .places = set_places(set),
            .bypass = &set->bypass}};
}

int set_wait(struct set *set)
{
    struct waiting_set w;

    begin(&w, set);
    return waiter_wait(&w.waiter, set->cycles);
}

int set_look(struct set *set, struct wait_plan *plan)
{
    struct waiting_set w;

    begin(&w, set);
    return waiter_look(&w.waiter, plan);
}
