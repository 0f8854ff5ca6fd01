/*
 * bypass.c - lock: who may pass a lock set that waits (see bypass.h).
 */
#include "lock/bypass.h"

#include <stdlib.h>
#include <string.h>

struct wanted {
    struct scope *s;
    const struct ask *ask; /* the member's */
    uint64_t owner;
    bool found;
};

static bool see_wanted(void *context, struct entry *e)
{
    struct wanted *w = context;
    unsigned mode = STATE_MODE(shm_load(&e->state)) % MODES;

    if (!entry_is(e, PHASE_HELD) ||
        entry_owner_hash(w->s->map, e) != w->owner ||
        entry_over(w->s->map, e, scope_clock(w->s)) != ENQ_OK ||
        entry_is_ending(w->s->map, e))
        return true;
    w->found = mode_conflicts(w->s->map->modes, mode, w->ask->mode,
        entry_owned_by(w->s->map, e, w->ask));
    return !w->found;
}

/* One member; *waiter leads to the next, 0: to none. */
static bool member_wants(struct session *s, struct thread *t,
    enq_handle *waiter, uint64_t owner, uint64_t *ticket)
{
    struct ask ask;
    struct grip g;
    struct wanted w = {&g.scope, &ask, owner, false};
    struct entry *next = NULL;

    if (grip_take(&g, s, t, *waiter, 0) != ENQ_OK) {
        *waiter = 0;
        return false;
    }
    if (STATE_PHASE(g.state) == PHASE_WAITING && entry_is_of_set(g.e) &&
        entry_ask(s->map, g.e, &ask)) {
        *ticket = ask.ticket;
        scope_visit(&g.scope, &ask.key, see_wanted, &w);
        next = entry_next_of_set(s->map, g.e);
    }
    *waiter = next == NULL ? 0 : entry_handle(s->map, next);
    scope_leave(&g.scope);
    return w.found;
}

bool bypass_set_wants(struct session *s, struct thread *t, enq_handle waiter,
    uint64_t owner_hash, uint64_t *ticket)
{
    enq_handle at = waiter;

    for (unsigned left = ENQ_SET_MAX; at != 0 && left > 0; left--) {
        if (member_wants(s, t, &at, owner_hash, ticket))
            return true;
        if (at == waiter)
            break;
    }
    return false;
}

void bypass_begin(struct bypass *b, uint64_t asker)
{
    b->asker = asker;
    b->n = 0;
    b->room = BYPASS_FEW;
    b->more = NULL;
}

void bypass_end(struct bypass *b)
{
    free(b->more);
    b->more = NULL;
    b->n = 0;
}

static bool grow(struct bypass *b)
{
    uint64_t *more = malloc(2 * b->room * sizeof(*more));

    if (more == NULL)
        return false;
    memcpy(more, b->more != NULL ? b->more : b->few, b->n * sizeof(*more));
    free(b->more);
    b->more = more;
    b->room *= 2;
    return true;
}

bool bypass_learn(struct bypass *bypass, struct session *s, struct thread *t,
    enq_handle waiter, uint64_t owner_hash)
{
    uint64_t ticket = 0;

    if (owner_hash == 0 || waiter == 0 ||
        !bypass_set_wants(s, t, waiter, owner_hash, &ticket) ||
        bypass_has(bypass, ticket))
        return false;
    if (bypass->n == bypass->room && !grow(bypass))
        return false;
    (bypass->more != NULL ? bypass->more : bypass->few)[bypass->n++] = ticket;
    return true;
}
