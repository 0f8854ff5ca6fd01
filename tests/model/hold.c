/*
 * hold.c - steps: what can be done with a lock once there is one.
 */
#include "lock/hold.h"

#include <string.h>

#include "history.h"

#define GONE_KEPT_NS (60 * NS_PER_S)

/* --- which lock --- */

/* What its dead session would have lost answers for as long as nobody has
   looked: neither the rules nor this model say what. */
static bool undead(struct history *h, const struct m_lock *l)
{
    return l->phase != M_GONE && m_over(&h->m, l) && !m_session_lives(&h->m, l);
}

/* Any that there is or was. */
static struct m_lock *draw_lock(struct history *h)
{
    bool live = chance(h, 85);
    unsigned first = draw(h, M_LOCKS);

    for (unsigned i = 0; i < M_LOCKS; i++) {
        struct m_lock *l = &h->m.locks[(first + i) % M_LOCKS];

        if (l->phase == M_FREE || (live && l->phase == M_GONE) || undead(h, l))
            continue;
        return l;
    }
    return NULL;
}

/* 0, or its own, or another one. */
static uint64_t draw_token(struct history *h, const struct m_lock *l)
{
    switch (draw(h, 8)) {
    case 0:
        return l->token + 1;
    case 1:
    case 2:
    case 3:
        return l->phase == M_HELD ? l->token : 0;
    default:
        return 0;
    }
}

struct deed {
    struct m_lock *l;
    struct enq *e;
    unsigned session;
    uint64_t token;
    unsigned answers; /* why it cannot be done; 0: it can */
};

/* R16: a lock that is not there says why, for a minute at least; unless its
   place was a dead session's, and is needed. */
static unsigned gone_answers(struct history *h, const struct m_lock *l)
{
    if (h->m.now_ns - l->gone_ns > GONE_KEPT_NS || l->passed ||
        h->s.over != NULL || !m_session_lives(&h->m, l))
        return l->answers | ANSWER(ENQ_NOTHELD);
    return l->answers;
}

static unsigned answers_of(struct history *h, const struct m_lock *l,
    uint64_t token)
{
    unsigned answers = 0;

    if (l->phase == M_GONE)
        return gone_answers(h, l);
    if (token != 0 && (l->phase == M_WAITING || token != l->token))
        answers = ANSWER(ENQ_NOTHELD);
    if (m_expired(&h->m, l))
        answers |= ANSWER(ENQ_EXPIRED);
    return answers;
}

/* Over the wire what a session holds others change with its token only. */
static bool lacks_token(const struct history *h, const struct deed *d)
{
    return h->s.over != NULL && d->token == 0 && d->l->phase == M_HELD &&
        d->session != d->l->session && m_session_lives(&h->m, d->l);
}

static bool draw_deed(struct history *h, const char *verb, struct deed *d)
{
    d->l = draw_lock(h);
    if (d->l == NULL)
        return false;
    d->e = any_session(h, &d->session);
    if (m_session_lives(&h->m, d->l) && chance(h, 70)) {
        d->session = d->l->session;
        d->e = space_at(&h->s, d->session);
    }
    d->token = draw_token(h, d->l);
    d->answers = answers_of(h, d->l, d->token);
    if (lacks_token(h, d))
        d->answers |= ANSWER(ENQ_NOTHELD);
    say(h, "%s %s token %llu session %u", verb, lock_text(h, d->l),
        (unsigned long long)d->token, d->session);
    return true;
}

static bool is_its_session(struct history *h, const struct deed *d)
{
    return d->session == d->l->session && m_session_lives(&h->m, d->l);
}

/* --- unlock --- */

/* The holder has been told why: there is nothing more to say. A cancelled
   request is kept for its waiter to look at. */
static void forget(struct history *h, const struct deed *d, int rc)
{
    if (is_its_session(h, d) && d->l->phase == M_GONE && rc != ENQ_NOTHELD &&
        rc != ENQ_CANCELLED)
        d->l->answers = ANSWER(ENQ_NOTHELD);
}

void step_unlock(struct history *h)
{
    struct deed d;
    int rc;

    if (!draw_deed(h, "unlock", &d))
        return;
    rc = enq_unlock(d.e, d.l->handle, d.token);
    observe(h);
    if (d.answers != 0) {
        expect(h, rc, d.answers);
        forget(h, &d, rc);
    } else {
        expect(h, rc, ANSWER(ENQ_OK));
        m_end(&h->m, d.l,
            d.l->phase == M_WAITING ? ANSWER(ENQ_CANCELLED)
                                    : ANSWER(ENQ_NOTHELD));
    }
    settle(h);
}

/* --- promote, demote --- */

/* R17: what else of O overlaps is lost to the winner; what conflicts with an
   E and is no O is in its way. */
static struct m_verdict rivals(struct history *h, const struct m_lock *winner)
{
    struct m_lock asked = *winner;
    struct m_verdict v = {.since_ns = M_NEVER};

    asked.mode = 'E';
    for (unsigned i = 0; i < M_LOCKS; i++) {
        const struct m_lock *l = &h->m.locks[i];

        if (l == winner || !m_holds(&h->m, l) || l->mode == 'O' ||
            !m_conflict(&h->m, l, &asked))
            continue;
        v.held = true;
        if (l->since_ns < v.since_ns)
            v.since_ns = l->since_ns;
    }
    return v;
}

static void lose_rivals(struct history *h, const struct m_lock *winner)
{
    for (unsigned i = 0; i < M_LOCKS; i++) {
        struct m_lock *l = &h->m.locks[i];

        if (l == winner || !m_holds(&h->m, l) || l->mode != 'O' ||
            !m_overlap(&h->m, l, winner))
            continue;
        m_end(&h->m, l, ANSWER(ENQ_LOST));
        l->taker = winner->owner;
    }
}

static void check_promote_blocker(struct history *h, const struct m_lock *l,
    const struct m_verdict *v, const struct enq_blocker *b)
{
    struct m_lock asked = *l;
    const struct m_lock *blocker = m_find_id(&h->m, b->id);

    asked.mode = 'E';
    if (blocker == NULL || !m_names(&h->m, &asked, v, blocker))
        fail(h, "promote of %s is refused by \"%s\" of %s", lock_text(h, l),
            b->id, b->owner);
}

static void promote(struct history *h, const struct deed *d, int rc,
    const struct enq_grant *grant)
{
    struct m_verdict v = rivals(h, d->l);

    if (d->l->phase != M_HELD || d->l->mode != 'O') {
        expect(h, rc, ANSWER(ENQ_REFUSED));
    } else if (v.held) {
        expect(h, rc, ANSWER(ENQ_REFUSED));
        if (rc == ENQ_REFUSED)
            check_promote_blocker(h, d->l, &v, &grant->blocker);
    } else {
        expect(h, rc, ANSWER(ENQ_OK));
        lose_rivals(h, d->l);
        h->winner = d->l;
        d->l->mode = 'E';
        if (rc == ENQ_OK)
            new_token(h, d->l, grant->token);
    }
}

/* R9: those that wait for the promoted lock stay, also its owner's own. */
static void check_none_granted(struct history *h, const struct m_lock *winner)
{
    for (unsigned i = 0; i < M_LOCKS; i++) {
        const struct m_lock *l = &h->m.locks[i];
        const struct enq_info *info = space_find(&h->s, l->handle);

        if (m_waits(&h->m, l) && m_overlap(&h->m, l, winner) && info != NULL &&
            !info->waiting)
            fail(h, "%s was granted by a promote", lock_text(h, l));
    }
}

void step_promote(struct history *h)
{
    struct enq_grant grant = {0};
    struct deed d;
    int rc;

    if (!draw_deed(h, "promote", &d))
        return;
    rc = enq_promote(d.e, d.l->handle, d.token, &grant);
    observe(h);
    if (d.answers != 0) {
        expect(h, rc, d.answers);
        if (rc == ENQ_LOST && strcmp(grant.blocker.owner, d.l->taker) != 0)
            fail(h, "%s was lost to %s, not to \"%s\"", lock_text(h, d.l),
                d.l->taker, grant.blocker.owner);
    } else {
        promote(h, &d, rc, &grant);
        if (rc == ENQ_OK)
            check_none_granted(h, d.l);
    }
    settle(h);
}

void step_demote(struct history *h)
{
    struct deed d;
    int rc;

    if (!draw_deed(h, "demote", &d))
        return;
    rc = enq_demote(d.e, d.l->handle, d.token);
    observe(h);
    if (d.answers != 0) {
        expect(h, rc, d.answers);
    } else if (d.l->phase != M_HELD || d.l->mode == 'S' || d.l->mode == 'O') {
        expect(h, rc, ANSWER(ENQ_REFUSED));
    } else {
        expect(h, rc, ANSWER(ENQ_OK));
        d.l->mode = 'S';
        h->left[d.l - h->m.locks] = true; /* R8: as if it had */
    }
    settle(h);
}

/* --- time --- */

void step_renew(struct history *h)
{
    static const int64_t ttls[] = {0, 3600000, ENQ_FOREVER, 1, 100};
    int64_t ttl_ms = ttls[draw(h, h->s.over != NULL ? 3 : 5)];
    struct deed d;
    int rc;

    if (!draw_deed(h, "renew", &d))
        return;
    say(h, "   for %lld ms", (long long)ttl_ms);
    rc = enq_renew(d.e, d.l->handle, d.token, ttl_ms);
    observe(h);
    if (d.answers != 0) {
        expect(h, rc, d.answers);
    } else if (d.l->phase == M_WAITING) {
        expect(h, rc, ANSWER(ENQ_REFUSED));
    } else {
        int64_t before_ns = d.l->deadline_ns;

        expect(h, rc, ANSWER(ENQ_OK));
        m_start_ttl(&h->m, d.l, ttl_ms == 0 ? d.l->ttl_ms : ttl_ms);
        if (d.l->deadline_ns < before_ns)
            h->cut = d.l;
    }
    settle(h);
}

/* What a remote client was told of it, no matter who has asked since; or
   nothing yet. */
#define REMEMBERED                                                             \
    (ANSWER(ENQ_OK) | ANSWER(ENQ_EXPIRED) | ANSWER(ENQ_LOST) |                 \
        ANSWER(ENQ_FORCED))

void step_valid(struct history *h)
{
    struct deed d;
    int rc;

    if (!draw_deed(h, "valid", &d))
        return;
    rc = enq_valid(d.e, d.l->handle);
    observe(h);
    if (d.l->phase == M_WAITING)
        expect(h, rc, ANSWER(ENQ_NOTHELD));
    else if (m_expired(&h->m, d.l))
        expect(h, rc, ANSWER(ENQ_EXPIRED));
    else if (d.l->phase == M_GONE)
        expect(h, rc, gone_answers(h, d.l) | (h->s.over ? REMEMBERED : 0));
    else
        expect(h, rc, ANSWER(ENQ_OK));
    settle(h);
}

/* --- by id --- */

static void adopt_lock(struct history *h, struct deed *d, int rc,
    const struct enq_grant *grant)
{
    if (d->l->phase == M_WAITING || m_session_lives(&h->m, d->l)) {
        expect(h, rc, ANSWER(ENQ_REFUSED));
        return;
    }
    expect(h, rc, ANSWER(ENQ_OK));
    d->l->session = d->session;
    d->l->born = h->m.sessions[d->session].born;
    d->l->reaped = false;
    d->l->passed = true;
    m_start_ttl(&h->m, d->l, d->l->ttl_ms);
    h->cut = d->l; /* an orphan that was kept had no ttl: it has again */
    if (grant->handle != d->l->handle)
        fail(h, "%s has another handle now", lock_text(h, d->l));
    if (rc == ENQ_OK)
        new_token(h, d->l, grant->token);
}

/* A derived id is remembered for as long as its entry is. */
#define GONE_ANSWERS                                                           \
    (ANSWER(ENQ_NOTHELD) | ANSWER(ENQ_EXPIRED) | ANSWER(ENQ_LOST) |            \
        ANSWER(ENQ_FORCED) | ANSWER(ENQ_OWNERDIED) | ANSWER(ENQ_CANCELLED))

/* The lock that has the id now, not the one that had it. */
static bool draw_deed_by_id(struct history *h, const char *verb, struct deed *d,
    const char **id)
{
    if (!draw_deed(h, verb, d))
        return false;
    *id = d->l->id;
    d->e = any_session(h, &d->session);
    d->l = m_find_id(&h->m, *id);
    say(h, "   id \"%s\" session %u", *id, d->session);
    return true;
}

void step_adopt(struct history *h)
{
    struct enq_grant grant = {0};
    struct deed d;
    const char *id;
    int rc;

    if (!draw_deed_by_id(h, "adopt", &d, &id))
        return;
    rc = enq_adopt(d.e, id, &grant);
    observe(h);
    if (d.l == NULL)
        expect(h, rc, GONE_ANSWERS);
    else
        adopt_lock(h, &d, rc, &grant);
    settle(h);
}

void step_break(struct history *h)
{
    struct deed d;
    const char *id;
    int rc;

    if (!draw_deed_by_id(h, "break", &d, &id))
        return;
    rc = enq_break(d.e, id);
    observe(h);
    expect(h, rc, d.l == NULL ? GONE_ANSWERS : ANSWER(ENQ_OK));
    if (d.l != NULL)
        m_end(&h->m, d.l, ANSWER(ENQ_FORCED));
    settle(h);
}

/* R16, and ids: from one to the other and back. */
void step_find(struct history *h)
{
    enq_handle handle = 0;
    char text[ENQ_ID_BYTES];
    struct deed d;
    const char *id;
    int rc;

    if (!draw_deed_by_id(h, "find", &d, &id))
        return;
    rc = enq_find(d.e, id, &handle);
    observe(h);
    expect(h, rc, d.l == NULL ? GONE_ANSWERS : ANSWER(ENQ_OK));
    if (d.l != NULL && handle != d.l->handle)
        fail(h, "the id of %s leads elsewhere", lock_text(h, d.l));
    if (d.l != NULL &&
        (enq_id(d.e, d.l->handle, text) != ENQ_OK || strcmp(text, id) != 0))
        fail(h, "the handle of %s gives another id", lock_text(h, d.l));
    settle(h);
}
