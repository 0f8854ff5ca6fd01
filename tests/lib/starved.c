/*
 * starved.c - what the kernel says of each thread (see starved.h).
 */
#include "lib/starved.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Of one thread: of its directory in /proc. */
typedef int64_t task_fn(const char *task);

static FILE *open_of(const char *task, const char *name)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/%s", task, name);
    return fopen(path, "re");
}

static int64_t ready_ns(const char *task)
{
    FILE *file = open_of(task, "schedstat");
    long long ran, ready = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%lld %lld", &ran, &ready) != 2)
        ready = 0;
    fclose(file);
    return ready;
}

/* What comes behind the name, which may hold anything. */
static int64_t is_ready(const char *task)
{
    FILE *file = open_of(task, "stat");
    char line[128] = "", *end;

    if (file == NULL)
        return 0;
    if (fgets(line, sizeof(line), file) == NULL)
        line[0] = '\0';
    fclose(file);
    end = strrchr(line, ')');
    return end != NULL && strlen(end) > 2 && strchr("RD", end[2]) != NULL &&
        atol(line) != syscall(SYS_gettid);
}

static int64_t sum_of(pid_t pid, task_fn *of)
{
    char path[300];
    struct dirent *task;
    int64_t sum = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    while (dir != NULL && (task = readdir(dir)) != NULL) {
        if (task->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%s", (int)pid,
            task->d_name);
        sum += of(path);
    }
    if (dir != NULL)
        closedir(dir);
    return sum;
}

static int64_t sum_of_all(task_fn *of)
{
    int64_t sum = sum_of(getpid(), of);
    char path[64];
    FILE *file;
    int child;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%d", &child) == 1)
        sum += sum_of(child, of);
    if (file != NULL)
        fclose(file);
    return sum;
}

/* The kernel forgets a thread that has ended. What it had waited is kept, or a
   bound that grows by what comes would shrink by what goes. */
int64_t test_starved_ms(void)
{
    static int64_t last, ended;
    int64_t now = sum_of_all(ready_ns);

    if (now < last)
        ended += last - now;
    last = now;
    return (now + ended) / 1000000;
}

bool test_has_ready(void)
{
    return sum_of_all(is_ready) > 0;
}
