/*
 * bell.c - small things that all processes of the test use.
 */
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "step.h"

#define SLICE_MS 20

int64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000) + ts.tv_nsec / 1000;
}

void nap_us(unsigned us)
{
    struct timespec ts = {us / 1000000, us % 1000000 * 1000L};

    nanosleep(&ts, NULL);
}

void bell_ring(struct bell *b)
{
    ADD(b->rings, 1);
    syscall(SYS_futex, &b->rings, FUTEX_WAKE, 8, NULL, NULL, 0);
}

void bell_sleep(struct bell *b, uint32_t rings)
{
    struct timespec slice = {0, SLICE_MS * 1000000L};

    syscall(SYS_futex, &b->rings, FUTEX_WAIT, rings, &slice, NULL, 0);
}

bool bell_await(struct bell *b, const uint32_t *word, uint32_t value,
    unsigned ms)
{
    int64_t until = now_us() + ms * INT64_C(1000);

    for (;;) {
        uint32_t rings = LOAD(b->rings);

        if (LOAD(*word) == value)
            return true;
        if (now_us() >= until)
            return false;
        bell_sleep(b, rings);
    }
}

/*
 * Our children are reaped by the kernel (SIGCHLD is ignored): a parent that
 * calls wait4() at once spins there for a time slice, in the removal of
 * /proc/PID, when the last thread of the child is preempted in the same.
 */
bool process_ended(pid_t pid, unsigned ms)
{
    struct pollfd p = {(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
    bool ended = p.fd < 0 || poll(&p, 1, (int)ms) == 1;

    if (p.fd >= 0)
        close(p.fd);
    return ended;
}

uint64_t dice(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t x = seed + a * UINT64_C(0x9e3779b97f4a7c15) +
        (b + 1) * UINT64_C(0xbf58476d1ce4e5b9);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}
