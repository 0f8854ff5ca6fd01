/*
 * come.c - steps: time, sessions that come and go, and looks at the whole.
 */
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "recovery/reap.h"
#include "recovery/recover.h"
#include "sync/life.h"

struct enq *any_session(struct history *h, unsigned *number)
{
    unsigned first = draw(h, M_SESSIONS);

    for (unsigned i = 0; i < M_SESSIONS; i++) {
        *number = (first + i) % M_SESSIONS;
        if (h->m.sessions[*number].open)
            return space_at(&h->s, *number);
    }
    return NULL; /* one is always kept open */
}

static void check_same(struct history *h)
{
    observe(h);
    settle(h);
}

/* --- time --- */

void step_time(struct history *h)
{
    static const int64_t steps_us[] = {
        1, 20, 99, 199, 200, 201, 1000, 1001, 5000, 100000, 1000000, 10000000};
    int64_t us = steps_us[draw(h, 12)];

    if (us == 10000000 && chance(h, 10))
        us *= 91; /* past the default ttl */
    if (us >= 1000000 && chance(h, 80))
        us = 50;
    say(h, "%lld us pass", (long long)us);
    h->m.now_ns += us * 1000;
    space_now_ns = h->m.now_ns;
    check_same(h);
}

/* --- the end of a session --- */

static unsigned open_sessions(const struct history *h)
{
    unsigned n = 0;

    for (unsigned i = 0; i < M_SESSIONS; i++)
        n += h->m.sessions[i].open;
    return n;
}

static bool is_of(const struct history *h, const struct m_lock *l, unsigned i)
{
    return l->phase != M_FREE && l->session == i &&
        l->born == h->m.sessions[i].born;
}

/* Nobody is inside its calls any more. */
static void leave_calls(struct history *h, unsigned session)
{
    leave_sets(h, session);
    for (unsigned i = 0; i < M_LOCKS; i++) {
        struct m_lock *l = &h->m.locks[i];

        if (!is_of(h, l, session))
            continue;
        l->inside = false;
        caller_of(h, l)->asleep = false;
    }
}

/* A caller that still waits is to be told that its request was cancelled. */
static unsigned closed_answers(struct history *h, const struct m_lock *l)
{
    unsigned answers = ANSWER(ENQ_NOTHELD) | ANSWER(ENQ_OWNERDIED);

    if (l->phase == M_WAITING)
        answers |= ANSWER(ENQ_CANCELLED);
    if (m_expired(&h->m, l))
        answers |= ANSWER(ENQ_EXPIRED);
    return answers;
}

/* RELEASE locks and requests that wait are gone, and what has run out; the
   others stay. */
static void end_locks(struct history *h, unsigned session)
{
    for (unsigned i = 0; i < M_LOCKS; i++) {
        struct m_lock *l = &h->m.locks[i];

        if (!is_of(h, l, session) || l->phase == M_GONE ||
            (l->phase == M_HELD && l->on_death != ENQ_DEATH_RELEASE &&
                !m_expired(&h->m, l)))
            continue;
        m_end(&h->m, l, closed_answers(h, l));
    }
}

/* Fail closed: what a session wanted kept has no ttl once it is reaped. */
static void reap_lock(struct history *h, struct m_lock *l)
{
    if (l->phase == M_HELD && l->on_death == ENQ_DEATH_KEEP && !l->reaped &&
        !m_expired(&h->m, l))
        l->deadline_ns = M_NEVER;
    l->reaped = true;
}

static void reap_session(struct history *h, unsigned session)
{
    for (unsigned i = 0; i < M_LOCKS; i++)
        if (is_of(h, &h->m.locks[i], session))
            reap_lock(h, &h->m.locks[i]);
}

static void reap_all(struct history *h)
{
    for (unsigned i = 0; i < M_LOCKS; i++)
        if (!m_session_lives(&h->m, &h->m.locks[i]))
            reap_lock(h, &h->m.locks[i]);
}

void step_close(struct history *h)
{
    unsigned i;

    if (open_sessions(h) < 2)
        return;
    any_session(h, &i);
    say(h, "close session %u", i);
    leave_calls(h, i);
    if (!space_end(&h->s, i))
        fail(h, "session %u cannot be closed", i);
    end_locks(h, i);
    h->m.sessions[i].open = false;
    reap_session(h, i);
    check_same(h);
}

/* Noticed at once by another, or later, by the first that needs it. */
void step_die(struct history *h)
{
    session_ref_t ref;
    unsigned i, other;

    if (open_sessions(h) < 2)
        return;
    any_session(h, &i);
    leave_calls(h, i);
    ref = space_kill(&h->s, i);
    h->m.sessions[i].open = false;
    say(h, "session %u dies", i);
    if (chance(h, 60)) {
        any_session(h, &other);
        say(h, "   and is reaped by session %u", other);
        if (!session_prove(h->s.at[other].map, ref, true) ||
            reap(&h->s.at[other].session, h->s.t, ref) != 0)
            fail(h, "session %u cannot be reaped", i);
        reap_session(h, i);
    }
    check_same(h);
}

void step_reap(struct history *h)
{
    unsigned i;
    struct enq *e = any_session(h, &i);

    say(h, "session %u reaps the dead", i);
    reap_dead(&e->session, h->s.t);
    reap_all(h);
    check_same(h);
}

void step_open(struct history *h)
{
    for (unsigned i = 0; i < M_SESSIONS; i++) {
        if (h->m.sessions[i].open)
            continue;
        say(h, "open session %u", i);
        h->m.sessions[i].open = space_begin(&h->s, i);
        h->m.sessions[i].born++;
        if (!h->m.sessions[i].open)
            fail(h, "session %u cannot be opened", i);
        break;
    }
    check_same(h);
}

/* Everything derived is made anew, and nobody sees a difference. */
void step_recover(struct history *h)
{
    say(h, "recover everything");
    h->roused = true;
    if (recover_all(h->s.map, h->s.t) != 0)
        fail(h, "the table cannot be recovered");
    check_same(h);
}

/* --- lists --- */

/* Holders first, by grant; then waiters, by arrival. */
static void check_order(struct history *h, const struct enq_info *a,
    const struct enq_info *b)
{
    const struct m_lock *x = m_find(&h->m, a->handle);
    const struct m_lock *y = m_find(&h->m, b->handle);

    if (x == NULL || y == NULL)
        fail(h, "the list has a lock that the model does not know");
    else if (a->waiting > b->waiting ||
        (a->waiting && b->waiting && x->arrival > y->arrival) ||
        (!a->waiting && !b->waiting && x->since_ns > y->since_ns))
        fail(h, "the list has %s before another", lock_text(h, x));
}

static size_t count(struct history *h, const char *name, const char *owner)
{
    size_t n = 0;

    for (unsigned i = 0; i < M_LOCKS; i++) {
        const struct m_lock *l = &h->m.locks[i];

        n += m_live(&h->m, l) &&
            (name == NULL || strcmp(name, h->m.keys[l->key].name) == 0) &&
            (owner == NULL || strcmp(owner, l->owner) == 0);
    }
    return n;
}

void step_list(struct history *h)
{
    static struct enq_info list[M_LOCKS];
    const char *name = chance(h, 50) ? "n" : NULL;
    const char *owner = chance(h, 30) ? "B" : NULL;
    size_t total = 0;
    unsigned i;
    struct enq *e = any_session(h, &i);

    say(h, "list name %s owner %s", name ? name : "-", owner ? owner : "-");
    if (enq_list(e, name, owner, list, M_LOCKS, &total) != ENQ_OK)
        fail(h, "no list");
    check_same(h);
    if (total != count(h, name, owner))
        fail(h, "the list has %zu locks, the model %zu", total,
            count(h, name, owner));
    for (size_t j = 1; j < total && j < M_LOCKS; j++)
        check_order(h, &list[j - 1], &list[j]);
}
