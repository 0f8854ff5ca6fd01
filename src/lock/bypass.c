/*
 * bypass.c - lock: which owner may pass a lock set that waits (see bypass.h).
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

/* As see_excuse() in conflict.c: a lock of the asking owner, which is there to
   stay, and which this member waits for. But by the owner's hash, as these are
   the latches of another key, and the asker's request is not at hand. Its 64
   bits are enough to tell owners apart. */
static bool see_wanted(void *context, struct entry *e)
{
    struct wanted *w = context;
    unsigned mode = STATE_MODE(shm_load(&e->state)) % MODES;

    enq_assert(!w->found && scope_is_entered(w->s));
    if (!entry_is(e, PHASE_HELD) ||
        entry_owner_hash(w->s->map, e) != w->owner ||
        entry_over(w->s->map, e, scope_clock(w->s)) != ENQ_OK ||
        entry_is_ending(w->s->map, e))
        return true;
    w->found = mode_conflicts(w->s->map->modes, mode, w->ask->mode,
        entry_owned_by(w->s->map, e, w->ask));
    return !w->found;
}

/* One member, under the latches of its key alone; *waiter leads to the next, 0:
   to none. The members' links are `token`s, and any process may have damaged
   them: entry_next_of_set() checks, and the callers count their steps. */
static bool member_wants(struct session *s, struct thread *t,
    enq_handle *waiter, uint64_t owner, uint64_t *ticket)
{
    struct ask ask;
    struct pin g;
    struct wanted w = {&g.scope, &ask, owner, false};
    struct entry *next = NULL;

    enq_assert(*waiter != 0 && t->n_held == 0);
    if (pin_take(&g, s, t, *waiter, 0) != ENQ_OK) {
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

/* Round the ring of members, from any of them. Between two of them no latch is
   held, so that the set may be granted or leave meanwhile: then a link leads
   nowhere and the walk ends. What it has found by then is out of date at worst
   (bypass.h). */
bool bypass_set_wants(struct session *s, struct thread *t, enq_handle waiter,
    uint64_t owner_hash, uint64_t *ticket)
{
    enq_handle at = waiter;

    enq_assert(t->n_held == 0);
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
    b->room = BYPASS_FEW;
    b->n = 0;
}

/* No memory: the set is not passed, as if it did not wait for this owner. */
static bool grow(struct bypass *b)
{
    uint64_t *more = malloc(2 * b->room * sizeof(*more));

    enq_assert(b->n == b->room);
    if (more == NULL)
        return false;
    memcpy(more, b->more != NULL ? b->more : b->few, b->n * sizeof(*more));
    free(b->more);
    b->more = more;
    b->room *= 2;
    return true;
}

/* True only for a set that was not noted before: callers ask again as long as
   something is learned, and so come to an end. */
bool bypass_learn(struct bypass *bypass, struct session *s, struct thread *t,
    enq_handle waiter, uint64_t owner_hash)
{
    uint64_t ticket = 0;

    enq_assert(bypass->n <= bypass->room && t->n_held == 0);
    if (owner_hash == 0 || waiter == 0 ||
        !bypass_set_wants(s, t, waiter, owner_hash, &ticket) ||
        bypass_has(bypass, ticket))
        return false;
    if (bypass->n == bypass->room && !grow(bypass))
        return false;
    (bypass->more != NULL ? bypass->more : bypass->few)[bypass->n++] = ticket;
    return true;
}
