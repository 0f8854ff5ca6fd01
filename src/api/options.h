/*
 * options.h - api: structs of callers that were built with another header.
 */
#ifndef API_OPTIONS_H
#define API_OPTIONS_H

#include <stddef.h>

/*
 * Copies a caller's struct, of `given` bytes by its own account, over ours,
 * which is zeroed: zero is the default of everything. A longer one, of a newer
 * header, is refused only when what we do not know of it is not zero.
 * Faults, explained: -EINVAL (size 0 or absurd), -E2BIG.
 */
int options_copy(void *ours, size_t size, const void *theirs, size_t given,
    const char *what);

#endif
