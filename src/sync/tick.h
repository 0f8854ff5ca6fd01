/*
 * tick.h - sync: a tick that hides a lost wake-up.
 *
 * A waiter looks again at each tick, as the thread that should have woken it
 * may have died before (SYS_TICK_NS). So a wake-up that a bug loses costs
 * 40 ms, and no test fails. Where the crash points are built in and
 * ENQ_TICK_FOUND=3000 is in the environment, a waiter whose sleep ended because
 * it was time asks whether a wake-up is missing; if so, it says that and
 * aborts. Released, there is nothing of this.
 *
 * A thread that changes the state of a waiter that sleeps leaves a trace in its
 * `asleep` before the wake-up (tick_trace()). The sleeper wipes that out, then
 * compares its state, then sleeps: so a change that comes later has a trace,
 * also if its wake-up comes a moment after the tick. A change without a trace
 * is one that nobody was woken for; or its sender has stored it, and is about
 * to leave the trace. So the sleeper looks 3000 times, and sleeps for 1 ms in
 * between. This assumes that a sender that has stored its change gets the
 * processor while the sleeper gets 3000 turns. Turns count, not time: on a busy
 * machine both have to wait for theirs. A test that stops a sender there, or
 * kills one that is not in the way, cannot ask for this.
 *
 * Only a waiter's own state is judged, or those of its lock set. These are not:
 *
 * - a waiter with a dead or dying blocker that may have been about to wake it;
 *   nor deaths themselves, where the kernel wakes;
 * - what a look finds though no state has changed: what time brings, or what
 *   was given back without a grant scan;
 * - the helper thread, and latches;
 * - any sleep where futex_waitv(2) is refused.
 */
#ifndef SYNC_TICK_H
#define SYNC_TICK_H

#include "sync/sys.h"

#ifdef ENQ_POINTS

/* In `entry.asleep`: a wake-up was sent, or will be at once. */
#define TICK_TRACE 0x80000000u
#define tick_untraced(asleep) ((asleep) & ~TICK_TRACE)

/* Before the wake-up of a thread that sleeps so. */
void tick_trace(uint32_t *asleep);

/* After a sleep that ended because it was time. Aborts, and says what, if
   is_unwoken() is true in as many looks as ENQ_TICK_FOUND says. */
void tick_judge(bool (*is_unwoken)(const void *context), const void *context,
    const char *what);

#else
#define tick_untraced(asleep) (asleep)
#define tick_trace(asleep) ((void)(asleep))
#define tick_judge(is_unwoken, context, what)                                  \
    ((void)(is_unwoken), (void)(context), (void)(what))
#endif

#endif
