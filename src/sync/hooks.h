/*
 * hooks.h - sync: the only calls from a lower layer to a higher one.
 *
 * Set once in a process, in one place (api/open.c), before any thread of it can
 * need one; so they are read without order.
 */
#ifndef SYNC_HOOKS_H
#define SYNC_HOOKS_H

struct map;
struct thread;
struct session;

struct hooks {
    /* By latch_acquire(), when the holder is dead: recovers what it left
       (recovery/recover.c). 0, or a fault. */
    int (*recover)(struct map *map, struct thread *me);
    /* By a thread that ends: gives back its magazines (store/slab.c). */
    void (*drop_magazines)(struct thread *t);
    /* A session was seen to be dead: the helper is to reap it in the background
       (async/bell.c). May be NULL. */
    void (*report_death)(struct session *s);
};
extern struct hooks hooks;

#endif
