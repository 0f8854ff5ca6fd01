/*
 * ended.h - sync: has a process ended, all of it?
 *
 * A life word tells of one thread. Others of its process may go on for long: a
 * thread that writes to a slow disk, or to a server that does not answer, is
 * not stopped by SIGKILL before that is done, and its bytes arrive. What the
 * process held must not be another's before.
 *
 * Either of two is proof:
 *
 *   - where /proc shows the process, and in our own PID namespace: each of its
 *     threads is exiting (PF_EXITING), so that none can run a program's
 *     instruction, or begin a system call, any more. Known at once, however
 *     much memory there is to free. Or there is no such process.
 *   - else: its memory is gone, as its lock on the file is (segment/tie.h).
 *     That follows the freeing of the memory: 130 ms for 2 GiB.
 *
 * A pid that is another's by now delays the first proof, and makes neither say
 * what is not so. What a process has handed to the kernel to be done without a
 * thread of its own (io_uring, libaio) is not waited for.
 */
#ifndef SYNC_ENDED_H
#define SYNC_ENDED_H

#include "segment/map.h"

/* True when it is certain. Never blocks; takes some 10 us, and where more than
   the first thread is left, which is exiting, 5 for each that is. */
bool process_ended(const struct map *map, const struct process *who);

#endif
