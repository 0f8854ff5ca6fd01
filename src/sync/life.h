/*
 * life.h - sync: is it dead?
 *
 * A liveness mutex is a robust process-shared pthread mutex that its owner
 * locks once and that nobody else ever locks: its futex word is the LIVENESS
 * WORD. When the owner's thread ends without unlocking - SIGKILL, exec, a
 * thread that just returns - the kernel walks its robust list, sets
 * FUTEX_OWNER_DIED in the word and wakes a watcher, before the process's memory
 * is torn down: 70 us, also for a process of 2 GiB, where pidfds and file locks
 * take 130 ms.
 *
 * The kernel wakes only where FUTEX_WAITERS is set, so the owner sets it for
 * good. "Dead" is said only when certain; "maybe alive" is the safe answer.
 *
 * A dead thread is not a dead process. Three questions, three answers:
 *
 *	thread_is_dead		may its latches be recovered, its slot be freed?
 *				Its liveness word says so; or its keeper's does,
 *				and the end of the whole process is proved
 *	session_is_dead		its helper thread is dead: the session is DYING.
 *				Others begin to look after it, its waiters are
 *				out, its locks are in the way of all
 *	session_is_over		it is proved that no thread of the process can
 *				do anything any more (sync/ended.h): its RELEASE
 *				locks have ended. The proof takes system calls,
 *				so it is noted in the slot (`process.over`), and
 *				only the note is looked at under a latch
 *
 * Nobody has to watch for deaths: a waiter sleeps on the liveness words of the
 * sessions that it waits for, and finds the proof itself (session_prove).
 */
#ifndef SYNC_LIFE_H
#define SYNC_LIFE_H

#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/atomic.h"
#include "segment/map.h"
#include "sync/sys.h"

/* glibc keeps the futex word first; check_life shows that it does. */
static inline const uint32_t *liveness_word(const pthread_mutex_t *life)
{
    return (const uint32_t *)life;
}

/* Partner: the kernel's store at death; also life_begin and life_end. */
static inline bool liveness_is_dead(uint32_t word)
{
    return (word & FUTEX_OWNER_DIED) != 0;
}

/*
 * Would the kernel notice the death of the calling thread? Not if a seccomp
 * filter refused set_robust_list(2), to which glibc pays no attention; nor in
 * a child of a bare clone(). Asked once for each thread, when it registers.
 * 0; -EPERM for both; or what pthread_mutex_init() refused (-ENOMEM).
 * Explained.
 */
int life_possible(void);

/* Lock the mutex for the calling thread, and unlock it again. life_begin():
   0, or a negated errno. */
int life_begin(pthread_mutex_t *life);
void life_end(pthread_mutex_t *life);

/* Fills in, in a slot of ours that nobody can see yet, what other processes
   need for the proof. */
void life_of(const struct map *map, struct process *who);

/*
 * True when the thread that had this reference is certainly gone: its slot says
 * died, or is free, or another thread's by now.
 *
 * There is a second sign: the kernel walks 2,048 mutexes of a robust list and
 * no more, newest first, so that a thread which holds as many robust mutexes of
 * the program dies without a mark on ours. The process's helper thread, its
 * keeper, holds none but ours and is marked: from then on the end of the
 * process is looked for (system calls, but seldom: see is_my_turn).
 */
bool thread_is_dead(const struct map *map, thread_ref_t ref);

/* True when the session's helper thread is gone; its other threads may run. */
bool session_is_dead(const struct map *map, session_ref_t ref);

/*
 * The same, whether or not it has heirs (segment/heirs.h). Its heirs keep what
 * the session holds until the last of them is gone, but none of them waits: so
 * a waiter ends by this one. Finding heirs takes two system calls, also under a
 * latch, and only when the session's own process is dead.
 */
bool session_is_forsaken(const struct map *map, session_ref_t ref);

/* True when no thread can act for it any more, and that is known. Reads memory
   and nothing else, so it may be asked under any latch. Once true it stays so:
   acquire; partner: the release store of prove(). */
bool session_is_over(const struct map *map, session_ref_t ref);

/*
 * Looks for that proof if the session is dead, and notes it: system calls, so
 * that no latch may be held. Of several threads that ask, again and again, one
 * looks at a time, at growing intervals (30 us to 10 ms); with @at_once each
 * call looks.
 */
bool session_prove(const struct map *map, session_ref_t ref, bool at_once);
void session_prove_all(const struct map *map);

/* When to look for the proof next; and whether the death is so recent that it
   pays to wait for the proof, not to sleep. */
mono_t session_look_again(const struct map *map, session_ref_t ref);
bool session_dies_now(const struct map *map, session_ref_t ref);

/* The futex word that wakes a sleeper when the session dies. False: there is
   none, as it is dead, or only heirs keep it; a waiter for these looks at each
   tick. */
bool session_watch(const struct map *map, session_ref_t ref,
    struct sys_watch *watch);

/* Wakes all that sleep on a session of this table, and all helper threads: they
   look at the time again. A system call or two for each session. */
void session_wake_all(const struct map *map);

/*
 * All sessions of a table stand in a ring, by their slots, and each watches the
 * nearest living one before it that is another process's: so each end is
 * noticed by one, whether or not anybody waits, and nobody has to look around.
 * A session that begins tells the one behind it (session_begin()), one that is
 * closed wakes it (session_end()).
 *
 * @before  that one; found anew when it has ended, or is 0; 0: there is none
 * @watch   what its end wakes a sleeper by
 * @dead    set to true if another was found to be dead on the way to it, of
 *          whose death nobody may have been told
 *
 * Returns: is it a session whose slot comes before @own's? Else @own is the
 * first, and is to look for what nobody is told of.
 */
bool session_watch_before(const struct map *map, session_ref_t own,
    session_ref_t *before, struct sys_watch *watch, bool *dead);

/* The one that is to watch @own; 0: there is none. */
session_ref_t session_behind(const struct map *map, session_ref_t own);

/* A session of this helper's has ended: wakes those that watch it. */
void session_unwatch(const struct map *map, thread_ref_t keeper);

#endif
