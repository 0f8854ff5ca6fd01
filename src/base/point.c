/*
 * point.c - base: crash points, where they are built in (see point.h).
 *
 * The environment is read once, before main(): another thread of a program
 * that calls setenv() later may free it under getenv().
 */
#include "base/point.h"

#ifdef ENQ_POINTS
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void (*point_hook)(const struct point *);

struct armed {
    const char *at; /* POINT or POINT:N, never freed; NULL: not armed */
    int signal;
    unsigned long passes;
};

static struct armed crash = {.signal = SIGKILL};
static struct armed stop = {.signal = SIGSTOP};

__attribute__((constructor)) static void arm_by_environment(void)
{
    crash.at = getenv("ENQ_CRASH");
    stop.at = getenv("ENQ_STOP");
    crash.at = crash.at == NULL ? NULL : strdup(crash.at);
    stop.at = stop.at == NULL ? NULL : strdup(stop.at);
}

/* Partner: signal_if_armed(), of any thread. */
void point_arm(const char *at)
{
    __atomic_store_n(&crash.at, strdup(at), __ATOMIC_RELEASE);
}

static void signal_if_armed(struct armed *a, const char *name)
{
    const char *armed = __atomic_load_n(&a->at, __ATOMIC_ACQUIRE);
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
