/*
 * ended.c - sync: has a process ended, all of it? (see ended.h)
 */
#include "sync/ended.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hash.h"

#define PF_EXITING 0x4u /* of the kernel's task flags, in /proc/PID/stat */

/* --- one thread --- */

/* "pid (name) state ppid pgrp session tty tpgid flags ...". The name may have
   blanks and brackets, so we count the blanks behind the last bracket. */
#define FLAGS_BEHIND 7
#define THREADS_BEHIND 18

static unsigned long number_behind(const char *stat, unsigned blanks)
{
    const char *at = strrchr(stat, ')');

    for (; at != NULL && blanks > 0; blanks--) {
        at = strchr(at, ' ');
        at = at == NULL ? NULL : at + 1;
    }
    return at == NULL ? 0 : strtoul(at, NULL, 10);
}

/* Is this thread exiting? @threads: how many its process had at that moment. A
   thread that cannot be read is not called exiting. */
static bool stat_says_exiting(int stat, unsigned long *threads)
{
    char line[512];
    ssize_t n = pread(stat, line, sizeof(line) - 1, 0);

    if (n <= 0)
        return false;
    line[n] = '\0';
    *threads = number_behind(line, THREADS_BEHIND);
    return (number_behind(line, FLAGS_BEHIND) & PF_EXITING) != 0;
}

/* A thread that has gone since it was listed was not seen to be exiting: it may
   have made another one before. */
static bool is_exiting(int tasks, const char *tid)
{
    unsigned long threads;
    char path[32];
    bool exiting;
    int fd;

    snprintf(path, sizeof(path), "%.20s/stat", tid);
    fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    exiting = stat_says_exiting(fd, &threads);
    close(fd);
    return exiting;
}

/* --- all threads --- */

struct census {
    uint64_t n, sum; /* of their numbers, hashed: which they are */
    bool all_exiting;
};

static void count_one(struct census *census, int tasks, const char *tid,
    bool look)
{
    if (tid[0] == '.')
        return;
    census->n++;
    census->sum += hash_bytes(tid, strlen(tid), 0);
    if (look)
        census->all_exiting = is_exiting(tasks, tid);
}

/* Reads the list of threads, and looks at each if @look. Stops at the first
   that is not exiting: one is enough for "not ended". */
static bool take_census(struct census *census, int tasks, bool look)
{
    _Alignas(struct dirent64) char bytes[4096];
    long n;

    *census = (struct census){0, 0, true};
    if (lseek(tasks, 0, SEEK_SET) != 0)
        return false;
    while ((n = syscall(SYS_getdents64, tasks, bytes, sizeof(bytes))) > 0) {
        for (long at = 0; at < n && census->all_exiting;) {
            const struct dirent64 *entry = (const void *)&bytes[at];

            count_one(census, tasks, entry->d_name, look);
            at += entry->d_reclen;
        }
        if (!census->all_exiting)
            return false;
    }
    return n == 0;
}

/* A thread is a directory in /proc/PID/task, and each of those is a link. */
static uint64_t threads_of(int tasks)
{
    struct stat st;

    return fstat(tasks, &st) == 0 && st.st_nlink > 2 ? st.st_nlink - 2 : 0;
}

/*
 * The kernel's list of threads may end early, when a thread goes as it is read;
 * and a thread that was on the list and not looked at yet may make another. So
 * the list is read again once all on it were seen to be exiting. If it is the
 * same, and has as many threads as the kernel counts, before and after, then
 * there was no other thread, and none was left that could make one.
 */
static bool all_exiting(int tasks)
{
    struct census first, again;
    uint64_t n;

    if (!take_census(&first, tasks, true) || first.n == 0)
        return false;
    n = threads_of(tasks);
    return take_census(&again, tasks, false) && again.n == n &&
        first.n == again.n && first.sum == again.sum && threads_of(tasks) == n;
}

/* Asked of kill(2), as /proc may hide processes (hidepid). */
static bool is_nobody(pid_t pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

enum sign { ALIVE, ALONE, UNSURE };

/*
 * The short way, which is enough most often. The first thread of a process
 * stays until all others have gone. The kernel makes its line anew at each
 * read: once seen exiting it makes no thread any more, so if it is alone at the
 * second read it is alone for good. (If the first thread is another one by
 * then, that one called exec: it had ended all others, and is a new program.)
 */
static enum sign look_at_first(int stat)
{
    unsigned long before = 0, threads = 0;

    if (!stat_says_exiting(stat, &before))
        return ALIVE;
    return stat_says_exiting(stat, &threads) && threads == 1 ? ALONE : UNSURE;
}

/* Opens /proc/PID/`what`, if it is in the /proc that map_identify() found to be
   that of our own PID namespace: another may be mounted there by now. Negated
   errno; -EXDEV: it is another. */
static int open_of(const struct map *map, uint32_t pid, const char *what)
{
    struct stat st;
    char path[40];
    int fd;

    snprintf(path, sizeof(path), "/proc/%u/%s", pid, what);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (map->proc != 0 && fstat(fd, &st) == 0 && st.st_dev == map->proc)
        return fd;
    close(fd);
    return -EXDEV;
}

static bool all_ended(const struct map *map, uint32_t pid)
{
    int tasks = open_of(map, pid, "task");
    bool ended = tasks >= 0 && all_exiting(tasks);

    if (tasks >= 0)
        close(tasks);
    return ended;
}

static bool ended_by_pid(const struct map *map, uint32_t pid)
{
    enum sign sign;
    int stat;

    if (pid == 0 || pid > INT32_MAX)
        return false;
    stat = open_of(map, pid, "stat");
    if (stat < 0)
        return stat != -EXDEV && is_nobody((pid_t)pid);
    sign = look_at_first(stat);
    close(stat);
    return sign == ALONE || (sign == UNSURE && all_ended(map, pid));
}

/* The slot may be given to another process meanwhile: each field is read once,
   and prove() notes the result for the use of the slot that was meant. */
bool process_ended(const struct map *map, const struct process *who)
{
    uint32_t pid_space = shm_load(&who->pid_space);
    uint64_t lock_at = shm_load(&who->lock_at);

    if (pid_space != 0 && pid_space == map->self.pid_space &&
        ended_by_pid(map, shm_load(&who->pid)))
        return true;
    return lock_at != 0 && lock_at <= INT64_MAX &&
        map_lock_is_free(map, lock_at);
}
