/*
 * convert.c - lock: a held lock in another mode (see convert.h).
 *
 * Whatever the mode becomes, it is one store of `state` under the latches of
 * the key (transition_mode()), so that a lock never has two modes or none. What
 * differs is which side makes way: a promotion takes from others, and a
 * demotion gives to them.
 */
#include "lock/convert.h"

#include "lock/copy_out.h"
#include "lock/grant_scan.h"
#include "lock/hold.h"
#include "lock/pin.h"
#include "lock/request.h"

/* --- promote ---
 *
 * R17. Optimistic locks: any number of owners share an object, and the first to
 * promote has it. Nobody waits, so that two that promote cannot deadlock, as
 * two that upgrade from S to E do: one scope decides, the other finds its lock
 * LOST. The token that a promotion gives is new, so that a third party tells
 * the winner's E from any O of the same time.
 */

struct contest {
    struct scope *s;
    struct entry *winner;
    const struct ask *ask; /* the winner's, as if it asked for the new mode */
    struct entry *loser, *blocker;
    uint32_t queue;
    bool generic_lost;
};

/* Others that could be promoted as well are losers, of any owner, also the
   winner's own; what else conflicts with the new mode is in the way, and the
   earliest is named (R12). What has ended is neither: it is dropped by whatever
   request meets it next. Waiters stay (R9), and are counted for the answer. */
static bool see_rivals(void *context, struct entry *e)
{
    struct contest *c = context;
    unsigned mode = STATE_MODE(shm_load(&e->state));
    bool same;

    enq_assert(scope_is_entered(c->s));
    if (e == c->winner || entry_over(c->s->map, e, scope_clock(c->s)) != ENQ_OK)
        return true;
    if (!entry_is(e, PHASE_HELD)) {
        c->queue++;
        return true;
    }
    if (mode_promoted(mode) == c->ask->mode) {
        c->loser = e;
        return true;
    }
    same = entry_owned_by(c->s->map, e, c->ask);
    if (mode_conflicts(c->s->map->modes, mode, c->ask->mode, same) &&
        granted_earlier(e, c->blocker))
        c->blocker = e;
    return true;
}

/* It is GONE_LOST with the winner's owner noted in it (note_taker()). One that
   is generic was in the way of waiters beyond the winner's key. */
static int remove_loser(struct contest *c)
{
    struct entry *loser = c->loser;

    enq_assert(scope_is_entered(c->s));
    c->loser = NULL;
    thread_count(c->s->t, COUNT_LOST);
    c->generic_lost |= entry_is_generic(loser);
    return transition_take_away(c->s, loser, GONE_LOST, c->ask);
}

/* One walk; ring_next() has read the next link before a loser is taken out, and
   where the first goes the walk's end moves on with it. */
static int remove_from_ring(struct contest *c)
{
    struct ring ring = ring_from(c->s->map, scope_object(c->s, &c->ask->key));
    struct entry *e;
    int rc = 0;

    enq_assert(!c->s->wide && c->loser == NULL);
    while (rc == 0 && (e = ring_next(&ring)) != NULL &&
        !entry_is(e, PHASE_WAITING)) {
        see_rivals(c, e);
        if (c->loser == NULL)
            continue;
        if (map_ref(c->s->map, e) == ring.first)
            ring.first = ring.at;
        rc = remove_loser(c);
    }
    return ring.damaged ? ENQ_ECORRUPT : rc;
}

/*
 * In a wide scope, one visit for each, as a visit must not unlink what it walks.
 *
 * Killed between two of them, the rest are held O as before and the winner is
 * one of them: a promotion that did not happen, but for those that have lost to
 * it (convert.h).
 */
static int remove_losers(struct contest *c)
{
    int rc;

    enq_assert(scope_is_entered(c->s));
    c->loser = NULL;
    if (!c->s->wide)
        return remove_from_ring(c);
    do {
        rc = scope_visit(c->s, &c->ask->key, see_rivals, c);
        if (rc != 0 || c->loser == NULL)
            return rc;
        rc = remove_loser(c);
    } while (rc == 0);
    return rc;
}

/*
 * Refused before anything is changed: is the mode one that can be promoted, and
 * is nothing but O in the way? Then the losers, then the winner; in the other
 * order there would be an E beside an O, and a death would leave both (I5).
 *
 * `ask` is the winner's own request as if it asked for the new mode, so that
 * the conflict rules are those of any request. Waiters of the promoted lock are
 * not granted anything (R9): each would be in conflict with the E, but for one
 * of the same owner, which takes it at its next look. Those that only a lost
 * generic lock had kept out elsewhere are granted here.
 */
static int promote_pinned(struct pin *g, uint64_t *token,
    struct enq_blocker *blocker)
{
    struct ask ask;
    struct contest c = {.s = &g->scope, .winner = g->e, .ask = &ask};
    int rc;

    enq_assert(scope_is_entered(&g->scope));
    if (!entry_ask(g->scope.map, g->e, &ask))
        return ENQ_ECORRUPT;
    ask.mode = mode_promoted(STATE_MODE(g->state));
    if (ask.mode == 0)
        return ENQ_REFUSED;
    rc = scope_visit(&g->scope, &ask.key, see_rivals, &c);
    if (rc != 0)
        return rc;
    if (c.blocker != NULL) {
        copy_blocker(&g->scope, c.blocker, c.queue, blocker);
        return ENQ_REFUSED;
    }
    rc = remove_losers(&c);
    if (rc == 0)
        rc = transition_mode(&g->scope, g->e, ask.mode, true);
    *token = g->e->token;
    if (rc == 0 && c.generic_lost)
        rc = grant_scan_beside(&g->scope, &ask.key);
    return rc;
}

/* Refused for a lock of a dying session, it is asked again if the proof of that
   session's end is found, outside of the latches (request_is_free_now()). For a
   lost lock the answer names the owner that has won; that is read without a
   latch, from an entry that is GONE. */
int convert_promote(struct session *s, struct thread *t, enq_handle handle,
    uint64_t *token, struct enq_blocker *blocker)
{
    struct pin g;
    int rc;

    blocker->owner[0] = blocker->id[0] = '\0';
    do {
        rc = pin_held(&g, s, t, handle, *token);
        if (rc == ENQ_LOST)
            copy_taker(s->map, handle, blocker->owner);
        g.scope.dying = 0;
        if (rc == ENQ_OK) {
            rc = promote_pinned(&g, token, blocker);
            scope_leave(&g.scope);
        }
    } while (request_is_free_now(&g.scope, rc));
    if (rc == ENQ_OK)
        thread_count(t, COUNT_PROMOTES);
    else if (rc > 0)
        thread_count(t, COUNT_PROMOTES_REFUSED);
    return hold_note_told(s, handle, rc);
}

/* --- demote --- */

/* From E or X to S; of any other mode it is refused. What waits may go then
   (R8), and the scan runs in the same scope, so that nobody comes between. A
   death before the scan leaves an S, and a latch to be recovered; recovery
   rouses all waiters. */
int convert_demote(struct session *s, struct thread *t, enq_handle handle,
    uint64_t token)
{
    struct waiters heirs;
    struct pin g;
    unsigned mode;
    int rc = pin_held(&g, s, t, handle, token);

    if (rc != ENQ_OK)
        return hold_note_told(s, handle, rc);
    mode = mode_demoted(STATE_MODE(g.state));
    rc = mode == 0 ? ENQ_REFUSED : waiters_note(&g, &heirs);
    if (rc == 0)
        rc = transition_mode(&g.scope, g.e, mode, false);
    if (rc == 0)
        rc = waiters_grant(&g, &heirs);
    scope_leave(&g.scope);
    return rc;
}
