/*
 * file.c - floor 2: the file behind a segment (see file.h).
 */
#include "segment/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/id.h"
#include "base/point.h"
#include "base/why.h"

#define SHM_DIR "/dev/shm/"
#define SHM_NAME_MAX 200

static bool shm_name_fine(const char *name)
{
    size_t n = strspn(name,
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

    return n >= 1 && n <= SHM_NAME_MAX && name[n] == '\0' && name[0] != '.';
}

int file_path(const char *address, char path[FILE_PATH_BYTES])
{
    if (address == NULL)
        address = getenv("ENQ_SPACE");
    if (address == NULL || address[0] == '\0')
        address = "shm:enq";
    if (strncmp(address, "shm:", 4) == 0) {
        if (!shm_name_fine(address + 4))
            return why(-EINVAL,
                "\"%.220s\": the name after shm: is 1 to %d letters, digits "
                "or . _ - and does not start with a dot",
                address, SHM_NAME_MAX);
        snprintf(path, FILE_PATH_BYTES, SHM_DIR "%s", address + 4);
        return 0;
    }
    if (strncmp(address, "unix:", 5) == 0 ||
        strncmp(address, "tcp://", 6) == 0 ||
        strncmp(address, "tls://", 6) == 0)
        return why(-EOPNOTSUPP,
            "\"%.200s\": this version has segments of this host only "
            "(shm:NAME or an absolute path)",
            address);
    if (address[0] != '/')
        return why(-EINVAL,
            "\"%.200s\" is no address: use shm:NAME or an absolute path",
            address);
    if (strlen(address) >= FILE_PATH_BYTES)
        return why(-ENAMETOOLONG, "the path \"%.100s...\" is longer than %d",
            address, FILE_PATH_BYTES - 1);
    snprintf(path, FILE_PATH_BYTES, "%s", address);
    return 0;
}

/*
 * Members of a segment trust each other (SECURITY.md), so that a stranger's
 * file must not be taken for ours: in a directory open to all, anyone may
 * have made one under our name.
 */
static int judge_owner(const struct stat *st, const char *path)
{
    if (st->st_mode & S_IWOTH)
        return why(-EPERM,
            "%s may be written by everybody (mode %04o): refused; chmod o-w",
            path, (unsigned)st->st_mode & 07777);
    if (st->st_uid == geteuid() || st->st_uid == 0 || geteuid() == 0)
        return 0;
    if (st->st_mode & S_IWGRP)
        return 0; /* shared with a group on purpose, and we could open it */
    return why(-EACCES, "%s belongs to user %u, not to us (user %u)", path,
        (unsigned)st->st_uid, (unsigned)geteuid());
}

static int judge_file(int fd, const char *path, struct stat *st)
{
    if (fstat(fd, st) != 0)
        return why(-errno, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st->st_mode))
        return why(-EINVAL, "%s is no plain file", path);
    if (st->st_nlink > 1)
        return why(-EPERM, "%s has %u names (hard links): refused", path,
            (unsigned)st->st_nlink);
    if ((uint64_t)st->st_size < PAGE_BYTES)
        return why(ENQ_ECORRUPT,
            "%s is no lock space: it is only %lld bytes long; remove it or "
            "choose another name",
            path, (long long)st->st_size);
    return judge_owner(st, path);
}

int file_open(const char *path, bool readonly, struct seg_header *header,
    int *verdict)
{
    struct stat st;
    int fd, rc;

    fd = open(path,
        (readonly ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return why(-ENOENT, "there is no lock space %s", path);
    if (fd < 0)
        return why(-errno, "cannot open %s: %s", path, strerror(errno));
    rc = judge_file(fd, path, &st);
    if (rc == 0 && pread(fd, header, sizeof(*header), 0) != sizeof(*header))
        rc = why(ENQ_ECORRUPT, "cannot read the header of %s", path);
    if (rc == 0)
        rc = header_judge(header, (uint64_t)st.st_size, path);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    *verdict = rc;
    return fd;
}

static int explain_creation(int error, const char *path)
{
    if (error == ENOSPC)
        return why(-ENOSPC,
            "no room to make %s: the file system is full (a container's "
            "/dev/shm is 64 MB by default)",
            path);
    if (error == EROFS)
        return why(-EROFS, "cannot make %s: read-only file system", path);
    return why(-error, "cannot make %s: %s", path, strerror(error));
}

/* SIGXFSZ would end us: ask first. */
static int size_permitted(uint64_t bytes, const char *path)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
        return why(-EFBIG,
            "%s would need a (sparse) file of %llu bytes, RLIMIT_FSIZE allows "
            "%llu: raise it (ulimit -f) or ask for fewer slots",
            path, (unsigned long long)bytes,
            (unsigned long long)limit.rlim_cur);
    return 0;
}

static void fill_shards(char *base, const struct seg_header *h)
{
    struct shard *shards = (struct shard *)(base + SEG_SHARDS);
    struct shard_dir *dirs = (struct shard_dir *)(base + SEG_DIRS);
    struct gate *gates = (struct gate *)(base + SEG_GATES);

    for (uint32_t i = 0; i < SHARDS_ALL; i++) {
        shards[i].n_lines = LINES_PER_SEGMENT;
        shards[i].n_segments = 1;
        shards[i].token = h->token_base;
        dirs[i].segment[0] =
            (ref_t)((SEG_LINES + (uint64_t)i * PAGE_BYTES) / UNIT_BYTES);
    }
    for (uint32_t i = 0; i < GATES; i++)
        gates[i].token = h->token_base;
}

static int fill(int fd, const char *path, const struct header_wish *wish)
{
    struct seg_header *h;
    uint64_t bytes = header_file_bytes(wish->slots);
    int rc = size_permitted(bytes, path);

    if (rc != 0)
        return rc;
    if (fchmod(fd, wish->mode) != 0 || ftruncate(fd, (off_t)bytes) != 0)
        return explain_creation(errno, path);
    rc = posix_fallocate(fd, 0, PAGE_BYTES);
    if (rc == 0)
        rc = posix_fallocate(fd, (off_t)SEG_GATES,
            (off_t)(SEG_FIXED_END - SEG_GATES));
    if (rc != 0)
        return explain_creation(rc, path);
    h = mmap(NULL, SEG_FIXED_END, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (h == MAP_FAILED)
        return explain_creation(errno, path);
    rc = header_make(h, wish);
    if (rc == 0) {
        fill_shards((char *)h, h);
        shm_store_release(&h->magic, LAYOUT_MAGIC);
    }
    munmap(h, SEG_FIXED_END);
    ENQ_POINT("attach.created");
    return rc;
}

static int publish_nameless(int fd, const char *path)
{
    char proc[64];

    snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, proc, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0)
        return -errno;
    ENQ_POINT("attach.published");
    return 0;
}

/* Directory of `path`, with its last slash. */
static void directory_of(const char *path, char dir[FILE_PATH_BYTES])
{
    snprintf(dir, FILE_PATH_BYTES, "%s", path);
    strrchr(dir, '/')[1] = '\0';
}

/* A file without a name disappears with its maker, wherever he dies. */
static int create_nameless(const char *path, const struct header_wish *wish)
{
    char dir[FILE_PATH_BYTES];
    int fd, rc;

    directory_of(path, dir);
    fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    rc = fill(fd, path, wish);
    if (rc == 0)
        rc = publish_nameless(fd, path);
    close(fd);
    return rc;
}

static int publish_renamed(const char *temp, const char *path, int stale_fd)
{
    struct stat stale, now;

    if (stale_fd < 0)
        return renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE) == 0
            ? 0
            : -errno;
    /* of several who find it stale, the first with the lock replaces it */
    if (flock(stale_fd, LOCK_EX) != 0 || fstat(stale_fd, &stale) != 0)
        return -errno;
    if (stat(path, &now) != 0 || now.st_ino != stale.st_ino ||
        now.st_dev != stale.st_dev)
        return -EEXIST;
    return rename(temp, path) == 0 ? 0 : -errno;
}

/* Where the file system has no nameless files, and to replace a stale one. */
static int create_named(const char *path, const struct header_wish *wish,
    int stale_fd)
{
    char temp[FILE_PATH_BYTES + 64], dir[FILE_PATH_BYTES], name[ID_TEXT_BYTES];
    uint8_t uuid[16];
    int fd, rc;

    directory_of(path, dir);
    id_random(uuid);
    id_uuid_text(uuid, name);
    snprintf(temp, sizeof(temp), "%s.enq-new-%s", dir, name);
    fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return explain_creation(errno, path);
    rc = fill(fd, path, wish);
    if (rc == 0)
        rc = publish_renamed(temp, path, stale_fd);
    unlink(temp);
    close(fd);
    return rc;
}

int file_create(const char *path, const struct header_wish *wish, int stale_fd)
{
    int rc = -EOPNOTSUPP;

    if (stale_fd < 0)
        rc = create_nameless(path, wish);
    if (rc == -EOPNOTSUPP || rc == -EISDIR || rc == -ENOENT || rc == -EXDEV)
        rc = create_named(path, wish, stale_fd);
    if (rc == -EACCES || rc == -EROFS || rc == -ENOTDIR || rc == -EPERM)
        return explain_creation(-rc, path);
    return rc;
}
