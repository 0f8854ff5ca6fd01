/*
 * rules.c - the rules once more (see rules.h): as simple as can be.
 */
#include "sim/rules.h"

#include <linux/futex.h>
#include <string.h>

#include "sim/sim.h"

static bool is_sap;

void rules_begin(bool sap)
{
    is_sap = sap;
}

bool rules_overlap(const struct entry *a, const struct entry *b)
{
    const char *x = a->payload + a->name_bytes;
    const char *y = b->payload + b->name_bytes;
    unsigned generic = a->generic | b->generic;

    if (a->fields != b->fields || strcmp(a->payload, b->payload) != 0)
        return false;
    for (unsigned i = 0; i < a->fields; i++) {
        if (!(generic >> i & 1) && strcmp(x, y) != 0)
            return false;
        x += strlen(x) + 1;
        y += strlen(y) + 1;
    }
    return true;
}

const char *rules_owner(const struct entry *e)
{
    return e->payload + e->name_bytes + e->field_bytes;
}

bool rules_same_owner(const struct entry *a, const struct entry *b)
{
    return rules_owner(a)[0] != '\0' &&
        strcmp(rules_owner(a), rules_owner(b)) == 0;
}

static bool both(unsigned a, unsigned b, unsigned mode)
{
    return a == mode && b == mode;
}

bool rules_modes_exclude(unsigned a, unsigned b, bool same)
{
    bool soft_a = a == ENQ_MODE_S || a == ENQ_MODE_O;
    bool soft_b = b == ENQ_MODE_S || b == ENQ_MODE_O;

    if (a == ENQ_MODE_X || b == ENQ_MODE_X)
        return true;
    if (is_sap)
        return !same && !(soft_a && soft_b);
    if (both(a, b, ENQ_MODE_S) || both(a, b, ENQ_MODE_O))
        return false;
    return !(same && both(a, b, ENQ_MODE_E));
}

bool rules_exclude(const struct entry *a, const struct entry *b)
{
    return rules_modes_exclude(rules_mode(a), rules_mode(b),
        rules_same_owner(a, b));
}

bool rules_exclude_others(const struct entry *a, const struct entry *b)
{
    return rules_modes_exclude(rules_mode(a), rules_mode(b), false);
}

/* --- time and death --- */

static bool is_ending(session_ref_t ref)
{
    const struct session_slot *s = at_session(sim.map, ref);

    return s->ref == ref && s->state == SESSION_ENDING;
}

static bool is_dead(session_ref_t ref)
{
    const struct session_slot *s = at_session(sim.map, ref);

    return s->ref != ref ||
        (*(const uint32_t *)&s->life & FUTEX_OWNER_DIED) != 0;
}

/* No thread of its process is left that could do anything. */
static bool is_past(session_ref_t ref)
{
    bool found = false;

    for (unsigned i = 0; i < sim.n_procs; i++) {
        const struct proc *p = &sim.procs[i];

        if (p->process->enq.session.ref != ref)
            continue;
        found = true;
        if (p->state != PROC_DEAD && p->state != PROC_ENDED)
            return false;
    }
    return found;
}

/* What it held is in nobody's way: truly so, not as somebody may think. */
bool rules_session_past(session_ref_t ref)
{
    return at_session(sim.map, ref)->ref != ref || is_past(ref) ||
        is_ending(ref);
}

bool rules_session_over(session_ref_t ref)
{
    return is_dead(ref) || is_ending(ref);
}

bool rules_ended(const struct entry *e)
{
    return e->deadline_ns <= kernel_now_ns() ||
        (ENTRY_DEATH(e->on_death) == ENQ_DEATH_RELEASE &&
            rules_session_over(e->session) && rules_session_past(e->session));
}

bool rules_outlives(const struct entry *e)
{
    return (e->on_death & ENTRY_DELAYS) != 0 ||
        ENTRY_DEATH(e->on_death) != ENQ_DEATH_RELEASE;
}

bool rules_of_set(const struct entry *e)
{
    return rules_is(e, PHASE_WAITING) && (e->on_death & ENTRY_SET) != 0;
}

/* Those of a set arrive at once. */
bool rules_same_set(const struct entry *a, const struct entry *b)
{
    return a->ticket == b->ticket && a->ticket != 0 &&
        (a->on_death & b->on_death & ENTRY_SET) != 0;
}

static int64_t delay_ns(const struct entry *e)
{
    uint32_t ms;

    if ((e->on_death & ENTRY_DELAYS) == 0)
        return 0;
    memcpy(&ms, rules_owner(e) + e->owner_bytes + e->id_bytes, sizeof(ms));
    return ms * NS_PER_MS;
}

int64_t rules_until(const struct entry *e)
{
    int64_t delay = delay_ns(e);

    return e->deadline_ns > INT64_MAX - delay ? INT64_MAX
                                              : e->deadline_ns + delay;
}

/* A delay counts from the end of the ttl, to which it is set when the holder's
   session is reaped; but a session that is closed leaves none. */
bool rules_lock_over(const struct entry *e)
{
    if (!rules_ended(e))
        return false;
    if ((e->on_death & ENTRY_DELAYS) == 0)
        return true;
    if (e->deadline_ns <= kernel_now_ns())
        return rules_until(e) <= kernel_now_ns();
    return is_ending(e->session);
}

bool rules_may_be_over(const struct entry *e)
{
    if (!is_ending(e->session))
        return rules_lock_over(e);
    for (unsigned i = 0; i < sim.n_procs; i++)
        if (sim.procs[i].process->enq.session.ref == e->session &&
            sim.procs[i].process->retires_ns < e->deadline_ns)
            return true;
    return rules_lock_over(e);
}

bool rules_over(const struct entry *e)
{
    return rules_is(e, PHASE_WAITING) ? rules_session_over(e->session)
                                      : rules_lock_over(e);
}

bool rules_in_the_way(const struct entry *held, const struct entry *e)
{
    if (!rules_is(held, PHASE_HELD) || rules_over(held) ||
        !rules_overlap(held, e))
        return false;
    if (rules_ended(held)) /* delayed: it keeps others out, not its owner */
        return !rules_same_owner(held, e) && rules_exclude_others(held, e);
    return rules_exclude(held, e);
}
