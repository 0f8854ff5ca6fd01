/*
 * life.h - sync: is it dead?
 *
 * A life mutex is a robust process-shared pthread mutex that its owner locks
 * once and that nobody else ever locks. When the owner's thread ends without
 * unlocking - SIGKILL, exec, a thread that just returns - the kernel walks its
 * robust list, sets FUTEX_OWNER_DIED in the word and wakes a watcher, before
 * the process's memory is torn down: 70 us, also for a process of 2 GiB where
 * pidfds and file locks take 130 ms (research/mech.md, 4.1).
 *
 * The kernel wakes only where FUTEX_WAITERS is set, so the owner sets it for
 * good. "Dead" is said only when certain; "maybe alive" is the safe answer.
 *
 * A dead thread is not a dead process. A session's mark says that its helper
 * thread is dead: that is when others begin to look after it. Until it is
 * proved that the whole process can do nothing any more (sync/ended.h) it is
 * *dying*, and what it holds is in the way; then it is *over*, which is noted
 * in its slot, as only a note can be looked at under a lock word.
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
static inline const uint32_t *life_word(const pthread_mutex_t *life)
{
    return (const uint32_t *)life;
}

/* Partner: the kernel's store at death; also life_begin and life_end. */
static inline bool life_word_is_dead(uint32_t word)
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

/* Both lock the mutex for the calling thread, or unlock it again. */
int life_begin(pthread_mutex_t *life);
void life_end(pthread_mutex_t *life);

/* The slot of a process that is ours: what others need for the proof. */
void life_of(const struct map *map, struct process *who);

/*
 * True when the thread that had this reference is certainly gone: its slot says
 * died, or is free or another's by now.
 *
 * Of a thread there is a second sign: the kernel walks 2,048 mutexes of a list
 * and no more, newest first, so that one who holds as many robust mutexes of
 * its own dies without a mark of ours. The process's helper thread, its keeper,
 * holds none but ours and is marked: from then on the end of the process is
 * looked for.
 */
bool thread_is_dead(const struct map *map, thread_ref_t ref);

/* True when the session's helper thread is gone; its other threads may run. */
bool session_is_dead(const struct map *map, session_ref_t ref);

/*
 * The same of its helper thread alone. They differ where the session has heirs:
 * what it holds is held until the last of them is gone, but nobody waits any
 * more. Heirs are asked after by system calls, also under a lock word; only
 * when their session's process is dead.
 */
bool session_is_forsaken(const struct map *map, session_ref_t ref);

/* True when nobody can act for it any more, and that is known. Reads memory,
   and nothing else. */
bool session_is_over(const struct map *map, session_ref_t ref);

/*
 * The same, and of one that is dead the proof is looked for, and noted: system
 * calls, so that no word may be held. Of several who ask, again and again, one
 * looks at a time, more and more seldom (30 us to 10 ms); not so @at_once.
 */
bool session_prove(const struct map *map, session_ref_t ref, bool at_once);
void session_prove_all(const struct map *map);

/* When to look next; and whether to wait for it, as it has just begun to die.
 */
mono_t session_look_again(const struct map *map, session_ref_t ref);
bool session_dies_now(const struct map *map, session_ref_t ref);

/* Something to wake up by when the session dies. False: there is nothing, as
   it is dead, or has heirs only; who waits for these looks at each tick. */
bool session_watch(const struct map *map, session_ref_t ref,
    struct sys_watch *watch);

#endif
