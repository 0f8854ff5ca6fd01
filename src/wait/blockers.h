/*
 * blockers.h - wait: what a waiter sleeps on.
 *
 * Whom to watch: the sessions of the held locks in the way, and of the waiter
 * just before (ZooKeeper's predecessor rule). The kernel wakes one watcher of
 * a dead thread's word only, so the first who notices wakes the others.
 */
#ifndef WAIT_BLOCKERS_H
#define WAIT_BLOCKERS_H

#include "lock/judge.h"

#define DYING_FEW 8

/* Filled under the words, read when they have been let go: entries are looked
   at for their states only. */
struct blockers {
    struct entry *before; /* the waiter just before, of those in the way */
    struct entry *ahead;  /* the same, of all */
    uint64_t ahead_state;
    struct entry *holder; /* one of those who have it */
    uint64_t holder_state;
    struct sys_watch watch[SYS_WATCHES_MAX]; /* first those of his own state */
    unsigned n, own;
    bool dead;  /* a session of those is dead already */
    bool leads; /* nobody ahead sees all that is in the way */
    /* Of those who hold: dead, and not proved to be over. */
    unsigned n_dying;
    session_ref_t dying[DYING_FEW];
    mono_t until;
    /* Lock sets that wait in the way, of those that may not be passed so far
       (see bypass.h). Behind any whoever waits must look by himself: others may
       not know that he may pass it. */
    bool behind_set;
    unsigned n_sets;
    enq_handle set[BYPASS_FEW];
};

void blockers_begin(struct blockers *b, mono_t deadline);

/* An entry of the waiter's own, whose state he sleeps on. Before the next. */
void blockers_own(struct blockers *b, struct entry *e);

/* What is in the way of this one, and when to look again for its sake. */
int blockers_add(struct blockers *b, struct scope *s, const struct ask *ask,
    struct entry *self);

/* Who has somebody ahead leaves it to him to notice what time brings. */
void blockers_leave_to_ahead(struct blockers *b, mono_t deadline);

/* With no word held: true, if one of those who are dying is over, so that there
   is something to look at again. Else it sets when to look. */
bool blockers_prove(struct blockers *b, const struct map *map);

/*
 * Whoever stands behind a lock set has to look by himself, and a set at its
 * keys: nobody else sees all that they wait for. A hundred of them that look
 * each tick would keep a CPU busy. But what makes way pokes, deaths are
 * watched, and time is known: a look finds out only whether a set has come to
 * wait for him. So he looks each tick if one does already; else after 40 ms,
 * 80, ... up to a second.
 */
int64_t blockers_pause(unsigned *futile);
mono_t blockers_look_again(bool waited_for); /* for who has no thread */

/* The kernel woke one watcher of each word that died: passes it on. */
void blockers_pass_on_deaths(const struct blockers *b, struct session *s);

/* Told by a watcher that a session died: the api has it buried by the helper
   thread, in the background. */
extern void (*wait_report_death)(struct session *s);

#endif
