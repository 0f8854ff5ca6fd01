/*
 * ended.c - floor 3: has a process ended, all of it? (see ended.h)
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

/* "pid (name) state ppid pgrp session tty tpgid flags ...", where the name may
   be anything. */
static bool says_exiting(const char *stat)
{
    const char *at = strrchr(stat, ')');

    for (unsigned blanks = 0; at != NULL && blanks < 7; blanks++) {
        at = strchr(at, ' ');
        at = at == NULL ? NULL : at + 1;
    }
    return at != NULL && (strtoul(at, NULL, 10) & PF_EXITING) != 0;
}

/* One that is gone since it was listed is none that we have seen exiting. */
static bool is_exiting(int tasks, const char *tid)
{
    char path[32], stat[512];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "%.20s/stat", tid);
    fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, stat, sizeof(stat) - 1);
    close(fd);
    if (n <= 0)
        return false;
    stat[n] = '\0';
    return says_exiting(stat);
}

/* --- all threads --- */

struct roll {
    uint64_t n, sum; /* of their numbers, hashed: which they are */
    bool all_exiting;
};

static void call_one(struct roll *roll, int tasks, const char *tid, bool look)
{
    if (tid[0] == '.')
        return;
    roll->n++;
    roll->sum += hash_bytes(tid, strlen(tid), 0);
    if (look)
        roll->all_exiting = is_exiting(tasks, tid);
}

/* One that lives is enough. */
static bool call_roll(struct roll *roll, int tasks, bool look)
{
    _Alignas(struct dirent64) char bytes[4096];
    long n;

    *roll = (struct roll){0, 0, true};
    if (lseek(tasks, 0, SEEK_SET) != 0)
        return false;
    while ((n = syscall(SYS_getdents64, tasks, bytes, sizeof(bytes))) > 0) {
        for (long at = 0; at < n && roll->all_exiting;) {
            const struct dirent64 *entry = (const void *)&bytes[at];

            call_one(roll, tasks, entry->d_name, look);
            at += entry->d_reclen;
        }
        if (!roll->all_exiting)
            return false;
    }
    return n == 0;
}

static uint64_t threads_of(int tasks)
{
    struct stat st;

    return fstat(tasks, &st) == 0 && st.st_nlink > 2 ? st.st_nlink - 2 : 0;
}

/*
 * A list of threads may end early, when one goes as it is read, and a thread
 * may be made by one that was on the list and had not been looked at. So the
 * list is read again once all on it have been seen to be exiting: if it is the
 * same, and as long as the kernel says that it is, before and after, then no
 * other thread was there, and nobody was left who could make one.
 */
static bool all_exiting(int tasks)
{
    struct roll first, again;
    uint64_t n;

    if (!call_roll(&first, tasks, true) || first.n == 0)
        return false;
    n = threads_of(tasks);
    return call_roll(&again, tasks, false) && again.n == n &&
        first.n == again.n && first.sum == again.sum && threads_of(tasks) == n;
}

/* That it is not in /proc may mean that it is hidden there. */
static bool is_nobody(pid_t pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

static bool ended_by_pid(const struct map *map, uint32_t pid)
{
    struct stat st;
    char path[40];
    bool ended;
    int tasks;

    if (pid == 0 || pid > INT32_MAX)
        return false;
    snprintf(path, sizeof(path), "/proc/%u/task", pid);
    tasks = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tasks < 0)
        return is_nobody((pid_t)pid);
    /* if it is the /proc that we had a look at when we came */
    ended = map->proc != 0 && fstat(tasks, &st) == 0 &&
        st.st_dev == map->proc && all_exiting(tasks);
    close(tasks);
    return ended;
}

/* Its slot may be another's meanwhile: what is read is read once. */
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
