/*
 * pin.c - lock: an entry found by its handle (see pin.h).
 */
#include "lock/pin.h"

#include <string.h>

#include "lock/grant_scan.h"

/* R16. A holder that unlocks what another session has given back is told
   ENQ_NOTHELD, as if it had done so itself. */
static const int gone_results[GONE_REASONS] = {
    [GONE_NOT] = ENQ_NOTHELD,
    [GONE_EXPIRED] = ENQ_EXPIRED,
    [GONE_LOST] = ENQ_LOST,
    [GONE_FORCED] = ENQ_FORCED,
    [GONE_DIED] = ENQ_OWNERDIED,
    [GONE_CANCELLED] = ENQ_CANCELLED,
    [GONE_GIVEN] = ENQ_NOTHELD,
};

/* The reason is bits of the segment: out of range it passes for none. */
int pin_gone(uint64_t state)
{
    unsigned gone = STATE_GONE(state);

    if (STATE_PHASE(state) != PHASE_GONE || gone >= GONE_REASONS)
        return ENQ_NOTHELD;
    return gone_results[gone];
}

int pin_take(struct pin *g, struct session *s, struct thread *t,
    enq_handle handle, uint64_t token)
{
    return pin_take_at_once(g, s, t, handle, token);
}

/* R8 wants the waiters looked at that overlap the key of what goes, and by then
   the entry may be another's: hence the copy, which is made only where somebody
   may wait. */
int waiters_note(struct pin *g, struct waiters *h)
{
    enq_assert(scope_is_entered(&g->scope));
    h->any = may_have_waiters(g);
    if (likely(!h->any))
        return 0;
    if (!entry_key(g->scope.map, g->e, &h->key) ||
        key_bytes(&h->key) > sizeof(h->bytes))
        return ENQ_ECORRUPT;
    memcpy(h->bytes, h->key.bytes, key_bytes(&h->key));
    h->key.bytes = h->bytes;
    return 0;
}

int waiters_grant(struct pin *g, const struct waiters *h)
{
    enq_assert(scope_is_entered(&g->scope));
    return likely(!h->any) ? 0 : grant_scan(&g->scope, &h->key, NULL);
}

/* Apart from pin_drop(), as its buffer would cost every unlock a check of the
   stack. */
int pin_drop_granting(struct pin *g, enum gone gone)
{
    struct waiters heirs;
    int rc = waiters_note(g, &heirs);

    enq_assert(scope_is_entered(&g->scope));
    if (rc == 0)
        rc = transition_drop(&g->scope, g->e, gone);
    if (rc == 0)
        rc = waiters_grant(g, &heirs);
    scope_leave(&g->scope);
    return rc;
}

/* A delayed lock stays in the table, though not its holder's: entry_over() says
   ENQ_OK of it where entry_ended() says why it has ended. */
int pin_end(struct pin *g, int over)
{
    int rc;

    enq_assert(over != ENQ_OK && scope_is_entered(&g->scope));
    if (entry_over(g->scope.map, g->e, scope_clock(&g->scope)) == ENQ_OK) {
        scope_leave(&g->scope);
        return over;
    }

    if (over == ENQ_EXPIRED)
        thread_count(g->scope.t, COUNT_EXPIRIES);
    rc = pin_drop(g, over == ENQ_EXPIRED ? GONE_EXPIRED : GONE_DIED);
    return rc == 0 ? over : rc;
}

/* By the exact clock: what is changed here (renewed, promoted, adopted) must
   not be a lock that another request may have been granted over. */
int pin_held(struct pin *g, struct session *s, struct thread *t,
    enq_handle handle, uint64_t token)
{
    int rc = pin_take(g, s, t, handle, token), over;

    if (rc != ENQ_OK)
        return rc;
    over = pin_over(g, scope_clock(&g->scope));
    if (over != ENQ_OK)
        return pin_end(g, over);
    if (STATE_PHASE(g->state) == PHASE_HELD)
        return ENQ_OK;
    scope_leave(&g->scope);
    return ENQ_REFUSED;
}
