/*
 * sys.h - floor 3: clock and futex, as the rest of the library sees them.
 *
 * Only sys.c calls the kernel for these. Tests put their own operations here
 * and turn time by hand.
 */
#ifndef SYNC_SYS_H
#define SYNC_SYS_H

#include <stdint.h>

#include "base/time.h"

/* A word to sleep on, and the value it must have for that. */
struct sys_watch {
    const uint32_t *word;
    uint32_t value;
};

#define SYS_WATCHES_MAX 16

struct sys_ops {
    mono_t (*now)(void);    /* exact: 23 ns */
    mono_t (*coarse)(void); /* never ahead of now(), at most a tick behind */
    /* Sleeps until a word is woken or differs, or `until`. May return early
       for no reason. Never blocks for longer than SYS_TICK. */
    void (*wait)(const struct sys_watch *watches, unsigned n, mono_t until);
    /* The same on one word and without the tick. */
    void (*sleep)(const struct sys_watch *watch, mono_t until);
    void (*wake)(const uint32_t *word, int how_many);
};

extern struct sys_ops sys;

/* How far coarse() may lag behind: added to every deadline, so that nothing
   ends early. */
extern int64_t sys_coarse_lag_ns;

/*
 * The longest sleep between two looks at the table. It bounds what a wake-up
 * costs that its sender did not live to send (RELIABILITY, trap 1 and P3).
 */
#define SYS_TICK_NS (40 * NS_PER_MS)

/* More than one CPU to run on: spinning can pay. */
int sys_cpus(void);

#endif
