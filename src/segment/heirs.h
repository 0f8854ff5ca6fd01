/*
 * heirs.h - segment: a session that goes on after its process.
 *
 * Its process has a descriptor of the segment's file with a lock (fcntl(2),
 * F_OFD_SETLK) on a byte of its own, far behind the file's end. Whoever
 * inherits the descriptor shares the lock, and the kernel drops it when the
 * last copy is closed: by exit, by a kill, in whatever process.
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
