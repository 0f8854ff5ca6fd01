/*
 * rules.h - the rules once more, over the entries as they stand in memory: for
 * the judges.
 */
#ifndef SIM_RULES_H
#define SIM_RULES_H

#include <stdbool.h>

#include "store/entry.h"

void rules_begin(bool sap);

/* R1 */
bool rules_overlap(const struct entry *a, const struct entry *b);

const char *rules_owner(const struct entry *e);
bool rules_same_owner(const struct entry *a, const struct entry *b);

static inline unsigned rules_mode(const struct entry *e)
{
    return STATE_MODE(e->state);
}

static inline bool rules_is(const struct entry *e, enum phase phase)
{
    return STATE_PHASE(e->state) == (unsigned)phase;
}

bool rules_modes_exclude(unsigned a, unsigned b, bool same_owner);

/* By their modes and owners; by their modes, of two owners. */
bool rules_exclude(const struct entry *a, const struct entry *b);
bool rules_exclude_others(const struct entry *a, const struct entry *b);

/* Its session is dead, or ends: that of a waiter, or of a lock that goes with
   it, makes an end of them. */
bool rules_session_over(session_ref_t ref);
bool rules_session_past(session_ref_t ref);

/* A lock that its holder has no more, whether or not it is in the way still. */
bool rules_ended(const struct entry *e);

/* It stays for a while, or for good, when its process dies. */
bool rules_outlives(const struct entry *e);

/* One of a lock set that waits; two of the same. */
bool rules_of_set(const struct entry *e);
bool rules_same_set(const struct entry *a, const struct entry *b);

/* Until when a lock is in the way of others at the most. */
int64_t rules_until(const struct entry *e);

/* Part of the table for nobody: of one that is, or was, held. */
bool rules_lock_over(const struct entry *e);

/* Or was so when its session began to be closed, and the thread that saw that
   had no processor until the ttl had ended: then there is no delay behind it. */
bool rules_may_be_over(const struct entry *e);

/* As rules_lock_over(), of what waits as well. */
bool rules_over(const struct entry *e);

/* What is held keeps the other from what it asks for. */
bool rules_in_the_way(const struct entry *held, const struct entry *e);

#endif
