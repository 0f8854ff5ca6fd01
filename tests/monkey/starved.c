/*
 * starved.c - for how long the helper thread has lacked the CPU (see
 * starved.h).
 */
#include "starved.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "log.h"

/* The helper thread writes it, another reads it: what that one sees may be a
   moment old, and no more. */
static struct {
    clockid_t clock;         /* its CPU time, readable by others */
    int64_t until_ns;        /* asleep: until then; 0: at work */
    int64_t from_ns, cpu_ns; /* at work: since then, with so much CPU time */
    int64_t sum_ns;
    int64_t queued_ns; /* asleep: as queued_ns() was then */
    int schedstat;     /* its file of that name */
} helper;

static void put(int64_t *to, int64_t value)
{
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
}

static int64_t get(const int64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

/* As pthread_getcpuclockid() makes it, which wants a pthread_t. */
static clockid_t cpu_clock(pid_t tid)
{
    return (clockid_t)(~(unsigned)tid << 3 | 6);
}

static int64_t cpu_ns(void)
{
    struct timespec ts;

    if (clock_gettime(helper.clock, &ts) != 0)
        return 0;
    return ts.tv_sec * NS_S + ts.tv_nsec;
}

/* For how long it has been ready to run, and had no CPU: since ever. */
static int64_t queued_ns(void)
{
    char text[64] = "", *end;

    if (pread(helper.schedstat, text, sizeof(text) - 1, 0) <= 0)
        return 0;
    (void)strtoll(text, &end, 10); /* the first number: it had one */
    return strtoll(end, NULL, 10);
}

static void begin(void)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", gettid());
    helper.schedstat = open(path, O_RDONLY | O_CLOEXEC);
    helper.clock = cpu_clock(gettid());
}

/* Less is what everybody waits for now and then. */
static int64_t if_much(int64_t ns)
{
    return ns > NS_MS ? ns : 0;
}

static int64_t at_work_ns(void)
{
    int64_t from = get(&helper.from_ns);

    if (from == 0)
        return 0;
    return if_much(now_ns() - from - (cpu_ns() - get(&helper.cpu_ns)));
}

void starved_sleeps(int64_t until_ns)
{
    if (helper.clock == 0)
        begin();
    put(&helper.sum_ns, helper.sum_ns + at_work_ns());
    helper.queued_ns = queued_ns();
    put(&helper.until_ns, until_ns);
}

/* Its time was over; or it was woken. */
void starved_wakes(void)
{
    int64_t now = now_ns(), late = now - get(&helper.until_ns);
    int64_t queued = queued_ns() - helper.queued_ns;

    put(&helper.sum_ns, helper.sum_ns + if_much(late > queued ? late : queued));
    put(&helper.cpu_ns, cpu_ns());
    put(&helper.from_ns, now);
    put(&helper.until_ns, 0);
}

int64_t starved_ns(void)
{
    int64_t until = get(&helper.until_ns), sum = get(&helper.sum_ns);

    return sum + (until == 0 ? at_work_ns() : if_much(now_ns() - until));
}
