/*
 * tick.c - sync: a tick that hides a lost wake-up is found, where crash points
 * are built in (see tick.h).
 */
#include "sync/tick.h"

#ifdef ENQ_POINTS
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"

/* Partner: is_unwoken() in wait/waiter.c. */
void tick_trace(uint32_t *asleep)
{
    uint32_t thread = shm_load(asleep), how = ASLEEP_HOW(thread);

    if (how == ASLEEP_THREAD || how == ASLEEP_BEHIND)
        shm_cas(asleep, &thread, thread | TICK_TRACE);
}

/* The environment is asked anew each time: a test may set it late. */
void tick_judge(bool (*is_unwoken)(const void *context), const void *context,
    const char *what)
{
    const struct timespec pause = {0, NS_PER_MS};
    const char *found = getenv("ENQ_TICK_FOUND");
    long left = found == NULL ? 0 : strtol(found, NULL, 10);

    if (left <= 0)
        return;
    while (is_unwoken(context)) {
        if (left-- == 0) {
            dprintf(STDERR_FILENO, "a tick hid a lost wake-up: %s\n", what);
            abort();
        }
        nanosleep(&pause, NULL);
    }
}
#else
typedef int tick_is_empty;
#endif
