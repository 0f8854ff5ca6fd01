/*
 * map.c - segment: segments mapped into this process (see map.h).
 */
#include "segment/map.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/process.h"
#include "base/why.h"
#include "segment/attach.h"
#include "segment/file.h"
#include "segment/tie.h"

/* The process's maps; under process_enter(). */
static CDS_LIST_HEAD(maps);

/* In a child of fork. The list is not walked, as the parent may have been
   changing it: so its descriptors stay open, one for each generation. */
void map_forget_all(void)
{
    CDS_INIT_LIST_HEAD(&maps);
}

static struct map *map_find(const struct stat *st, bool readonly)
{
    struct map *map;

    cds_list_for_each_entry (map, &maps, node)
        if (map->dev == st->st_dev && map->ino == st->st_ino &&
            map->readonly == readonly)
            return map;
    return NULL;
}

/* Sizes and seed are copied from the header that was checked, not read from the
   segment again, where another process might change them under us. */
static void map_place(struct map *map, const struct seg_header *header)
{
    map->threads = map_at(map, SEG_THREADS);
    map->sessions = map_at(map, SEG_SESSIONS);
    map->gates = map_at(map, SEG_GATES);
    map->shards = map_at(map, SEG_SHARDS);
    map->dirs = map_at(map, SEG_DIRS);
    map->owners = map_at(map, SEG_OWNERS);
    map->listings = map_at(map, SEG_LISTINGS);
    map->buckets = map_at(map, SEG_BUCKETS);
    map->pages = map_at(map, header->pages_at);
    map->marks = (page_mark_t *)(map->pages + header->pages_max);
    map->modes = mode_table_at(header->compat);
    map->hash_seed = header->hash_seed;
    map->strict = header->strict != 0;
    map->arena_at = header->arena_at;
    map->arena_unit = header->arena_at / UNIT_BYTES;
    map->pages_max = header->pages_max;
    map->entries_max = header->slab_pages_max * SMALL_PER_PAGE;
    map->bytes = header->bytes;
}

/* How often is the file mapped for writing in this process? Twice: another copy
   of the library has it too (refuse_copy). 0 without /proc: then nothing is
   refused. */
static unsigned times_mapped(const struct stat *st)
{
    FILE *f = fopen("/proc/self/maps", "re");
    unsigned major, minor, n = 0;
    unsigned long long ino;
    char line[512], mode[8];

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        n += sscanf(line, "%*s %7s %*s %x:%x %llu", mode, &major, &minor,
                 &ino) == 4 &&
            strcmp(mode, "rw-s") == 0 && ino == st->st_ino &&
            makedev(major, minor) == st->st_dev;
    if (f != NULL)
        fclose(f);
    return n;
}

/*
 * Is this /proc of our own PID namespace? Seen from another's we have several
 * numbers, one in each down to our own; and what is no procfs at all has none of
 * this.
 */
static bool is_own_proc(int fd)
{
    static const char field[] = "\nNSpid:\t";
    char text[2048], *at;
    struct statfs fs;
    ssize_t n = read(fd, text, sizeof(text) - 1);

    if (n <= 0 || fstatfs(fd, &fs) != 0 || fs.f_type != PROC_SUPER_MAGIC)
        return false;
    text[n] = '\0';
    at = strstr(text, field);
    if (at == NULL)
        return false;
    at += strlen(field);
    return at[strcspn(at, "\t\n")] == '\n';
}

/* How others can see that this process has ended, and how it can see others.
   What cannot be had stays 0. */
static void map_identify(struct map *map)
{
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    struct stat st;

    map->self.pid = (uint32_t)getpid();
    if (fd < 0)
        return;
    if (is_own_proc(fd) && fstat(fd, &st) == 0)
        map->proc = st.st_dev;
    if (fstatat(AT_FDCWD, "/proc/self/ns/pid", &st, 0) == 0)
        map->self.pid_space = (uint32_t)st.st_ino;
    close(fd);
}

static void *map_for_looking(int fd, const char *path, size_t bytes)
{
    void *base =
        mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);

    if (base != MAP_FAILED) {
        madvise(base, bytes, MADV_DONTFORK);
        return base;
    }
    why(-ENOMEM, "cannot map %s: %zu bytes of address space (RLIMIT_AS?)", path,
        bytes);
    return NULL;
}

static int map_memory(struct map *map, const struct seg_header *header)
{
    void *base = NULL;
    int rc;

    map_identify(map);
    if (map->readonly) {
        base = map_for_looking(map->fd, map->path, header->bytes);
        map->over = calloc(SESSIONS_MAX, sizeof(*map->over));
        map->h = base;
        if (map->over == NULL)
            return why(-ENOMEM, "out of memory");
        return base == NULL ? -ENOMEM : 0;
    }
    rc = tie_map(map->fd, map->path, header->bytes, &base, &map->self.lock_at);
    map->h = base;
    if (rc != 0 || map->self.lock_at != 0 || map->self.pid_space != 0)
        return rc;
    return why(-EOPNOTSUPP,
        "nobody could tell when this process ends: there is no /proc, and the "
        "file system of %s drops locks too early (overlayfs?): put it on a "
        "tmpfs, or mount /proc",
        map->path);
}

static void map_free(struct map *map)
{
    if (map->h != NULL)
        munmap(map->h, map->bytes);
    free(map->over);
    free(map);
}

static int map_new(int fd, const char *path, const struct stat *st,
    const struct seg_header *header, bool readonly, struct map **out)
{
    struct map *map = calloc(1, sizeof(*map));
    int rc;

    if (map == NULL)
        return why(-ENOMEM, "out of memory");
    strncpy(map->path, path, sizeof(map->path) - 1);
    map->readonly = readonly;
    map->bytes = header->bytes;
    map->fd = fd;
    map->dev = st->st_dev;
    map->ino = st->st_ino;
    CDS_INIT_LIST_HEAD(&map->kept);
    rc = map_memory(map, header);
    if (rc != 0) {
        map_free(map);
        return rc;
    }
    map_place(map, header);
    cds_list_add(&map->node, &maps);
    *out = map;
    return 0;
}

/* The application may have closed our descriptor and got its number again
   for a file of its own. */
static bool fd_is_ours(const struct map *map, struct stat *st)
{
    return fstat(map->fd, st) == 0 && st->st_dev == map->dev &&
        st->st_ino == map->ino;
}

/* The last user unmaps. A thread's slot is a user as well: its liveness mutex
   lies in the mapping, and the kernel walks over it when the thread ends. */
void map_put(struct map *map)
{
    struct stat st;

    if (--map->users > 0)
        return;
    cds_list_del(&map->node);
    if (fd_is_ours(map, &st))
        close(map->fd);
    map_free(map);
}

/*
 * Two copies of the library in one process - linked with libenq.a, and with a
 * module that brings libenq.so - would not keep each other from registering: a
 * POSIX lock belongs to the process.
 */
static int refuse_copy(struct map *map)
{
    int rc = why(-EBUSY,
        "another copy of libenq in this process uses %s: link the library once",
        map->path);

    map->users = 1;
    map_put(map);
    return rc;
}

/* Takes over `fd`. */
static int map_get(int fd, const char *path, const struct seg_header *header,
    bool readonly, struct map **out)
{
    struct stat st;
    struct map *map;
    int rc;

    if (fstat(fd, &st) != 0) {
        rc = why(-errno, "%s: %s", path, strerror(errno));
        close(fd);
        return rc;
    }
    map = map_find(&st, readonly);
    if (map != NULL && fd_is_ours(map, &st)) {
        close(fd);
    } else if (map != NULL) {
        map->fd = fd;
    } else {
        rc = map_new(fd, path, &st, header, readonly, &map);
        if (rc != 0) {
            close(fd);
            return rc;
        }
        if (!readonly && times_mapped(&st) > 1)
            return refuse_copy(map);
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
    int fd = file_open(path, wish->readonly, wish->trusted, header, &verdict);
    int stale = -1, rc;

    if (fd >= 0 && verdict == HEADER_FINE)
        return fd;
    if (fd < 0 && fd != -ENOENT)
        return fd;
    if (fd >= 0 && wish->existing) {
        close(fd);
        return why(-ENOENT, "%s is from an earlier boot", path);
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
    int rc = -EAGAIN;

    for (int i = 0; i < 100 && rc == -EAGAIN; i++) {
        rc = attach_once(path, wish, &header);
        if (rc >= 0)
            rc = map_get(rc, path, &header, wish->readonly, out);
    }
    if (rc == -EAGAIN)
        return why(-EAGAIN, "others make and remove %s again and again", path);
    return rc;
}

int map_reserve(const struct map *map, uint64_t offset, uint64_t bytes)
{
    struct stat st;

    if (!fd_is_ours(map, &st))
        return -EBADF;
    return file_reserve(map->fd, offset, bytes);
}

int map_check_whole(const struct map *map)
{
    struct stat st;

    if (!fd_is_ours(map, &st) || (uint64_t)st.st_size >= map->bytes)
        return 0;
    return why(ENQ_ECORRUPT,
        "%s was cut off to %lld bytes while it was in use: stop all users and "
        "remove it",
        map->path, (long long)st.st_size);
}

bool map_lock_is_free(const struct map *map, uint64_t at)
{
    struct flock lock = {.l_type = F_WRLCK,
        .l_whence = SEEK_SET,
        .l_start = (off_t)at,
        .l_len = 1};
    struct stat st;

    return fd_is_ours(map, &st) && fcntl(map->fd, F_OFD_GETLK, &lock) == 0 &&
        lock.l_type == F_UNLCK;
}

int map_links(const struct map *map)
{
    struct stat st;

    return fd_is_ours(map, &st) ? (int)st.st_nlink : -1;
}

/*
 * The kernel looks for cycles of processes, not of threads: the process that
 * has the registry lock may have another thread, which waits for a file lock of
 * the application that this process holds. Its registering thread goes on all
 * the same, and releases the registry: so we try again.
 */
static bool is_no_deadlock(int error)
{
    if (error != EDEADLK)
        return false;
    nanosleep(&(struct timespec){0, 1000000}, NULL);
    return true;
}

static int registry_fcntl(const struct map *map, short type)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    int rc;

    do
        rc = fcntl(map->fd, F_SETLKW, &lock);
    while (rc != 0 && (errno == EINTR || is_no_deadlock(errno)));
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
    return why(rc,
        "cannot register in %s: %s (did the program close the descriptor?)",
        map->path, strerror(-rc));
}

void map_registry_unlock(struct map *map)
{
    registry_fcntl(map, F_UNLCK);
    process_leave();
}

bool map_split_of(const struct map *map, const struct thread_slot *slot,
    struct split *out)
{
    uint64_t shard = INSIDE_SPLIT(0) - shm_load(&slot->inside);
    uint32_t n = shm_load(&slot->splits);

    if (shard >= SHARDS_ALL)
        return false;
    out->shard = (uint32_t)shard;
    out->from = at_bucket(map, out->shard, bucket_to_split(n));
    out->to = at_bucket(map, out->shard, n);
    out->begun = out->from != NULL && out->to != NULL &&
        shard_buckets(&map->shards[shard]) == n;
    return true;
}

bool map_each_bucket(const struct map *map, uint32_t shard, bucket_see_fn *see,
    void *context)
{
    const struct shard *s = &map->shards[shard];
    uint32_t used = shard_buckets(s);
    uint32_t n = buckets_in(shm_load_acquire(&s->n_segments));

    /* damaged, the one may say less than the other: a latch that requests can
       come to must be among these, or its dead holder is never found */
    if (used > n)
        n = used < buckets_in(SEGMENTS_MAX) ? used : buckets_in(SEGMENTS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        struct bucket *bucket = at_bucket(map, shard, i);

        if (bucket != NULL && !see(context, shard, bucket))
            return false;
    }
    return true;
}
