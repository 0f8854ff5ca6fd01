/*
 * change.h - lock: the changes that an entry can go through.
 *
 *	        hold                drop
 *	new  ---------->  HELD  ---------->  free, or GONE with a reason
 *	     queue           ^               ^
 *	     --->  WAITING --' grant         |
 *	              `----------------------' drop
 *
 * Each is one step under the word of the entry's shard (a generic one's: its
 * gate), taken here in a wide scope and held already in a narrow one. Links
 * first, `state` last: whoever is killed in the middle leaves that word to be
 * healed, and the state says what is true: the step has happened wholly or
 * not at all.
 */
#ifndef LOCK_CHANGE_H
#define LOCK_CHANGE_H

#include "lock/scope.h"
#include "store/call.h"

/* New entries, filled, PHASE_CACHED. Returns: 0; ENQ_EXISTS: its id is taken.
   Faults: ENQ_ECORRUPT. */
int change_hold(struct scope *s, const struct ask *ask, struct entry *e);
int change_queue(struct scope *s, const struct ask *ask, struct entry *e);

/* WAITING to HELD; whoever waits is woken when the scope is left. */
int change_grant(struct scope *s, struct entry *e);

/* Somebody waits: those who hold what is in his way, and listen, are to hear
   of it. Under the scope. Faults: ENQ_ECORRUPT. */
int change_note_asked(struct scope *s, const struct ask *ask);

/* For nothing in this scope. In a wide one it is not known. */
static inline bool nobody_waits(const struct scope *s)
{
    return !s->wide && shm_load(&s->map->shards[s->spot.shard].n_waiting) == 0;
}

/* A lock was given while others wait for it: the same for its holder. */
int change_note_suitors_slow(struct scope *s, struct entry *e);
HOT int change_note_suitors(struct scope *s, struct entry *e)
{
    if (likely(!call_is_wanted(s->map, e->session)) || nobody_waits(s))
        return 0;
    return change_note_suitors_slow(s, e);
}

/* How many of this owner's requests wait. Counted before one waits, and until
   after: who dies in between leaves one too many, which costs others a look
   (cycle.c) and no more. */
static inline uint32_t *change_waits_of(struct scope *s, const struct entry *e)
{
    return &s->map
                ->owners[entry_owner_hash(s->map, e) >> 1 & (OWNER_HASHES - 1)];
}

/* This was granted: may it let requests of its owner pass that came before it?
   They may be for something else. */
static inline bool change_may_let_pass(struct scope *s, const struct entry *e)
{
    unsigned mode = STATE_MODE(shm_load(&e->state)) % MODES;

    return !mode_conflicts(s->map->modes, mode, mode, true) &&
        shm_load(change_waits_of(s, e)) > 0;
}

/* A waiter shall try for itself; `first`: none waits before it (serve.h). */
void change_poke(struct scope *s, struct entry *e, bool first);

/* Out of the table. GONE_NOT: its holder, or someone in his name, gave it
   back. GONE_DIED for a waiter, too: nobody is left to be told. */
int change_drop(struct scope *s, struct entry *e, enum gone gone);

/* The same, noting who took it, as far as there is room. */
int change_take_away(struct scope *s, struct entry *e, enum gone gone,
    const struct ask *taker);

/* HELD in another mode; a new token if asked for. */
int change_mode(struct scope *s, struct entry *e, unsigned mode, bool token);

/* HELD, counting from now: ttl_ms < 0 none. */
int change_deadline(struct scope *s, struct entry *e, int64_t ttl_ms);

/* HELD by the scope's session from now; a new token if asked for. */
int change_session(struct scope *s, struct entry *e, bool token);

#endif
