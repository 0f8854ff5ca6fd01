/*
 * point.c - floor 0: crash points, in the crash profile only.
 *
 * The environment is read at each pass: a test arms a point after the
 * attachment is made. Passing is slow, and may be: this is a test build.
 */
#include "base/point.h"

#ifdef ENQ_POINTS
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned long passes;

void point_pass(const char *name)
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
#else
typedef int point_is_empty;
#endif
