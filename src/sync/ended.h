/*
 * ended.h - sync: has a process ended, all of it?
 *
 * A liveness word tells of one thread. Others of its process may go on for
 * long: a thread that writes to a slow disk, or to a server that does not
 * answer, is not stopped by SIGKILL before that is done, and its bytes arrive.
 * No other owner may get what the process held before then.
 *
 * Either of two is proof:
 *
 *   - if the process is in our own PID namespace, and /proc shows it: each of
 *     its threads is exiting (PF_EXITING), so that none can run an instruction
 *     of the program, or begin a system call, any more. Known at once, however
 *     much memory there is to free. Or there is no such process.
 *   - else: its memory is gone, as its lock on the file is (segment/tie.h).
 *     That follows the freeing of the memory: 130 ms for 2 GiB.
 *
 * The proof is one-sided: false means "not known yet", and is asked again. A
 * pid that another process has by now delays the first proof, and makes
 * neither say what is not so. What a process has handed to the kernel to be
 * done without a thread of its own (io_uring, libaio) is not waited for.
 */
#ifndef SYNC_ENDED_H
#define SYNC_ENDED_H

#include "segment/map.h"

/* True when it is certain. Never blocks. System calls, so that no latch may be
   held; some 10 us, and 5 more for each thread beside the first that is left.
   */
bool process_ended(const struct map *map, const struct process *who);

#endif
