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
 * The second proof of the end of a process rests on this (sync/ended.h): other
 * processes ask whether the byte is locked. They find it in `process.lock_at`.
 *
 * Where the file system maps another file than the one that was opened
 * (overlayfs) the lock would be gone at once: tie_map() notices, and reports
 * that there is none.
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
