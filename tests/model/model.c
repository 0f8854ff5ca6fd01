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

/* --- who is there --- */

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

bool m_age_fits(const struct model *m, const struct m_lock *l, int64_t age_ms)
{
    int64_t ns = m->now_ns - l->since_ns, less = ns > 1000 ? ns - 1000 : 0;

    return age_ms == ns / 1000000 || age_ms == less / 1000000;
}

bool m_due(const struct model *m, const struct m_lock *l)
{
    return m->now_ns - l->since_ns >= m->window_ns;
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

static bool in_the_way(const struct model *m, const struct m_lock *waiter,
    const struct m_lock *ask)
{
    return waiter != ask && m_waits(m, waiter) &&
        waiter->arrival < ask->arrival && m_due(m, waiter) &&
        m_conflict(m, waiter, ask) && !waits_for_asker(m, waiter, ask);
}

struct m_verdict m_judge(struct model *m, const struct m_lock *ask)
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
        if (!free && in_the_way(m, l, ask) &&
            (v.in_line == NULL || l->arrival < v.in_line->arrival))
            v.in_line = l;
    }
    return v;
}

bool m_may_go(struct model *m, const struct m_lock *ask)
{
    struct m_verdict v = m_judge(m, ask);

    return !v.held && v.in_line == NULL;
}

bool m_names(const struct model *m, const struct m_lock *ask,
    const struct m_verdict *v, const struct m_lock *blocker)
{
    if (!v->held)
        return blocker == v->in_line;
    return m_holds(m, blocker) && m_conflict(m, blocker, ask) &&
        blocker->since_ns == v->since_ns;
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
