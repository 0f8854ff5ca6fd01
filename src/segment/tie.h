/*
 * tie.h - segment: a lock on the file that lasts as long as this process's
 * memory.
 *
 * A byte of the file, far beyond its end, is locked through a file description
 * that nothing refers to but the mapping of the segment: so the kernel drops
 * the lock when that mapping is gone, with the last thread of the process (or
 * at exec, or munmap), and not before. Neither closing descriptors nor a fork
 * changes that: an open-file-description lock belongs to no process, and the
 * mapping is not copied (MADV_DONTFORK).
 *
 * Where the file system maps another file than the one that was opened
 * (overlayfs) the lock would be gone at once: that is seen, and there is none.
 */
#ifndef SEGMENT_TIE_H
#define SEGMENT_TIE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Maps `bytes` of the file behind `fd`, known as `path`, for reading and
 * writing. @at: which byte is locked; 0: none can be.
 * Returns: 0. Faults, explained: -ENOMEM; -EAGAIN when the path leads elsewhere
 * by now.
 */
int tie_map(int fd, const char *path, size_t bytes, void **base, uint64_t *at);

#endif
