/*
 * sys.h - sync: clock, futex and the end of processes, as the rest of the
 * library sees them.
 *
 * Only sys.c calls the kernel for these. The simulator puts its own operations
 * into `sys`, before there is any other thread, and turns time by hand; so no
 * layer above may read a clock or a futex in another way.
 *
 * All times are CLOCK_BOOTTIME, which all processes of a host share (a time
 * namespace with another one is refused: segment/header.c).
 */
#ifndef SYNC_SYS_H
#define SYNC_SYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "segment/map.h"

/* A word to sleep on, and the value it must have for that. */
struct sys_watch {
    const uint32_t *word;
    uint32_t value;
};

#define SYS_WATCHES_MAX 128 /* the kernel's own limit */

struct sys_ops {
    mono_t (*now)(void);    /* exact: 23 ns */
    mono_t (*coarse)(void); /* never ahead of now(), mostly by a tick behind */
    /* Sleeps until a word is woken or differs, or `until`. May return early for
       no reason: the caller looks again at all that it waits for. Never blocks
       for longer than SYS_TICK_NS. At most SYS_WATCHES_MAX words. */
    void (*wait)(const struct sys_watch *watches, unsigned n, mono_t until);
    /* The same without the tick: for the helper, which is always rung for, and
       for a waiter far behind, which is told (wait/waiter.c). */
    void (*sleep)(const struct sys_watch *watches, unsigned n, mono_t until);
    /* A system call: not under a latch, but for the few that say so. */
    void (*wake)(const uint32_t *word, int how_many);
    /* Is the end of a process proved? See sync/ended.h. */
    bool (*ended)(const struct map *map, const struct process *who);
};

extern struct sys_ops sys;

/* For how long the machine was suspended since it was booted, as far as two
   readings of different clocks tell. */
int64_t sys_suspended_ns(void);

/* Does time pass by itself, or is it turned by hand? */
bool sys_is_real(void);

/*
 * How far coarse() may lag behind: added to each deadline that begins by it, so
 * that nothing ends early. It is a matter of ticks, but the kernel's clock
 * stands still while the CPU that counts them is kept from running by its
 * hypervisor: 51 ms were seen where the other of two CPUs ran on.
 */
extern int64_t sys_coarse_lag_ns;

/*
 * The longest sleep between two looks at the table. It bounds what a wake-up
 * costs that its sender did not live to send (P3).
 */
#define SYS_TICK_USUAL_NS (40 * NS_PER_MS)
#define SYS_TICK_NS sys_look_every(SYS_TICK_USUAL_NS)

/*
 * For all that is looked at by the clock, whether or not there is anything to
 * see. Where the crash points are built in, ENQ_TICK_MS in the environment puts
 * such looks off for so long, at least: then only what wakes somebody brings
 * anything about, and a wake-up that is missing shows. Released, it is @ns.
 */
#ifdef ENQ_POINTS
int64_t sys_look_every(int64_t ns);

/* Did this thread's last sleep on several words end because it was time? False
   where words are looked at in slices. */
bool sys_slept_out(void);
#else
#define sys_look_every(ns) (ns)
#define sys_slept_out() false
#endif

/* Can wait() sleep on more than one word? Else it sleeps on the first in slices
   of 20 ms, and its caller looks at the others. Known once the kernel has been
   asked; true until then. */
bool sys_has_waitv(void);

/* A full barrier in every thread of this process, be it asleep or running
   (membarrier(2)): the slow side of shelf_pop() in store/slab.h. False: the
   kernel, or a filter, refuses. Takes microseconds, and the first time some
   ms. */
bool sys_barrier(void);

/* CPUs of the machine, not those that this process may use: with more than one
   the holder of a lock may be running while its waiter spins. */
int sys_cpus(void);

/* The one we are on, from 1 to 255: a hint, and counted around. */
uint8_t sys_cpu(void);

#endif
