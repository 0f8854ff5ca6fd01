/*
 * starved.c - for how long the helper thread has lacked the CPU (see
 * starved.h).
 */
#include "starved.h"

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
        helper.clock = cpu_clock(gettid());
    put(&helper.sum_ns, helper.sum_ns + at_work_ns());
    put(&helper.until_ns, until_ns);
}

void starved_wakes(void)
{
    int64_t now = now_ns();

    put(&helper.sum_ns, helper.sum_ns + if_much(now - get(&helper.until_ns)));
    put(&helper.cpu_ns, cpu_ns());
    put(&helper.from_ns, now);
    put(&helper.until_ns, 0);
}

int64_t starved_ns(void)
{
    int64_t until = get(&helper.until_ns), sum = get(&helper.sum_ns);

    return sum + (until == 0 ? at_work_ns() : if_much(now_ns() - until));
}
