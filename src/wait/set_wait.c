/*
 * set_wait.c - wait: lock sets that wait (see set.h).
 */
#include <string.h>

#include "base/point.h"
#include "lock/bypass.h"
#include "lock/request.h"
#include "lock/serve.h"
#include "lock/tell.h"
#include "store/journal.h"
#include "wait/cycle.h"
#include "wait/set_words.h"

static bool is_mine(const struct member *m)
{
    uint64_t state = shm_load_acquire(&m->place.e->state);

    return STATE_GENERATION(state) == m->place.generation;
}

bool set_has_entry(const struct set *set, const struct entry *e)
{
    EACH_MEMBER (m, set)
        if (m->place.e == e && is_mine(m))
            return true;
    return false;
}

static bool waits(const struct member *m)
{
    return is_mine(m) && entry_is(m->place.e, PHASE_WAITING);
}

bool set_has_moved(const struct set *set)
{
    EACH_MEMBER (m, set)
        if (!waits(m) || (shm_load(&m->place.e->state) & STATE_POKED) != 0)
            return true;
    return false;
}

/* The key is copied, as the entry may be another's as soon as it is out. */
static int drop_waiting(struct member *m)
{
    char bytes[KEY_BYTES_MAX];
    struct key key;
    int rc;

    look_anew(m);
    if (!entry_key(m->scope.map, m->place.e, &key) ||
        key_bytes(&key) > sizeof(bytes))
        return ENQ_ECORRUPT;
    memcpy(bytes, key.bytes, key_bytes(&key));
    key.bytes = bytes;
    rc = change_drop(&m->scope, m->place.e, GONE_NOT);
    return rc != 0 ? rc : serve(&m->scope, &key, NULL);
}

/* Out of the queues, under all words. What others have taken out, to be told
   of it, is given back. */
static int withdraw(struct set *set, int answer)
{
    int rc = 0;

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

/* In the name of all members: who waits ahead, and may go, goes; and what has
   run out is dropped: a member too, when its session ends. */
static int serve_all(struct set *set)
{
    int rc = 0;

    EACH_MEMBER (m, set) {
        look_anew(m);
        if (!waits(m))
            return ENQ_CANCELLED;
        if (!entry_ask(m->scope.map, m->place.e, &m->ask))
            return ENQ_ECORRUPT;
        rc = serve_looking(&m->scope, &m->ask.key, NULL);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int judge_one(struct set *set, unsigned i, bool tell)
{
    struct member *m = &set->member[i];
    struct verdict v;
    int rc;

    look_anew(m);
    rc = request_decide(&m->scope, &m->ask, m->place.e, &v);
    if (rc != 0 || verdict_blocker(&v) == NULL)
        return rc;
    set->refused = i;
    if (tell)
        tell_blocker(&m->scope, verdict_blocker(&v), v.queue, set->blocker);
    return ENQ_BUSY;
}

/* ENQ_BUSY: one may not be granted. All verdicts are of one state of the
   table: see decide() in set.c. */
static int judge_all(struct set *set, bool tell)
{
    uint32_t changes;
    int rc;

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

static int grant(struct set *set)
{
    int rc = 0;

    if (set->lasting)
        journal_begin(set->t, set->s->ref, set->ticket);
    EACH_MEMBER (m, set) {
        if (rc == 0)
            rc = change_grant(&m->scope, m->place.e);
        m->place.token = m->place.e->token;
    }
    if (set->lasting)
        journal_end(set->t);
    if (likely(!set->t->brief))
        return rc;
    set->t->brief = false; /* see wake_if_brief() in serve.c */
    EACH_MEMBER (m, set)
        if (rc == 0)
            rc = scope_wake_waiters(&m->scope, &m->ask.key);
    return rc;
}

/* It is awake, and has looked: whoever makes way from now on wakes it anew. */
static void clear_pokes(struct set *set)
{
    const uint64_t notes = STATE_POKED | STATE_SOONER;

    EACH_MEMBER (m, set)
        if (shm_load(&m->place.e->state) & notes)
            shm_and(&m->place.e->state, ~notes);
    ENQ_POINT("set.tried");
}

/* Under all words. */
static int try(struct set *set)
{
    bool last;
    int rc;

    rc = serve_all(set);
    last = mono_reached(set->deadline, scope_clock(&set->member[0].scope));
    if (rc == 0)
        rc = judge_all(set, last);
    if (rc >= 0 && !all_wait(set))
        return withdraw(set, ENQ_CANCELLED);
    if (rc == 0) {
        rc = grant(set);
        return rc == 0 ? set_serve_behind(set) : rc;
    }
    if (rc != ENQ_BUSY)
        return rc;
    clear_pokes(set);
    return last ? withdraw(set, ENQ_TIMEDOUT) : ENQ_PENDING;
}

static int watch(struct set *set, struct blockers *b)
{
    int rc = 0;

    blockers_begin(b, set->deadline);
    EACH_MEMBER (m, set)
        blockers_own(b, m->place.e);
    EACH_MEMBER (m, set)
        if (rc == 0)
            rc = blockers_add(b, &m->scope, &m->ask, m->place.e);
    return rc;
}

static int look_once(struct set *set, struct blockers *b)
{
    int rc = set_enter(set), fault = 0;

    if (rc != 0)
        return rc;
    rc = try(set);
    if (rc == ENQ_PENDING)
        fault = watch(set, b);
    set_leave(set);
    return fault != 0 ? fault : rc;
}

/* Other sets were seen to wait in the way. True: for us, one of them. */
static bool learn(struct set *set, const struct blockers *b)
{
    bool news = false;

    for (unsigned i = 0; i < b->n_sets; i++)
        news |=
            bypass_learn(&set->bypass, set->s, set->t, b->set[i], set->owner);
    return news;
}

static int look(struct set *set, struct blockers *b)
{
    int rc;

    set->bypass.n = 0; /* what was learned for an earlier look may be over */
    do
        rc = look_once(set, b);
    while (rc == ENQ_PENDING &&
        (learn(set, b) || blockers_prove(b, set->s->map)));
    return rc;
}

int set_look(struct set *set, struct wait_plan *plan)
{
    struct blockers b;
    int rc = look(set, &b);

    if (rc != ENQ_PENDING) {
        bypass_end(&set->bypass);
        return rc;
    }
    *plan = (struct wait_plan){
        .again = b.until, .holder = b.holder, .holder_state = b.holder_state};
    if (b.behind_set)
        plan->again = mono_min(b.until, blockers_look_again(set->bypass.n > 0));
    return rc;
}

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

/* --- with a thread --- */

#define PAUSE_NS (NS_PER_MS / 2)

static bool has_changed(const struct blockers *b, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (shm_load(b->watch[i].word) != b->watch[i].value)
            return true;
    return false;
}

/* Partner of `asleep`: scope_send_wakes(). */
static void sleep_on(struct set *set, struct blockers *b)
{
    mono_t now = sys.now();

    if (mono_reached(b->until, now))
        b->until = mono_add_ns(now, PAUSE_NS);
    ENQ_POINT("set.looked");
    EACH_MEMBER (m, set)
        shm_store(&m->place.e->asleep, ASLEEP_THREAD);
    shm_fence();
    if (!has_changed(b, b->own))
        sys.wait(b->watch, b->n, b->until);
    EACH_MEMBER (m, set)
        shm_store(&m->place.e->asleep, ASLEEP_NOBODY);
    ENQ_POINT("set.woken");
}

/* Each tick, or, behind others, more and more seldom: see blockers_pause(). */
static void rest(struct set *set, struct blockers *b, unsigned *futile)
{
    mono_t look_at = sys.now();

    if (b->before != NULL && set->bypass.n == 0)
        look_at = mono_add_ns(look_at, blockers_pause(futile));
    do
        sleep_on(set, b);
    while (!has_changed(b, b->n) && !mono_reached(b->until, sys.now()) &&
        !mono_reached(look_at, sys.now()));
    blockers_pass_on_deaths(b, set->s);
}

/* ENQ_PENDING: granted, or cancelled, meanwhile. */
static int leave_cycle(struct set *set)
{
    int rc = set_withdraw(set);

    return rc == ENQ_OK ? ENQ_DEADLOCK : rc == ENQ_NOTHELD ? ENQ_PENDING : rc;
}

int set_wait(struct set *set)
{
    struct suspicion suspicion = {.wanted = set->cycles};
    unsigned futile = 0;
    struct blockers b;
    int rc;

    while ((rc = look(set, &b)) == ENQ_PENDING) {
        cycle_publish(set->t, set_handle(set));
        rc = cycle_suspect(&suspicion, set->s, set->t, set_handle(set),
            &b.until);
        if (rc == ENQ_DEADLOCK)
            rc = leave_cycle(set);
        else if (rc == ENQ_PENDING)
            rest(set, &b, &futile);
        if (rc != ENQ_PENDING)
            break;
    }
    cycle_withdraw(set->t);
    bypass_end(&set->bypass);
    return rc;
}
