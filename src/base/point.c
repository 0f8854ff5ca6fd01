/*
 * point.c - floor 0: crash points, where they are built in (see point.h).
 *
 * The environment is read at each pass of a named point: a test arms one after
 * the attachment is made. That is slow, and may be: this is a test build.
 */
#include "base/point.h"

#ifdef ENQ_POINTS
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void (*point_hook)(const struct point *);

static unsigned long passes;

static void die_if_armed(const char *name)
{
    const char *armed = getenv("ENQ_CRASH");
    size_t n = strlen(name);
    unsigned long nth = 1;

    if (armed == NULL || strncmp(armed, name, n) != 0)
        return;
    if (armed[n] == ':')
        nth = strtoul(armed + n + 1, NULL, 10);
    else if (armed[n] != '\0')
        return;
    if (__atomic_add_fetch(&passes, 1, __ATOMIC_RELAXED) == nth)
        kill(getpid(), SIGKILL);
}

void point_pass(const struct point *p)
{
    die_if_armed(p->name);
    if (point_hook != NULL)
        point_hook(p);
}
#else
typedef int point_is_empty;
#endif
