/*
 * point.c - base: crash points, where they are built in (see point.h).
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

struct armed {
    const char *variable;
    int signal;
    unsigned long passes;
};

static struct armed crash = {"ENQ_CRASH", SIGKILL, 0};
static struct armed stop = {"ENQ_STOP", SIGSTOP, 0};

static void signal_if_armed(struct armed *a, const char *name)
{
    const char *armed = getenv(a->variable);
    size_t n = strlen(name);
    unsigned long nth = 1;

    if (armed == NULL || strncmp(armed, name, n) != 0)
        return;
    if (armed[n] == ':')
        nth = strtoul(armed + n + 1, NULL, 10);
    else if (armed[n] != '\0')
        return;
    if (__atomic_add_fetch(&a->passes, 1, __ATOMIC_RELAXED) == nth)
        kill(getpid(), a->signal);
}

void point_pass(const struct point *p)
{
    signal_if_armed(&crash, p->name);
    signal_if_armed(&stop, p->name);
    if (point_hook != NULL)
        point_hook(p);
}
#else
typedef int point_is_empty;
#endif
