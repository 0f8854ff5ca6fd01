/*
 * blockers.h - wait: what a waiter sleeps on.
 *
 * Which sessions are watched: those of the held locks in the way, and of the
 * waiter just before (ZooKeeper's predecessor rule). The kernel wakes one
 * watcher of a dead thread's liveness word only, so the first watcher that
 * notices wakes the others.
 */
#ifndef WAIT_BLOCKERS_H
#define WAIT_BLOCKERS_H

#include "lock/conflict.h"

#define DYING_FEW 8

/* Filled under the latches, read when they have been released: entries are
   looked at for their states only, which are compared with what they were. An
   entry may be another request's by then; it has another generation, and that
   is a change like any other: a reason to look again. */
struct blockers {
    struct entry *before; /* the waiter just before, of those in the way */
    struct entry *ahead;  /* the same, of all */
    unsigned n_ahead;     /* how many these are */
    unsigned n_held;      /* the locks in the way: each look sees them all */
    uint64_t ahead_state;
    struct entry *holder; /* one of the locks in the way */
    uint64_t holder_state;
    struct sys_watch watch[SYS_WATCHES_MAX]; /* first its own entries' states */
    unsigned n, own;
    bool alone; /* a lock set: nobody else sees all that it waits for */
    bool dead;  /* a session of those is dead already */
    bool leads; /* no waiter ahead sees all that is in the way */
    bool far;   /* it is told when the waiter ahead leaves the queue */
    /* Of the holders' sessions: dead, and not proved to be over. */
    unsigned n_dying;
    session_ref_t dying[DYING_FEW];
    mono_t deadline, until;
    /* Lock sets that wait in the way, of those that may not be passed so far
       (see bypass.h). Behind any a waiter must look by itself: others may not
       know that it may pass. */
    bool behind_set;
    unsigned n_sets;
    enq_handle set[BYPASS_FEW];
};

void blockers_begin(struct blockers *b, mono_t deadline, bool alone);

/* Of the first n that are watched: b->own for the states of its own entries,
   b->n for the liveness words as well. */
static inline bool blockers_changed(const struct blockers *b, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (shm_load(b->watch[i].word) != b->watch[i].value)
            return true;
    return false;
}

/* Is any of those that are watched dead, or dying? */
static inline bool blockers_died(const struct blockers *b)
{
    for (unsigned i = b->own; i < b->n; i++)
        if (shm_load(b->watch[i].word) != b->watch[i].value)
            return true;
    return b->dead || b->n_dying > 0;
}

/* An entry of the waiter's own, whose state it sleeps on. Before all others. */
void blockers_own(struct blockers *b, struct entry *e);

/* What is in the way of this request, and when to look again for its sake.
   Under the scope, after the look that left it waiting: what is in the way then
   cannot go without waking `self`, or without a watched word that changes. */
int blockers_add(struct blockers *b, struct scope *s, const struct ask *ask,
    struct entry *self);

/* All was added. A waiter with another ahead leaves it to that one to notice
   what time brings, unless it is alone. */
void blockers_end(struct blockers *b);

/* With no latch held: true, if one of the dying sessions is over, so that
   there is something to look at again. Else it sets when to look. */
bool blockers_prove(struct blockers *b, const struct map *map);

/*
 * A waiter behind a lock set has to look by itself, and a set at its keys:
 * nobody else sees all that they wait for. A hundred of them that look each
 * tick would keep a CPU busy. But what makes way retries, deaths are watched,
 * and time is known: a look finds out only whether a set has come to wait for
 * this owner. So the waiter looks each tick if one does already; else after 40
 * ms, 80, ... up to a second.
 */
int64_t blockers_pause(unsigned *futile);
mono_t blockers_look_again(bool waited_for); /* of an async request */

/* The kernel woke one watcher of each word that died: passes it on. */
void blockers_pass_on_deaths(const struct blockers *b, struct session *s);

#endif
