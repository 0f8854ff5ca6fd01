/*
 * sets.c - steps: lock sets, that are held as one, wait as one, and are left
 * as one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "history.h"
#include "lock/bypass.h"
#include "wait/set_wait.h"

/* --- what is asked for --- */

struct wish {
    struct m_lock ask[SET_MOST];
    struct enq_req req[SET_MOST];
    unsigned n;
    struct enq *e;
};

static void draw_wish(struct history *h, struct wish *w, const char *verb)
{
    unsigned session;

    w->n = 1 + draw(h, SET_MOST);
    w->e = any_session(h, &session);
    for (unsigned i = 0; i < w->n; i++) {
        draw_ask(h, &w->ask[i]);
        w->ask[i].owner = w->ask[0].owner;
        w->ask[i].session = session;
        fill_req(h, &w->ask[i], &w->req[i]);
        say_ask(h, i == 0 ? verb : "   and", &w->ask[i]);
    }
}

static bool at_odds(struct history *h, const struct wish *w)
{
    for (unsigned i = 0; i < w->n; i++)
        for (unsigned k = 0; k < w->n; k++)
            if (i != k && m_conflict(&h->m, &w->ask[i], &w->ask[k]))
                return true;
    return false;
}

static bool same_id_twice(const struct wish *w)
{
    for (unsigned i = 0; i < w->n; i++)
        for (unsigned k = 0; k < i; k++)
            if (w->ask[i].own_id && w->ask[k].own_id &&
                strcmp(w->ask[i].id, w->ask[k].id) == 0)
                return true;
    return false;
}

/* The first whose id a live lock has; n: none. */
static unsigned first_taken(struct history *h, const struct wish *w)
{
    unsigned i = 0;

    while (i < w->n &&
        !(w->ask[i].own_id && m_find_id(&h->m, w->ask[i].id) != NULL))
        i++;
    return i;
}

static unsigned first_blocked(struct history *h, const struct wish *w,
    enum m_sight sight)
{
    unsigned i = 0;

    while (i < w->n && m_may_go(&h->m, &w->ask[i], sight))
        i++;
    return i;
}

/* --- the answer --- */

/* What the library has answered: of which member, and what is in its way. */
struct said {
    int rc;
    unsigned refused;
    const struct enq_blocker *blocker;
};

static void check_taken(struct history *h, const struct wish *w,
    const struct said *s, unsigned taken)
{
    expect(h, s->rc, ANSWER(ENQ_EXISTS));
    if (s->rc == ENQ_EXISTS &&
        (s->refused != taken || strcmp(s->blocker->id, w->ask[taken].id) != 0))
        fail(h, "the id of lock %u is taken, and lock %u is refused for \"%s\"",
            taken, s->refused, s->blocker->id);
}

static void check_refused(struct history *h, const struct wish *w,
    const struct said *s)
{
    const struct m_lock *ask = &w->ask[s->refused];
    struct m_verdict v = m_judge(&h->m, ask, M_THIS_KEY);

    if (is_blurred(h, ask))
        return;
    if (s->refused < first_blocked(h, w, M_THIS_KEY) ||
        s->refused > first_blocked(h, w, M_ALL_KEYS))
        fail(h, "lock %u is refused, and lock %u is not free", s->refused,
            first_blocked(h, w, M_ALL_KEYS));
    else
        check_blocker(h, ask, &v, s->blocker);
}

/* A request that joins the queue looks no further than its own keys yet; or a
   little, where two of a set are in its way at once. */
static unsigned answers_to(struct history *h, const struct wish *w, int refusal)
{
    bool near = first_blocked(h, w, M_THIS_KEY) == w->n;
    bool far = first_blocked(h, w, M_ALL_KEYS) == w->n;
    bool blurred = refusal == ENQ_PENDING;
    unsigned ok = ANSWER(ENQ_OK);

    for (unsigned i = 0; i < w->n; i++)
        blurred |= is_blurred(h, &w->ask[i]);
    if (same_id_twice(w) && (w->req[0].flags & ENQ_TEST) == 0)
        ok = ANSWER(ENQ_EXISTS);
    if (same_id_twice(w) && refusal == ENQ_PENDING)
        return ok;
    if (near || (far && !blurred))
        return ok;
    return far ? ok | ANSWER(refusal) : ANSWER(refusal);
}

/* True: all are granted. */
static bool judge_wish(struct history *h, const struct wish *w, int refusal,
    const struct said *s)
{
    unsigned taken;

    observe(h);
    settle(h);
    taken = first_taken(h, w);
    if (taken < w->n) {
        check_taken(h, w, s, taken);
        return false;
    }
    expect(h, s->rc, answers_to(h, w, refusal));
    if (s->rc == refusal)
        check_refused(h, w, s);
    return s->rc == ENQ_OK;
}

/* --- at once --- */

static unsigned who_is_blocked(const struct wish *w,
    const struct enq_grant *grants)
{
    unsigned i = 0;

    while (i + 1 < w->n && grants[i].blocker.owner[0] == '\0' &&
        grants[i].blocker.id[0] == '\0')
        i++;
    return i;
}

static void enter_held(struct history *h, const struct wish *w, unsigned i,
    enq_handle handle, uint64_t token)
{
    struct m_lock *l = enter(h, &w->ask[i], M_HELD, handle);

    if (l != NULL)
        new_token(h, l, token);
}

void step_lock_set(struct history *h)
{
    const struct enq_req *reqs[SET_MOST];
    struct enq_grant grants[SET_MOST];
    bool test = chance(h, 20);
    struct said s;
    struct wish w;

    draw_wish(h, &w, test ? "test set" : "lock set");
    memset(grants, 0, sizeof(grants));
    for (unsigned i = 0; i < w.n; i++) {
        reqs[i] = &w.req[i];
        w.req[i].flags = test ? ENQ_TEST : 0;
    }
    s.rc = enq_lock_set(w.e, reqs, w.n, grants);
    if (at_odds(h, &w)) {
        if (s.rc != -EINVAL)
            fail(h, "a set at odds with itself gets %s", enq_result_name(s.rc));
        return;
    }
    s.refused = who_is_blocked(&w, grants);
    s.blocker = &grants[s.refused].blocker;
    for (unsigned i = 0; s.rc == ENQ_OK && !test && i < w.n; i++)
        own_begin(h, &w.ask[i], grants[i].token);
    if (!judge_wish(h, &w, ENQ_BUSY, &s) || s.rc != ENQ_OK || test)
        return;
    h->sets_held++;
    for (unsigned i = 0; i < w.n; i++)
        enter_held(h, &w, i, grants[i].handle, grants[i].token);
    own_entered(h);
}

/* --- waiting --- */

struct asking *set_of(struct history *h, const struct m_lock *l)
{
    for (unsigned i = 0; l->set != 0 && i < SETS; i++)
        if (h->sets[i].n > 0 && h->sets[i].number == l->set)
            return &h->sets[i];
    return NULL;
}

bool set_is_inside(struct history *h, const struct asking *a)
{
    return a->n > 0 && m_session_lives(&h->m, a->lock[0]);
}

static struct asking *free_set(struct history *h)
{
    for (unsigned i = 0; i < SETS; i++)
        if (h->sets[i].n == 0)
            return &h->sets[i];
    return NULL;
}

/* As enq_lock_set() does before it asks. */
static void take_member(struct history *h, struct asking *a,
    const struct wish *w, unsigned i)
{
    struct member *m = &a->member[i];
    char bytes[KEY_BYTES_MAX];

    memset(m, 0, sizeof(*m));
    memcpy(a->id[i], w->ask[i].id, sizeof(a->id[i]));
    fill_ask(h, &m->ask, bytes, &w->req[i], w->ask[i].owner);
    if (m->ask.id != NULL)
        m->ask.id = a->id[i];
    if (slab_take(&w->e->session, h->s.t, &m->place.e) != 0 ||
        ask_payload_bytes(&m->ask) > SMALL_PAYLOAD) {
        fail(h, "no entry for one of a set");
        return;
    }
    memcpy(m->place.e->payload, bytes, key_bytes(&m->ask.key));
    set_note(&a->set, m);
}

static void take_members(struct history *h, struct asking *a,
    const struct wish *w)
{
    static const int64_t waits_ms[] = {1, 10, 100, ENQ_FOREVER};

    memset(a, 0, sizeof(*a));
    a->set.s = &w->e->session;
    a->set.t = h->s.t;
    a->set.member = a->member;
    a->set.n = w->n;
    a->set.blocker = &a->blocker;
    a->set.deadline = mono_add_ms((mono_t){h->m.now_ns}, waits_ms[draw(h, 4)]);
    set_begin(&a->set);
    for (unsigned i = 0; i < w->n; i++)
        take_member(h, a, w, i);
}

static void fall_asleep(struct history *h, struct asking *a)
{
    for (unsigned i = 0; i < a->n; i++) {
        struct caller *c = caller_of(h, a->lock[i]);

        if (!m_waits(&h->m, a->lock[i]))
            continue;
        c->asleep = true;
        space_sleeps(&h->s, c->place.e);
    }
}

/* One arrival; when each is due depends on what waited for its key before. */
static void enter_waiting(struct history *h, struct asking *a,
    const struct wish *w)
{
    int64_t due_ns[SET_MOST];

    for (unsigned i = 0; i < w->n; i++)
        due_ns[i] = m_due_at(&h->m, &w->ask[i]);
    a->number = ++h->n_sets;
    for (unsigned i = 0; i < w->n; i++) {
        struct place *place = &a->member[i].place;
        struct m_lock *l =
            enter(h, &w->ask[i], M_WAITING, entry_handle(h->s.map, place->e));

        if (l == NULL)
            return;
        a->lock[a->n++] = l;
        l->arrival = a->lock[0]->arrival;
        l->due_ns = due_ns[i];
        l->set = a->number;
        l->inside = true;
        caller_of(h, l)->place = *place;
    }
    fall_asleep(h, a);
    ask_for_cycle(h, a->lock[0]);
}

static bool is_fine(struct history *h, struct asking *a, const struct wish *w)
{
    uint32_t other, odd = set_check(&a->set, &other);

    if (at_odds(h, w) == (odd == SET_FINE))
        fail(h, "a set is at odds with itself, or not");
    if (odd != SET_FINE)
        set_give_back(&a->set, w->n);
    return odd == SET_FINE;
}

void step_wait_set(struct history *h)
{
    struct asking *a = free_set(h);
    struct said s;
    struct wish w;

    if (a == NULL)
        return;
    draw_wish(h, &w, "wait set");
    take_members(h, a, &w);
    if (h->failed || !is_fine(h, a, &w))
        return;
    s.rc = set_lock(&a->set, true);
    s.refused = a->set.refused;
    s.blocker = &a->blocker;
    for (unsigned i = 0; s.rc == ENQ_OK && i < w.n; i++)
        own_begin(h, &w.ask[i], a->member[i].place.token);
    if (judge_wish(h, &w, ENQ_PENDING, &s) && s.rc == ENQ_OK) {
        for (unsigned i = 0; i < w.n; i++)
            enter_held(h, &w, i, entry_handle(h->s.map, a->member[i].place.e),
                a->member[i].place.token);
        own_entered(h);
        h->sets_held++;
    } else if (s.rc == ENQ_PENDING) {
        h->sets_queued++;
        enter_waiting(h, a, &w);
    }
}

/* --- a set looks --- */

static void leave(struct asking *a)
{
    for (unsigned i = 0; i < a->n; i++) {
        a->lock[i]->inside = false;
        a->lock[i]->set = 0;
    }
    bypass_end(&a->set.bypass);
    a->n = 0;
}

/* Those that waited still, and those that were taken out before. */
static void end_all(struct history *h, struct asking *a)
{
    h->sets_left++;
    for (unsigned i = 0; i < a->n; i++) {
        struct m_lock *l = a->lock[i];

        if (l->phase == M_WAITING)
            m_end(&h->m, l, ANSWER(ENQ_NOTHELD));
        l->answers = ANSWER(ENQ_NOTHELD);
    }
    leave(a);
}

static void grant_all(struct history *h, struct asking *a)
{
    if (!m_set_may_go(&h->m, a->lock[0], M_ALL_KEYS))
        fail(h, "the set of %s was granted out of turn",
            lock_text(h, a->lock[0]));
    h->sets_granted++;
    for (unsigned i = 0; i < a->n; i++) {
        struct m_lock *l = a->lock[i];

        m_grant(&h->m, l);
        caller_of(h, l)->granted = true;
        h->granted[l - h->m.locks] = true;
        h->granted_set[l - h->m.locks] = true;
        new_token(h, l, a->member[i].place.token);
    }
    leave(a);
}

static bool should_go(struct history *h, const struct asking *a)
{
    for (unsigned i = 0; i < a->n; i++)
        if (had_its_turn(h, a->lock[i]))
            return false;
    return m_set_may_go(&h->m, a->lock[0], sight_at(h, a->set.deadline));
}

static void time_out(struct history *h, struct asking *a)
{
    const struct m_lock *l = a->lock[a->set.refused];
    struct m_verdict v = m_judge(&h->m, l, M_THIS_KEY);

    check_blocker(h, l, &v, &a->blocker);
    end_all(h, a);
}

static void judge_look(struct history *h, struct asking *a, int rc, bool broken)
{
    adopt(h, rc == ENQ_TIMEDOUT ? M_THIS_KEY : M_ALL_KEYS);
    if (broken) {
        expect(h, rc, ANSWER(ENQ_CANCELLED));
        end_all(h, a);
    } else if (rc == ENQ_OK) {
        expect(h, rc, ANSWER(ENQ_OK));
        grant_all(h, a);
    } else if (should_go(h, a)) {
        fail(h, "the set of %s looked and did not go",
            lock_text(h, a->lock[0]));
    } else if (h->m.now_ns < a->set.deadline.ns) {
        expect(h, rc, ANSWER(ENQ_PENDING));
    } else {
        expect(h, rc, ANSWER(ENQ_TIMEDOUT));
        time_out(h, a);
    }
}

static void wake_up(struct history *h, struct asking *a)
{
    for (unsigned i = 0; i < a->n; i++) {
        struct m_lock *l = a->lock[i];

        if (h->was_there[l - h->m.locks])
            space_wakes_up(&h->s, a->member[i].place.e);
        caller_of(h, l)->asleep = false;
        say(h, "%s %s", i == 0 ? "look set" : "   and", lock_text(h, l));
    }
    a->told = false;
    a->set.bypass.n = 0; /* may it pass whom it passed before? Only if still */
}

int look_set(struct history *h, struct asking *a)
{
    bool broken = m_set_is_broken(&h->m, a->lock[0]);
    struct wait_plan plan;
    int rc;

    wake_up(h, a);
    rc = set_look(&a->set, &plan);
    observe(h);
    judge_look(h, a, rc, broken);
    settle(h);
    if (a->n > 0) {
        fall_asleep(h, a);
        ask_for_cycle(h, a->lock[0]);
    }
    return rc;
}

void leave_sets(struct history *h, unsigned session)
{
    for (unsigned i = 0; i < SETS; i++)
        if (h->sets[i].n > 0 && h->sets[i].lock[0]->session == session &&
            m_session_lives(&h->m, h->sets[i].lock[0]))
            leave(&h->sets[i]);
}
