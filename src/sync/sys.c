/*
 * sys.c - sync: clock and futex on Linux.
 */
#include "sync/sys.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "sync/ended.h"

static mono_t clock_of(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (mono_t){ts.tv_sec * NS_PER_S + ts.tv_nsec};
}

static mono_t sys_now(void)
{
    return clock_of(CLOCK_BOOTTIME);
}

/*
 * There is no coarse CLOCK_BOOTTIME. But the coarse monotonic clock (5 ns)
 * moves in ticks: within one tick the last exact reading is as good, so that
 * the exact clock (23 ns) is read once a tick. A suspend ends with a new tick,
 * so that no reading of before it survives.
 */
static mono_t sys_coarse(void)
{
    static __thread int64_t tick_ns = -1;
    static __thread mono_t at_tick;
    mono_t coarse = clock_of(CLOCK_MONOTONIC_COARSE);

    if (unlikely(coarse.ns != tick_ns)) {
        at_tick = sys_now();
        tick_ns = coarse.ns;
    }
    return at_tick;
}

/* `until` as futex_waitv wants it: absolute, and of a clock that it knows. Over
   a suspend the two clocks drift apart, and the sleep is too long by that; most
   sleeps end by SYS_TICK_NS anyway, and a helper thread wakes the others
   (session_wake_all()). */
static struct timespec monotonic_until(mono_t until, int64_t most_ns)
{
    int64_t left = mono_ns_between(sys_now(), until);
    mono_t at = clock_of(CLOCK_MONOTONIC);

    if (left < 0)
        left = 0;
    if (left > most_ns)
        left = most_ns;
    at.ns += left;
    return (struct timespec){at.ns / NS_PER_S, at.ns % NS_PER_S};
}

/* The kernel has no futex_waitv, or its seccomp filter refuses it, with
   whatever error: sleep on the first word alone, in slices so short that the
   others are looked at. */
static void wait_one(const struct sys_watch *w, const struct timespec *until)
{
    struct timespec slice = {0, 20 * NS_PER_MS};
    mono_t now = clock_of(CLOCK_MONOTONIC);
    int64_t left = until->tv_sec * NS_PER_S + until->tv_nsec - now.ns;

    if (left < 0)
        left = 0;
    if (left < slice.tv_nsec)
        slice.tv_nsec = left;
    syscall(SYS_futex, w->word, FUTEX_WAIT, w->value, &slice, NULL, 0);
}

static int no_waitv; /* set once, by the first thread that is refused */

bool sys_has_waitv(void)
{
    return shm_load(&no_waitv) == 0;
}

/* True: it was time. */
static bool wait_for(const struct sys_watch *watches, unsigned n,
    const struct timespec *until)
{
    struct futex_waitv v[SYS_WATCHES_MAX];

    for (unsigned i = 0; i < n && i < SYS_WATCHES_MAX; i++)
        v[i] = (struct futex_waitv){
            .val = watches[i].value,
            .uaddr = (uintptr_t)watches[i].word,
            .flags = FUTEX_32,
        };
    if (n > SYS_WATCHES_MAX)
        n = SYS_WATCHES_MAX;
    if (!shm_load(&no_waitv)) {
        if (syscall(SYS_futex_waitv, v, n, 0, until, CLOCK_MONOTONIC) >= 0)
            return false;
        if (errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT)
            return errno == ETIMEDOUT;
        if (errno != ENOMEM) /* which passes */
            shm_store(&no_waitv, 1);
    }
    wait_one(watches, until);
    return false;
}

#ifdef ENQ_POINTS
static __thread bool slept_out;
#define NOTE_SLEPT_OUT(yes) (slept_out = (yes))
#else
#define NOTE_SLEPT_OUT(yes) ((void)(yes))
#endif

static void sys_wait(const struct sys_watch *watches, unsigned n, mono_t until)
{
    struct timespec ts = monotonic_until(until, SYS_TICK_NS);

    NOTE_SLEPT_OUT(wait_for(watches, n, &ts));
}

/* One word needs no futex_waitv(2), and then no slices where it is refused. */
static void sleep_on_one(const struct sys_watch *w, mono_t until)
{
    struct timespec left = {0, 0};
    int64_t ns = mono_ns_between(sys_now(), until);

    if (ns > 0)
        left = (struct timespec){ns / NS_PER_S, ns % NS_PER_S};
    syscall(SYS_futex, w->word, FUTEX_WAIT, w->value, &left, NULL, 0);
}

static void sys_sleep(const struct sys_watch *watches, unsigned n, mono_t until)
{
    struct timespec ts;

    if (n == 1) {
        sleep_on_one(watches, until);
        return;
    }
    ts = monotonic_until(until, 3600 * NS_PER_S);
    NOTE_SLEPT_OUT(wait_for(watches, n, &ts));
}

static void sys_wake(const uint32_t *word, int how_many)
{
    syscall(SYS_futex, word, FUTEX_WAKE, how_many, NULL, NULL, 0);
}

struct sys_ops sys = {
    .now = sys_now,
    .coarse = sys_coarse,
    .wait = sys_wait,
    .sleep = sys_sleep,
    .wake = sys_wake,
    .ended = process_ended,
};

static bool barrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

/* A process that has not registered yet is refused with EPERM: so it registers
   when it needs its first barrier, not at each start. */
bool sys_barrier(void)
{
    return barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
        (errno == EPERM && barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
            barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}

int64_t sys_suspended_ns(void)
{
    int64_t awake_ns = clock_of(CLOCK_MONOTONIC).ns;

    return sys_now().ns - awake_ns;
}

bool sys_is_real(void)
{
    return sys.now == sys_now;
}

/* Ticks are 1 to 10 ms; the exact figure would be clock_getres(), but a
   margin that is too large only makes a lock live a few ms longer. */
int64_t sys_coarse_lag_ns = NS_PER_S;

#ifdef ENQ_POINTS
bool sys_slept_out(void)
{
    return slept_out;
}

int64_t sys_look_every(int64_t ns)
{
    static int64_t least_ns = -1; /* read once; all threads read the same */
    int64_t least = shm_load(&least_ns);

    if (least < 0) {
        const char *ms = getenv("ENQ_TICK_MS");

        least = ms == NULL ? 0 : strtoll(ms, NULL, 10) * NS_PER_MS;
        shm_store(&least_ns, least);
    }
    return ns < least ? least : ns;
}
#endif

int sys_cpus(void)
{
    static int known; /* asked once; all threads get the same answer */
    int cpus = shm_load(&known);

    if (unlikely(cpus == 0)) {
        cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
        if (cpus < 1)
            cpus = 1;
        shm_store(&known, cpus);
    }
    return cpus;
}

uint8_t sys_cpu(void)
{
    return (uint8_t)(1 + (unsigned)sched_getcpu() % UINT8_MAX);
}
