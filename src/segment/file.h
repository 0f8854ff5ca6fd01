/*
 * file.h - segment: the file behind a segment: its name, its making, and whose
 * files are used.
 */
#ifndef SEGMENT_FILE_H
#define SEGMENT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "segment/header.h"

#define FILE_PATH_BYTES (ENQ_NAME_BYTES + 128)

/* @address, or what stands for NULL and "": $ENQ_SPACE, "shm:enq". */
const char *file_address(const char *address);

/*
 * "shm:NAME" or an absolute path to a path; NULL = the default address. @owner:
 * the user behind "?owner=", a part of @address; NULL = none is named.
 * Faults, explained: -EINVAL, -ENAMETOOLONG, -EOPNOTSUPP.
 */
int file_path(const char *address, char path[FILE_PATH_BYTES],
    const char **owner);

/*
 * Opens an existing segment and reads its header, having checked that the
 * file is a plain one, to be trusted, and whole. `header` is a copy.
 *
 * A user that may write to a segment can harm all processes that use it, and
 * the user that made it decides about that. In a directory that is open to all,
 * as /dev/shm is, any user may have made one under our name, as a trap. So we
 * use files of our own user, of root, and of `trusted`, which our caller has
 * named (0, root: no other); and files in a directory in which root alone can
 * have placed them. The same holds for root.
 *
 * Returns: >= 0 the descriptor, with *verdict from header_check().
 * Faults, explained: -ENOENT, -EACCES, -EPERM, ENQ_ECORRUPT ...
 */
int file_open(const char *path, bool readonly, uid_t trusted,
    struct seg_header *header, int *verdict);

/* Memory behind a part of the file, whatever signals come meanwhile. 0, or
   -ENOSPC and the like. */
int file_reserve(int fd, uint64_t offset, uint64_t bytes);

/*
 * Makes a segment that is complete before it has a name, so that no process
 * ever sees half of one, and a maker that is killed leaves nothing behind.
 *
 * `stale_fd` >= 0: the segment of an earlier boot to take the name from.
 * Returns: 0; -EEXIST when another was quicker. Faults, explained: -EROFS,
 * -EACCES, -ENOSPC, -EFBIG ...
 */
int file_create(const char *path, const struct header_wish *wish, int stale_fd);

#endif
