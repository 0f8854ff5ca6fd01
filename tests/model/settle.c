/*
 * settle.c - what a step did to the real table, and whether it may have.
 *
 * Where the rules fix what happens it must have happened. Where they leave it
 * open (a waiter within its window) the model follows the table, if the
 * rules allow what it did.
 */
#include <string.h>
#include <unistd.h>

#include "history.h"

/* --- what has left the table --- */

/* It has run out, and somebody has noticed. */
static void end_over(struct history *h, struct m_lock *l)
{
    unsigned answers = 0;

    h->died[l - h->m.locks] = l->phase == M_WAITING;
    if (l->phase == M_WAITING)
        answers = ANSWER(ENQ_NOTHELD);
    if (m_expired(&h->m, l))
        answers |= ANSWER(ENQ_EXPIRED);
    if (l->phase == M_HELD && !m_session_lives(&h->m, l) &&
        l->on_death == ENQ_DEATH_RELEASE)
        answers |= ANSWER(ENQ_OWNERDIED);
    m_end(&h->m, l, answers);
}

void observe(struct history *h)
{
    space_look(&h->s);
    for (unsigned i = 0; i < M_LOCKS; i++) {
        struct m_lock *l = &h->m.locks[i];
        bool there = l->phase != M_FREE && space_has(&h->s, l->handle);

        h->died[i] = false;
        h->left[i] = h->was_there[i] && !there;
        h->was_there[i] = there;
        if (h->left[i] && l->phase != M_GONE && m_over(&h->m, l))
            end_over(h, l);
    }
}

/* --- who was granted --- */

void new_token(struct history *h, struct m_lock *l, uint64_t token)
{
    struct model *m = &h->m;

    for (unsigned k = 0; k < m->n_keys; k++)
        if (m->overlap[k][l->key] && token <= m->newest[k])
            fail(h, "token %llu of %s: an overlapping one was %llu",
                (unsigned long long)token, lock_text(h, l),
                (unsigned long long)m->newest[k]);
    l->token = token;
    h->fresh[l - m->locks] = true;
}

void own_begin(struct history *h, const struct m_lock *ask, uint64_t token)
{
    h->own[h->n_own++] = (struct own){ask->key, ask->owner, token};
}

/* Granted to the asker, and not entered yet. Later ones that overlap have
   larger tokens; of others it is not known. */
static bool is_before_own(const struct history *h, const struct m_lock *l,
    const struct enq_info *info, bool unknown)
{
    if (h->entered)
        return true;
    for (unsigned i = 0; i < h->n_own; i++)
        if (h->m.overlap[h->own[i].key][l->key])
            return info->token < h->own[i].token;
    return h->n_own == 0 || unknown;
}

/* The waiter whom the table has granted, of those left the one that it granted
   first: what may cumulate may do so only before a later grant. */
static struct m_lock *next_granted(struct history *h, enum m_sight sight)
{
    struct m_lock *first = NULL;
    uint64_t token = 0;

    for (unsigned i = 0; i < M_LOCKS; i++) {
        struct m_lock *l = &h->m.locks[i];
        const struct enq_info *info;

        if (!m_waits(&h->m, l) || l->set != 0)
            continue;
        info = space_find(&h->s, l->handle);
        if (info == NULL || info->waiting || !m_may_go(&h->m, l, sight) ||
            !is_before_own(h, l, info, true) ||
            (first != NULL && info->token > token))
            continue;
        first = l;
        token = info->token;
    }
    return first;
}

void adopt(struct history *h, enum m_sight sight)
{
    struct m_lock *l;

    while ((l = next_granted(h, sight)) != NULL) {
        m_grant(&h->m, l);
        caller_of(h, l)->granted = true;
        h->granted[l - h->m.locks] = true;
        if (caller_of(h, l)->asleep && !space_woke(caller_of(h, l)->place.e))
            fail(h, "%s was granted and not woken", lock_text(h, l));
        new_token(h, l, space_find(&h->s, l->handle)->token);
    }
}

bool had_its_turn(struct history *h, const struct m_lock *l)
{
    for (unsigned i = 0; i < M_LOCKS; i++)
        if (h->granted[i] && m_same_owner(&h->m.locks[i], l))
            return true;
    return false;
}

/* Something that overlaps has run out, and nobody has noticed yet. */
static bool haunted(struct history *h, const struct m_lock *l)
{
    for (unsigned i = 0; i < M_LOCKS; i++) {
        const struct m_lock *other = &h->m.locks[i];

        if (h->was_there[i] && m_over(&h->m, other) &&
            m_overlap(&h->m, other, l))
            return true;
    }
    return false;
}

static bool is_generic(const struct history *h, const struct m_lock *l)
{
    const struct m_key *key = &h->m.keys[l->key];

    for (unsigned i = 0; i < key->fields; i++)
        if (key->any[i])
            return true;
    return false;
}

/* A generic waiter that was granted is no waiter any more. */
static bool made_way(const struct history *h, const struct m_lock *l)
{
    return h->granted[l - h->m.locks] && is_generic(h, l);
}

/* What its owner was granted at once may let it pass those that wait for that
   owner. */
static bool is_beside_own(const struct history *h, const struct m_lock *l)
{
    for (unsigned i = 0; i < h->n_own; i++)
        if (h->m.overlap[h->own[i].key][l->key] && l->owner[0] != '\0' &&
            strcmp(h->own[i].owner, l->owner) == 0)
            return true;
    return false;
}

/* It has died waiting, and later in the queue: who was before it, was never kept
   out by it, and need not be told. */
static bool was_behind(const struct history *h, unsigned i,
    const struct m_lock *l)
{
    return h->died[i] && h->m.locks[i].arrival > l->arrival;
}

/* R9: a promote makes room beside what was promoted only. Once the asker's own
   is entered only that makes way: a waiter that was told for what had left may
   be kept out by it, and then no other is told in its place. A waiter that has
   died may be dropped behind the asker's own, which passed it. */
static bool is_heir(struct history *h, const struct m_lock *l)
{
    if (h->entered)
        return is_beside_own(h, l);
    if (h->winner != NULL && m_overlap(&h->m, h->winner, l))
        return false;
    for (unsigned i = 0; i < M_LOCKS; i++)
        if (((h->left[i] && !(h->n_own > 0 && h->died[i]) &&
                 !was_behind(h, i, l)) ||
                made_way(h, &h->m.locks[i])) &&
            m_overlap(&h->m, &h->m.locks[i], l))
            return true;
    return false;
}

/* One that came earlier could go as well, and will be quicker. After an E or X
   no other is told: not even one that may go with it, before it has gone. */
static bool behind_another(struct history *h, const struct m_lock *l)
{
    for (unsigned i = 0; i < M_LOCKS; i++) {
        struct m_lock *other = &h->m.locks[i];

        if (m_waits(&h->m, other) && other->arrival < l->arrival &&
            (m_conflict(&h->m, other, l) || other->mode == 'E') &&
            m_may_go(&h->m, other, M_THIS_KEY))
            return true;
    }
    return false;
}

/* Was one granted that runs out before the next tick? Then all wake up that
   wait for what was served. */
static bool any_brief(const struct history *h)
{
    for (unsigned i = 0; i < M_LOCKS; i++)
        if (h->granted[i] && h->m.locks[i].ttl_ms >= 0 &&
            h->m.locks[i].ttl_ms < 40)
            return true;
    return false;
}

/* Another was granted in this step what keeps it from going now: a lock that
   conflicts, or one that it cannot cumulate with. */
static bool overtaken(struct history *h, const struct m_lock *l, bool by_sets)
{
    for (unsigned i = 0; i < M_LOCKS; i++) {
        const struct m_lock *other = &h->m.locks[i];

        if (!h->granted[i] || (by_sets && !h->granted_set[i]))
            continue;
        if (m_conflict(&h->m, other, l) ||
            (l->mode == 'E' && other->mode != 'E' &&
                m_overlap(&h->m, other, l)))
            return true;
    }
    return false;
}

/* Before the asker was granted what it asked for; or that is still to come. */
static bool could_go(struct history *h, const struct m_lock *l)
{
    bool *could = &h->could_go[l - h->m.locks];

    *could |= m_may_go(&h->m, l, M_ALL_KEYS);
    return *could || (h->n_own > 0 && !h->entered);
}

static bool comes_before(struct history *h, const struct m_lock *a,
    const struct m_lock *b)
{
    return a->arrival < b->arrival && m_overlap(&h->m, a, b);
}

/* In a wide scope all are due, and nobody is told to try. */
static bool is_narrow(struct history *h, const struct m_lock *l)
{
    for (unsigned i = 0; i < M_LOCKS; i++) {
        const struct m_lock *other = &h->m.locks[i];

        if (other->key != l->key && m_live(&h->m, other) &&
            m_overlap(&h->m, other, l))
            return false;
    }
    return !is_generic(h, l);
}

static bool is_first(struct history *h, const struct m_lock *l)
{
    for (unsigned i = 0; i < M_LOCKS; i++)
        if (m_waits(&h->m, &h->m.locks[i]) &&
            comes_before(h, &h->m.locks[i], l))
            return false;
    return true;
}

static bool one_before_was_granted(struct history *h, const struct m_lock *l)
{
    for (unsigned i = 0; i < M_LOCKS; i++)
        if (h->granted[i] && comes_before(h, &h->m.locks[i], l))
            return true;
    return false;
}

/* A young one that sleeps, beside what is free for it because one before it was
   granted. Nobody was quicker: so it is told, be it anew. And where it is the
   first now, it has to keep the time itself, which it left to that one. */
static void check_queue_moved(struct history *h, struct m_lock *l)
{
    const struct caller *c = caller_of(h, l);

    if (!c->asleep || m_due(&h->m, l) || !is_narrow(h, l) || haunted(h, l) ||
        !one_before_was_granted(h, l))
        return;
    if (!c->first && is_first(h, l))
        fail(h, "%s was not told that it is the first", lock_text(h, l));
    else if (!c->told && !behind_another(h, l))
        fail(h, "%s was not told that the queue has moved", lock_text(h, l));
}

/* R8: an heir that may go has been granted it, or is young and has been told
   to try. No other was woken, but those that could go until a set that looked
   took its keys: one by one, it does not know before that it gets all. */
static void check_waiter(struct history *h, struct m_lock *l)
{
    struct caller *c = caller_of(h, l);
    bool heir = is_heir(h, l) && !haunted(h, l) && !had_its_turn(h, l);

    if (c->asleep && h->cut != NULL && m_overlap(&h->m, h->cut, l)) {
        if (!space_woke(c->place.e))
            fail(h, "%s sleeps until the old end", lock_text(h, l));
    } else if (c->asleep && space_woke(c->place.e)) {
        c->told = c->tried = true;
        c->first |= is_first(h, l);
        if (!could_go(h, l) && !h->roused && !any_brief(h) &&
            !overtaken(h, l, true))
            fail(h, "%s was woken for nothing", lock_text(h, l));
    }
    if (!m_may_go(&h->m, l, M_THIS_KEY))
        return;
    check_queue_moved(h, l);
    if (!heir)
        return;
    if (m_due(&h->m, l))
        fail(h, "%s was not granted what is free", lock_text(h, l));
    else if (c->asleep && !c->tried && !behind_another(h, l))
        fail(h, "%s was not told to try", lock_text(h, l));
}

/* One of a set is woken if it may go, as far as its own key is concerned. */
static bool check_woken(struct history *h, const struct m_lock *l)
{
    const struct caller *c = caller_of(h, (struct m_lock *)l);
    bool cut = h->cut != NULL && m_overlap(&h->m, h->cut, l);
    bool woken = m_waits(&h->m, l) && space_woke(c->place.e);

    if (cut && m_waits(&h->m, l) && !woken)
        fail(h, "%s sleeps until the old end", lock_text(h, l));
    if (woken && !cut && !h->roused && !any_brief(h) &&
        !overtaken(h, l, false) && !could_go(h, l))
        fail(h, "%s of a set was woken for nothing", lock_text(h, l));
    return woken;
}

/* R8 for a set: if it may go, and one of its keys has made way, it has been
   told to try, whatever its age: nobody but itself takes all of them. */
static void check_set(struct history *h, struct asking *a)
{
    bool heir = false;

    if (!set_is_inside(h, a))
        return;
    for (unsigned i = 0; i < a->n; i++) {
        a->told |= check_woken(h, a->lock[i]);
        heir |= is_heir(h, a->lock[i]);
    }
    if (!heir || a->told || !m_set_may_go(&h->m, a->lock[0], M_THIS_KEY))
        return;
    for (unsigned i = 0; i < a->n; i++)
        if (haunted(h, a->lock[i]) || had_its_turn(h, a->lock[i]) ||
            (!m_due(&h->m, a->lock[i]) && behind_another(h, a->lock[i])))
            return;
    fail(h, "the set of %s was not told to try", lock_text(h, a->lock[0]));
}

void settle(struct history *h)
{
    adopt(h, M_ALL_KEYS);
    for (unsigned i = 0; i < M_LOCKS; i++) {
        struct m_lock *l = &h->m.locks[i];
        const struct enq_info *info;

        if (!m_waits(&h->m, l))
            continue;
        info = space_find(&h->s, l->handle);
        if (info != NULL && !info->waiting && is_before_own(h, l, info, false))
            fail(h, "%s was granted out of turn", lock_text(h, l));
        else if (l->set == 0 && (info == NULL || info->waiting))
            check_waiter(h, l);
    }
    for (unsigned i = 0; i < SETS; i++)
        if (h->sets[i].n > 0)
            check_set(h, &h->sets[i]);
}

void own_entered(struct history *h)
{
    h->entered = true;
    settle(h);
}

/* --- the whole state --- */

static void compare_key(struct history *h, const struct m_lock *l,
    const struct enq_info *info)
{
    const struct m_key *key = &h->m.keys[l->key];
    const char *at = info->key;

    if (strcmp(info->name, key->name) != 0 || info->fields != key->fields)
        fail(h, "%s has another name, or other fields", lock_text(h, l));
    for (unsigned i = 0; i < key->fields; i++) {
        if (strcmp(at, key->field[i]) != 0 ||
            (strcmp(at, "@") == 0 && (info->literal >> i & 1) == key->any[i]))
            fail(h, "field %u of %s is \"%s\"", i, lock_text(h, l), at);
        at += strlen(at) + 1;
    }
}

static void compare_number(struct history *h, const struct m_lock *l,
    const char *what, int64_t model, int64_t real)
{
    if (model != real)
        fail(h, "%s: %s is %lld in the model, %lld in the table",
            lock_text(h, l), what, (long long)model, (long long)real);
}

static int64_t left_ms(struct history *h, const struct m_lock *l)
{
    if (l->phase == M_WAITING || l->deadline_ns == M_NEVER)
        return ENQ_FOREVER;
    if (l->deadline_ns < h->m.now_ns)
        return 0; /* kept by the dead */
    return (l->deadline_ns - h->m.now_ns) / 1000000;
}

static int64_t table_death(const struct history *h, const struct m_lock *l)
{
    return h->s.over != NULL && l->on_death == ENQ_DEATH_RELEASE
        ? ENQ_DEATH_LEASE
        : l->on_death;
}

static void compare_lock(struct history *h, const struct m_lock *l,
    const struct enq_info *info)
{
    bool waits = l->phase == M_WAITING, lives = m_session_lives(&h->m, l);
    static const char letters[] = "?SEXO";

    compare_key(h, l, info);
    if (strcmp(info->owner, l->owner) != 0)
        fail(h, "%s is owned by %s", lock_text(h, l), info->owner);
    if (strcmp(info->id, l->id) != 0)
        fail(h, "%s has the id %s", lock_text(h, l), info->id);
    compare_number(h, l, "mode", l->mode, letters[info->mode % 5]);
    compare_number(h, l, "waiting", waits, info->waiting);
    compare_number(h, l, "orphaned", !lives, info->orphaned);
    compare_number(h, l, "pid", lives ? space_pid(&h->s) : 0, info->pid);
    compare_number(h, l, "on_death", table_death(h, l), info->on_death);
    compare_number(h, l, "ttl_ms", l->ttl_ms, info->ttl_ms);
    if (!m_left_fits(&h->m, left_ms(h, l), info->ttl_left_ms))
        compare_number(h, l, "ttl_left_ms", left_ms(h, l), info->ttl_left_ms);
    if (!m_age_fits(&h->m, l, info->age_ms))
        fail(h, "%s is said to be %lld ms old", lock_text(h, l),
            (long long)info->age_ms);
    compare_number(h, l, "token", waits ? 0 : (int64_t)l->token,
        (int64_t)info->token);
}

/* Tokens of this step become the newest of their keys. */
static void note_tokens(struct history *h)
{
    struct model *m = &h->m;

    for (unsigned i = 0; i < M_LOCKS; i++) {
        struct m_lock *l = &m->locks[i];

        if (!h->fresh[i])
            continue;
        for (unsigned j = 0; j < i; j++)
            if (h->fresh[j] && m_overlap(m, l, &m->locks[j]) &&
                l->token == m->locks[j].token)
                fail(h, "%s has the token of an overlapping lock",
                    lock_text(h, l));
        if (l->token > m->newest[l->key])
            m->newest[l->key] = l->token;
        h->fresh[i] = false;
    }
}

void compare(struct history *h)
{
    size_t live = 0;

    note_tokens(h);
    for (unsigned i = 0; i < M_LOCKS && !h->failed; i++) {
        struct m_lock *l = &h->m.locks[i];
        const struct enq_info *info;

        if (!m_live(&h->m, l))
            continue;
        live++;
        info = space_find(&h->s, l->handle);
        if (info == NULL)
            fail(h, "%s is not in the table", lock_text(h, l));
        else
            compare_lock(h, l, info);
    }
    if (live != h->s.n_found)
        fail(h, "%zu locks in the model, %zu in the table", live, h->s.n_found);
}
