/*
 * heirs.c - segment: a session that goes on after its process (see heirs.h).
 */
#include "segment/heirs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/why.h"

/* No file is that long. A reference is used once, so that a copy which is
   still open when a session has ended keeps no later one of its slot. */
#define HEIRS_AT (INT64_C(1) << 40)

static struct flock lock_of(session_ref_t ref, short type)
{
    return (struct flock){.l_type = type,
        .l_whence = SEEK_SET,
        .l_start = HEIRS_AT + ref,
        .l_len = 1};
}

static bool is_segment(const struct map *map, int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_dev == map->dev &&
        st.st_ino == map->ino;
}

/* It can be read only: it goes to processes that do not know what it is. */
int heirs_open(const struct map *map, session_ref_t ref)
{
    struct flock lock = lock_of(ref, F_RDLCK);
    int fd = open(map->path, O_RDONLY | O_CLOEXEC), error;

    if (fd < 0)
        return why(-errno, "cannot open %s again: %s", map->path,
            strerror(errno));
    if (is_segment(map, fd) && fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return fd;
    error = is_segment(map, fd) ? errno : ESTALE;
    close(fd);
    return why(-error, "cannot lock a byte of %s: %s", map->path,
        error == ESTALE ? "it was removed" : strerror(error));
}

bool heirs_left(const struct map *map, session_ref_t ref)
{
    struct flock lock = lock_of(ref, F_WRLCK);

    return !is_segment(map, map->fd) ||
        fcntl(map->fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}
