/*
 * header.c - segment: the header of a segment: written, read, refused.
 */
#include "segment/header.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/id.h"
#include "base/time.h"
#include "base/why.h"
#include "rules/mode.h"

/* What compiler and libc chose: another choice is another layout. */
static uint32_t layout_hash(void)
{
    const uint32_t facts[] = {sizeof(struct seg_header),
        sizeof(struct thread_slot), sizeof(struct session_slot),
        sizeof(struct gate), sizeof(struct shard), sizeof(struct shard_dir),
        sizeof(struct bucket), sizeof(struct entry), sizeof(pthread_mutex_t),
        offsetof(struct thread_slot, ref), offsetof(struct session_slot, uuid),
        offsetof(struct entry, session), offsetof(struct entry, payload),
        offsetof(struct bucket, ref), COUNTERS, THREADS_MAX, SESSIONS_MAX,
        GATES, SHARDS_ALL, BUCKETS_PER_SEGMENT, SEGMENTS_MAX, SMALL_UNITS,
        LARGE_UNITS, __BYTE_ORDER__};

    return (uint32_t)hash_bytes((const char *)facts, sizeof(facts), 0);
}

static uint32_t checksum(const struct seg_header *h)
{
    const char *from = (const char *)&h->layout_version;

    return (uint32_t)hash_bytes(from,
        (size_t)((const char *)&h->checksum - from), LAYOUT_MAGIC);
}

/* Tells a segment of this boot from an earlier one's, whose clock and threads
   mean nothing any more. Where it cannot be read nothing is done at all: else a
   segment might be replaced under its users. */
static int read_boot_id(char id[40])
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
    ssize_t n;

    memset(id, 0, 40);
    if (fd < 0)
        return why(-errno, "cannot read %s: %s", path, strerror(errno));
    n = read(fd, id, 36);
    if (n != 36)
        rc = why(-EIO, "%s is empty", path);
    close(fd);
    return rc;
}

/* 1 or 0, or a fault. */
static int same_file(const char *a, const char *b)
{
    struct stat x, y;

    if (stat(a, &x) != 0 || stat(b, &y) != 0)
        return why(-errno, "cannot look at %s: %s", a, strerror(errno));
    return x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

/* /proc/TID/timens_offsets, of the calling thread: that of "self" is the main
   thread's, which may have ended. */
static FILE *open_offsets(void)
{
    char link[64], path[128];
    ssize_t n = readlink("/proc/thread-self", link, sizeof(link) - 1);
    const char *tid;

    if (n <= 0)
        return NULL;
    link[n] = '\0';
    tid = strrchr(link, '/');
    snprintf(path, sizeof(path), "/proc%s/timens_offsets",
        tid == NULL ? "/self" : tid);
    return fopen(path, "re");
}

/*
 * The clocks of a time namespace are those of the host plus these. A kernel
 * without time namespaces has no such files, and no offsets. The file shows the
 * offsets that our children will have: a process that has unshared its time
 * namespace is in another one than they will be, and cannot know its own.
 */
static int read_timens(int64_t ns[2])
{
    static const char own[] = "/proc/thread-self/ns/time";
    static const char children[] = "/proc/thread-self/ns/time_for_children";
    long long s, frac;
    int clocks = 0, same;
    char clock[32];
    FILE *f;

    ns[0] = ns[1] = 0;
    if (access(own, F_OK) != 0)
        return 0;
    same = same_file(own, children);
    if (same < 0)
        return same;
    if (same == 0)
        return why(ENQ_ENAMESPACE,
            "this process unshared the time namespace for its children and is "
            "not in it: open spaces before that, or in a child");
    f = open_offsets();
    for (; f != NULL && fscanf(f, "%31s %lld %lld", clock, &s, &frac) == 3;
         clocks++)
        ns[strcmp(clock, "boottime") == 0] = s * NS_PER_S + frac;
    if (f != NULL)
        fclose(f);
    return clocks >= 2 ? 0 : why(-EIO, "cannot read timens_offsets in /proc");
}

static uint32_t slab_pages_for(uint32_t slots)
{
    return (slots + SMALL_PER_PAGE - 1) / SMALL_PER_PAGE;
}

/* Slabs, and buckets, for as many objects, and as many ids. */
static uint32_t pages_for(uint32_t slots)
{
    return slab_pages_for(slots) +
        2 * (slots / (BUCKET_FILL * BUCKETS_PER_SEGMENT)) + SHARDS_ALL;
}

static uint64_t page_round(uint64_t n)
{
    return (n + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

uint64_t header_file_bytes(uint32_t slots)
{
    uint64_t pages = pages_for(slots);

    return SEG_FIXED_END + page_round(pages * DIRECTORY_BYTES) +
        pages * PAGE_BYTES;
}

uint64_t header_token_start(uint64_t above)
{
    struct timespec ts;
    uint64_t now;

    clock_gettime(CLOCK_REALTIME, &ts);
    now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
    return now > above ? now : above + 1;
}

int header_make(struct seg_header *h, const struct header_wish *wish)
{
    struct timespec ts;
    int rc = read_boot_id(h->boot_id);

    if (rc == 0)
        rc = read_timens(h->timens_ns);
    if (rc != 0)
        return rc;
    clock_gettime(CLOCK_REALTIME, &ts);
    h->layout_version = LAYOUT_VERSION;
    h->layout_hash = layout_hash();
    id_random(h->uuid);
    h->created_wall_ms = ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
    h->bytes = header_file_bytes(wish->slots);
    h->pages_max = pages_for(wish->slots);
    h->pages_at = SEG_FIXED_END;
    h->arena_at = h->bytes - (uint64_t)h->pages_max * PAGE_BYTES;
    h->slots_max = wish->slots;
    h->slab_pages_max = slab_pages_for(wish->slots);
    h->compat = wish->compat;
    h->strict = wish->strict;
    h->mode = wish->mode;
    memcpy(&h->hash_seed, h->uuid + 8, sizeof(h->hash_seed));
    h->token_base = header_token_start(wish->token_above);
    h->checksum = checksum(h);
    return 0;
}

static int check_clocks(const struct seg_header *h, const char *path)
{
    int64_t timens[2];
    int rc = read_timens(timens);

    if (rc != 0)
        return rc;
    if (memcmp(timens, h->timens_ns, sizeof(timens)) == 0)
        return 0;
    return why(ENQ_ENAMESPACE,
        "%s belongs to another time namespace, whose clock differs by %lld ms: "
        "run in the same one",
        path,
        (long long)mono_ms_between((mono_t){h->timens_ns[1]},
            (mono_t){timens[1]}));
}

static int check_shape(const struct seg_header *h, uint64_t bytes,
    const char *path)
{
    if (h->checksum != checksum(h) || h->slots_max == 0 ||
        h->slots_max > SLOTS_MAX || mode_table_at(h->compat) == NULL)
        return why(ENQ_ECORRUPT,
            "the header of %s is damaged; stop all users and remove it", path);
    if (h->bytes != bytes || h->bytes != header_file_bytes(h->slots_max) ||
        h->pages_max != pages_for(h->slots_max) ||
        h->pages_at != SEG_FIXED_END ||
        h->arena_at != bytes - (uint64_t)h->pages_max * PAGE_BYTES ||
        h->slab_pages_max != slab_pages_for(h->slots_max))
        return why(ENQ_ECORRUPT,
            "%s was cut off: it has %llu bytes, and needs %llu; stop all users "
            "and remove it",
            path, (unsigned long long)bytes, (unsigned long long)h->bytes);
    return 0;
}

int header_check(const struct seg_header *h, uint64_t bytes, const char *path)
{
    char boot_id[40];
    int rc;

    if (h->magic != LAYOUT_MAGIC)
        return why(ENQ_ECORRUPT,
            "%s is not a lock space (it does not begin with ENQLOCK1): choose "
            "another name, or remove it",
            path);
    if (h->layout_version != LAYOUT_VERSION || h->layout_hash != layout_hash())
        return why(ENQ_EVERSION,
            "%s has layout %u/%08x, and this library has %u/%08x: use the same "
            "version everywhere, or stop all users and remove it",
            path, h->layout_version, h->layout_hash, LAYOUT_VERSION,
            layout_hash());
    rc = check_shape(h, bytes, path);
    if (rc != 0)
        return rc;
    rc = read_boot_id(boot_id);
    if (rc != 0)
        return rc;
    if (memcmp(boot_id, h->boot_id, sizeof(boot_id)) != 0)
        return HEADER_STALE;
    return check_clocks(h, path);
}
