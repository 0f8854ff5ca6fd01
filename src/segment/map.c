/*
 * map.c - floor 2: segments mapped into this process (see map.h).
 */
#include "segment/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"
#include "base/why.h"
#include "segment/attach.h"
#include "segment/file.h"

/* The process's maps; under process_enter(). */
static CDS_LIST_HEAD(maps);

#define WINDOW_NS 200000 /* PERFORMANCE.md: barge-then-hand-over */

void map_forget_all(void)
{
    CDS_INIT_LIST_HEAD(&maps);
}

static struct map *map_find(const struct stat *st, bool readonly)
{
    struct map *map;

    cds_list_for_each_entry(map, &maps, node) if (map->dev == st->st_dev &&
        map->ino == st->st_ino && map->readonly == readonly) return map;
    return NULL;
}

static void map_place(struct map *map, const struct seg_header *header)
{
    map->threads = map_at(map, SEG_THREADS);
    map->sessions = map_at(map, SEG_SESSIONS);
    map->gates = map_at(map, SEG_GATES);
    map->shards = map_at(map, SEG_SHARDS);
    map->dirs = map_at(map, SEG_DIRS);
    map->pages = map_at(map, header->pages_at);
    map->modes = mode_table_at(header->compat);
    map->hash_seed = header->hash_seed;
    map->window_ns = header->strict ? 0 : WINDOW_NS;
    map->arena_at = header->arena_at;
    map->pages_max = header->pages_max;
    map->bytes = header->bytes;
}

static struct map *map_new(int fd, const struct stat *st,
    const struct seg_header *header, bool readonly)
{
    struct map *map = calloc(1, sizeof(*map));
    void *base;

    if (map == NULL)
        return NULL;
    base =
        mmap(NULL, header->bytes, readonly ? PROT_READ : PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) {
        free(map);
        return NULL;
    }
    /* a child must not act through it; and its page tables are not copied */
    madvise(base, header->bytes, MADV_DONTFORK);
    map->h = base;
    map_place(map, header);
    map->readonly = readonly;
    map->fd = fd;
    map->dev = st->st_dev;
    map->ino = st->st_ino;
    cds_list_add(&map->node, &maps);
    return map;
}

/* Takes over `fd`. */
static int map_get(int fd, const char *path, const struct seg_header *header,
    bool readonly, struct map **out)
{
    struct stat st;
    struct map *map;

    if (fstat(fd, &st) != 0) {
        int error = errno;
        close(fd);
        return why(-error, "%s: %s", path, strerror(error));
    }
    map = map_find(&st, readonly);
    if (map != NULL) {
        close(fd);
    } else {
        map = map_new(fd, &st, header, readonly);
        if (map == NULL) {
            close(fd);
            return why(-ENOMEM,
                "cannot map %s: %llu bytes of address space (RLIMIT_AS?)", path,
                (unsigned long long)header->bytes);
        }
        strncpy(map->path, path, sizeof(map->path) - 1);
    }
    map->users++;
    *out = map;
    return 0;
}

/* One attempt to open or, failing that, to make it. -EAGAIN: another made or
   removed it in between. */
static int attach_once(const char *path, const struct map_wish *wish,
    struct seg_header *header)
{
    struct header_wish make = wish->make;
    int verdict = HEADER_FINE;
    int fd = file_open(path, wish->readonly, header, &verdict);
    int stale = -1, rc;

    if (fd >= 0 && verdict == HEADER_FINE)
        return fd;
    if (fd < 0 && fd != -ENOENT)
        return fd;
    if (fd >= 0 && wish->existing) {
        close(fd);
        return why(-ENOENT, "%s is of an earlier boot", path);
    }
    if (wish->existing)
        return fd;
    if (fd >= 0) {
        stale = fd;
        make.token_above = header->token_base;
    }
    rc = file_create(path, &make, stale);
    if (stale >= 0)
        close(stale);
    return rc == 0 || rc == -EEXIST ? -EAGAIN : rc;
}

int map_attach(const char *path, const struct map_wish *wish, struct map **out)
{
    struct seg_header header;
    int fd = -EAGAIN;

    for (int i = 0; i < 100 && fd == -EAGAIN; i++)
        fd = attach_once(path, wish, &header);
    if (fd == -EAGAIN)
        return why(-EAGAIN, "%s is made and removed again and again", path);
    if (fd < 0)
        return fd;
    return map_get(fd, path, &header, wish->readonly, out);
}

void map_put(struct map *map)
{
    if (--map->users > 0)
        return;
    cds_list_del(&map->node);
    munmap(map->h, map->bytes);
    close(map->fd);
    free(map);
}

/* The application may have closed our descriptor and got its number again
   for a file of its own. */
static bool fd_is_ours(const struct map *map, struct stat *st)
{
    return fstat(map->fd, st) == 0 && st->st_dev == map->dev &&
        st->st_ino == map->ino;
}

int map_reserve(const struct map *map, uint64_t offset, uint64_t bytes)
{
    struct stat st;

    if (!fd_is_ours(map, &st))
        return -EBADF;
    return -posix_fallocate(map->fd, (off_t)offset, (off_t)bytes);
}

bool map_unlinked(const struct map *map)
{
    struct stat st;

    return fd_is_ours(map, &st) && st.st_nlink == 0;
}

static int registry_fcntl(const struct map *map, short type)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    int rc;

    do
        rc = fcntl(map->fd, F_SETLKW, &lock);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : -errno;
}

int map_registry_lock(struct map *map)
{
    struct stat st;
    bool fresh;
    int rc = -EBADF;

    if (process_enter(&fresh) == 0)
        return why(-ENOMEM, "out of memory");
    if (fd_is_ours(map, &st))
        rc = registry_fcntl(map, F_WRLCK);
    if (rc == 0)
        return 0;
    process_leave();
    return why(rc, "cannot register in %s: %s (was our descriptor closed?)",
        map->path, strerror(-rc));
}

void map_registry_unlock(struct map *map)
{
    registry_fcntl(map, F_UNLCK);
    process_leave();
}
