/*
 * model.c - the rules of locks once more (see model.h).
 */
#include "model.h"

#include <stdio.h>
#include <string.h>

/* --- keys (R1) --- */

static bool part_is_any(const char *part)
{
    return strcmp(part, "@") == 0;
}

void m_key_parse(struct m_key *key, const char *text)
{
    const char *slash = strchr(text, '/');
    size_t n = slash == NULL ? strlen(text) : (size_t)(slash - text);

    memset(key, 0, sizeof(*key));
    snprintf(key->text, sizeof(key->text), "%s", text);
    snprintf(key->name, sizeof(key->name), "%.*s", (int)n, text);
    while (slash != NULL) {
        const char *part = slash + 1;
        char *field = key->field[key->fields];

        slash = strchr(part, '/');
        n = slash == NULL ? strlen(part) : (size_t)(slash - part);
        snprintf(field, sizeof(key->field[0]), "%.*s", (int)n, part);
        key->any[key->fields] = part_is_any(field);
        if (field[0] == '\\')
            memmove(field, field + 1, strlen(field));
        key->fields++;
    }
}

bool m_keys_overlap(const struct m_key *a, const struct m_key *b)
{
    if (strcmp(a->name, b->name) != 0 || a->fields != b->fields)
        return false;
    for (unsigned i = 0; i < a->fields; i++)
        if (!a->any[i] && !b->any[i] && strcmp(a->field[i], b->field[i]) != 0)
            return false;
    return true;
}

bool m_overlap(const struct model *m, const struct m_lock *a,
    const struct m_lock *b)
{
    return m->overlap[a->key][b->key];
}

/* --- modes --- */

/* The pairs that may be held together. */
static const char *const together[2][2] = {
    {"SS OO", "SS OO EE"},
    {"SS OO SO OS", "SS OO EE SO OS SE ES OE EO"},
};

/* R4: nobody's is nobody's. */
bool m_same_owner(const struct m_lock *a, const struct m_lock *b)
{
    return a->owner[0] != '\0' && strcmp(a->owner, b->owner) == 0;
}

bool m_conflict(const struct model *m, const struct m_lock *held,
    const struct m_lock *asked)
{
    char pair[3] = {held->mode, asked->mode, '\0'};

    return m_overlap(m, held, asked) &&
        strstr(together[m->sap][m_same_owner(held, asked)], pair) == NULL;
}

/* --- what is there --- */

bool m_session_lives(const struct model *m, const struct m_lock *l)
{
    const struct m_session *s = &m->sessions[l->session];

    return s->open && s->born == l->born;
}

bool m_expired(const struct model *m, const struct m_lock *l)
{
    return l->phase == M_HELD && m->now_ns >= l->deadline_ns;
}

bool m_over(const struct model *m, const struct m_lock *l)
{
    if (m_expired(m, l))
        return true;
    if (l->phase == M_HELD && l->on_death != ENQ_DEATH_RELEASE)
        return false;
    return !m_session_lives(m, l);
}

bool m_live(const struct model *m, const struct m_lock *l)
{
    return (l->phase == M_HELD || l->phase == M_WAITING) && !m_over(m, l);
}

bool m_holds(const struct model *m, const struct m_lock *l)
{
    return l->phase == M_HELD && !m_over(m, l);
}

bool m_waits(const struct model *m, const struct m_lock *l)
{
    return l->phase == M_WAITING && !m_over(m, l);
}

/* Where time is real, what this machine kept from running is late as well: to
   be asked for that takes a while, and is seldom needed. */
static bool is_near(const struct model *m, int64_t ms, int64_t least,
    int64_t most)
{
    int64_t slack = m->slack_ms;

    if (slack > 0 && (ms < least - slack || ms > most + slack))
        slack += m->starved_ms() - m->starved_before_ms;
    return ms >= least - slack && ms <= most + slack;
}

bool m_left_fits(const struct model *m, int64_t left, int64_t real)
{
    if (left == ENQ_FOREVER || real == ENQ_FOREVER)
        return left == real;
    return is_near(m, real, left, left);
}

bool m_age_fits(const struct model *m, const struct m_lock *l, int64_t age_ms)
{
    int64_t ns = m->now_ns - l->since_ns, less = ns > 1000 ? ns - 1000 : 0;

    if (m->slack_ms > 0)
        return age_ms >= 0 && is_near(m, age_ms, 0, ns / 1000000);
    return age_ms == ns / 1000000 || age_ms == less / 1000000;
}

bool m_due(const struct model *m, const struct m_lock *l)
{
    return m->now_ns >= l->due_ns;
}

int64_t m_due_at(const struct model *m, const struct m_lock *ask)
{
    int64_t due = m->now_ns + 200000, turn = 0;

    if (m->strict)
        return m->now_ns;
    for (unsigned i = 0; i < M_LOCKS; i++) {
        const struct m_lock *l = &m->locks[i];
        if (m_waits(m, l) && m_overlap(m, l, ask) && l->due_ns + 50000 > turn)
            turn = l->due_ns + 50000;
    }
    if (turn > m->now_ns + 5000000)
        turn = m->now_ns + 5000000;
    return turn > due ? turn : due;
}

/* --- may it be granted? --- */

/* R5, R6: everything that overlaps is an E of this owner. */
static bool cumulates(const struct model *m, const struct m_lock *ask)
{
    bool any = false;

    if (ask->mode != 'E')
        return false;
    for (unsigned i = 0; i < M_LOCKS; i++) {
        const struct m_lock *l = &m->locks[i];

        if (!m_holds(m, l) || !m_overlap(m, l, ask))
            continue;
        if (l->mode != 'E' || !m_same_owner(l, ask))
            return false;
        any = true;
    }
    return any;
}

/* R7's exception: it waits for something that the asker holds. */
static bool waits_for_asker(const struct model *m, const struct m_lock *waiter,
    const struct m_lock *ask)
{
    for (unsigned i = 0; i < M_LOCKS; i++) {
        const struct m_lock *l = &m->locks[i];

        if (m_holds(m, l) && m_same_owner(l, ask) && m_conflict(m, l, waiter))
            return true;
    }
    return false;
}

static bool excused(const struct model *m, const struct m_lock *waiter,
    const struct m_lock *ask, enum m_sight sight)
{
    if (waits_for_asker(m, waiter, ask))
        return true;
    for (unsigned i = 0; i < M_LOCKS; i++) {
        const struct m_lock *other = &m->locks[i];

        if (sight == M_ALL_KEYS && waiter->set != 0 &&
            other->set == waiter->set && m_waits(m, other) &&
            waits_for_asker(m, other, ask))
            return true;
    }
    return false;
}

static bool in_the_way(const struct model *m, const struct m_lock *waiter,
    const struct m_lock *ask, enum m_sight sight)
{
    return waiter != ask && m_waits(m, waiter) &&
        waiter->arrival < ask->arrival && m_due(m, waiter) &&
        m_conflict(m, waiter, ask) && !excused(m, waiter, ask, sight);
}

struct m_verdict m_judge(struct model *m, const struct m_lock *ask,
    enum m_sight sight)
{
    struct m_verdict v = {.since_ns = M_NEVER};
    bool free = cumulates(m, ask);

    for (unsigned i = 0; i < M_LOCKS; i++) {
        struct m_lock *l = &m->locks[i];

        if (l == ask)
            continue;
        if (m_holds(m, l) && m_conflict(m, l, ask)) {
            v.held = true;
            if (l->since_ns < v.since_ns)
                v.since_ns = l->since_ns;
        }
        if (m_waits(m, l) && m_overlap(m, l, ask))
            v.queue++;
        if (!free && in_the_way(m, l, ask, sight) &&
            (v.in_line == NULL || l->arrival < v.in_line->arrival))
            v.in_line = l;
    }
    return v;
}

bool m_may_go(struct model *m, const struct m_lock *ask, enum m_sight sight)
{
    struct m_verdict v = m_judge(m, ask, sight);

    return !v.held && v.in_line == NULL;
}

bool m_set_is_broken(const struct model *m, const struct m_lock *l)
{
    for (unsigned i = 0; i < M_LOCKS; i++)
        if (l->set != 0 && m->locks[i].set == l->set &&
            !m_waits(m, &m->locks[i]))
            return true;
    return false;
}

bool m_set_may_go(struct model *m, const struct m_lock *ask, enum m_sight sight)
{
    if (ask->set == 0)
        return m_may_go(m, ask, sight);
    for (unsigned i = 0; i < M_LOCKS; i++) {
        const struct m_lock *l = &m->locks[i];

        if (l->set == ask->set && (!m_waits(m, l) || !m_may_go(m, l, sight)))
            return false;
    }
    return true;
}

bool m_names(const struct model *m, const struct m_lock *ask,
    const struct m_verdict *v, const struct m_lock *blocker)
{
    if (!v->held) /* of a set any that is in the way */
        return v->in_line != NULL && m_waits(m, blocker) &&
            blocker->arrival == v->in_line->arrival &&
            m_conflict(m, blocker, ask);
    return m_holds(m, blocker) && m_conflict(m, blocker, ask) &&
        blocker->since_ns == v->since_ns;
}

/* --- who waits for whom --- */

/* Others' locks that are in the way, and those that came before: young or not,
   they will be due. */
static bool waits_for(const struct model *m, const struct m_lock *waiter,
    const struct m_lock *other)
{
    if (other == waiter || !m_live(m, other) || m_same_owner(other, waiter) ||
        !m_conflict(m, other, waiter))
        return false;
    if (m_holds(m, other))
        return true;
    return m_waits(m, other) && other->arrival < waiter->arrival &&
        !excused(m, other, waiter, M_ALL_KEYS);
}

static bool is_one(const struct m_lock *a, const struct m_lock *b)
{
    return a == b || (a->set != 0 && a->set == b->set);
}

/* Before it goes, this request has to be granted. */
static bool goes_after(const struct model *m, const struct m_lock *other,
    const struct m_lock *request)
{
    return m_waits(m, request) &&
        (is_one(other, request) ||
            (m_holds(m, other) && m_same_owner(other, request)));
}

static bool leads_to(struct model *m, const struct m_lock *from,
    const struct m_lock *home, bool *seen)
{
    for (unsigned i = 0; i < M_LOCKS; i++) {
        const struct m_lock *other = &m->locks[i];

        if (!waits_for(m, from, other))
            continue;
        if (is_one(other, home) ||
            (m_holds(m, other) && m_same_owner(other, home)))
            return true;
        for (unsigned k = 0; k < M_LOCKS; k++) {
            if (seen[k] || !goes_after(m, other, &m->locks[k]))
                continue;
            seen[k] = true;
            if (leads_to(m, &m->locks[k], home, seen))
                return true;
        }
    }
    return false;
}

bool m_in_cycle(struct model *m, const struct m_lock *waiting)
{
    bool seen[M_LOCKS] = {false};

    if (waiting->owner[0] == '\0')
        return false;
    for (unsigned i = 0; i < M_LOCKS; i++) {
        const struct m_lock *l = &m->locks[i];

        if (is_one(l, waiting) && m_waits(m, l) &&
            leads_to(m, l, waiting, seen))
            return true;
    }
    return false;
}

/* --- changes --- */

void m_start_ttl(struct model *m, struct m_lock *l, int64_t ttl_ms)
{
    l->deadline_ns = ttl_ms < 0 ? M_NEVER : m->now_ns + ttl_ms * 1000000;
}

void m_grant(struct model *m, struct m_lock *l)
{
    l->phase = M_HELD;
    l->since_ns = m->now_ns;
    m_start_ttl(m, l, l->ttl_ms);
}

void m_end(struct model *m, struct m_lock *l, unsigned answers)
{
    l->phase = M_GONE;
    l->gone_ns = m->now_ns;
    l->answers = answers;
}

struct m_lock *m_room(struct model *m)
{
    struct m_lock *room = NULL;

    for (unsigned i = 0; i < M_LOCKS; i++) {
        struct m_lock *l = &m->locks[i];

        if (l->phase == M_FREE)
            return l;
        if (l->phase == M_GONE && !l->inside &&
            (room == NULL || l->gone_ns < room->gone_ns))
            room = l;
    }
    return room;
}

struct m_lock *m_find(struct model *m, enq_handle handle)
{
    for (unsigned i = 0; i < M_LOCKS; i++)
        if (m->locks[i].phase != M_FREE && m->locks[i].handle == handle)
            return &m->locks[i];
    return NULL;
}

struct m_lock *m_find_id(struct model *m, const char *id)
{
    for (unsigned i = 0; i < M_LOCKS; i++)
        if (m_live(m, &m->locks[i]) && strcmp(m->locks[i].id, id) == 0)
            return &m->locks[i];
    return NULL;
}
