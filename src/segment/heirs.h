/*
 * heirs.h - segment: a session that goes on after its process.
 *
 * Its process has a life descriptor: one of the segment's file with a lock
 * (fcntl(2), F_OFD_SETLK) on a byte of its own, far behind the file's end. All
 * processes that inherit the descriptor share the lock, and the kernel drops it
 * when the last copy is closed: by exit, by a kill, in any process.
 *
 * The lock is taken before `slot.heirs` is set (release; enq_life_fd), and
 * looked for after `heirs` was read (session_is_dead): so a session whose slot
 * says 0 has no heir that could keep it.
 */
#ifndef SEGMENT_HEIRS_H
#define SEGMENT_HEIRS_H

#include "segment/map.h"

/* A new descriptor, close-on-exec, with the lock of session `ref`; or the
   fault, explained. To be opened, and closed, inside process_enter(): a close
   drops the registry lock. */
int heirs_open(const struct map *map, session_ref_t ref);

/* Is any copy of it open? "Yes" where that cannot be found out. Costs two
   system calls. */
bool heirs_left(const struct map *map, session_ref_t ref);

#endif
