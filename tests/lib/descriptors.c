/*
 * descriptors.c - a test ends with the descriptors that it began with (see
 * descriptors.h).
 */
#include "lib/descriptors.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DESCRIPTORS_MAX = 1024, TARGET_BYTES = 128 };

/* To what each leads; empty where it is closed, or was not seen. */
static char at_first[DESCRIPTORS_MAX][TARGET_BYTES];

/* Passes each to `see` but the one by which they are read. */
static void each(void (*see)(void *context, int fd, const char *target),
    void *context)
{
    DIR *dir = opendir("/proc/self/fd");
    char target[TARGET_BYTES];
    struct dirent *d;

    while (dir != NULL && (d = readdir(dir)) != NULL) {
        int fd = atoi(d->d_name);
        ssize_t n = readlinkat(dirfd(dir), d->d_name, target, sizeof(target));

        if (n <= 0 || fd == dirfd(dir) || fd >= DESCRIPTORS_MAX)
            continue;
        target[(size_t)n < sizeof(target) ? (size_t)n : sizeof(target) - 1] = 0;
        see(context, fd, target);
    }
    if (dir != NULL)
        closedir(dir);
}

static void note(void *context, int fd, const char *target)
{
    (void)context;
    memcpy(at_first[fd], target, strlen(target) + 1);
}

void descriptors_begin(void)
{
    memset(at_first, 0, sizeof(at_first));
    each(note, NULL);
}

struct left {
    char *text;
    size_t bytes, n;
};

static void compare(void *context, int fd, const char *target)
{
    struct left *left = context;

    if (strcmp(at_first[fd], target) == 0)
        return;
    if (left->n++ == 0)
        snprintf(left->text, left->bytes, "%d (%s)", fd, target);
}

size_t descriptors_left(char *text, size_t bytes)
{
    struct left left = {text, bytes, 0};

    text[0] = 0;
    each(compare, &left);
    return left.n;
}
