/*
 * file.c - segment: the file behind a segment (see file.h).
 *
 * How a segment is made, and what a death leaves behind at each step:
 *
 *	O_TMPFILE	a file without a name			nothing
 *	fill()		size, memory, header, magic last	nothing
 *	linkat		it gets its name, if that is free	a whole segment
 *
 * Over a stale segment, of an earlier boot, the new file is linked under a
 * second name and renamed over the old one, under a flock of the old file: so
 * of several makers one replaces it, and the others find the new one. Where
 * there is no O_TMPFILE, the file has a random name at first.
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
#include "base/hash.h"
#include "base/id.h"
#include "base/point.h"
#include "base/user.h"
#include "base/why.h"

#define SHM_DIR "/dev/shm/"
#define SHM_NAME_MAX 200

static bool shm_name_fine(const char *name, size_t bytes)
{
    size_t n = strspn(name,
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

    return n >= 1 && n <= SHM_NAME_MAX && n == bytes && name[0] != '.';
}

/* How many bytes of it are before '?', and what is behind. No path has a '?':
   a mistyped option would quietly be another space. */
static int split_address(const char *address, size_t *bytes, const char **owner)
{
    static const char option[] = "?owner=";
    size_t n = strlen(option);
    const char *rest = strchrnul(address, '?');

    *bytes = (size_t)(rest - address);
    *owner = NULL;
    if (*rest == '\0')
        return 0;
    if (strncmp(rest, option, n) != 0 || rest[n] == '\0')
        return why(-EINVAL,
            "\"%.*s%s\": unknown option \"%.*s\": ?owner=USER names the owner "
            "of the space",
            WHY_ADDRESS(address), WHY_OPTION(rest));
    *owner = rest + n;
    return 0;
}

const char *file_address(const char *address)
{
    if (address == NULL)
        address = getenv("ENQ_SPACE");
    return address == NULL || address[0] == '\0' ? "shm:enq" : address;
}

static int check_remote(const char *address)
{
    if (strncmp(address, "unix:", 5) != 0 &&
        strncmp(address, "tcp://", 6) != 0 &&
        strncmp(address, "tls://", 6) != 0)
        return 0;
    return why(-EOPNOTSUPP,
        "\"%.*s%s\" is a bridge: name the space as its host does (shm:NAME or "
        "an absolute path)",
        WHY_ADDRESS(address));
}

int file_path(const char *address, char path[FILE_PATH_BYTES],
    const char **owner)
{
    const char *given = file_address(address);
    size_t bytes;
    int rc = check_remote(given);

    if (rc == 0)
        rc = split_address(given, &bytes, owner);
    if (rc != 0)
        return rc;
    if (strncmp(given, "shm:", 4) == 0) {
        if (!shm_name_fine(given + 4, bytes - 4))
            return why(-EINVAL,
                "\"%.*s%s\": the name after shm: must be 1 to %d letters, "
                "digits or . _ - and must not start with a dot",
                WHY_ADDRESS(given), SHM_NAME_MAX);
        snprintf(path, FILE_PATH_BYTES, SHM_DIR "%.*s", (int)bytes - 4,
            given + 4);
        return 0;
    }
    if (given[0] != '/')
        return why(-EINVAL,
            "\"%.*s%s\" is not an address: use shm:NAME or an absolute path",
            WHY_ADDRESS(given));
    if (bytes >= FILE_PATH_BYTES)
        return why(-ENAMETOOLONG,
            "the path \"%.100s...\" is longer than %d bytes", given,
            FILE_PATH_BYTES - 1);
    snprintf(path, FILE_PATH_BYTES, "%.*s", (int)bytes, given);
    return 0;
}

/* Directory of `path`, with its last slash. */
static void directory_of(const char *path, char dir[FILE_PATH_BYTES])
{
    snprintf(dir, FILE_PATH_BYTES, "%s", path);
    strrchr(dir, '/')[1] = '\0';
}

/* Is the file where root alone can have placed it? Then root has, or has given
   it to its owner there. However the path leads to that directory: what counts
   is which one it is, and that the file is in it, now. */
static bool placed_by_root(const struct stat *st, const char *path)
{
    char dir[FILE_PATH_BYTES];
    struct stat place, there;
    bool yes;
    int fd;

    directory_of(path, dir);
    fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    yes = fstat(fd, &place) == 0 && place.st_uid == 0 &&
        !(place.st_mode & (S_IWGRP | S_IWOTH)) &&
        fstatat(fd, strrchr(path, '/') + 1, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        there.st_ino == st->st_ino && there.st_dev == st->st_dev;
    close(fd);
    return yes;
}

static int check_owner(const struct stat *st, const char *path, uid_t trusted)
{
    char theirs[USER_TEXT_BYTES], ours[USER_TEXT_BYTES], name[USER_NAME_BYTES];
    uid_t uid = st->st_uid;

    if (st->st_mode & S_IWOTH)
        return why(-EPERM,
            "everybody can write to %s (mode %04o): run chmod o-w", path,
            (unsigned)st->st_mode & 07777);
    if (uid == geteuid() || uid == 0 || uid == trusted ||
        placed_by_root(st, path))
        return 0;
    user_text(uid, theirs);
    user_text(geteuid(), ours);
    user_name(uid, name);
    return why(-EACCES,
        "%s belongs to user %s, and you are %s: whoever can write to a space "
        "can harm its users; if you trust that user, name the owner: "
        "%s?owner=%s",
        path, theirs, ours, path, name);
}

static int check_file(int fd, const char *path, uid_t trusted, struct stat *st)
{
    if (fstat(fd, st) != 0)
        return why(-errno, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st->st_mode))
        return why(-EINVAL, "%s is not a regular file", path);
    if (st->st_nlink > 1)
        return why(-EPERM, "%s has %u hard links: a space must have one", path,
            (unsigned)st->st_nlink);
    if ((uint64_t)st->st_size < PAGE_BYTES)
        return why(ENQ_ECORRUPT,
            "%s is not a lock space (it has only %lld bytes): choose another "
            "name, or remove it",
            path, (long long)st->st_size);
    return check_owner(st, path, trusted);
}

/* A sparse file that was restored, say, may have a header and nothing else. */
static int check_filled(int fd, const char *path)
{
    struct shard shard;
    ssize_t n = pread(fd, &shard, sizeof(shard), SEG_SHARDS);

    if (n < 0)
        return why(-errno, "cannot read %s: %s", path, strerror(errno));
    if (n == sizeof(shard) &&
        (shard.n_buckets & ~SHARD_EMPTY) >= BUCKETS_FIRST &&
        shard.n_segments > 0)
        return 0;
    return why(ENQ_ECORRUPT,
        "%s has lost its contents: stop all users and remove it", path);
}

/* A caller that names an owner does not make the space: its owner has to. */
static int explain_none(const char *path, uid_t trusted)
{
    char name[USER_TEXT_BYTES];

    if (trusted == 0 || trusted == geteuid())
        return why(-ENOENT, "there is no lock space %s", path);
    user_text(trusted, name);
    return why(-ENOENT,
        "there is no lock space %s yet, and only its owner, user %s, can make "
        "it",
        path, name);
}

int file_open(const char *path, bool readonly, uid_t trusted,
    struct seg_header *header, int *verdict)
{
    struct stat st;
    int fd, rc;

    fd = open(path,
        (readonly ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return explain_none(path, trusted);
    if (fd < 0)
        return why(-errno, "cannot open %s: %s", path, strerror(errno));
    rc = check_file(fd, path, trusted, &st);
    if (rc == 0 && pread(fd, header, sizeof(*header), 0) != sizeof(*header))
        rc = why(ENQ_ECORRUPT, "cannot read the header of %s", path);
    if (rc == 0)
        rc = header_check(header, (uint64_t)st.st_size, path);
    if (rc == HEADER_FINE)
        rc = check_filled(fd, path);
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
            "%s needs a (sparse) file of %llu bytes, but RLIMIT_FSIZE allows "
            "%llu: raise it (ulimit -f), or ask for fewer slots",
            path, (unsigned long long)bytes,
            (unsigned long long)limit.rlim_cur);
    return 0;
}

/*
 * At a signal tmpfs gives up and frees what it had taken for this call. An
 * interval timer of the program may be quicker than 2 MiB each time: so the
 * pieces become smaller.
 */
int file_reserve(int fd, uint64_t offset, uint64_t bytes)
{
    uint64_t piece = bytes, done = 0;
    int rc = 0;

    while (done < bytes && rc == 0) {
        if (piece > bytes - done)
            piece = bytes - done;
        rc = posix_fallocate(fd, (off_t)(offset + done), (off_t)piece);
        if (rc == 0)
            done += piece;
        else if (rc == EINTR)
            rc = 0, piece = piece > 2 * PAGE_BYTES ? piece / 2 : piece;
    }
    return -rc;
}

static void fill_shards(char *base)
{
    struct shard *shards = (struct shard *)(base + SEG_SHARDS);

    for (uint32_t i = 0; i < SHARDS_ALL; i++) {
        shards[i].n_buckets = BUCKETS_FIRST;
        shards[i].n_segments = 1;
    }
}

/* Everything but the magic first: only a whole segment has one. Thread slots,
   session slots, directories of shards and pages stay holes in the file until
   they are used. */
static int fill(int fd, const char *path, const struct header_wish *wish)
{
    struct seg_header *h;
    uint64_t bytes = header_file_bytes(wish->slots);
    int rc = size_permitted(bytes, path);

    if (rc != 0)
        return rc;
    if (fchmod(fd, wish->mode) != 0 || ftruncate(fd, (off_t)bytes) != 0)
        return explain_creation(errno, path);
    rc = file_reserve(fd, 0, PAGE_BYTES);
    if (rc == 0)
        rc = file_reserve(fd, SEG_GATES, SEG_DIRS - SEG_GATES);
    if (rc != 0)
        return explain_creation(-rc, path);
    h = mmap(NULL, SEG_FIXED_END, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (h == MAP_FAILED)
        return explain_creation(errno, path);
    rc = header_make(h, wish);
    if (rc == 0) {
        fill_shards((char *)h);
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
        return explain_creation(errno, path);
    ENQ_POINT("attach.published");
    return 0;
}

static int lock_file(int fd)
{
    int rc;

    do
        rc = flock(fd, LOCK_EX);
    while (rc != 0 && errno == EINTR);
    return rc;
}

/* Of several processes that find it stale, the first with the lock replaces it:
   -EEXIST for the others. */
static int lock_stale(const char *path, int stale_fd)
{
    struct stat stale, now;

    if (lock_file(stale_fd) != 0 || fstat(stale_fd, &stale) != 0)
        return explain_creation(errno, path);
    if (stat(path, &now) != 0)
        return errno == ENOENT ? -EEXIST : explain_creation(errno, path);
    return now.st_ino == stale.st_ino && now.st_dev == stale.st_dev ? 0
                                                                    : -EEXIST;
}

/* A link cannot replace a file, a rename can: so the new file has a second name
   for a moment. A death in between leaves that name behind, and the next maker
   removes it: there is one for each path, used under the stale file's lock. */
static int replace_nameless(int fd, const char *path, int stale_fd)
{
    char temp[FILE_PATH_BYTES + 32], dir[FILE_PATH_BYTES];
    int rc = lock_stale(path, stale_fd);

    if (rc != 0)
        return rc;
    directory_of(path, dir);
    /* a hash, as the name itself may be as long as names can be */
    snprintf(temp, sizeof(temp), "%s.enq-new-%016llx", dir,
        (unsigned long long)hash_bytes(path, strlen(path), 0));
    unlink(temp);
    rc = publish_nameless(fd, temp);
    if (rc == 0 && rename(temp, path) != 0) {
        rc = explain_creation(errno, path);
        unlink(temp);
    }
    return rc;
}

/* A file without a name disappears with its maker, wherever that dies. */
static int create_nameless(const char *path, const struct header_wish *wish,
    int stale_fd)
{
    char dir[FILE_PATH_BYTES];
    int fd, rc;

    directory_of(path, dir);
    fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return explain_creation(errno, path);
    rc = fill(fd, path, wish);
    if (rc == 0)
        rc = stale_fd < 0 ? publish_nameless(fd, path)
                          : replace_nameless(fd, path, stale_fd);
    close(fd);
    return rc;
}

static int publish_renamed(const char *temp, const char *path, int stale_fd)
{
    int rc;

    if (stale_fd >= 0) {
        rc = lock_stale(path, stale_fd);
        if (rc == 0 && rename(temp, path) != 0)
            rc = explain_creation(errno, path);
        return rc;
    }
    return renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE) == 0
        ? 0
        : explain_creation(errno, path);
}

/* Where the file system has no nameless files: a death in here leaves one file
   behind, which nobody uses. */
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
    int rc = create_nameless(path, wish, stale_fd);

    if (rc == -EOPNOTSUPP || rc == -EISDIR || rc == -ENOENT || rc == -EXDEV)
        rc = create_named(path, wish, stale_fd);
    return rc;
}
