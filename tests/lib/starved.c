/*
 * starved.c - what the kernel counts for each thread (see starved.h).
 */
#include "lib/starved.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

static int64_t starved_ns(pid_t pid)
{
    char path[300];
    long long ran, ready, sum = 0;
    struct dirent *task;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    while (dir != NULL && (task = readdir(dir)) != NULL) {
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid,
            task->d_name);
        file = task->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (file == NULL)
            continue;
        if (fscanf(file, "%lld %lld", &ran, &ready) == 2)
            sum += ready;
        fclose(file);
    }
    if (dir != NULL)
        closedir(dir);
    return sum;
}

int64_t test_starved_ms(void)
{
    int64_t ns = starved_ns(getpid());
    char path[64];
    FILE *file;
    int child;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%d", &child) == 1)
        ns += starved_ns(child);
    if (file != NULL)
        fclose(file);
    return ns / 1000000;
}
