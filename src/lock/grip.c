/*
 * grip.c - lock: an entry found by its handle (see grip.h).
 */
#include "lock/grip.h"

#include <string.h>

#include "lock/serve.h"

static const int gone_results[GONE_REASONS] = {
    [GONE_NOT] = ENQ_NOTHELD,
    [GONE_EXPIRED] = ENQ_EXPIRED,
    [GONE_LOST] = ENQ_LOST,
    [GONE_FORCED] = ENQ_FORCED,
    [GONE_DIED] = ENQ_OWNERDIED,
    [GONE_CANCELLED] = ENQ_CANCELLED,
    [GONE_GIVEN] = ENQ_NOTHELD,
};

int grip_gone(uint64_t state)
{
    unsigned gone = STATE_GONE(state);

    if (STATE_PHASE(state) != PHASE_GONE || gone >= GONE_REASONS)
        return ENQ_NOTHELD;
    return gone_results[gone];
}

int grip_take(struct grip *g, struct session *s, struct thread *t,
    enq_handle handle, uint64_t token)
{
    return grip_take_at_once(g, s, t, handle, token);
}

int heirs_note(struct grip *g, struct heirs *h)
{
    h->any = may_have_heirs(g);
    if (likely(!h->any))
        return 0;
    if (!entry_key(g->scope.map, g->e, &h->key) ||
        key_bytes(&h->key) > sizeof(h->bytes))
        return ENQ_ECORRUPT;
    memcpy(h->bytes, h->key.bytes, key_bytes(&h->key));
    h->key.bytes = h->bytes;
    return 0;
}

int heirs_serve(struct grip *g, const struct heirs *h)
{
    return likely(!h->any) ? 0 : serve(&g->scope, &h->key, NULL);
}

/* Apart from grip_drop(), as its buffer would cost every unlock a check of the
   stack. */
int grip_drop_serving(struct grip *g, enum gone gone)
{
    struct heirs heirs;
    int rc = heirs_note(g, &heirs);

    if (rc == 0)
        rc = change_drop(&g->scope, g->e, gone);
    if (rc == 0)
        rc = heirs_serve(g, &heirs);
    scope_leave(&g->scope);
    return rc;
}

/* One that is delayed stays in the table, though not its holder's. */
int grip_end(struct grip *g, int over)
{
    int rc;

    if (entry_over(g->scope.map, g->e, scope_clock(&g->scope)) == ENQ_OK) {
        scope_leave(&g->scope);
        return over;
    }

    if (over == ENQ_EXPIRED)
        thread_count(g->scope.t, COUNT_EXPIRIES);
    rc = grip_drop(g, over == ENQ_EXPIRED ? GONE_EXPIRED : GONE_DIED);
    return rc == 0 ? over : rc;
}

int grip_held(struct grip *g, struct session *s, struct thread *t,
    enq_handle handle, uint64_t token)
{
    int rc = grip_take(g, s, t, handle, token), over;

    if (rc != ENQ_OK)
        return rc;
    over = grip_over(g, scope_clock(&g->scope));
    if (over != ENQ_OK)
        return grip_end(g, over);
    if (STATE_PHASE(g->state) == PHASE_HELD)
        return ENQ_OK;
    scope_leave(&g->scope);
    return ENQ_REFUSED;
}
