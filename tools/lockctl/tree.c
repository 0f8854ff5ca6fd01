/*
 * tree.c - see tree.h.
 */
#include "tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void tree_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

bool tree_reap(tree_ended *ended, void *context)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0)
        ended(context, pid, status);
    return pid == 0 || errno != ECHILD;
}

/* The processes ----------------------------------------------------------- */

struct process {
    pid_t pid, parent;
    uint64_t started;
    bool is_ours;
};

struct table {
    struct process *process;
    size_t n, room;
};

/* The command's name may hold anything, a ")" as well. */
static bool read_process(pid_t pid, struct process *out)
{
    char path[40], text[1024], *at;
    unsigned long long started;
    FILE *f;
    int parent;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    at = strrchr(text, ')');
    if (at == NULL ||
        sscanf(at + 1,
            " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
            "%*d %*d %*d %llu",
            &parent, &started) != 2)
        return false;
    *out = (struct process){pid, parent, started, false};
    return true;
}

static bool table_add(struct table *t, pid_t pid)
{
    if (t->n == t->room) {
        size_t room = t->room == 0 ? 256 : t->room * 2;
        struct process *more = realloc(t->process, room * sizeof(*more));

        if (more == NULL)
            return false;
        t->process = more;
        t->room = room;
    }
    t->n += read_process(pid, &t->process[t->n]);
    return true;
}

/* Another PID namespace's /proc has other numbers than ours. */
static bool proc_is_ours(void)
{
    char text[24] = "";

    return readlink("/proc/self", text, sizeof(text) - 1) > 0 &&
        atoi(text) == getpid();
}

static bool table_read(struct table *t)
{
    DIR *dir = proc_is_ours() ? opendir("/proc") : NULL;
    struct dirent *entry;
    bool is_whole = dir != NULL;

    while (is_whole && (entry = readdir(dir)) != NULL)
        if (isdigit((unsigned char)entry->d_name[0]))
            is_whole = table_add(t, atoi(entry->d_name));
    if (dir != NULL)
        closedir(dir);
    return is_whole;
}

static int by_pid(const void *a, const void *b)
{
    const struct process *p = a, *q = b;

    return (p->pid > q->pid) - (p->pid < q->pid);
}

static bool has_parent_of_ours(const struct table *t, const struct process *p)
{
    struct process key = {.pid = p->parent}, *parent;

    if (p->parent == getpid())
        return true;
    parent = bsearch(&key, t->process, t->n, sizeof(key), by_pid);
    return parent != NULL && parent->is_ours;
}

static void mark_ours(struct table *t)
{
    bool any = t->n > 0;

    if (any)
        qsort(t->process, t->n, sizeof(*t->process), by_pid);
    while (any) {
        any = false;
        for (size_t i = 0; i < t->n; i++) {
            struct process *p = &t->process[i];

            if (p->is_ours || !has_parent_of_ours(t, p))
                continue;
            p->is_ours = any = true;
        }
    }
}

/* Sending ----------------------------------------------------------------- */

/* A number may have been given to a stranger since it was read: a descriptor
   is of one process, and this is the one that started then. */
static void send_to(const struct process *p, int number)
{
    int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    struct process now;

    if (fd >= 0 && read_process(p->pid, &now) && now.started == p->started)
        syscall(SYS_pidfd_send_signal, fd, number, NULL, 0);
    if (fd >= 0)
        close(fd);
    else if (errno != ESRCH) /* a kernel before 5.3, or a seccomp filter */
        kill(p->pid, number);
}

int tree_signal(int number, pid_t except)
{
    struct table t = {NULL, 0, 0};
    bool is_known = table_read(&t);
    int n = 0;

    mark_ours(&t);
    for (size_t i = 0; i < t.n; i++) {
        if (!t.process[i].is_ours || t.process[i].pid == except)
            continue;
        send_to(&t.process[i], number);
        n++;
    }
    free(t.process);
    return is_known ? n : -1;
}

/* A child of one that was killed is a child of ours then. One that may not be
   killed (set-user-ID), or sits in the kernel, is waited for. */
void tree_end(const struct signals *signals, tree_ended *ended, void *context)
{
    int pause_ms = 1;

    while (tree_reap(ended, context)) {
        tree_signal(SIGKILL, 0);
        signals_wait(signals, -1, pause_ms);
        pause_ms = pause_ms < 500 ? pause_ms * 2 : 500;
    }
}
